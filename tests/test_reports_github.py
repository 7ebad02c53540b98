"""Workflow commands of GitHub Actions, read back as its runner reads them."""

from __future__ import annotations

import re

import pytest

from moectl.actions.validate import Checked, Report
from moectl.findings import Finding
from moectl.reports import Look, rendered

COMMAND = re.compile(r"::(?P<name>error|warning|notice) (?P<properties>[^:]*)::(?P<message>.*)")


def said(*findings: Finding, name: str = "run.yml") -> list[dict[str, str]]:
    """Return the commands with their escapes undone."""
    text = rendered(Report(findings, (Checked(name, "run file", "a\nb\n"),), 0), "github")
    commands = []
    for line in text.splitlines()[:-1]:
        match = COMMAND.fullmatch(line)
        assert match is not None, line
        pairs = dict(pair.split("=", 1) for pair in match["properties"].split(","))
        fields = {key: undo(value) for key, value in pairs.items()}
        commands.append({"name": match["name"], "message": undo(match["message"]), **fields})
    return commands


def undo(text: str) -> str:
    for code, letter in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, letter)
    return text


def test_a_command_names_file_line_column_and_code() -> None:
    finding = Finding("XLA101", "error", "XLA_FLAGS", "50% lost: a, b", "drop it", "run.yml", 2, 5)
    assert said(finding) == [
        {
            "name": "error",
            "file": "run.yml",
            "line": "2",
            "col": "5",
            "title": "XLA101",
            "message": "XLA_FLAGS: 50% lost: a, b\nhelp: drop it",
        }
    ]


@pytest.mark.parametrize(
    ("severity", "command"), [("error", "error"), ("warning", "warning"), ("note", "notice")]
)
def test_each_severity_has_its_command(severity: str, command: str) -> None:
    finding = Finding("A1", severity, "", "m", file="run.yml")  # type: ignore[arg-type]
    assert said(finding)[0]["name"] == command


@pytest.mark.parametrize(
    "name", ["a,b:c.yml", "a\nb::error::x.yml", "100%25.yml", "a\r.yml", "a b"]
)
def test_a_hostile_name_stays_one_property(name: str) -> None:
    [command] = said(Finding("A1", "error", "", "m", file=name, line=1), name=name)
    assert command["file"] == name


def test_what_no_stream_can_say_is_escaped() -> None:
    name = "a\x1b[1m\udcff.yml"
    [command] = said(Finding("A1", "error", name, name, name, file=name), name=name)
    assert command["file"] == "a\\x1b[1m\\xff.yml"
    assert "\x1b" not in command["message"]


def test_a_message_cannot_start_a_command_of_its_own() -> None:
    text = rendered(
        Report((Finding("A1", "error", "", "x\n::add-mask::y\r::debug::z", file="f"),), (), 0),
        "github",
        Look(quiet=True),
    )
    assert [line[:8] for line in text.splitlines()] == ["::error "]


def test_what_is_in_no_file_is_said_in_the_message() -> None:
    [command] = said(Finding("A1", "error", "gpus", "too many", file="--gpus"))
    assert "file" not in command
    assert command["message"].startswith("--gpus: gpus: too many")


def test_standard_input_is_no_file() -> None:
    [command] = said(Finding("A1", "error", "", "m", file="-", line=3), name="-")
    assert set(command) == {"name", "title", "message"}
    assert command["message"] == "-:3: m"


def test_the_summary_is_a_plain_line() -> None:
    assert rendered(Report((), (), 0), "github") == "no faults in 0 files\n"
    assert rendered(Report((), (), 0), "github", Look(quiet=True)) == ""
