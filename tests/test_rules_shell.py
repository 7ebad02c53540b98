"""Commands that a shell refuses or that lose a setting; each is tried on a real bash, too."""

from __future__ import annotations

import shutil
import subprocess
from textwrap import dedent

import pytest

from moectl.findings import Finding
from moectl.rules.shell import RULES
from moectl.settings.shell import read
from moectl.values import Origin, Value
from moectl.workload import Layout, Workload

BASH = shutil.which("bash")
TRAIN = "python3 -m maxtext.trainers.pre_train.train base.yml run_name=r"


def found(text: str, nodes: int | None = None) -> list[Finding]:
    text = dedent(text).lstrip("\n")
    layout = Layout(nodes=Value(nodes, Origin("x"))) if nodes is not None else Layout()
    workload = Workload(
        kind="script",
        origin=Origin("script", "job.sh", 1, 1),
        maxtext="0.2.5",
        jaxlib="0.11.2",
        batch=read(text, "job.sh").batch,
        layout=layout,
    )
    return [finding for rule in RULES.all for finding in rule.findings(workload)]


def codes(text: str) -> list[tuple[str, str, int | None, int | None]]:
    return [(f.code, f.severity, f.line, f.column) for f in found(text)]


def complaints(text: str) -> str:
    """Return what bash says of a script whose programs all succeed."""
    assert BASH is not None
    prelude = "srun() { :; }; python3() { :; }\n"
    done = subprocess.run(
        [BASH, "--norc", "-c", prelude + dedent(text)],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        timeout=20,
        check=False,
    )
    return done.stderr.decode()


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("export XLA_FLAGS=--a=4 --b=false", "SH101", 24),
        ('export XLA_FLAGS = "--a=4"', "SH101", 18),
        ("export XLA_FLAGS= --a=4", "SH101", 19),
        ("declare -x XLA_FLAGS=--a=4 --b=1", "SH101", 28),
        ("readonly A=1 2", "SH101", 14),
        ("export A=1 -n", "SH101", 12),
        ("export NCCL.DEBUG=INFO", "SH101", 8),
        ("F='--a=1 --b=2'; export XLA_FLAGS=x $F", "SH101", 4),
        ('export $XLA_FLAGS="--a=4"', "SH101", 8),
        ('export ${XLA_FLAGS}="--a=4"', "SH101", 8),
        ('XLA_FLAGS = "--a=4"', "SH102", 1),
        ('XLA_FLAGS ="--a=4"', "SH102", 1),
        ('XLA_FLAGS += "--a=4"', "SH102", 1),
        ("XLA_FLAGS=--a=4 --b=false srun true", "SH102", 17),
        ('XLA_FLAGS= "--a=4"', "SH102", 13),
        ('$XLA_FLAGS="--a=4"', "SH101", 1),
    ],
)
def test_what_bash_complains_of_is_an_error_at_its_place(text: str, code: str, column: int) -> None:
    complaint = complaints(text)
    assert "not a valid identifier" in complaint or "not found" in complaint, complaint
    hits = [f for f in found(text) if f.code == code]
    assert [(f.severity, f.column) for f in hits] == [("error", column)]


@pytest.mark.parametrize(
    "text",
    [
        'export XLA_FLAGS="--a=4 --b=false"',
        "export XLA_FLAGS=--a=4\\ --b=false",
        "export -n A; export A B=1 C; export -- A=1; export -p; export -f srun",
        "declare -x -r A=1 B=2; declare -a L=(1 2); declare -A M",
        'N=A; export "$N=1"; export $N=1',
        "for v in A=1 B=2; do export $v; done",
        "export $UNKNOWN",
        "A= srun true",
        "A=1 srun --b=2",
        "[ 1 = 1 ]; test a = b; echo = x; let a = 1 2>&1 || :",
        "f() { :; }; f = x",
        "srun true -- --b=1",
    ],
)
def test_what_bash_takes_without_a_word_is_clean(text: str) -> None:
    if "let" not in text:
        assert complaints(text) == ""
    assert [f for f in found(text) if f.code in {"SH101", "SH102"}] == []


def test_a_blank_behind_the_backslash_ends_the_command() -> None:
    text = f"srun {TRAIN} \\ \n  steps=4\n"
    assert codes(text) == [("SH103", "error", 1, 7 + len(TRAIN))]
    assert [w.text for w in read(text, "j").batch.steps[0].words][-1] == " "


def test_options_behind_an_empty_line_are_lost_and_said_once() -> None:
    text = "srun \\\n  -N 2 \\\n\n  --ntasks=4 true\n"
    assert codes(text) == [("SH103", "error", 4, 3)]
    assert "not found" in complaints(text)


@pytest.mark.parametrize("between", ["  # a comment", "  # a comment \\", "", "  "])
def test_a_comment_or_an_empty_line_ends_a_continued_command(between: str) -> None:
    text = f"srun {TRAIN} \\\n{between}\n  steps=4 \\\n  log_period=1\n"
    assert codes(text) == [("SH103", "error", 3, 3)]
    assert "line 2" in found(text)[0].message


