"""Files of every kind become parts; what cannot be read is a finding, never a traceback."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moectl.settings.sources.read import LONGEST_LINE, read_source
from moectl.settings.sources.source import Source
from moectl.settings.text_file import MAX_BYTES
from moectl.workload import UNKNOWN

TRAIN = "python3 -m maxtext.trainers.pre_train.train"


def read(text: str, name: str = "d/x", kind: str = "", **files: str) -> Source:
    named = {key.replace("__", "/") + ".yml": content for key, content in files.items()}
    return read_source(name, text, named.get, kind)


def test_a_config_is_one_part() -> None:
    source = read("base_config: base.yml\nsteps: 3\n")
    (part,) = source.parts
    assert (source.kind, part.is_maxtext, part.config["steps"].value) == ("MaxText config", True, 3)
    assert part.origin.file == "d/x"


def test_flags_are_one_part() -> None:
    (part,) = read("--xla_a=1\n").parts
    assert part.flags is not None
    assert part.flags.text == "--xla_a=1"
    assert not part.is_maxtext


def test_xla_flags_are_taken_out_of_the_variables() -> None:
    (part,) = read("A=1\nXLA_FLAGS='--xla_a=1'\n").parts
    assert list(part.environment) == ["A"]
    assert part.flags is not None
    assert part.flags.text == "--xla_a=1"


def test_a_host_list_tells_its_nodes_and_the_first() -> None:
    source = read("nodeA,nodeB[001,003],nodeC\n")
    (part,) = source.parts
    assert part.layout.nodes is not None
    assert part.layout.nodes.value == 4
    assert "'nodeA'" in source.told[0]


def test_every_maxtext_command_of_a_script_is_a_part_with_its_config() -> None:
    source = read(
        "#!/bin/bash\n#SBATCH -N 2\n"
        f"srun {TRAIN} conf/a.yml run_name=a\n"
        f"srun {TRAIN} base.yml run_name=b steps=4\n",
        conf__a="base_config: b.yml\nsteps: 3\n",
        conf__b="base_config: base.yml\nrun_name: low\n",
    )
    first, second = source.parts
    assert first.config["steps"].value == 3
    assert first.config["steps"].origin.file == "d/conf/a.yml"
    assert first.config["run_name"].origin.file == "d/conf/b.yml"
    assert first.config["base_config"].value == "base.yml"
    assert first.arguments["run_name"].value == "a"
    assert first.unread == ()
    assert (second.origin.line, second.arguments["steps"].value) == (4, 4)
    assert second.config["base_config"].value == "base.yml"
    assert first.step is not None
    assert first.step.program == "srun"
    assert first.layout.nodes is not None
    assert first.layout.nodes.value == 2
    assert source.findings == ()


def test_a_config_that_is_not_here_is_unknown() -> None:
    (part,) = read(f"#!/bin/bash\n{TRAIN} far/a.yml steps=3\n").parts
    assert part.unread == ("far/a.yml",)
    assert part.config["base_config"].value is UNKNOWN


def test_a_config_named_by_a_variable_is_unknown() -> None:
    (part,) = read(f"#!/bin/bash\n{TRAIN} $CONFIG steps=3 $MORE\n").parts
    assert len(part.unread) == 2
    assert part.arguments["steps"].value == 3


def test_a_command_without_a_config_takes_maxtexts_own() -> None:
    (part,) = read(f"{TRAIN} steps=3\n").parts
    assert part.config["base_config"].value == "base.yml"
    (other,) = read("python3 -m maxtext.trainers.post_train.sft.train_sft steps=3\n").parts
    assert other.unread == ()
    assert other.config["base_config"].value == "base.yml"
    assert other.config["use_sft"].value is True
    (named,) = read("python3 -m maxtext.trainers.pre_train.train gpu/models/llama2_7b.yml\n").parts
    assert named.config["model_name"].value == "llama2-7b"


def test_faults_of_a_config_that_a_script_names_are_found_in_its_file() -> None:
    (found,) = read(f"#!/bin/bash\n{TRAIN} a.yml\n", a="steps: 1\nsteps: 2\n").findings
    assert (found.code, found.file, found.line) == ("YAML102", "d/a.yml", 2)


def test_an_m_variable_of_a_script_is_an_argument() -> None:
    (part,) = read(f"#!/bin/bash\nexport M_STEPS=7\n{TRAIN} base.yml run_name=r\n").parts
    assert part.arguments["steps"].value == 7
    assert part.arguments["steps"].origin == part.environment["M_STEPS"].origin


def test_a_script_without_maxtext_is_one_part() -> None:
    (part,) = read("#!/bin/bash\nexport NCCL_DEBUG=INFO XLA_FLAGS=--xla_a=1\nsrun true\n").parts
    assert not part.is_maxtext
    assert part.environment["NCCL_DEBUG"].text == "INFO"
    assert part.flags is not None
    assert part.flags.text == "--xla_a=1"
    assert part.batch is not None


def test_the_image_of_a_step_is_read() -> None:
    (part,) = read(
        f"#SBATCH -N 1\nsrun --container-image=a#b:c {TRAIN} base.yml run_name=r\n"
    ).parts
    assert part.image is not None
    assert part.image.text == "a#b:c"


def test_a_script_that_a_shell_cannot_read_is_found() -> None:
    codes = [found.code for found in read("#!/bin/bash\nif true\nthen echo\n").findings]
    assert codes == ["SRC103"]


@pytest.mark.parametrize("kind", ["run file", "preset", "cluster profile", "unknown"])
def test_files_of_moectl_are_only_recognised(kind: str) -> None:
    assert read("name: x\n", kind=kind) == Source("d/x", kind)


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    source = read("\ufeffbase_config: base.yml\nsteps: 3\n")
    assert source.parts[0].config["steps"].value == 3
    assert source.findings == ()


def test_windows_line_ends_stop_a_script_and_not_a_config() -> None:
    (found,) = read("#!/bin/bash\r\n#SBATCH -N 2\r\nsrun true\r\n").findings
    assert (found.code, found.severity) == ("SRC102", "error")
    assert "sbatch" in found.message
    source = read("steps: 3\r\nrun_name: a\r\n")
    assert source.findings == ()
    assert source.parts[0].config["run_name"].value == "a"
    variables = read("A=1\r\nB=2\r\n")
    assert [found.severity for found in variables.findings] == ["warning"]
    assert variables.parts[0].environment["A"].text == "1"


BAD = {
    "a NUL": ("steps: 3\nx: \0\n", 2),
    "a binary": ("\x7fELF\0\0\0", 1),
    "a long line": ("--xla_a=" + "x" * LONGEST_LINE, 1),
    "a large file": ("a: 1\n" * (MAX_BYTES // 5 + 1), 1),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_text_file_is_one_finding(name: str) -> None:
    text, line = BAD[name]
    source = read(text, "evil\nname")
    (found,) = source.findings
    assert (found.code, found.line, source.parts) == ("SRC101", line, ())
    assert len(found.message) < 200


def test_deep_nesting_and_many_lines_end_soon() -> None:
    begin = time.perf_counter()
    for text in ["a: " + "[" * 50_000, "{" * 50_000, "- " * 50_000, "A=$(" * 50_000,
                 "x" * 900_000, "{{" * 100_000, "${" * 100_000, "a: {b: " * 20_000,
                 "apiVersion: v1\nkind: Pod\n" + "x: " + "{{ a }}" * 20_000]:  # fmt: skip
        read(text)
    assert time.perf_counter() - begin < 20


WORDS = st.sampled_from([
    "apiVersion: v1\n", "kind: Job\n", "kind: List\n", "spec:\n", "  template:\n", "items:\n",
    "- ", "containers:\n", "env:\n", "{name: A, value: $(B)}\n", "command: [bash, -c, 'x']\n",
    "--xla_a=1 ", "A=1 ", "export ", "srun ", f"{TRAIN} a.yml ", "steps=3\n", "steps: 3\n",
    "base_config: a.yml\n", "{{ .x }}", "{% if x %}\n", "${A}", "#SBATCH -N 2\n", "n[1-3],m\n",
    "lora: {lora_rank: 1}\n", "\r\n", "\t", "'", '"', "|\n", "&a ", "*a ", "<<: *a\n", "off\n",
    "---\n", "\0", "\ufeff", "nvidia.com/gpu: 8\n", "resources: {limits: {nvidia.com/gpu: x}}\n",
    ": ", "[", "]", "}", "{",
])  # fmt: skip


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=25).map("".join)),
    st.sampled_from(["-", "a.yml", "a.sh", "a.env", "a\nb.txt", "d/e/../x.yaml"]),
    st.sampled_from(["", "MaxText config", "script", "manifest", "flags", "variables",
                     "host list", "MaxText command"]),
)  # fmt: skip
def test_any_text_becomes_a_source(text: str, name: str, kind: str) -> None:
    source = read_source(name, text, {"a.yml": text}.get, kind)
    for found in source.findings:
        assert found.code
        assert "\n" not in found.message
    for part in source.parts:
        assert part.kind == source.kind


def test_directives_of_a_script_of_another_language_are_read_and_its_body_is_not() -> None:
    for shebang in ("#!/usr/bin/env python3", "#!/bin/csh"):
        source = read(f"{shebang}\n#SBATCH -N 2\nimport os\n#SBATCH -N 3\nexport A=1\nif (\n")
        (part,) = source.parts
        assert source.kind == "script"
        assert part.batch is not None
        assert [option.value and option.value.text for option in part.batch.directives] == ["2"]
        assert part.environment == {}
        assert source.findings == ()
        assert shebang[2:] in source.told[0]


def test_a_script_that_draws_in_another_is_read_with_it_at_its_lines() -> None:
    files = {
        "env.sh": 'export XLA_FLAGS="--xla_a=1"\n',
        "run.sh": f'#!/bin/bash\n# the run\nexec {TRAIN} base.yml stepz=3 "$@"\n',
    }
    text = "#!/bin/bash\nsource ./env.sh\nsource ./gone.sh\nbash ./run.sh steps=4\n"
    source = read_source("d/x", text, lambda path: files.get(path.removeprefix("./")))
    (part,) = [part for part in source.parts if part.is_maxtext]
    assert part.flags is not None
    assert (part.flags.origin.file, part.flags.origin.line) == ("d/env.sh", 1)
    stepz, steps = part.arguments["stepz"].origin, part.arguments["steps"].origin
    assert (stepz.file, stepz.line) == ("d/run.sh", 3)
    assert (steps.file, steps.line) == ("d/x", 4)
    assert any("gone.sh" in sentence for sentence in source.told)


def test_a_script_that_is_not_followed_to_its_end_says_so() -> None:
    deep = "echo " + "$(echo " * 3000 + ")" * 3000 + f"\n{TRAIN} base.yml stepz=3\n"
    source = read(f"#!/bin/bash\n{deep}")
    said = [(f.code, f.severity) for f in source.findings]
    assert said == [("SRC105", "warning")] or any(p.is_maxtext for p in source.parts)
    harmless = read("#!/bin/bash\necho " + "$(echo " * 3000 + ")" * 3000 + "\n")
    assert harmless.findings == ()


def test_commands_beyond_the_limit_are_said_to_be_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "#!/bin/bash\n" + f"{TRAIN} base.yml\n" * 200
    assert sum(part.is_maxtext for part in read(text).parts) == 200
    assert read(text).findings == ()
    monkeypatch.setattr("moectl.settings.sources.commands.MAX_PARTS", 3)
    source = read(text)
    assert len(source.parts) == 3
    assert [(f.code, f.severity, f.line) for f in source.findings] == [("SRC105", "warning", 5)]


def test_variables_of_maxtext_are_judged_in_a_file_of_variables() -> None:
    source = read(
        "M_STEPS=abc\nM_ici_fsdp_parallelism=8\nM_ENABLE_CHECKPOINTING=no\nA=b\n", "a.env"
    )
    assert [(f.code, f.severity, f.line, f.field) for f in source.findings] == [
        ("ARG109", "error", 1, "M_STEPS"),
        ("ARG110", "warning", 2, "M_ici_fsdp_parallelism"),
    ]
    hardware = read("M_HARDWARE=gpus\nM_LEARNING_RATE=1e-4\nM_RUN_NAME=\n", "a.env")
    assert [(f.code, f.line) for f in hardware.findings] == [("ARG111", 1)]
    assert "gpu_multiprocess" in hardware.findings[0].message


def test_a_file_too_large_to_be_read_is_not_to_be_mended_in_a_line() -> None:
    source = read("base_config: base.yml\n" + "# ü\n" * MAX_BYTES)
    (found,) = source.findings
    assert found.code == "SRC101"
    assert found.hint == "give a text file"


def test_commands_of_a_long_script_see_what_stands_around_them_and_no_more() -> None:
    text = "#!/bin/bash\nmodule load x\n" + f"srun {TRAIN} base.yml\n" * 600
    parts = read(text).parts
    assert len(parts) == 600
    first, late = parts[0].batch, parts[-1].batch
    assert first is not None
    assert late is not None
    assert first.text == text
    assert len(first.steps) >= 600
    assert parts[-1].step is not None
    assert parts[-1].step in late.steps
    assert [step for step in first.steps if step not in late.steps or step.program == "srun"]
    assert len(late.steps) <= 2
    assert parts[-1].origin.line == 602
