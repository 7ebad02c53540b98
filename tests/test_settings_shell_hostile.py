"""No text makes the reader raise, run anything, or work for long."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import moectl.settings.shell as package
from moectl.settings.shell import (
    LIKELY,
    World,
    made_file,
    maxtext_commands,
    read,
    stray_directives,
)
from moectl.values import Origin
from moectl.workload import MARK, Text

TOKENS = (
    "srun ", "python3 -m MaxText.train ", "bash -c ", "'", '"', "$X", "${X:-a}", "${X", "$(", "`",
    ")", "(", "{ ", "}", "if ", "then ", "fi\n", "else ", "for i in ", "do ", "done\n",
    "case x in ", "a) ", ";; ", "esac\n", "export ", "X=", "ARGS=(", "ARGS+=(", '"${ARGS[@]}"',
    "<<EOF\n", "<<-'E'\n", "EOF\n", "E\n", ">f ", "cat ", "|", "&&", "||", ";", "&", "\n", "\\",
    "\\\n", " ", "$((", "))", "1", "+", "*", "?", "[", "]", "~", "é", "\0", "\r\n", "#",
    "#SBATCH -N ", "--mem=", "unset X\n", "set -- ", "shift\n", "f() ", "f\n", "exit\n",
    "return\n", "source f\n", "eval ", "local X", "\t", "while ", "true ", "[ a = $X ] ",
    "[[ $X == 1 ]] ", "env ", "A=1 ", "sbatch --wrap=", "docker run ", "exec ", "$'", "\\x41",
    "a{b,c}", "a{1..3}", "$@", "$1", "${#X}", "${X[0]}", "-", "--", "read X", "IFS=,", "bash f\n",
    "tee f ", "${X#a}", "${X%%*b}", "${X//a/b}", "${X/#}", "${X:1}", "${X:-${Y:-1}}", "| tr a b",
    "python3 -m maxtext.train a.yml ", "bash g\n", "source g\n", "./g\n", "srun --export=ALL,X=1 ",
    "[ -z $Y ] ", "[[ $Y == 1 ]] ", "docker run --env-file E ", "ssh h ", "XLA_FLAGS = ", "\\ \n",
    "\ud800", "\u2028", "\x85",
)  # fmt: skip


def follow(text: str) -> None:
    reading = read(text, "f")
    stray_directives(text)
    lines = text.replace("\r\n", "\n").split("\n")
    for step in reading.batch.steps:
        for start in maxtext_commands(step):
            for word in start.words:
                for piece in word.pieces:
                    check_place(
                        piece.text, piece.raw, piece.origin.line, piece.origin.column, lines
                    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(TOKENS), max_size=40).map("".join))
def test_no_world_and_no_file_beside_raises(text: str) -> None:
    files = {"f": "srun a ${X:-b}\nsource g\n", "g": text, "E": "A=1\n"}
    certain = read(text, "s/job.sh", files.get)
    for world in (LIKELY, World(assumes=True, branch=0), *certain.doubts.worlds):
        found = read(text, "s/job.sh", files.get, world)
        assert found.doubts.worlds == ()
        assert len(found.batch.steps) <= 20_000
        for path in found.files:
            made_file(found.files, Text.of(path, Origin(path)))


def check_place(
    text: str, raw: str, line: int | None, column: int | None, lines: list[str]
) -> None:
    """What a piece says stands where it says."""
    assert line is not None
    assert column is not None
    if text != MARK and not raw:
        there = (lines[line - 1] + "\n").replace(MARK, "\ufffd")
        assert there[column - 1 :].startswith(text)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(TOKENS), max_size=60).map("".join))
def test_no_row_of_tokens_raises_and_every_piece_stands_where_it_says(text: str) -> None:
    follow(text)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_no_text_at_all_raises(text: str) -> None:
    follow(text)


@pytest.mark.parametrize(
    "unit",
    [
        "((", "{", "if ", "`", "$((", "<<EOF\n", "'", '"', "case x in ", "for i in ", "${x:-",
        "a <<E <<E\n", "function f {", "[[ ", "a|", "a && ", "$(", '"$(', "cat <<A\n$(\n",
        "if a; then b; ", "while a; do ", "for i in 1 2 3 4; do ", 'X="$X$X"\n', 'X="$X a"\n',
        'A=("${A[@]}" "${A[@]}")\n', "f() { f; f; }; f\n", "srun a b\n", "srun srun ",
        "eval 'X=1'\n", "bash -c 'srun b'\n", "cat >> f <<E\nsrun x\nE\nbash f\n", "env ",
        'set -- "$@" "$@"\n', "f(){ a; }\nf\nf\n", '"\\""', "$A", "x{a,b}", "#SBATCH -N 1\n",
        "for a in 1 2 3 4 5 6 7 8; do for b in 1 2 3 4 5 6 7 8; do for c in 1 2 3 4 5 6 7 8; do "
        "for d in 1 2 3 4 5 6 7 8; do for e in 1 2 3 4 5 6 7 8; do srun x; done; done; done; "
        "done; done\n",
    ],
)  # fmt: skip
def test_work_and_memory_are_bounded_whatever_is_repeated(unit: str) -> None:
    reading = read(unit * (40_000 // len(unit)), "f")
    assert len(reading.batch.steps) <= 20_000
    pieces = sum(len(t.pieces) for s in reading.batch.steps[-1:] for t in s.environment.values())
    assert pieces <= 100_000


def test_a_text_doubled_forty_times_is_given_up_and_not_written_out() -> None:
    reading = read("A=0123456789\n" + 'A="$A$A"\n' * 40 + "export A\n", "f")
    assert MARK in reading.batch.environment["A"].text
    assert len(reading.batch.environment["A"].text) <= 1 << 20


def test_the_reader_imports_nothing_that_could_run_anything() -> None:
    folder = Path(package.__file__).parent
    imported: set[str] = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    assert imported <= {
        "__future__", "bisect", "collections", "contextlib", "dataclasses", "functools",
        "itertools", "moectl", "posixpath", "re", "typing",
    }  # fmt: skip


def test_a_file_cannot_say_the_mark_of_what_is_unknown() -> None:
    reading = read("export A='x\0y'\n", "f")
    assert reading.batch.environment["A"].known
    assert reading.batch.environment["A"].text == "x\ufffdy"


def test_a_script_too_deep_or_too_long_says_so() -> None:
    assert not read("( " * 100 + "srun x" + ")" * 100, "f").complete
    assert not read("x y\n" * 20_000, "f").complete
    assert read("srun x\n", "f").complete
