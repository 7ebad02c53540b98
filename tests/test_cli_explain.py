"""moectl explain: every kind of name, the nearest ones, and both formats."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from moectl.__main__ import main
from moectl.actions.explain import explain
from moectl.errors import UnknownNameError, ValueUsageError
from moectl.rules import registry
from moectl.rules.rule import Rule

RULES: Mapping[str, Rule] = {
    code: Rule(code, f"title of {code}", "why", "what", "source, 0.2.5", "error", "silent")
    for code in ("XLA101", "XLA102", "XLA201", "MESH901")
}


@pytest.fixture(autouse=True)
def _known_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "all_rules", lambda: RULES)


def only(name: str) -> dict[str, Any]:
    [answer] = explain(name)
    return answer


def test_a_code_says_all_that_its_rule_says() -> None:
    assert only("xla101") == {
        "name": "XLA101",
        "kind": "rule",
        "title": "title of XLA101",
        "severity": "error",
        "stage": "silent",
        "means": "it runs, and does something else than it says",
        "reason": "why",
        "remedy": "what",
        "source": "source, 0.2.5",
        "suppress": "# moectl: ignore[XLA101]",
    }


def test_a_code_of_this_command_is_known() -> None:
    assert only("XLA101")["kind"] == "rule"


@pytest.mark.parametrize(
    ("name", "codes"), [("XLA", ["XLA101", "XLA102", "XLA201"]), ("XLA1", ["XLA101", "XLA102"])]
)
def test_a_family_lists_its_codes(name: str, codes: list[str]) -> None:
    answer = only(name)
    assert answer["kind"] == "family of rules"
    assert [row["code"] for row in answer["codes"]] == codes


def test_a_maxtext_key_says_type_default_owner_place_and_releases() -> None:
    answer = only("capacity_factor")
    assert (answer["kind"], answer["type"], answer["default"]) == ("MaxText key", "float", -1.0)
    assert answer["run file"] == "moe.capacity_factor"
    assert answer["declared"].startswith("maxtext/configs/types.py:")
    assert answer["releases"] == ["0.2.4", "0.2.5"]
    assert "expert" in answer["about"]


def test_a_default_of_false_or_nothing_is_said() -> None:
    assert only("te_moe_block")["default"] is False
    assert only("quantization")["default"] == ""


def test_a_mesh_degree_and_a_key_without_a_field_of_its_own_are_owned() -> None:
    assert only("ici_fsdp_parallelism")["run file"] == "parallelism.ici.fsdp"
    assert only("decoder_block")["run file"] == "maxtext.decoder_block"


def test_a_key_that_model_files_set_says_which() -> None:
    assert "deepseek3-671b" in only("decoder_block")["set by model files"]


def test_long_lists_of_values_are_written_out() -> None:
    assert "deepseek" in only("decoder_block")["values"]


def test_a_name_of_another_program_says_what_maxtext_has() -> None:
    answer = only("n_routed_experts")
    assert (answer["kind"], answer["instead"]) == ("not a MaxText key", "num_experts")


def test_a_path_of_the_run_file_says_its_key() -> None:
    answer = only("batch.per_device")
    assert answer["MaxText key"] == "per_device_batch_size"
    assert answer["legal"] == "above 0 to 1e+06, or null"
    assert only("form")["legal"] == "benchmark, pretrain"


@pytest.mark.parametrize(
    "name",
    [
        "xla_gpu_enable_latency_hiding_scheduler",
        "--xla_gpu_enable_latency_hiding_scheduler",
        "--xla_gpu_enable_latency_hiding_scheduler=true",
    ],
)
def test_an_xla_flag_says_its_default_by_release(name: str) -> None:
    answer = only(name)
    assert answer["kind"] == "XLA flag"
    assert answer["type"] == "bool"
    assert set(answer["default"]) == set(answer["releases"])
    assert "0.12.0.1" in answer["releases"]


def test_a_flag_that_is_gone_says_what_to_do() -> None:
    answer = only("xla_gpu_enable_async_all_gather")
    assert "releases" not in answer
    assert "0.12.0.1" in answer["unknown to"]
    assert answer["advice"].startswith("delete it")


def test_a_flag_of_another_machine_says_so() -> None:
    assert only("xla_tpu_enable_anything_at_all")["advice"]


def test_a_number_that_can_be_meant_is_said() -> None:
    assert " to " in only("xla_gpu_all_reduce_combine_threshold_bytes")["sane"]


def test_a_variable_says_what_it_takes() -> None:
    answer = only("XLA_PYTHON_CLIENT_MEM_FRACTION")
    assert answer["kind"] == "environment variable"
    assert answer["instead"] == "XLA_CLIENT_MEM_FRACTION"
    assert answer["default"] == "0.75"


@pytest.mark.parametrize(
    ("name", "family", "near"),
    [
        ("NCCL_IB_SLL", "NCCL_*", "NCCL_IB_SL"),
        ("XLA_CLIENT_MEM_FRACTON", "XLA_*", "XLA_CLIENT_MEM_FRACTION"),
    ],
)
def test_a_variable_of_a_family_is_not_taken_for_a_known_one(
    name: str, family: str, near: str
) -> None:
    answer = only(name)
    assert answer["known as"] == f"one of {family}, not by itself"
    assert near in answer["near"]
    assert "near" not in only(near)
    assert "known as" not in only(family)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("kimi-k2-1t", "moectl presets show kimi-k2-1t"),
        ("GB200", "moectl hardware show gb200-nvl72"),
    ],
)
def test_a_preset_or_platform_names_the_command_that_shows_it(name: str, command: str) -> None:
    assert only(name)["command"] == command


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("capacty_factor", "capacity_factor"),
        ("XLA10l", "XLA101"),
        ("xla_gpu_enable_latency_hiding_schedular", "xla_gpu_enable_latency_hiding_scheduler"),
        ("kimi-k2", "kimi-k2-1t"),
    ],
)
def test_an_unknown_name_gets_the_nearest_of_all_kinds(typed: str, near: str) -> None:
    with pytest.raises(UnknownNameError) as raised:
        explain(typed)
    assert near in raised.value.suggestions


@pytest.mark.parametrize("name", ["", " ", "--", "=x"])
def test_an_empty_name_is_refused(name: str) -> None:
    with pytest.raises(ValueUsageError):
        explain(name)


@pytest.mark.parametrize("form", [[], ["--format", "json"]])
def test_an_unknown_name_exits_with_2_and_is_no_answer(
    form: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "steps", "a\x1b[31m\nb\udcff", *form]) == 2
    said = capsys.readouterr()
    sentence = "unknown name 'a\\x1b[31m\\nb\\udcff'"
    assert said.err == f"moectl: {sentence}\n"
    if form:
        told = {"kind": "UnknownNameError", "message": sentence, "exit_code": 2}
        assert json.loads(said.out) == {"error": told, "findings": []}
    else:
        assert said.out == ""


def test_without_a_name_the_families_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["MESH", "1", "1", "0", "0"]
    assert main(["explain", "--format", "json"]) == 0
    rows = {row["name"]: row["codes"] for row in json.loads(capsys.readouterr().out)}
    assert rows == {"XLA": 3, "MESH": 1, "SUP": 2, "PRV": 4}


def test_several_names_are_explained_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "steps", "XLA101", "steps", "--format", "json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert [answer["name"] for answer in answers] == ["steps", "XLA101"]


def test_text_shows_a_row_a_fact(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "XLA1", "xla_gpu_enable_latency_hiding_scheduler"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("XLA1: family of rules\n  codes  XLA101  error  title of XLA101\n")
    assert "\n         XLA102  error  title of XLA102\n" in said
    assert "\nxla_gpu_enable_latency_hiding_scheduler: XLA flag\n" in said


@pytest.mark.parametrize("kind", ["keys", "flags", "variables"])
def test_every_name_of_every_table_can_be_explained(kind: str) -> None:
    from moectl.facts import environment, maxtext, xla  # noqa: PLC0415

    names = {
        "keys": maxtext.load(maxtext.releases()[-1]).keys(),
        "flags": xla.load(xla.releases()[-1]).names()[::10],
        "variables": [*environment.load().variables, "NCCL_ANYTHING"],
    }[kind]
    for name in names:
        for answer in explain(name):
            assert answer["name"]
            json.dumps(answer)
