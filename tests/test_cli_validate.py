"""moectl validate: options, exit codes, where the report goes, and --fix."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from moectl.__main__ import main
from moectl.actions import validate as action
from moectl.actions.validate import Checked, Outcome, Report
from moectl.cli import manner
from moectl.cli import validate as command
from moectl.cli.commands import COMMANDS
from moectl.findings import Finding
from moectl.given import Given
from moectl.reports import FORMATS

ERROR = Finding("YAML101", "error", "a", "is a boolean", "quote it", "run.yml", 1, 4)
KNOWN = ("XLA101", "XLA102", "YAML101", "MESH101")


class Stand:
    """Stands in for the action: says what it was told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.findings: tuple[Finding, ...] = ()
        self.asked: list[tuple[list[str], Given]] = []

    def __call__(self, paths: Sequence[str], given: Given) -> Report:
        self.asked.append((list(paths), given))
        checked = tuple(Checked(path, "run file", "a: off\n") for path in paths)
        return Report(self.findings, checked, 0)

    def outcomes(self, paths: Sequence[str], given: Given) -> Iterator[Outcome]:
        report = self(paths, given)
        found = report.findings
        for checked in report.checked:
            yield Outcome(checked, found)
            found = ()


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    monkeypatch.chdir(tmp_path)
    stand = Stand()
    monkeypatch.setattr(action, "validate", stand)
    monkeypatch.setattr(action, "outcomes_of", stand.outcomes)
    monkeypatch.setattr("moectl.suppress.known_codes", lambda: KNOWN)
    return stand


def test_every_option_reaches_the_action(stand: Stand) -> None:
    words = ["--gpus", "64", "--gpus-per-node=4", "--hardware", "gb200", "--image", "i:t"]
    words += ["--maxtext", "0.2.5", "--jaxlib", "0.8.3", "--probe", "p.json"]
    words += ["--select", "XLA, mesh101", "--select=YAML1", "--ignore", "XLA102"]
    assert main(["validate", "a.yml", "-", *words, "--xla-flags=--xla_x=1"]) == 0
    assert stand.asked == [
        (
            ["a.yml", "-"],
            Given(
                gpus=64,
                gpus_per_node=4,
                hardware="gb200",
                image="i:t",
                maxtext="0.2.5",
                jaxlib="0.8.3",
                probe="p.json",
                xla_flags=("--xla_x=1",),
                select=("XLA", "MESH101", "YAML1"),
                ignore=("XLA102",),
            ),
        )
    ]


@pytest.mark.parametrize(
    ("severity", "strict", "code"),
    [("error", False, 1), ("warning", False, 0), ("warning", True, 1), ("note", True, 0)],
)
def test_the_exit_code_follows_the_severity(
    stand: Stand, severity: Any, strict: bool, code: int
) -> None:
    stand.findings = (Finding("YAML101", severity, "a", "m", file="run.yml"),)
    assert main(["validate", "run.yml", *(["--strict"] if strict else [])]) == code


@pytest.mark.parametrize(
    "words",
    [
        [],
        [""],
        ["-", "-"],
        ["a", "--gpus", "0"],
        ["a", "--gpus=-4"],
        ["a", "--gpus", "many"],
        ["a", "--gpus", "٣"],
        ["a", "--gpus", "9" * 5000],
        ["a", "--gpus-per-node", "1.5"],
        ["a", "--hardware", ""],
        ["a", "--probe="],
        ["a", "--output="],
        ["a", "--select", "NOPE"],
        ["a", "--select", "X"],
        ["a", "--ignore", "XLA,"],
        ["a", "--format", "xml"],
        ["a", "--diff", "--format", "json"],
        ["a", "--diff", "--output", "x"],
        ["a", "--diff", "--yes"],
        ["a", "--yes"],
        ["a", "--nope"],
    ],
)
@pytest.mark.parametrize("form", [[], ["--format", "json"]])
def test_what_cannot_be_meant_is_said_on_standard_error_and_to_programs_as_json(
    stand: Stand, words: list[str], form: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = [] if "--format" in words else form
    assert main(["validate", *words, *given]) == 2
    said = capsys.readouterr()
    if "json" in [*words, *given]:
        assert json.loads(said.out)["error"]["exit_code"] == 2
    else:
        assert said.out == ""
    assert said.err
    assert stand.asked == []


def test_an_unknown_code_gets_the_nearest(stand: Stand, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "a", "--select", "MEHS101"]) == 2
    assert "--select: unknown code or family 'MEHS101'; did you mean 'MESH101'" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("form", "begin"),
    [
        ("text", "run.yml:1:4: error[YAML101] a: is a boolean\n1 | a: off\n  |    ^\n"),
        ("json", '{\n  "findings": ['),
        ("github", "::error file=run.yml,line=1,col=4,title=YAML101::a: is a boolean%0A"),
        ("sarif", '{\n  "$schema"'),
        ("junit", '<?xml version="1.0"'),
    ],
)
def test_every_format_goes_to_standard_output_or_a_file(
    stand: Stand,
    form: str,
    begin: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "_rules", lambda _: {})
    stand.findings = (ERROR,)
    assert main(["validate", "run.yml", "--format", form]) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith(begin)
    assert printed.err == ""
    monkeypatch.setattr(command, "_now", lambda: "2026-01-01T00:00:00")
    assert main(["validate", "run.yml", "--format", form, "--output", "report"]) == 1
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err == "moectl: 1 error in 1 file\n"
    assert Path("report").read_text("utf-8").startswith(begin)


