"""Whatever stands in a file, validate answers with findings: no traceback, no hang, nothing run."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from moectl.actions.validate import Given, validate
from moectl.findings import SEVERITIES

COUNT = int(os.environ.get("MOECTL_FUZZ", "2000"))
SEED = int(os.environ.get("MOECTL_FUZZ_SEED", "20261130"))
SLOWEST = 20.0  # seconds for one file; a guard against a hang, not a measure of speed
ENDINGS = ("yml", "sh", "sbatch", "env", "txt", "yaml", "json", "")
NAMES = ("plain", "two words", "-dash", "new\nline", "tab\t", "quote'\"", "ünïcode", "$(touch x)")
CRUMBS = (
    "#SBATCH ",
    "srun ",
    "--container-image=",
    "export ",
    "XLA_FLAGS=",
    "--xla_gpu_",
    "base_config: ",
    "apiVersion: ",
    "kind: JobSet\n",
    "$(",
    "${",
    "`",
    "<<EOF\n",
    "EOF\n",
    "'",
    '"',
    "\\\n",
    "\t",
    "\0",
    "\ufeff",
    "\u2028",
    "\x1b[31m",
    "&a [*a]",
    "<<: *a",
    "!!python/object:os.system ",
    "{{ x }}",
    "- ",
    ": ",
    "=",
    "  ",
    "\r\n",
    "1e999",
    "999999999999999999999",
    "-1",
    "model_name: deepseek3-671b\n",
    "|",
    ">",
    "ici_fsdp_parallelism: -1\n",
    "if true; then\n",
    "fi\n",
    "((",
    "))",
    "[[",
    "]]",
    "~",
    "NaN",
    "on",
    "é",
)


def seeds() -> list[str]:
    """Return the texts of the cases: files that are nearly right go deepest."""
    folder = Path(__file__).parent / "cases"
    return [
        case["text"]
        for path in sorted(folder.glob("*.yaml"))
        for case in yaml.safe_load(path.read_text("utf-8"))
        if "text" in case
    ]


def spoilt(text: str, draw: random.Random) -> bytes:
    """Return a text with a few things put in, taken out, repeated or cut."""
    for _ in range(draw.randrange(1, 6)):
        at = draw.randrange(len(text) + 1)
        end = min(len(text), at + draw.randrange(1, 12))
        match draw.randrange(5):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:at] + text[at:end] * draw.randrange(2, 6) + text[end:]
            case 2:
                text = text[:at] + draw.choice(CRUMBS) * draw.choice((1, 1, 1, 40)) + text[at:]
            case 3:
                text = text[:at] + chr(draw.randrange(1, 0xD7FF)) + text[end:]
            case _:
                text = text[:at]
    raw = text.encode("utf-8", "replace")
    if draw.random() < 0.05:
        raw = raw[: len(raw) // 2] + bytes(draw.randrange(256) for _ in range(20)) + raw[-10:]
    return raw


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every way to start a process or open a connection fail the test."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a checked file made moectl start or connect to something")

    for module, name in (
        (subprocess, "Popen"), (os, "system"), (os, "popen"), (os, "fork"), (os, "execv"),
        (os, "posix_spawn"), (socket, "socket"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, never)


@pytest.mark.usefixtures("nothing_runs")
def test_spoilt_files_get_findings_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw, known = random.Random(SEED), seeds()  # noqa: S311 - repeatable, not secret
    found = 0
    for number in range(COUNT):
        raw = spoilt(draw.choice(known), draw)
        ending = draw.choice(ENDINGS)
        path = tmp_path / f"{draw.choice(NAMES)}{number}{'.' if ending else ''}{ending}"
        path.write_bytes(raw)
        started = time.monotonic()
        try:
            report = validate([str(path)], Given())
        except Exception as error:
            raise AssertionError(f"seed {SEED}, input {number}: {raw!r}") from error
        assert time.monotonic() - started < SLOWEST, f"seed {SEED}, input {number}: {raw!r}"
        assert [checked.name for checked in report.checked] == [str(path)]
        for finding in report.findings:
            assert finding.severity in SEVERITIES
            assert finding.message
            assert "Traceback" not in finding.message
        found += len(report.findings)
        path.unlink()
    with capsys.disabled():
        sys.stdout.write(f" [{COUNT} spoilt files, seed {SEED}, {found} findings]")
    assert found > COUNT // 4
