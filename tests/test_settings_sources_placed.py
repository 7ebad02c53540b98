"""What is read of a text inside a file is put where its characters stand in the file."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.findings import Finding
from moectl.settings.sources.placed import UNKNOWN_WORD, Inner, Mover
from moectl.settings.sources.written import Written
from moectl.values import Origin, Value
from moectl.workload import MARK, Manifest, Option, Piece, Step, Text

PIECES = [
    Piece("one ", Origin("m", "f", 3, 5)),
    Piece("\n", Origin("m", "f", 3, 9), "\\n"),
    Piece("two\n", Origin("m", "f", 4, 2)),
    Piece(MARK, Origin("m", "f", 7, 1), "{{ x }}"),
    Piece("end", Origin("m", "f", 7, 8)),
]
INNER = Inner(PIECES)


def at(line: int, column: int) -> Origin:
    return Origin("s", "inner", line, column)


def test_a_line_and_column_of_the_text_are_a_place_in_the_file() -> None:
    assert INNER.text == f"one \ntwo\n{UNKNOWN_WORD}end"
    places = {
        (1, 1): (3, 5), (1, 4): (3, 8), (1, 5): (3, 9), (2, 1): (4, 2), (2, 3): (4, 4),
        (3, 1): (7, 1), (3, 5): (7, 1), (3, 1 + len(UNKNOWN_WORD)): (7, 8), (99, 1): (7, 1),
    }  # fmt: skip
    for (line, column), place in places.items():
        found = INNER.place(line, column)
        assert (found.line, found.column) == place
    assert INNER.place(None, None).line == 3
    assert Inner([]).place(1, 1) == Origin("nowhere")


def test_everything_that_names_the_text_is_moved_and_nothing_else() -> None:
    move = Mover({"inner": INNER})
    text = Text((Piece("a", at(2, 1)), Piece("b", Origin("m", "other", 1, 1))))
    step = Step("srun", (Option("-n", text, at(1, 1), "-n"),), (text,), at(1, 2), {"A": text})
    moved = move(Step("bash", (), (), at(2, 2), inside=(step,)))
    assert moved.origin == Origin("s", "f", 4, 3)
    inside = moved.inside[0]
    assert inside.origin.column == 6
    assert [piece.origin.line for piece in inside.words[0].pieces] == [4, 1]
    assert inside.environment["A"] is inside.words[0]
    value = move(Written(3, at(2, 1), overrode=((4, at(1, 1)),), raw="3", spot=at(2, 3)))
    assert isinstance(value, Written)
    assert (value.origin.line, value.spot and value.spot.column) == (4, 4)
    assert value.overrode[0][1].line == 3
    plain = Value({"a": [1, 2]}, Origin("m", "f", 1, 1))
    assert move(plain) == plain
    manifest = Manifest({}, {(): at(1, 1)})
    assert move(manifest) is manifest


def test_a_finding_is_moved_and_loses_a_replacement_that_would_not_fit() -> None:
    move = Mover({"inner": INNER})
    found = Finding("A1", "error", "x", "m", "h", file="inner", line=2, column=2, fix=("a", "b"))
    moved = move(found)
    assert (moved.file, moved.line, moved.column, moved.fix) == ("f", 4, 3, None)
    other = Finding("A1", "error", "x", "m", "h", file="g", line=2, column=2, fix=("a", "b"))
    assert move(other) == other


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(alphabet="ab\n", max_size=5), max_size=6), st.data())
def test_every_character_goes_to_its_own_piece(texts: list[str], data: st.DataObject) -> None:
    pieces = [Piece(text, Origin("m", "f", n + 1, 1)) for n, text in enumerate(texts)]
    inner = Inner(pieces)
    if not inner.text:
        return
    offset = data.draw(st.integers(0, len(inner.text) - 1))
    before = inner.text[:offset]
    line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
    owners = [n for n, text in enumerate(texts) for _ in text]
    assert inner.place(line, column).line == owners[offset] + 1
