"""The verdict of MaxText's own checks over a YAML text and a command line."""

from __future__ import annotations

import time

import pytest

from moectl.rules.maxtext_verdict import REFUSES, all_rules, arguments, refused, workload

GOOD = """\
base_config: base.yml
model_name: mixtral-8x7b
hardware: gpu_multiprocess
steps: 5
dataset_type: synthetic
base_output_directory: out
run_name: r
"""


def test_a_good_configuration_is_accepted() -> None:
    assert refused(GOOD, ["per_device_batch_size=2"], 8, 1) == []
    assert refused(GOOD) == []


@pytest.mark.parametrize(
    "text",
    ["steps: 5\nsteps: 6\n", "\tsteps: 5\n", "- a\n", "steps: [\n", "a: !!python/name:os.x ''\n"],
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    findings = refused(text, (), 8, 1)
    assert [finding.severity for finding in findings] == ["error"]
    assert findings[0].code == "FILE102"


def test_a_value_of_the_command_line_that_is_no_yaml_is_refused() -> None:
    assert refused(GOOD, ["steps=[5"], 8, 1)[0].code == "FILE102"


@pytest.mark.parametrize("base", ["nosuch.yml", "5", "null", "''", "/etc/passwd", "[base.yml]"])
def test_a_base_that_is_no_file_of_maxtexts_is_refused(base: str) -> None:
    findings = refused(f"steps: 5\nbase_config: {base}\n", (), 8, 1)
    assert [(finding.code, finding.line) for finding in findings] == [("FILE102", 2)]
    assert "base_config" in findings[0].message


@pytest.mark.parametrize(
    "base", ["base.yml", "./base.yml", "models/mixtral-8x7b.yml", "gpu/gpu_smoke_test.yml"]
)
def test_a_base_of_maxtexts_is_not(base: str) -> None:
    assert refused(f"base_config: {base}\n", (), 8, 1) == []


def test_what_a_base_of_maxtexts_says_counts_below_the_file() -> None:
    held = workload("base_config: post_train/sft.yml\n", (), 8, 1)
    assert held.effective["use_sft"] is True
    assert held.effective["num_slices"] == -1  # from base.yml, on which it builds
    assert workload("base_config: post_train/sft.yml\nuse_sft: false\n").value("use_sft") is False
    codes = [f.code for f in refused("base_config: post_train/dpo.yml\n", (), 8, 1)]
    assert "DATA109" in codes
    model = workload("base_config: models/mixtral-8x7b.yml\n", (), 8, 1)
    assert model.effective["num_experts"] == 8
    assert model.config["base_config"].value is None


@pytest.mark.parametrize(
    ("word", "key", "value"),
    [
        ("steps=5", "steps", 5),
        ("learning_rate=1e-3", "learning_rate", 0.001),
        ("scan_layers=off", "scan_layers", False),
        ("quantization=", "quantization", None),
        ("quantization=''", "quantization", ""),
        ("steps", "steps", None),
        ("mesh_axes=[a, b]", "mesh_axes", ["a", "b"]),
        ("hf_path=a=b", "hf_path", "a=b"),
    ],
)
def test_arguments_are_typed_as_yaml(word: str, key: str, value: object) -> None:
    found = arguments([word])[key]
    assert found.value == value
    assert type(found.value) is type(value)


def test_the_last_of_two_arguments_counts() -> None:
    assert arguments(["steps=5", "steps=6"])["steps"].value == 6


def test_warnings_and_later_faults_are_no_refusal() -> None:
    text = f"{GOOD}ici_expert_parallelism: 3\n"
    made = workload(text, (), 9, 1)
    later = [f.code for rule in all_rules() for f in rule.findings(made)]
    assert "MESH101" in later
    assert refused(text, (), 9, 1) == []
    stages = {rule.stage for rule in all_rules()}
    assert stages > REFUSES - {"reads"}


def test_xla_flags_beside_maxtexts_own_are_refused() -> None:
    text = f"{GOOD}dump_hlo_xla_flags: --xla_dump_to=x\n"
    assert refused(text, (), 8, 1, environment={"XLA_FLAGS": "--xla_dump_to=y"})
    assert refused(text, (), 8, 1) == []
    assert refused(GOOD, (), 8, 1, environment={"XLA_FLAGS": "--xla_dump_to=y"}) == []


@pytest.mark.parametrize(
    "text",
    ["\x00", "a: \ud800", "? {a: b}\n: 1\n", "x: " + "[" * 200, "'\n': 1\n", "~: 1\n", "1: 2\n"],
)
def test_hostile_texts_are_refused_without_a_traceback(text: str) -> None:
    assert refused(text, (), 8, 1)


def test_a_verdict_takes_milliseconds() -> None:
    refused(GOOD, (), 8, 1)
    started = time.process_time()
    for _ in range(20):
        refused(GOOD, (), 8, 1)
    assert (time.process_time() - started) / 20 < 0.02