def test_the_formats_offered_are_those_that_can_be_written() -> None:
    declared = next(one for one in COMMANDS if one.name == "validate")
    offered = next(option.choices for option in declared.options if option.flag == "--format")
    assert offered == FORMATS


def test_an_output_that_cannot_be_written_exits_with_4(
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "run.yml", "--output", "no/such/folder"]) == 4
    assert "nothing was written" in capsys.readouterr().err


def test_colours_need_a_terminal_that_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        def __init__(self, terminal: bool) -> None:
            self.isatty = lambda: terminal

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert manner.colourful(Stream(True))
    assert not manner.colourful(Stream(False))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not manner.colourful(Stream(True))
    monkeypatch.setenv("NO_COLOR", "")
    assert manner.colourful(Stream(True))
    monkeypatch.setenv("TERM", "dumb")
    assert not manner.colourful(Stream(True))


@pytest.fixture
def fixable(stand: Stand) -> Stand:
    Path("run.yml").write_bytes(b"a: off  # why\r\n")
    stand.findings = (
        Finding("YAML101", "error", "a", "m", "h", "run.yml", 1, 4, fix=("off", '"off"')),
    )
    return stand


DIFF = '--- a/run.yml\n+++ b/run.yml\n@@ -1 +1 @@\n-a: off  # why\r\n+a: "off"  # why\r\n'


def test_diff_shows_the_change_and_changes_nothing(
    fixable: Stand, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "run.yml", "--diff"]) == 1
    assert capfd.readouterr().out.replace("\r", "") == DIFF.replace("\r", "")
    assert Path("run.yml").read_bytes() == b"a: off  # why\r\n"


def test_fix_without_a_terminal_shows_and_changes_nothing(
    fixable: Stand, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Path(os.devnull).open() as nobody:
        monkeypatch.setattr(sys, "stdin", nobody)
        assert main(["validate", "run.yml", "--fix"]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("--- a/run.yml\n")
    assert "nothing was changed; --fix --yes" in said.err
    assert Path("run.yml").read_bytes() == b"a: off  # why\r\n"


def test_fix_with_yes_writes_and_checks_again(
    fixable: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "run.yml", "--fix", "--yes", "--format", "json"]) == 1
    said = capsys.readouterr()
    assert len(json.loads(said.out)["findings"]) == 1  # the stand finds the same again
    assert said.err.startswith("--- a/run.yml\n")
    assert "fixed 1 in 1 file\n" in said.err
    assert Path("run.yml").read_bytes() == b'a: "off"  # why\r\n'
    assert len(fixable.asked) == 2


def test_with_standard_input_what_was_fixed_is_left_out(
    fixable: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "run.yml", "-", "--fix", "--yes"]) == 0
    assert "no faults in 2 inputs" in capsys.readouterr().out
    assert len(fixable.asked) == 1


def test_a_remedy_in_a_file_that_was_not_named_is_left(
    fixable: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    fixable.findings = (
        Finding("YAML101", "error", "a", "m", "h", "base.yml", 1, 4, fix=("off", "on")),
    )
    Path("base.yml").write_text("a: off\n")
    assert main(["validate", "run.yml", "--fix", "--yes"]) == 1
    said = capsys.readouterr().err
    assert "nothing that can be fixed safely" in said
    assert "1 could not be fixed" in said
    assert Path("base.yml").read_text() == "a: off\n"


@pytest.mark.parametrize(("answer", "changed"), [("y\n", True), ("\n", False), ("n\n", False)])
def test_at_a_terminal_the_answer_decides(
    fixable: Stand, answer: str, changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pty.openpty()
    try:
        with os.fdopen(os.dup(theirs), "r") as terminal, os.fdopen(theirs, "w") as shown:
            monkeypatch.setattr(sys, "stdin", terminal)
            monkeypatch.setattr(sys, "stderr", shown)
            os.write(ours, answer.encode())
            main(["validate", "run.yml", "--fix"])
    finally:
        os.close(ours)
    assert (b'"off"' in Path("run.yml").read_bytes()) is changed


PLAIN = """
import sys
from moectl.actions import validate as action
one = action.Outcome(action.Checked("run.yml", "run file"), ())
action.outcomes_of = lambda paths, given: [one]
from moectl.__main__ import main
code = main(["validate", "run.yml"])
heavy = {"typer", "click", "rich", "pydantic", "jinja2", "difflib", "tempfile", "jax"}
print(sorted(heavy & set(sys.modules)), code)
"""


def test_the_plain_form_loads_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] 0"
