"""Names and texts in manifests: legal whatever they are made of, and read back as they were."""

from __future__ import annotations

import re

import yaml
from hypothesis import given
from hypothesis import strategies as st

from moectl.kubernetes_names import LONGEST, channel_name, object_name
from moectl.render import manifest_yaml
from moectl.render.kubernetes_pod import _literal
from tests.support.pods import expanded

_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
# What YAML can carry at all: no lone surrogates and no control characters.
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("\n\t"))


@given(st.text(max_size=300), st.text(max_size=20))
def test_a_name_is_a_label_with_room_for_those_of_pods(text: str, unique: str) -> None:
    name = object_name(text, unique=unique)
    assert _LABEL.fullmatch(name)
    assert len(name) <= LONGEST
    assert len(f"{name}-node-0-99999-abcde") <= 63
    assert len(channel_name(name)) <= 63
    assert object_name(text, unique=unique) == name


@given(st.text(max_size=100), st.text(max_size=100))
def test_texts_that_differ_get_names_that_differ(one: str, other: str) -> None:
    assert (object_name(one) == object_name(other)) == (one == other)


@given(st.dictionaries(st.sampled_from(["a", "b", "on"]), TEXTS | st.integers() | st.booleans()))
def test_a_manifest_reads_back_as_it_was(document: dict[str, object]) -> None:
    written = manifest_yaml.text([("a comment\n\nof lines", {"data": document})])
    assert yaml.safe_load(written) == {"data": document}


@given(st.text())
def test_nothing_of_a_value_is_expanded(text: str) -> None:
    assert expanded(_literal(text), {"HOME": "x", "a": "y"}) == text
