"""MaxText YAML: the chain of bases, sections of forks, and every fault of form."""

from __future__ import annotations

from typing import Any

import pytest

from moectl.facts.maxtext import load, releases
from moectl.facts.own_configs import content
from moectl.findings import Finding
from moectl.settings.sources.maxtext_yaml import ConfigFile, own_configs, read_config
from moectl.settings.sources.written import Written
from moectl.workload import UNKNOWN

CATALOGUE = load(releases()[-1])


def read(text: str, path: str = "d/x.yml", **files: str) -> ConfigFile:
    named = {name.replace("__", "/") + ".yml": content for name, content in files.items()}
    return read_config(text, path, named.get, CATALOGUE)


def plain(config: ConfigFile) -> dict[str, Any]:
    return {key: value.value for key, value in config.values.items()}


def only(config: ConfigFile) -> Finding:
    (finding,) = config.findings
    return finding


def test_a_value_knows_its_key_its_spot_and_its_characters() -> None:
    value = read('steps: 1\nrun_name:  "a b"\n').values["run_name"]
    assert isinstance(value, Written)
    assert (value.value, value.raw, value.style) == ("a b", "a b", '"')
    assert (value.origin.file, value.origin.line, value.origin.column) == ("d/x.yml", 2, 1)
    assert value.spot is not None
    assert (value.spot.line, value.spot.column) == (2, 12)


def test_a_base_stands_below_and_what_it_said_is_kept() -> None:
    config = read(
        "base_config: sub/b.yml\nsteps: 4\nlora: {lora_alpha: 2.0}\n",
        sub__b="base_config: c.yml\nsteps: 3\nlora: {lora_rank: 8, lora_alpha: 1.0}\n",
        sub__c="base_config: base.yml\nsteps: 2\nrun_name: c\n",
    )
    assert plain(config) == {
        "base_config": "base.yml",
        "steps": 4,
        "lora": {"lora_rank": 8, "lora_alpha": 2.0},
        "run_name": "c",
    }
    assert config.chain == ("d/x.yml", "d/sub/b.yml", "d/sub/c.yml", "base.yml")
    over = config.values["steps"].overrode
    assert [(value, origin.file, origin.line) for value, origin in over] == [
        (3, "d/sub/b.yml", 2),
        (2, "d/sub/c.yml", 2),
    ]
    assert config.values["run_name"].origin.file == "d/sub/c.yml"
    assert config.findings == ()
    assert config.unread == ()


@pytest.mark.parametrize("base", ["base.yml", "gpu/../base.yml", "/opt/x/base.yml"])
def test_maxtexts_own_base_need_not_be_here(base: str) -> None:
    config = read(f"base_config: {base}\n")
    assert plain(config) == {"base_config": "base.yml"}
    assert config.findings == ()


def test_of_a_copy_of_maxtexts_base_only_the_changes_count() -> None:
    config = read(
        "base_config: base.yml\n", base="steps: 7\nweight_dtype: float32\nother_release: 1\n"
    )
    assert plain(config) == {"base_config": "base.yml", "steps": 7}
    assert any("other" in sentence or "another" in sentence for sentence in config.told)


def test_the_end_of_a_chain_without_a_base_is_told() -> None:
    assert plain(read("base_config: b.yml\n", b="steps: 1\n"))["base_config"] is None
    assert "base_config" not in read("steps: 1\n").values


def test_a_base_that_is_not_here_is_unknown_and_said() -> None:
    config = read("base_config: ../team.yml\nsteps: 1\n")
    found = only(config)
    assert (found.code, found.severity, found.line) == ("YAML107", "note", 1)
    assert config.unread == ("../team.yml",)
    assert config.values["base_config"].value is UNKNOWN


def test_a_config_that_maxtext_ships_is_read_at_the_line_that_names_it() -> None:
    config = read("steps: 3\nbase_config: post_train/distillation-sft.yml\n")
    assert "post_train/distillation-sft.yml" in own_configs()
    assert (config.findings, config.unread) == ((), ())
    names = ("post_train/distillation-sft.yml", "post_train/distillation.yml", "base.yml")
    assert config.chain[1:] == names
    values = config.values
    assert (values["base_config"].value, values["steps"].value) == ("base.yml", 3)
    held = content("post_train/distillation-sft.yml", CATALOGUE) or {}
    said = {key: value for key, value in held.items() if key not in {"steps", "base_config"}}
    assert {key: values[key].value for key in said} == said
    assert {values[key].origin.line for key in said} == {2}
    assert "0.2.5" in config.told[0]


@pytest.mark.parametrize("name", ["src/maxtext/configs/base.yml", "../configs/base.yml"])
def test_base_yml_under_a_path_that_is_not_here_is_said(name: str) -> None:
    config = read(f"base_config: {name}\n")
    found = only(config)
    assert (found.code, found.severity, found.line) == ("YAML107", "note", 1)
    assert config.values["base_config"].value == "base.yml"
    assert read(f"base_config: /opt/{name}\n").findings == ()


def test_the_sections_of_maxtexts_rl_config_are_left_out() -> None:
    config = read("base_config: post_train/rl.yml\n")
    assert "rl" not in config.values
    assert config.values["base_config"].value is None
    assert "sections" in config.told[0]


@pytest.mark.parametrize(
    "files",
    [{"x": "base_config: x.yml\n"}, {"b": "base_config: x.yml\n", "x": "base_config: b.yml\n"}],
)
def test_a_cycle_ends_with_a_finding(files: dict[str, str]) -> None:
    found = only(read(f"base_config: {next(iter(files))}.yml\n", **files))
    assert (found.code, found.severity) == ("YAML108", "error")


