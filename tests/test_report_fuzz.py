"""Whatever stands in logs and sinks, a report has right numbers or a plain statement.

No traceback, no figure without value and reason, no markup of a stranger in the page.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import sys
import time
from html.parser import HTMLParser
from math import isfinite
from pathlib import Path

import pytest

from moectl.actions.report import report
from moectl.report import forms
from moectl.report.context import Wish
from moectl.report.draw import svg
from moectl.report.measure import Report
from moectl.report.page import page
from moectl.report.plots import plots
from tests.support import report_logs as made
from tests.support import training_logs as real
from tests.test_logs_tensorboard import event, framed, scalar
from tests.test_validate_fuzz import nothing_runs  # noqa: F401 - a fixture

COUNT = int(os.environ.get("MOECTL_FUZZ", "2000"))
SEED = int(os.environ.get("MOECTL_FUZZ_SEED", "20261130"))
SLOWEST = 20.0  # seconds for one input; a guard against a hang, not a measure of speed
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&{{7*7}}"
NAMES = ("run.log", "rank-3.log", "-dash.log", "new\nline.log", "<b>.log", "ünï.log", "a$(x).log")
CRUMBS = (
    "completed step: ", "completed ", "seconds: ", "loss: nan", "loss: inf", "-1", "1e999", "\0",
    "99999999999999999999", "0.000", "\n", "\r\n", "\x1b[31m", "\u202e", ", ", ": ", "{", "}",
    "Config param run_name: " + HOSTILE + "\n", "Config param steps: x\n", "I1130 25:61:99.1 1 a] ",
    "I1231 23:59:59.999999 7 a.py:1] ", "I0101 00:00:01.000000 7 a.py:1] ", "7: ", "[pod/a/b] ",
    "Num_devices: 0\n", "Using (GB) 1 / 0 (nan%) on x\n", "[Rampup Batch Size Phase], ",
    "completed profiler activation/deactivation step: 2, loss: 1.000\n", "Training stopped: x\n",
    "Config param max_target_length: 99999999999999\n", "Config param profiler: xplane\n",
    "Config param decoder_block: deepseek\n", "TFLOP/s/device: nan", "Tokens/s/device: 0.000",
    "JobID|State|Start|End\n1|X|2026-01-01T00:00:00|2026-01-01T00:00:01\n",
)  # fmt: skip


def seeds() -> list[bytes]:
    """Return contents of files: those that are nearly right go deepest."""
    interleaved = "".join(
        f"{rank}: {made.absl(60.0 * step, 'm.py:1', made.step_text(step, 5.0, 3.0), 7)}"
        for step in range(8)
        for rank in range(3)
    )
    restarted = made.log(9) + made.beginning(900.0) + made.steps([5.0] * 6, 990.0, first=5)
    two_runs = (
        made.log(6)
        + made.beginning(500.0, said={"run_name": "other"})
        + made.steps([4.0] * 6, 600.0)
    )
    hostile = made.log(8, run_name=HOSTILE, model_name=HOSTILE)
    odd = real.RAMPUP + real.steps(8) + real.BOUNDARY + real.NAN + real.ABORT + real.EVALUATION
    sink = "".join(
        json.dumps({"learning/loss": 3.0 + step, "perf/step_time_seconds": 5.0, "step": step,
                    "learning/te_moe_max_total_recv_tokens": 5.0, "run_name": HOSTILE,
                    "learning/te_moe_recv_capacity_per_rank": 4.0 * (step % 2)}) + "\n"
        for step in range(10)
    )  # fmt: skip
    texts = [made.log(12), interleaved, restarted, two_runs, hostile, odd, sink, ""]
    events = framed(*(event(step, scalar("learning/loss", 3.0)) for step in range(8)))
    return [*(text.encode() for text in texts), events]


def spoilt(raw: bytes, draw: random.Random) -> bytes:
    """Return bytes with a few things put in, taken out, repeated, swapped or cut."""
    for _ in range(draw.randrange(1, 6)):
        at = draw.randrange(len(raw) + 1)
        end = min(len(raw), at + draw.randrange(1, 300))
        match draw.randrange(7):
            case 0:
                raw = raw[:at] + raw[end:]
            case 1:
                raw = raw[:at] + raw[at:end] * draw.randrange(2, 6) + raw[end:]
            case 2:
                raw = raw[:at] + draw.choice(CRUMBS).encode() * draw.choice((1, 1, 30)) + raw[at:]
            case 3:
                raw = raw[:at] + bytes(draw.randrange(256) for _ in range(9)) + raw[end:]
            case 4:
                lines = raw.split(b"\n")
                draw.shuffle(lines)
                raw = b"\n".join(lines)
            case 5:
                raw = re.sub(rb"\d", lambda _: b"%d" % draw.randrange(10), raw, count=40)
            case _:
                raw = raw[:at]
    return raw


class Tags(HTMLParser):
    """Gathers the tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


def judged(found: Report, *, drawn: bool) -> None:
    """Every figure has a value or a reason, and every form can be made."""
    for figure in found.figures.values():
        assert figure.value is not None or figure.why, figure
        assert figure.value is None or figure.formula, figure
    for name in ("mfu", "goodput", "step_time_s.median"):
        value = found.value(name)
        assert value is None or isfinite(value), (name, value)
    json.loads(json.dumps(forms.as_dict(found, explain=True), allow_nan=False))
    assert forms.text(found, explain=True)
    assert forms.as_csv(found).count("\n") == len(found.series.steps) + 1
    if drawn:
        text = page(found)
        text.encode()
        tags = Tags()
        tags.feed(text)
        assert not tags.tags & {"script", "img", "iframe", "object", "b"}
        assert not {name for name in tags.attributes if name.startswith("on")}
        for plot in plots(found):
            assert "nan" not in re.sub(r"<title>.*?</title>|<text.*?</text>", "", svg(plot))


@pytest.mark.usefixtures("nothing_runs")
def test_spoilt_logs_and_sinks_get_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw, known = random.Random(SEED), seeds()  # noqa: S311 - repeatable, not secret
    steps = notes = 0
    for number in range(COUNT):
        paths: list[Path] = []
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            raw = spoilt(draw.choice(known), draw)
            if draw.random() < 0.08:
                raw = gzip.compress(raw)[: draw.choice((None, 60))]
            path = tmp_path / f"{number}-{len(paths)}-{draw.choice(NAMES)}"
            path.write_bytes(raw)
            paths.append(path)
        started = time.monotonic()
        try:
            found = report([str(path) for path in paths], Wish(hardware="gb200"))
            judged(found, drawn=number % 4 == 0)
        except Exception as error:
            kept = [path.read_bytes() for path in paths]
            raise AssertionError(f"seed {SEED}, input {number}: {kept!r}") from error
        assert time.monotonic() - started < SLOWEST, f"seed {SEED}, input {number}"
        steps += len(found.series.steps)
        notes += len(found.notes)
        for path in paths:
            path.unlink()
    with capsys.disabled():
        sys.stdout.write(f" [{COUNT} spoilt inputs, seed {SEED}, {steps} steps, {notes} notes]")
    assert steps > COUNT
    assert notes > COUNT // 4
