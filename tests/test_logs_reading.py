"""Logs read in one pass: any prefix, any order of processes, whatever spoils them."""

from __future__ import annotations

import gzip
import os
import random
import tempfile
from math import isnan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.logs import reading as module
from moectl.logs.columns import ABSENT
from moectl.logs.reading import Reading
from moectl.logs.table import Table
from tests.support import report_logs as made
from tests.support import training_logs as real


def read(path: Path, text: str | bytes, rank: int | None = None) -> Reading:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = Reading(path, rank)
    found.update()
    return found


def only(found: Reading) -> Table:
    (table,) = found.processes.values()
    return table


def plain(count: int, first: int = 0) -> list[str]:
    return [made.step_text(step, 5.0 + step / 1000, 3.0) for step in range(first, first + count)]


def test_a_whole_log_gives_steps_configuration_and_what_else_was_said(tmp_path: Path) -> None:
    found = read(tmp_path / "log", made.log(20))
    table = only(found)
    assert list(table.steps) == list(range(20))
    assert table.columns["seconds"][0] == 44.903
    assert table.columns["moe_lb_loss"][5] != ABSENT
    assert len(table.columns) == 8
    (start,) = found.starts
    assert start.config == made.CONFIG
    assert start.lines["attention"] == 1
    said = {each.kind: each for each in found.said}
    assert said["devices"].value == 128
    assert said["parameters"].value == 671.026
    assert said["jaxlib"].text == "0.11.2"
    assert said["step flops"].value == made.FLOPS
    assert said["memory moment"].text == "After params initialized"
    assert (said["memory"].value, said["memory"].second) == (31.44, 163.5)
    assert said["compiled memory"].value == 137.2
    lines = (tmp_path / "log").read_text().splitlines()
    assert "Num_devices" in lines[said["devices"].line - 1]
    assert "completed step: 7," in lines[table.lines[7] - 1]


@pytest.mark.parametrize(
    ("prefix", "who"),
    [
        ("", None),
        ("I1130 15:26:14.461972 140264779340672 metric_logger.py:265] ", b"thread 140264779340672"),
        (" 3: ", 3),
        ("12: I1130 15:26:14.461972 140264779340672 metric_logger.py:265] ", 12),
        ("[pod/train-0-7-x9k2p/main] ", "train-0-7-x9k2p/main"),
        ("[pod/train-0-7-x/main] 2026-11-30T15:26:14.123456789Z ", "train-0-7-x/main"),
        ("2026-11-30T15:26:14.123456789Z I1130 15:26:14.4 77 a.py:1] ", b"thread 77"),
        ("[1,5]<stderr>: ", 5),
        ("[rank9]: INFO:absl:", 9),
        ("INFO:absl:", None),
    ],
)
def test_whoever_started_the_processes_their_steps_are_read(
    tmp_path: Path, prefix: str, who: object
) -> None:
    found = read(tmp_path / "log", "".join(f"{prefix}{line}\n" for line in plain(3)))
    assert list(found.processes) == [who]
    assert list(only(found).columns["seconds"]) == [5.0, 5.001, 5.002]


def test_the_rank_of_a_file_is_that_of_all_its_lines(tmp_path: Path) -> None:
    found = read(tmp_path / "rank-4.log", made.log(4), rank=4)
    assert list(found.processes) == [4]


def test_interleaved_ranks_are_told_apart_and_rank_0_is_kept_whole(tmp_path: Path) -> None:
    lines = [f"{rank}: {line}\n" for line in plain(50) for rank in (2, 0, 1)]
    found = read(tmp_path / "log", "".join(lines))
    assert {who: table.count for who, table in found.processes.items()} == {0: 50, 1: 50, 2: 50}
    assert len(found.processes[0].columns) == 8
    assert list(found.processes[1].columns) == ["seconds"]
    assert list(found.processes[2].columns) == ["seconds"]
    assert found.processes[1].lines[0] == 3


