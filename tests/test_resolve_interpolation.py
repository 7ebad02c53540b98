"""${key} as OmegaConf resolves it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.resolve.interpolation import Absent, InterpolationError, resolved
from moectl.workload import UNKNOWN

SAID: dict[str, Any] = {
    "steps": 5, "b": True, "n": None, "f": 1e-3, "l": [1, 2], "d": {"x": 3}, "s": "txt",
    "a": "${steps}", "loop": "${loop}", "dark": UNKNOWN, "key": "steps",
}  # fmt: skip


def look(key: str) -> Any:
    if key not in SAID:
        raise Absent
    return SAID[key]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("${steps}", 5),
        ("x${steps}", "x5"),
        ("$", "$"),
        ("${steps}}", "5}"),
        ("\\${steps}", "${steps}"),
        ("\\\\${steps}", "\\5"),
        ("${b}x", "Truex"),
        ("${n}x", "Nonex"),
        ("${n}", None),
        ("${f}x", "0.001x"),
        ("${l}", [1, 2]),
        ("${d.x}", 3),
        ("${d[x]}", 3),
        ("${l[0]}", 1),
        ("${l.0}", 1),
        ("${.steps}", 5),
        ("${ steps }", 5),
        ("${s}-${steps}", "txt-5"),
        ("${a}", 5),
        ("$${steps}", "$5"),
        ("${oc.env:HOME}", UNKNOWN),
        ("${dark}", UNKNOWN),
        ("x${dark}", UNKNOWN),
        ("${${key}}", 5),
        ("${${dark}}", UNKNOWN),
        (["${steps}", 1], [5, 1]),
        ({"k": "${steps}"}, {"k": 5}),
        ({"k": ["${dark}"]}, UNKNOWN),
        (7, 7),
    ],
)
def test_a_reference_stands_for_what_it_names(text: Any, made: Any) -> None:
    result = resolved(text, look)
    assert result is made or (result == made and type(result) is type(made))


@pytest.mark.parametrize(
    "text",
    [
        "${steps", "${}", "${nope}", "${profil!!er}", "${a,b}", "${..steps}", "${ste ps}",
        "${foo:1}", "${steps:}", "${a'b}", "${a..b}", "${a.}", "${d.y}", "${l.7}", "${.}",
        "${loop}", "${d.x.y}", "${${s}}", "${${steps}}", ["${nope}"], {"k": "${nope}"},
    ],
)  # fmt: skip
def test_what_omegaconf_refuses_is_refused_in_one_clause(text: Any) -> None:
    with pytest.raises(InterpolationError) as caught:
        resolved(text, look)
    assert str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="${}\\.:[]ab0 '", max_size=12))
def test_no_text_does_anything_but_resolve_or_be_refused(text: str) -> None:
    try:
        made = resolved(text, look)
    except InterpolationError:
        return
    if "${" not in text:
        assert made == text
