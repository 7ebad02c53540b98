"""The templates and their filters."""

from __future__ import annotations

import shlex
import subprocess

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.render import templates

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def sbatch_reads(line: str) -> str:
    """Read one word as sbatch reads a line (src/sbatch/opt.c, _get_argument)."""
    word, mark, position = "", "", 0
    while position < len(line):
        character = line[position]
        if character == "\\":
            position += 1
            word += line[position]
        elif mark:
            mark, word = ("", word) if character == mark else (mark, word + character)
        elif character in "'\"":
            mark = character
        elif character == "#" or character.isspace():
            break
        else:
            word += character
        position += 1
    return word


def test_a_name_nobody_gives_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = templates._environment()
    with pytest.raises(jinja2.UndefinedError):
        environment.from_string("{{ nobody }}").render({})


@given(TEXTS)
def test_a_quoted_text_is_one_word_of_the_shell(text: str) -> None:
    assert shlex.split(templates.quote(text)) == [text]


def test_a_real_shell_reads_quoted_texts_back() -> None:
    texts = [
        "",
        "-n",
        "a b",
        "it's",
        '"',
        "$(id)",
        "`id`",
        "a\nb",
        "\\",
        "é☃😀",
        "~",
        "*",
        "!x",
        "#",
    ]
    script = "printf '%s\\0' " + " ".join(map(templates.quote, texts))
    for shell in ("sh", "bash"):
        done = subprocess.run([shell, "-c", script], capture_output=True, check=True)
        assert done.stdout.decode().split("\0")[:-1] == texts


@given(TEXTS.filter(str.isprintable))
def test_sbatch_reads_a_value_back(text: str) -> None:
    assert sbatch_reads(templates.sbatch(text)) == text


@given(TEXTS)
def test_a_comment_stays_on_its_line(text: str) -> None:
    shown = templates.comment(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1


def test_a_printable_comment_is_left_as_it_is() -> None:
    assert templates.comment("preset deepseek3-671b, é") == "preset deepseek3-671b, é"
    assert templates.comment("a\nrm -rf x") == "a\\nrm -rf x"
