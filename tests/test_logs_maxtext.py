"""What a line of a log says, whatever stands before it and whatever it is."""

from __future__ import annotations

import gzip
import io
import math
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.facts.yaml_facts import read
from moectl.logs.maxtext import Event, StepLine, lines, log_format, number, read_line, read_log
from moectl.logs.prefixes import strip
from tests.support import training_logs as made

PLAIN = "completed step: 7, seconds: 0.869, TFLOP/s/device: 0.002, loss: 7.322"
PREFIXES = {
    "nothing": ("", None),
    "absl": ("I1130 15:26:55.478812 140264779340672 metric_logger.py:265] ", None),
    "absl of C++": ("I1130 15:26:14.739260   15217 pjrt_client.cc:587] ", None),
    "absl of C++ before its start": ("I0000 00:00:1732982400.123456   15217 a.cc:12] ", None),
    "srun --label": ("12: ", 12),
    "srun --label, padded": ("  3: ", 3),
    "srun --label before absl": ("127: I1130 15:26:55.478812 14026 metric_logger.py:265] ", 127),
    "kubectl logs --prefix": ("[pod/moe-worker-0-2-x7k9p/maxtext] ", None),
    "kubectl logs --prefix --timestamps": (
        "[pod/moe-worker-0-2-x7k9p/maxtext] 2026-11-30T15:28:42.045803123Z ",
        None,
    ),
    "a container runtime": ("2026-11-30T15:28:42.045803123+01:00 stderr F ", None),
    "Open MPI": ("[1,5]<stderr>:", 5),
    "a launcher that names ranks": ("[rank4]: ", 4),
    "Python's logging": ("INFO:absl:", None),
    "ts": ("Nov 30 15:28:42 ", None),
    "colours": ("\x1b[32mI1130 15:26:55.478812 14026 m.py:1]\x1b[0m ", None),
}


@pytest.mark.parametrize(("prefix", "rank"), PREFIXES.values(), ids=PREFIXES)
def test_a_step_is_read_behind_every_prefix(prefix: str, rank: int | None) -> None:
    said = read_line(f"{prefix}{PLAIN}\r\n")
    assert said == StepLine(7, 0.869, 0.002, loss=7.322, rank=rank)


def test_a_level_and_a_rank_are_kept() -> None:
    line = strip("3: E1130 15:27:39.777212 13980 pyconfig.py:393] MAXTEXT CONFIG ERROR: x\n")
    assert (line.level, line.rank, line.text) == ("E", 3, "MAXTEXT CONFIG ERROR: x")


def test_a_line_of_a_step_says_what_maxtext_wrote() -> None:
    said = read_line(made.step(12, 5.763, "7.402", 4264.0))
    assert said == StepLine(
        12,
        5.763,
        412.125,
        4264.0,
        7.402,
        256.0,
        {"lm_loss": 7.402, "perplexity": 1637.99, "moe_lb_loss": 0.015625},
    )


def test_fields_that_are_not_there_are_unknown() -> None:
    rampup = read_line(made.RAMPUP)
    assert isinstance(rampup, StepLine)
    assert (rampup.step, rampup.rampup, rampup.seconds) == (0, True, 6.954)
    assert (rampup.tflops, rampup.tokens_per_s, rampup.loss) == (None, None, 7.516)
    boundary = read_line(made.BOUNDARY)
    assert isinstance(boundary, StepLine)
    assert (boundary.step, boundary.boundary, boundary.seconds) == (3, True, None)
    assert boundary.loss == 7.383


@pytest.mark.parametrize(("text", "kind"), [("nan", math.isnan), ("inf", math.isinf)])
def test_a_loss_that_is_no_number_stays_one(text: str, kind: object) -> None:
    said = read_line(made.step(3, loss=text))
    assert isinstance(said, StepLine)
    assert said.loss is not None
    assert callable(kind)
    assert kind(said.loss)
    minus = read_line("completed step: 1, loss: -inf")
    assert isinstance(minus, StepLine)
    assert minus.loss == -math.inf


def test_other_fields_are_kept_under_their_own_names() -> None:
    said = read_line(
        "completed step: 4, seconds: 1.000, live slice count: 2, main_model_loss: 7.000, "
        "mtp_loss: 0.300, indexer_loss: 0.25, diag: grad_norm=1.5 x=2"
    )
    assert isinstance(said, StepLine)
    assert said.extra == {
        "live slice count": 2.0,
        "main_model_loss": 7.0,
        "mtp_loss": 0.3,
        "indexer_loss": 0.25,
    }