def test_variants_of_the_step_line_are_read(tmp_path: Path) -> None:
    text = (
        real.RAMPUP
        + real.step(1)
        + real.step(2)
        + real.BOUNDARY
        + real.NAN.replace("step: 3", "step: 4")
    )
    text += "completed step: 5, seconds: 1.000, live slice count: 3, TFLOP/s/device: 2.000, "
    text += "Tokens/s/device: 3.000, total_weights: 4, loss: 1.000, main_model_loss: 0.900, "
    text += "mtp_loss: 0.100, indexer_loss: 0.25, diag: raw_grad_norm=1.5 skip=0\n"
    found = read(tmp_path / "log", text)
    rows: dict[int, dict[str, float]] = {}
    for table in found.processes.values():
        for row, step in enumerate(table.steps):
            rows[step] = {name: held[row] for name, held in table.columns.items()}
    assert rows[0].get("tflops", ABSENT) == ABSENT
    assert found.parser.rampup == {0}
    assert found.parser.boundaries == {3}
    assert rows[3]["seconds"] == ABSENT
    assert isnan(rows[4]["loss"])
    assert (rows[5]["live_slices"], rows[5]["indexer_loss"], rows[5]["mtp_loss"]) == (3, 0.25, 0.1)
    assert found.parser.unknown == {"diag"}


def test_a_line_that_was_cut_or_written_into_does_not_count(tmp_path: Path) -> None:
    whole = plain(6)
    lines = [
        whole[0],
        whole[1].replace("loss: 3.000, lm", "loss: 3.0, lm"),  # two writers, one lost digits
        whole[2][:60] + whole[3],
        whole[4].replace("5.004", "5.0xx"),
        whole[5],
    ]
    found = read(tmp_path / "log", "\n".join(lines) + "\n" + plain(1, 6)[0])
    assert list(only(found).steps) == [0, 5]
    assert found.parser.damaged_count == 3
    assert found.parser.damaged == [2, 3, 4]
    assert found.cut


def test_bytes_that_are_no_text_spoil_only_their_line(tmp_path: Path) -> None:
    lines = "\n".join(plain(3)).encode() + b"\n"
    found = read(
        tmp_path / "log", b"\xff\xfe\x00 noise \x80\n" + lines + b"completed step: \xff\xff, x\n"
    )
    assert list(only(found).steps) == [0, 1, 2]
    assert found.parser.damaged_count == 1


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    found = read(tmp_path / "log", "")
    assert found.count == 0
    assert found.processes == {}
    assert not found.cut


def test_a_restart_in_the_same_file_is_another_attempt(tmp_path: Path) -> None:
    text = made.log(10) + made.beginning(900.0) + made.steps([5.0] * 6, 990.0, first=6)
    found = read(tmp_path / "log", text)
    first, second = only(found).attempts
    assert (first.first, first.last, second.first, second.last) == (0, 9, 6, 11)
    assert [start.line for start in found.starts] == [1, second.first_line - 28]
    assert second.began == found.starts[1].time


def test_missing_and_repeated_steps_are_counted(tmp_path: Path) -> None:
    lines = [line for step, line in enumerate(plain(10)) if step not in {4, 5}]
    found = read(tmp_path / "log", "\n".join([*lines[:3], lines[2], *lines[3:]]) + "\n")
    (attempt,) = only(found).attempts
    assert (attempt.missing, attempt.repeated, attempt.steps) == (2, 1, 9)
    assert list(only(found).steps) == [0, 1, 2, 3, 6, 7, 8, 9]


def test_a_growing_log_is_read_on_from_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = "".join(f"{line}\n" for line in plain(9))
    cut = len(lines) // 2
    found = read(path, lines[:cut])
    before = found.count
    assert found.cut
    with path.open("a") as stream:
        stream.write(lines[cut:])
    assert found.update() == 9 - before
    assert list(only(found).steps) == list(range(9))
    assert list(only(found).lines) == list(range(1, 10))
    assert found.update() == 0