@pytest.mark.parametrize(
    "text",
    [
        f"srun {TRAIN} \\\n  steps=4 \\\n\necho done\n",
        f"srun {TRAIN} \\\n  steps=4 \\\n  # log_period=1\nsteps=3; echo $steps\n",
        f"if true; then\n  srun {TRAIN} \\\n  # x\nfi\n",
        f"# srun \\\n#   {TRAIN}\n\nsrun true\n",
        "cat <<EOF\nsrun true \\ \n  # x\nEOF\n",
        "echo 'a \\ \n b'\n",
        "echo a\\ \n",
    ],
)
def test_commands_that_end_where_they_should_are_clean(text: str) -> None:
    assert codes(text) == []


def test_arguments_behind_the_end_of_maxtexts_command_are_lost() -> None:
    text = f"""
    {TRAIN}
      steps=4
    log_period=1 packing=true
    echo $log_period
    steps=1
    """
    assert [(f.code, f.field, f.line) for f in found(text)] == [
        ("SH103", "steps", 2),
        ("SH103", "packing", 3),
    ]


@pytest.mark.parametrize("line", ["status=$?", "end=$(date +%s)", "export A=1", "RC=1", "wait=$!"])
def test_assignments_of_a_script_behind_maxtexts_command_are_clean(line: str) -> None:
    assert codes(f"{TRAIN}\n{line}\n") == []


@pytest.mark.parametrize("name", ["XLA_FLAGS", "NCCL_DEBUG", "JAX_PLATFORMS", "NVTE_FUSED_ATTN"])
def test_a_setting_that_is_not_exported_is_a_warning(name: str) -> None:
    hits = found(f"{name}=1\nsrun {TRAIN}\n")
    assert [(f.code, f.severity, f.field, f.line) for f in hits] == [("SH104", "warning", name, 1)]


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_DEBUG=INFO\nexport NCCL_DEBUG\nsrun x",
        "export NCCL_DEBUG\nNCCL_DEBUG=INFO\nsrun x",
        "set -a\nNCCL_DEBUG=INFO\nset +a\nsrun x",
        "NCCL_DEBUG=INFO srun x",
        'XLA_FLAGS=--a=1\nexport XLA_FLAGS="$XLA_FLAGS --b=2"\nsrun x',
        'XLA_FLAGS=--a=1\nsrun env XLA_FLAGS="$XLA_FLAGS" x',
        'NCCL_OPTS="-x A=1"\nmpirun $NCCL_OPTS x',
        "NCCL_DEBUG=INFO\n",
        "srun x\nNCCL_DEBUG=INFO\n",
        "COUNT=1\nsrun x",
    ],
)
def test_a_setting_that_reaches_its_process_is_clean(text: str) -> None:
    assert codes(text) == []


def test_a_module_that_maxtext_does_not_have_is_an_error_with_the_nearest() -> None:
    (hit,) = found("srun python3 -m maxtext.trainers.pre_train.trian base.yml steps=1\n")
    assert (hit.code, hit.severity, hit.line, hit.column) == ("SH105", "error", 1, 17)
    assert "No module named maxtext.trainers.pre_train.trian" in hit.message
    assert hit.hint == "python3 -m maxtext.trainers.pre_train.train"


def test_a_module_of_the_older_package_is_a_warning_and_a_folder_an_error() -> None:
    text = "python3 -m MaxText.trainers.pre_train.train b.yml\npython3 -m maxtext.trainers b.yml\n"
    assert [(f.severity, f.line) for f in found(text)] == [("warning", 1), ("error", 2)]


@pytest.mark.parametrize(
    "module",
    ["maxtext.trainers.pre_train.train", "MaxText.train", "maxtext.utils.estimator", "pip"],
)
def test_modules_that_exist_are_clean(module: str) -> None:
    assert codes(f"python3 -m {module} base.yml") == []


def test_a_coordinator_that_every_node_finds_for_itself_is_a_warning() -> None:
    text = f"srun bash -c 'export JAX_COORDINATOR_IP=$(hostname -I | cut -d\" \" -f1); {TRAIN}'\n"
    (hit,) = found(text)
    assert (hit.code, hit.severity, hit.field, hit.line) == (
        "SH106", "warning", "JAX_COORDINATOR_IP", 1
    )  # fmt: skip
    assert found(text, nodes=1) == []


@pytest.mark.parametrize(
    "text",
    [
        f"export JAX_COORDINATOR_IP=$(hostname -i)\nsrun bash -c '{TRAIN}'\n",
        "srun bash -c 'export JAX_COORDINATOR_IP=$(scontrol show hostnames $SLURM_JOB_NODELIST | "
        f"head -n1); {TRAIN}'\n",
        f"srun bash -c 'export HOST=$(hostname); {TRAIN}'\n",
        f"bash -c 'export JAX_COORDINATOR_IP=$(hostname -i); {TRAIN}'\n",
    ],
)
def test_an_address_that_is_found_once_is_clean(text: str) -> None:
    assert codes(text) == []


def test_a_fault_in_a_branch_that_may_not_be_taken_is_a_warning() -> None:
    hits = found("if foo; then\n  export A=1 --b\nfi\n")
    assert [(f.code, f.severity, f.line) for f in hits] == [("SH101", "warning", 2)]


def test_a_fault_in_a_loop_is_said_once() -> None:
    assert (
        len(found("for i in 1 2 3; do export A=1 --b; done\nf() { XLA_FLAGS = 1; }; f; f\n")) == 2
    )


def test_a_name_of_any_length_makes_a_short_message() -> None:
    hits = found(f"export A=1 --{'b' * 5000}\n")
    assert len(hits[0].message) < 400
