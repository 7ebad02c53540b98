"""Colours, bars and remarks stand on a terminal, and nowhere that a program reads."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from moectl.__main__ import main
from moectl.cli.numbers import whole, wholes
from moectl.errors import ValueUsageError
from moectl.reports.columns import age, columns
from tests.support.terminal import terminal

SHOW = [sys.executable, "-m", "moectl", "show", "deepseek3-671b", "--set", "sparse_matmul=false"]
SLOW = """
import sys, time, types
from moectl.__main__ import run
from moectl.cli.command import Command
from moectl.cli.manner import remark
def go(**_):
    time.sleep(1.5); remark('compiling'); time.sleep(1.5); print('answer'); return 0
slowly = types.ModuleType('slowly'); slowly.go = go; sys.modules['slowly'] = slowly
sys.exit(run(Command('slow', '', 'slowly:go'), VALUES))
"""
ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("more", "variables", "coloured"),
    [
        ([], {}, True),
        ([], {"NO_COLOR": "1"}, False),
        (["--color", "never"], {}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
    ],
)
def test_findings_have_colours_on_a_terminal_unless_somebody_minds(
    more: list[str], variables: dict[str, str], coloured: bool
) -> None:
    with terminal([*SHOW, *more], ROOT, variables) as shown:
        assert shown.until_end() == 1
    assert ("\x1b[1;31merror\x1b[0m TE101" in shown.screen) is coloured


def test_what_is_piped_has_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(SHOW[3:]) == 1
    said = capsys.readouterr()
    assert "error TE101" in said.err
    assert "\x1b" not in said.out + said.err


@pytest.mark.parametrize(
    ("values", "shows"), [({}, True), ({"quiet": True}, False), ({"format": "json"}, False)]
)
def test_what_takes_long_shows_a_bar_on_a_terminal(values: dict[str, object], shows: bool) -> None:
    program = SLOW.replace("VALUES", repr(values))
    with terminal([sys.executable, "-c", program], ROOT) as shown:
        assert shown.until_end() == 0
    assert ("━" in shown.screen) is shows
    assert shown.screen.endswith("answer\r\n")
    assert ("moectl: compiling" in shown.screen) is ("quiet" not in values)


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (["render", "nothing"], 2, "UnknownNameError"),
        (["render", "none.yaml"], 4, "LocalFilesError"),
        (["render"], 2, "UsageError"),
        (["render", "deepseek3-671b", "--set", "sparse_matmul=false"], 1, "FindingsError"),
    ],
)
def test_an_error_is_one_json_document(
    words: list[str], code: int, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--format", "json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert (told["error"]["exit_code"], told["error"]["kind"]) == (code, kind)
    assert bool(told["findings"]) is (kind == "FindingsError")


def test_numbers_and_tables_are_read_and_written_one_way() -> None:
    assert wholes("--x", "8, 64", "numbers") == [8, 64]
    for text in ("0", "", "-1", "٣", "1.0", "9" * 10):
        with pytest.raises(ValueUsageError):
            whole("--x", text, "a whole number")
    assert list(columns(("A", "B"), [("x", "10")], {1})) == ["A   B", "x  10"]
    assert [age(s) for s in (5, 65, 7200, 90000)] == ["5s", "1m", "2h", "1d"]
