"""Every character of a YAML scalar is put where it stands, whatever its quotes and folds."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.settings.sources.scalars import placed_scalar
from moectl.values import Origin
from moectl.workload import Piece


def pieces(text: str) -> tuple[str, list[Piece]]:
    """Return value and pieces of the scalar under the key `a`."""
    whole = yaml.compose(text, Loader=yaml.SafeLoader)
    assert whole is not None
    node = whole.value[0][1]
    style = node.style or ""
    line, column = node.start_mark.line + 1, node.start_mark.column + 1
    line += style in {"|", ">"}
    origin = Origin("manifest", "m.yml", 1, 1)
    return node.value, placed_scalar(node.value, style, text.split("\n"), line, column, origin)


CASES = {
    "escaped line ends": (
        'a: "set -e; \\\n   export A=\'b\'; \\\n   run x"\n',
        {"set": (1, 5), "export": (2, 4), "run": (3, 4)},
    ),
    "folded lines": ('a: "one\n   two\n\n   three"\n', {"one": (1, 5), "two": (2, 4),
                                                         "three": (4, 4)}),
    "line ends that are written": ('a: "one \\\\\\n two"\n', {"one": (1, 5), "two": (1, 14)}),
    "escapes": ('a: "\\x41\\u00e4 b\\tc"\n', {"A": (1, 5), "ä": (1, 9), "b": (1, 16),
                                              "c": (1, 19)}),
    "single quotes": ("a: 'it''s\n  here'\n", {"it": (1, 5), "s": (1, 9), "here": (2, 3)}),
    "plain": ("a: one two\n  three # no\n", {"one": (1, 4), "three": (2, 3)}),
    "literal": ("a: |\n  one\n    two\n", {"one": (2, 3), "two": (3, 5)}),
    "folded": ("a: >-\n  one two\n  three\n\n  one\n", {"two": (2, 7), "three": (3, 3)}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_word_is_put_in_its_line_and_column(name: str) -> None:
    text, places = CASES[name]
    value, found = pieces(text)
    assert "".join(piece.text for piece in found) == value
    for word, place in places.items():
        piece = next(piece for piece in found if word in piece.text)
        assert piece.origin.column is not None
        at = 0 if piece.raw else piece.text.index(word)
        assert (piece.origin.line, piece.origin.column + at) == place


def test_a_value_that_the_text_does_not_explain_stands_at_its_beginning() -> None:
    found = placed_scalar("other", '"', ['a: "text"'], 1, 4, Origin("m", "f", 1, 1))
    assert [(piece.text, piece.origin.line, piece.origin.column) for piece in found] == [
        ("other", 1, 5)
    ]


PART = st.sampled_from(["word", "a b", "'", '\\"', "\\\\", "\\n", "\\t", "\\x41", " ", "ü", "$(A)"])
BREAK = st.sampled_from(["\n  ", " \n  ", "\n\n  ", " \\\n  ", "\\\n  ", ""])


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(PART, BREAK), max_size=12))
def test_the_pieces_of_a_quoted_scalar_are_its_value(parts: list[tuple[str, str]]) -> None:
    inside = "".join(part + end for part, end in parts)
    text = f'a: "x{inside}"\n'
    value, found = pieces(text)
    assert "".join(piece.text for piece in found) == value
    lines = text.split("\n")
    for piece in found:
        place = piece.origin
        assert place.line is not None
        assert place.column is not None
        if not piece.raw and piece.text.strip():
            assert lines[place.line - 1].startswith(piece.text, place.column - 1)
        elif piece.raw:
            assert lines[place.line - 1].startswith(piece.raw, place.column - 1)


@settings(max_examples=200, deadline=None)
@given(
    st.text(max_size=40),
    st.sampled_from(["", "'", '"', "|", ">"]),
    st.lists(st.text(max_size=20), max_size=4),
    st.integers(1, 9),
)
def test_any_value_and_any_lines_give_the_value_back(
    value: str, style: str, lines: list[str], column: int
) -> None:
    found = placed_scalar(value, style, lines, 1, column, Origin("m", "f", 1, 1))
    assert "".join(piece.text for piece in found) == value