def test_a_chain_that_is_too_long_ends_with_a_finding() -> None:
    files = {f"f{n}.yml": f"base_config: f{n + 1}.yml\n" for n in range(100)}
    config = read_config("base_config: f0.yml\n", "x.yml", files.get, CATALOGUE)
    assert only(config).code == "YAML108"


@pytest.mark.parametrize("base", ["3", '""', "~", "[a]", "off"])
def test_a_base_that_is_no_path_is_refused(base: str) -> None:
    found = only(read(f"steps: 1\nbase_config: {base}\n"))
    assert (found.code, found.severity, found.line) == ("YAML111", "error", 2)


FORM = {
    "duplicate": ("steps: 1\nrun_name: a\nsteps: 1\n", "YAML102", 3),
    "tab": ("steps: 1\n\trun_name: a\n", "YAML103", 2),
    "syntax": ("steps: 1\nrun_name: [a\n", "YAML101", 2),
    "several documents": ("steps: 1\n---\nsteps: 2\n", "YAML104", 3),
    "list": ("- 1\n- 2\n", "YAML105", 1),
    "list of configs": ("# all\n- steps: 1\n- steps: 2\n", "YAML105", 2),
    "scalar": ("word\n", "YAML105", 1),
    "empty": ("", "YAML106", 1),
    "comments": ("# a\n\n# b\n", "YAML106", 1),
    "null": ("---\n...\n", "YAML106", 1),
    "tag": ("steps: !!python/name:os.system 1\n", "YAML110", 1),
    "itself": ("lora: &x {a: *x}\n", "YAML110", 1),
    "complex key": ("steps: 1\n? [a]\n: 1\n", "YAML110", 2),
}


@pytest.mark.parametrize("name", FORM)
def test_a_fault_of_form_is_found_in_its_line(name: str) -> None:
    text, code, line = FORM[name]
    assert (code, line) in [(found.code, found.line) for found in read(text).findings]


def test_every_duplicate_is_found_and_the_rest_is_read() -> None:
    config = read("steps: 1\nsteps: 2\nrun_name: a\nrun_name: b\nlora: {lora_rank: 1}\n")
    assert [(found.code, found.line) for found in config.findings] == [
        ("YAML102", 2),
        ("YAML102", 4),
    ]
    assert plain(config) == {"steps": 2, "run_name": "b", "lora": {"lora_rank": 1}}


def test_an_alias_bomb_is_a_finding() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
    )
    assert "YAML110" in [found.code for found in read(bomb).findings]


@pytest.mark.parametrize(
    ("text", "section", "flat"),
    [
        ("custom_remat_config:\n  mlpwi: device\n  out_proj: device\n", "custom_remat_config",
         {"mlpwi": "device", "out_proj": "device"}),
        ("maxtext:\n  train: {steps: 3}\n  run_name: a\n", "maxtext",
         {"steps": 3, "run_name": "a"}),
        ("overrides:\n- steps: 3\n- run_name: a\n", "overrides", {"steps": 3, "run_name": "a"}),
        ("quantization: {quantization: fp8}\n", "quantization", {"quantization": "fp8"}),
    ],
)  # fmt: skip
def test_a_section_of_a_fork_is_said_and_read_as_flat_keys(
    text: str, section: str, flat: dict[str, Any]
) -> None:
    config = read(text)
    found = only(config)
    assert (found.code, found.severity, found.field, found.line) == (
        "YAML109",
        "error",
        section,
        1,
    )
    assert all(key in found.hint for key in flat)
    assert plain(config) == flat
    assert config.values[next(iter(flat))].origin.line is not None


def test_sections_that_maxtext_has_are_no_fault() -> None:
    config = read("lora: {lora_rank: 4}\nvllm_hf_overrides: {steps: 3}\nmesh_axes: [data]\n")
    assert config.findings == ()


def test_a_section_of_which_maxtext_knows_nothing_is_left_to_others() -> None:
    config = read("mine: {a: 1}\n")
    assert config.findings == ()
    assert plain(config) == {"mine": {"a": 1}}


def test_merge_keys_and_anchors_are_read() -> None:
    config = read("lora: &l {lora_rank: 4}\nstudent_overrides: {<<: *l, a: 1}\n")
    assert plain(config)["student_overrides"] == {"lora_rank": 4, "a": 1}
    assert config.findings == ()


def test_a_config_that_is_a_template_is_said_and_its_holes_are_unknown() -> None:
    config = read(
        "steps: {{ steps }}\n{% if x %}\nrun_name: r\n{% endif %}\nlora: {a: '{{ b }}'}\n"
    )
    found = only(config)
    assert (found.code, found.severity, found.line) == ("YAML112", "note", 1)
    assert plain(config) == {"steps": UNKNOWN, "run_name": "r", "lora": UNKNOWN}
    assert config.unread


def test_interpolations_of_omegaconf_make_no_template() -> None:
    config = read("run_name: ${model_name}\nsteps: ${oc.env:N,3}\n")
    assert config.findings == ()
    assert plain(config) == {"run_name": "${model_name}", "steps": "${oc.env:N,3}"}


def test_sections_of_a_config_for_rl_are_told_and_not_judged() -> None:
    config = read(
        "base_config: base.yml\nsteps: 3\nrl:\n  num_generations: 2\n"
        "dataset:\n  dataset_name: x\ntrain:\n  steps: 4\n"
    )
    assert plain(config) == {"base_config": "base.yml", "steps": 3}
    assert "(rl, dataset) are not judged" in config.told[0]
    assert (only(config).code, only(config).field) == ("YAML109", "train")
    other = read("base_config: base.yml\ndataset:\n  dataset_name: x\n")
    assert [finding.field for finding in other.findings] == ["dataset"]
    assert other.told == ()
