"""MaxText's metrics_file is read in full precision, whatever else stands in it."""

from __future__ import annotations

import json
from math import inf, isnan
from pathlib import Path

from moectl.logs.columns import ABSENT
from moectl.logs.metrics_file import MetricsFile


def record(step: object, **values: object) -> str:
    said = {
        "learning/loss": 3.25,
        "perf/step_time_seconds": 5.763123,
        "step": step,
        "run_name": "r",
    }
    return json.dumps({**said, **values}) + "\n"


def read(path: Path, text: str | bytes) -> MetricsFile:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = MetricsFile(path)
    found.update()
    return found


def test_values_are_those_of_the_file_to_the_last_digit(tmp_path: Path) -> None:
    found = read(tmp_path / "m", record(0.0) + record(1.0, **{"learning/grad_norm": 0.1 + 0.2}))
    assert list(found.table.steps) == [0, 1]
    assert found.table.columns["seconds"][1] == 5.763123
    assert found.table.columns["grad_norm"][1] == 0.1 + 0.2
    assert found.table.columns["grad_norm"][0] == ABSENT
    assert found.run_name == "r"
    assert list(found.table.lines) == [1, 2]


def test_what_is_no_step_is_counted_and_left_out(tmp_path: Path) -> None:
    lines = ["{", "[1]", record("x"), record(-1), record(10**400), '{"step": 1e999}', record(True)]
    text = "\n".join(line.strip() for line in lines) + "\n" + "[" * 100_000 + "\n" + record(3)
    found = read(tmp_path / "m", text.encode() + b'\xff\xfe{"step": 4}\n')
    assert list(found.table.steps) == [3]
    assert found.damaged == 9


def test_an_evaluation_is_no_step(tmp_path: Path) -> None:
    found = read(tmp_path / "m", record(0) + '{"eval/avg_loss": 2.0, "step": 0.0}\n' + record(1))
    assert list(found.table.steps) == [0, 1]
    assert found.damaged == 0


def test_numbers_that_json_has_not_are_read_as_python_writes_them(tmp_path: Path) -> None:
    text = record(0).replace("3.25", "NaN") + record(1).replace("3.25", "-Infinity")
    held = read(tmp_path / "m", text).table.columns["loss"]
    assert isnan(held[0])
    assert held[1] == -inf


def test_a_number_that_is_none_is_absent(tmp_path: Path) -> None:
    text = record(
        0, **{"learning/grad_norm": "1", "learning/z_loss": 10**400, "learning/mtp_loss": True}
    )
    assert set(read(tmp_path / "m", text).table.columns) == {"seconds", "loss"}


def test_a_line_without_end_waits_for_its_end(tmp_path: Path) -> None:
    found = read(tmp_path / "m", record(0) + record(1)[:20])
    assert list(found.table.steps) == [0]
    with found.path.open("a") as stream:
        stream.write(record(1)[20:])
    assert found.update() == 1
    assert list(found.table.steps) == [0, 1]