def test_events_are_told_apart() -> None:
    assert read_line(made.config(steps=8)) == Event("steps", 8.0)
    assert read_line(made.config(steps=-1)) == Event("steps", -1.0)
    assert read_line(made.PARAMETERS) == Event("parameters", 0.007)
    kinds = [read_line(line) for line in made.EVALUATION.splitlines()]
    assert kinds == [Event("evaluation step", 1.0), Event("evaluation", 1.0)]
    assert read_line(made.STOPPED) == Event(
        "stopped", None, "Job received termination signal (SIGTERM)."
    )


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\n",
        made.config(steps_per_epoch=8),
        made.config(run_name="completed step: 3, seconds: 1.000"),
        "I1130 15:26:55.478812 14 m.py:265] Config param x: completed step: 3",
        "completed step: x, seconds: 1.000",
        "completed step: ١, seconds: 1.000",
        "completed step: 99999999999999, seconds: 1.000",
        "incompleted step: 3, seconds: 1.000",
        "Completed step 3",
        "\x00\xff completed step: 3",
    ],
)
def test_lines_that_only_look_like_it_are_none(line: str) -> None:
    assert read_line(line) is None


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    strip(text)
    read_line(text)
    said = read_line(f"completed step: 3, seconds: {text}, loss: 1.000")
    assert said is None or isinstance(said, StepLine)


@given(st.lists(st.sampled_from([*(p for p, _ in PREFIXES.values()), PLAIN, ": ", "] ", "\x1b["])))
def test_no_order_of_prefixes_is_too_odd(parts: list[str]) -> None:
    assert len(strip("".join(parts)).text) <= len("".join(parts))
    read_line("".join(parts))


@given(st.integers(0, 10**6), st.floats(0, 1e6), st.floats(0, 1e5), st.floats(allow_nan=False))
def test_what_is_written_is_read_back(
    step: int, seconds: float, tflops: float, loss: float
) -> None:
    line = f"completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: {tflops:.3f}, "
    said = read_line(f"{line}loss: {min(max(loss, -1e9), 1e9):.3f}")
    assert isinstance(said, StepLine)
    assert said.step == step
    assert said.seconds == pytest.approx(seconds, abs=5e-4)
    assert said.tflops == pytest.approx(tflops, abs=5e-4)
    assert said.loss == pytest.approx(min(max(loss, -1e9), 1e9), abs=5e-4)


@pytest.mark.parametrize("text", ["1_000", "0x10", "١", "infinity", "", "1,5", "--1", "1" * 100])
def test_numbers_of_another_form_are_none(text: str) -> None:
    assert number(text) is None


def test_every_release_of_the_table_has_a_format_and_an_unknown_one_the_newest() -> None:
    facts = read("log_formats.yaml")
    for release in facts["releases"]:
        assert log_format(release).step
        assert facts["releases"][release]["source"]
    assert log_format("9.9.9") == log_format(facts["default"]) == log_format()


# ---- Whole logs ------------------------------------------------------------------------------


def test_a_whole_log_is_read_in_order_plain_or_compressed(tmp_path: Path) -> None:
    text = made.config(steps=8) + made.RAMPUP + made.steps(8) + made.STOPPED
    (tmp_path / "plain.log").write_text(text)
    with gzip.open(tmp_path / "packed", "wt") as stream:
        stream.write(text)
    plain = list(read_log(tmp_path / "plain.log"))
    assert len(plain) == 11
    assert plain == list(read_log(tmp_path / "packed"))


def test_a_line_that_is_being_written_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(made.step(0) + made.step(12)[:-30])
    assert [line.step for line in read_log(path) if isinstance(line, StepLine)] == [0]


def test_a_damaged_archive_ends_the_log_and_what_came_before_counts(tmp_path: Path) -> None:
    packed = gzip.compress("".join(made.step(n, n * 1.37) for n in range(3000)).encode())
    path = tmp_path / "log.gz"
    path.write_bytes(packed[: len(packed) // 2])
    cut = [line.step for line in read_log(path) if isinstance(line, StepLine)]
    assert 100 < len(cut) < 3000
    assert cut == list(range(len(cut)))
    spoilt = bytearray(packed)
    spoilt[len(packed) // 2] ^= 0xFF
    path.write_bytes(bytes(spoilt))
    assert len(list(read_log(path))) < 3001


def test_memory_stays_flat_whatever_a_log_holds(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as stream:
        stream.write(b"\xff" * (8 << 20) + b"\n")  # one line of 8 MiB
        for number_of in range(20_000):
            stream.write(made.step(number_of).encode())
    tracemalloc.start()
    count = sum(isinstance(line, StepLine) for line in read_log(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 2 << 20


@given(st.binary(max_size=300), st.integers(1, 40))
def test_lines_are_those_of_the_bytes(data: bytes, longest: int) -> None:
    found = list(lines(io.BytesIO(data), longest, "surrogateescape"))
    wanted = [line[:longest] for line in data.split(b"\n")]
    if not wanted[-1]:
        wanted.pop()
    got = [line.rstrip("\n").encode("utf-8", "surrogateescape") for line in found]
    assert got == wanted