def test_a_log_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    found = read(path, "".join(f"{line}\n" for line in plain(9)))
    fresh = tmp_path / "fresh"
    fresh.write_text("".join(f"{line}\n" for line in plain(12)))
    fresh.replace(path)
    found.update()
    assert found.blocks.replaced == 1
    assert [attempt.last for attempt in only(found).attempts] == [8, 11]
    os.truncate(path, 0)
    found.update()
    assert found.blocks.replaced == 2


def test_a_compressed_log_is_read_and_one_that_breaks_off_to_its_break(tmp_path: Path) -> None:
    data = gzip.compress("".join(f"{line}\n" for line in plain(2000)).encode())
    assert only(read(tmp_path / "whole.gz", data)).count == 2000
    broken = read(tmp_path / "broken.gz", data[: len(data) // 2])
    assert broken.blocks.damaged
    assert 0 < broken.count < 2000


def test_what_is_no_file_is_an_error_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no file"):
        Reading(tmp_path / "pipe").update()


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    found = read(tmp_path / "log", b"x" * 3_000_000 + b"\n" + plain(1)[0].encode() + b"\n")
    assert list(only(found).steps) == [0]
    assert only(found).lines[0] == 2


def test_many_steps_are_thinned_evenly_and_counted_whole(tmp_path: Path) -> None:
    found = Reading(tmp_path / "log")
    (tmp_path / "log").write_text("".join(f"{line}\n" for line in plain(1000)))
    table = Table(most=100)
    found.processes[None] = table
    found.update()
    assert (table.count, table.stride) == (1000, 16)
    assert list(table.steps) == list(range(0, 1000, 16))
    assert all(line == step + 1 for step, line in zip(table.steps, table.lines, strict=True))
    assert table.attempts[-1].missing == 0


def test_the_same_step_over_and_over_does_not_fill_the_memory(tmp_path: Path) -> None:
    table = Table(most=50)
    found = Reading(tmp_path / "log")
    found.processes[None] = table
    (tmp_path / "log").write_text(
        "".join(f"{plain(2)[step]}\n" for _ in range(400) for step in (1, 0))
    )
    found.update()
    assert len(table.steps) <= 50
    assert table.count == 800


def test_more_processes_than_are_kept_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_PROCESSES", 3)
    found = read(tmp_path / "log", "".join(f"{rank}: {plain(1)[0]}\n" for rank in range(5)))
    assert (len(found.processes), found.dropped) == (3, 2)


def test_rows_of_other_processes_are_thinned_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_OTHERS", 100)
    lines = [f"{rank}: {line}\n" for line in plain(100) for rank in range(4)]
    found = read(tmp_path / "log", "".join(lines))
    others = [found.processes[rank] for rank in (1, 2, 3)]
    assert found.processes[0].stride == 1
    assert {table.stride for table in others} == {4}
    assert sum(len(table.steps) for table in others) <= 100


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=60),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_lines_read_many_at_once_are_those_read_one_by_one(
    ranks: list[int], noise: bool, seed: int
) -> None:
    """A block of step lines alone goes another way than one that holds other lines too."""
    draw = random.Random(seed)  # noqa: S311 - repeatable, not secret
    steps = dict.fromkeys(range(4), 0)
    dense = []
    for rank in ranks:
        text = made.step_text(steps[rank], 5 + draw.random(), 3 + draw.random())
        dense.append(f"{rank}: {made.absl(draw.random() * 9e4, 'm.py:1', text, 7)}")
        steps[rank] += 1
    first = f"0: {made.step_text(0, 5, 3)}\n" if noise else ""
    with tempfile.TemporaryDirectory() as folder:
        many = Reading(Path(folder) / "many")
        many.path.write_text(first)
        many.update()
        with many.path.open("a") as stream:
            stream.write("".join(dense))
        many.update()
        single = read(Path(folder) / "single", first + "other\n".join(["", *dense]))
    assert many.processes.keys() == single.processes.keys()
    for who, table in many.processes.items():
        other = single.processes[who]
        assert (table.steps, table.columns, table.count) == (
            other.steps,
            other.columns,
            other.count,
        )
        assert [a.steps for a in table.attempts] == [a.steps for a in other.attempts]
        assert str(table.times) == str(other.times)
