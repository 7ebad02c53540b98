"""What the help shows can be typed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from moectl.__main__ import main
from moectl.cli.commands import COMMANDS
from tests.support import report_logs

# These start other programs, for seconds to minutes; the tests of `evidence` do what they do.
RENEWALS = {
    "facts maxtext", "facts xla", "facts weights", "env install", "env remove", "rehearse",
    "prove",
}  # fmt: skip
# These want a cluster, a registry or a run; the tests of launch do what they do.
ELSEWHERE = {
    "doctor", "image pull", "launch", "runs", "status", "logs", "cancel", "resume", "trace",
    "verify", "import", "climb", "calibrate",
}  # fmt: skip
EXAMPLES = [
    example
    for command in COMMANDS
    if command.name not in RENEWALS | ELSEWHERE
    for example in command.examples
]


def test_every_command_shows_an_example() -> None:
    assert [command.name for command in COMMANDS if not command.examples] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_help_runs(
    example: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text("preset: deepseek3-671b\ngpus: 64\n", "utf-8")
    Path("site.yaml").write_text("partition: batch\n", "utf-8")
    for name in ("run.log", "other.log"):
        Path(name).write_text(report_logs.log(40), "utf-8")
    report_logs.metrics(Path("metrics.jsonl"), report_logs.times(40))
    program, *words = shlex.split(example)
    assert program == "moectl"
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.out or "moectl: wrote " in said.err
