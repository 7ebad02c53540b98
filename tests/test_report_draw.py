"""Plots: round ticks, whole shapes, gaps where there is no number."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.report.draw import NARROW, WIDE, svg, tick_text, ticks, value_rows
from moectl.report.draw_png import png
from moectl.report.plots import Curve, Plot, Point, thinned

NAN = float("nan")


def plot(*points: tuple[float, float], **more: object) -> Plot:
    curve = Curve("a", tuple(Point(x, y, f"at {x}") for x, y in points))
    return Plot("name", "Title", "x", "y", (curve,), **more)  # type: ignore[arg-type]


@given(st.floats(-1e12, 1e12), st.floats(0, 1e12), st.integers(2, 9))
def test_ticks_enclose_the_values_and_are_few_and_evenly_spaced(
    low: float, wide: float, most: int
) -> None:
    high = low + wide
    found = ticks(low, high, most)
    assert 2 <= len(found) <= 2 * most + 2
    # What is less than a millionth of a tick's distance is not seen.
    unseen = (abs(low) + wide + found[1] - found[0]) * 1e-6
    assert found[0] <= low + unseen
    assert found[-1] >= high - unseen
    steps = [after - before for before, after in pairwise(found)]
    assert all(step == pytest.approx(steps[0], rel=1e-3, abs=1e-3) for step in steps)


@pytest.mark.parametrize(
    ("value", "step", "text"),
    [
        (0.0, 1, "0"),
        (2.5, 2.5, "2.5"),
        (0.012, 0.002, "0.012"),
        (8e6, 2e6, "8M"),
        (4096, 1, "4,096"),
    ],
)
def test_ticks_are_written_with_the_digits_that_tell_them_apart(
    value: float, step: float, text: str
) -> None:
    assert tick_text(value, step) == text


@given(
    st.lists(
        st.tuples(st.floats(0, 1e9), st.one_of(st.just(NAN), st.floats(-1e30, 1e30))), max_size=30
    ),
    st.booleans(),
)
def test_any_points_make_a_drawing_that_is_xml_without_nan(
    points: list[tuple[float, float]], doubling: bool
) -> None:
    for size in (WIDE, NARROW):
        text = svg(plot(*points, doubling=doubling), size, alone=True)
        root = ElementTree.fromstring(text)  # noqa: S314 - our own
        assert root.tag.endswith("svg")
        drawn = re.sub(r"<title>.*?</title>|<text.*?</text>|<style>.*?</style>", "", text)
        assert not re.search(r"\bnan\b|\binf\b", drawn)


def test_a_line_breaks_where_there_is_no_number_and_a_lonely_point_is_seen() -> None:
    text = svg(plot((0, 1), (1, NAN), (2, 3), (3, 4)))
    (path,) = re.findall(r'class="c0 line" d="([^"]*)"', text)
    assert path.count("M") == 2
    assert "h.1" in path
    assert text.count("<title>") == 3


def test_what_lies_beyond_the_span_is_marked_at_the_edge() -> None:
    points = tuple(Point(x, y, "p") for x, y in ((0.0, 5.0), (1.0, 44.9), (2.0, 0.3)))
    drawn = Plot("n", "T", "x", "y", (Curve("a", points, "hollow"),), span=(4.0, 6.0))
    text = svg(drawn)
    assert text.count('<path class="c0 hollow"') == 2
    assert text.count('<circle class="c0 hollow"') == 1


def test_text_of_strangers_stays_text() -> None:
    hostile = '</text><script>"\x00\x1b'
    curve = Curve(hostile, (Point(0, 1, hostile), Point(1, 2, hostile)))
    drawn = Plot("n", hostile, hostile, hostile, (curve, curve), names=(hostile, hostile))
    text = svg(drawn, alone=True)
    assert "<script>" not in text
    ElementTree.fromstring(text)  # noqa: S314 - our own
    assert png(drawn).startswith(b"\x89PNG")


def test_the_highest_and_lowest_of_many_points_are_drawn() -> None:
    said = [(at, float(at % 7)) for at in range(10_000)]
    said[4321] = (4321, 99.0)
    said[777] = (777, -99.0)
    found = thinned(said)
    assert len(found) <= 241
    assert {(4321, 99.0), (777, -99.0)} <= set(found)
    assert found == sorted(found)
    assert thinned([(0, NAN), (1, NAN)], 1) == [(0, NAN)]


def test_the_table_of_values_is_short_and_has_the_ends() -> None:
    rows = value_rows(plot(*((float(x), float(x)) for x in range(100))))
    assert rows[0] == ("x", "a")
    assert (rows[1][0], rows[-1][0]) == ("0", "99")
    assert len(rows) == 25
