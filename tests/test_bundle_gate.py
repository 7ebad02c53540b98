"""The gate of a rung: what passes, what fails, and why."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.campaign.gates import overflow, step_lines, thresholds
from moectl.facts.yaml_facts import read
from moectl.render import templates
from tests.support.programs import load

LINE = (
    "I1130 15:26:49.461972 140264779340672 metric_logger.py:265] completed step: {step}, "
    "seconds: {seconds:.3f}, TFLOP/s/device: {tflops:.3f}, Tokens/s/device: {tokens:.3f}, "
    "total_weights: 8192, loss: {loss}\n"
)


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = tmp_path_factory.mktemp("gate") / "gate.py"
    path.write_text(templates.source("gate.py"))
    spec = importlib.util.spec_from_file_location("gate_program", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rung(bundle: Path, *, ranks: int = 2, steps: int = 10, **changes: Any) -> Path:
    """Write the logs of a rung."""
    said = {"seconds": 1.0, "tflops": 100.0, "tokens": 4000.0, "slow": {}, **changes}
    folder = bundle / "logs" / "7"
    folder.mkdir(parents=True)
    for number in range(ranks):
        lines = [
            LINE.format(
                step=step,
                seconds=said["seconds"] * said["slow"].get(number, 1.0),
                tflops=said["tflops"],
                tokens=said["tokens"],
                loss=said.get("loss", lambda step: f"{8 - step / 10:.3f}")(step),
            )
            for step in range(steps)
        ]
        (folder / f"rank-{number}.log").write_text("".join([*lines, said.get("text", "")]))
    return bundle


def asked(**changes: Any) -> dict[str, Any]:
    held = {"rung": 16, "steps": 10, "overflow": overflow(), "lines": step_lines("0.2.5")}
    return {**held, **thresholds({}), **changes}


def failed(found: Any) -> list[str]:
    return [row["name"] for row in found["checks"] if not row["passed"]]


def test_a_good_rung_passes_with_its_figures(gate: ModuleType, tmp_path: Path) -> None:
    found = gate.verdict(rung(tmp_path), asked(), [])
    assert (found["passed"], failed(found)) == (True, [])
    assert (found["step_time_s"], found["tflops"], found["tokens_per_s"]) == (1.0, 100.0, 4000.0)
    assert found["losses"][9] == 7.1


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"steps": 9}, ["finished"]),
        ({"steps": 0}, ["finished"]),
        ({"steps": 2}, ["finished", "steady steps"]),
        ({"loss": lambda step: "nan" if step == 5 else "7.0"}, ["loss is finite"]),
        ({"text": "E TE MoE receive capacity overflow at training step 3\n"}, ["no overflow"]),
        ({"slow": {1: 1.5}, "ranks": 3}, ["no straggler"]),
    ],
)
def test_a_bad_rung_fails_by_the_check_it_fails(
    changes: dict[str, Any], names: list[str], gate: ModuleType, tmp_path: Path
) -> None:
    found = gate.verdict(rung(tmp_path, **changes), asked(), [])
    assert not found["passed"]
    assert failed(found) == names


def test_a_process_that_failed_is_told_though_the_last_step_came(
    gate: ModuleType, tmp_path: Path
) -> None:
    bundle = rung(tmp_path)
    (bundle / "logs/7/first-failure").write_text("9 1 gpu001\n")
    found = gate.verdict(bundle, asked(), [])
    assert failed(found) == ["finished"]
    assert "code 9" in found["checks"][0]["told"]


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"tokens": 3500.0}, ["scaling efficiency"]),
        ({"tokens": 3700.0}, []),
        ({"loss": dict.fromkeys(range(10), "9.5").get}, ["loss parity"]),
        ({"tflops": 40.0}, ["TFLOP/s a GPU"]),
    ],
)
def test_a_rung_is_measured_against_those_below(
    changes: dict[str, Any], names: list[str], gate: ModuleType, tmp_path: Path
) -> None:
    below = [gate.verdict(rung(tmp_path / "below"), asked(rung=8), [])]
    above = gate.verdict(rung(tmp_path / "above", **changes), asked(tflops=50.0), below)
    assert failed(above) == names


def test_only_how_the_last_start_ended_counts(gate: ModuleType, tmp_path: Path) -> None:
    bundle = rung(tmp_path)
    first = bundle / "logs" / "3"
    first.mkdir()
    (first / "first-failure").write_text("1 0 gpu000\n")
    assert gate.verdict(bundle, asked(), [])["passed"]


def test_the_program_writes_its_verdict_and_ends_with_it(
    gate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for steps, code in ((10, 0), (4, 1)):
        folder = tmp_path / str(steps)
        bundle = rung(folder / "b", steps=steps)
        (folder / "asked.json").write_text(json.dumps(asked(bundle=str(bundle))))
        out = folder / "verdict.json"
        assert gate.main([str(folder / "asked.json"), str(out)]) == code
        assert json.loads(out.read_text())["passed"] is (code == 0)
        assert ("FAILED  finished" in capsys.readouterr().out) is bool(code)


BOUNDARY = (
    "I1130 15:26:49.461972 140264779340672 metric_logger.py:265] completed profiler "
    "activation/deactivation step: {step}, total_weights: 8192, loss: 7.000\n"
)
RAMPUP = (
    "I1130 15:26:49.461972 140264779340672 metric_logger.py:265] [Rampup Batch Size Phase], "
    "completed step: {step}, seconds: 1.000, total_weights: 8192, loss: 7.000\n"
)
ECHO = "I1130 15:26:14.766125 1 pyconfig.py:591] Config param run_name: completed step: 99\n"


def test_a_last_step_around_a_profile_was_reached(gate: ModuleType, tmp_path: Path) -> None:
    bundle = rung(tmp_path, steps=9, text=BOUNDARY.format(step=9))
    found = gate.verdict(bundle, asked(), [])
    assert (found["passed"], failed(found)) == (True, [])
    assert found["step_time_s"] == 1.0


def test_steps_without_rates_do_not_spoil_those_of_the_others(
    gate: ModuleType, tmp_path: Path
) -> None:
    bundle = rung(tmp_path, steps=9, text=RAMPUP.format(step=9))
    found = gate.verdict(bundle, asked(), [])
    assert (found["tflops"], found["tokens_per_s"]) == (100.0, 4000.0)
    assert json.loads(json.dumps(found, allow_nan=False))["passed"]


def test_an_echo_of_the_configuration_is_no_step(gate: ModuleType, tmp_path: Path) -> None:
    found = gate.verdict(rung(tmp_path, steps=9, text=ECHO), asked(), [])
    assert failed(found) == ["finished"]


@pytest.mark.parametrize("release", read("log_formats.yaml")["releases"])
@pytest.mark.parametrize("kind", ["step", "boundary"])
def test_all_programs_know_the_lines_of_steps_that_the_log_reader_knows(
    release: str, kind: str, gate: ModuleType
) -> None:
    words = step_lines(release)
    line = f"I1130 15:26:49.4 1 metric_logger.py:265] {words[kind]}: 17, loss: 7.5"
    assert gate.Lines(words).step(line) == (17, {"loss": 7.5})
    for name in ("watchdog", "go_on"):
        match = load(name).STEP.search(line)
        assert match is not None
        assert match.group(1) == "17"


@given(st.lists(st.binary(max_size=120), max_size=20))
def test_no_log_is_too_odd(
    gate: ModuleType, tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    bundle = tmp_path_factory.mktemp("odd")
    folder = bundle / "logs" / "1"
    folder.mkdir(parents=True)
    (folder / "rank-0.log").write_bytes(b"\n".join([*lines, b"completed step: 1, seconds: 0.1"]))
    found = gate.verdict(bundle, asked(), [])
    assert json.loads(json.dumps(found))["passed"] is False
