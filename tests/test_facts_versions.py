"""Which catalogues judge a job."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.errors import UnknownNameError
from moectl.facts import images, maxtext, xla
from moectl.facts.probed import Probed, read_probe
from moectl.facts.versions import adopt, key_verdict, oldest, releases_for
from tests.test_facts_probed import document

NEW_IN_025 = "te_moe_block"


def image(date: str) -> Any:
    return images.image(f"ghcr.io/nvidia/jax:maxtext-{date}")


def probed(**changes: object) -> Probed:
    return read_probe(json.dumps(document() | changes), "image.json")


def test_a_date_between_two_releases_is_judged_by_both_and_says_so() -> None:
    chosen = releases_for(image("2026-09-09"))
    assert chosen.between
    assert chosen.maxtext_release == "0.2.5"
    assert chosen.maxtext_neighbours == ("0.2.4", "0.2.5")
    assert chosen.jaxlib_neighbours == ("0.10.2", "0.11.2")
    assert chosen.notes[0] == (
        "ghcr.io/nvidia/jax:maxtext-2026-09-09 is of a date between MaxText 0.2.4 (2026-08-21) and "
        "0.2.5 (2026-10-02); 0.2.5 stands for it"
    )


def test_a_date_after_every_release_has_one_neighbour() -> None:
    chosen = releases_for(image("2027-01-31"))
    assert not chosen.between
    assert chosen.maxtext_neighbours == ("0.2.5",)
    assert chosen.jaxlib_neighbours == ("0.12.0.1",)
    assert "is newer than every catalogued jaxlib" in chosen.notes[1]


def test_a_date_before_every_release_is_judged_by_the_oldest() -> None:
    chosen = releases_for(image("2025-02-03"))
    assert not chosen.between
    assert chosen.jaxlib_neighbours == ("0.8.3",)
    assert "is older than every catalogued MaxText" in chosen.notes[0]


def test_an_image_without_date_and_no_image_at_all_are_judged_by_what_stands_for_them() -> None:
    chosen = releases_for(images.image("registry.example/team's/maxtext:v7"))
    assert (chosen.maxtext_release, chosen.between) == ("0.2.5", False)
    assert "is unknown; 0.2.5 stands for it" in chosen.notes[0]
    assert releases_for(None).maxtext_release == images.image(images.default_image()).maxtext


def test_a_named_release_is_stronger_than_a_date_and_a_probe() -> None:
    chosen = releases_for(image("2026-09-09"), "0.2.4", "0.8.3", probed())
    assert (chosen.maxtext_release, chosen.jaxlib_release) == ("0.2.4", "0.8.3")
    assert chosen.maxtext_neighbours == ("0.2.4",)
    assert (chosen.between, chosen.notes) == (False, ())


def test_a_probe_is_stronger_than_a_date() -> None:
    chosen = releases_for(image("2026-09-09"), probed=probed())
    assert chosen.jaxlib_release == "0.11.2.dev20260909"
    assert (chosen.between, chosen.notes) == (False, ())


@pytest.mark.parametrize("named", [("0.2.55", None), (None, "0.11"), ("", None), (None, "../x")])
def test_a_release_that_is_not_catalogued_is_a_usage_error(
    named: tuple[str | None, str | None],
) -> None:
    with pytest.raises(UnknownNameError):
        releases_for(None, *named)


def test_a_key_that_one_neighbour_has_is_unsure_and_one_that_none_has_is_refused() -> None:
    between = image("2026-09-09")
    assert key_verdict(NEW_IN_025, between) == "unsure"
    assert key_verdict("steps", between) == "known"
    assert key_verdict("stepz", between) == "refused"
    assert key_verdict(NEW_IN_025, image("2026-10-30")) == "known"
    assert key_verdict(NEW_IN_025, image("2026-07-01")) == "refused"


def test_a_nested_key_counts_with_its_dot_on_a_command_line_only() -> None:
    assert key_verdict("lora.lora_rank", None, argument=True) == "known"
    assert key_verdict("lora.lora_rank", None) == "refused"


def test_an_adopted_probe_judges_keys_and_flags_by_its_own_tables() -> None:
    found = adopt(probed(), "registry.example/maxtext:v7")
    assert found.probed
    assert found.reference == "registry.example/maxtext:v7"
    assert maxtext.load(found.maxtext).keys() == ("steps", "attention", "lora")
    assert xla.load(found.jaxlib).names() == ("xla_gpu_new",)
    assert found.maxtext == "0.2.5 of image.json"
    assert found.baked_flags == {"xla_gpu_enable_latency_hiding_scheduler": "true"}
    assert key_verdict("attention", found) == "known"
    assert key_verdict(NEW_IN_025, found) == "refused"
    assert maxtext.load("0.2.5").key(NEW_IN_025) is not None


def test_a_second_probe_of_the_same_name_takes_the_place_of_the_first() -> None:
    first = adopt(probed(), "a:b")
    data = document()
    data["xla"]["flags"]["xla_gpu_other"] = ["bool", "true", "bool optional", "", "", ""]
    second = adopt(read_probe(json.dumps(data), "image.json"), "a:b")
    assert first.jaxlib == second.jaxlib
    assert xla.load(second.jaxlib).has("xla_gpu_other")


def test_a_probe_of_an_image_without_maxtext_leaves_that_to_the_date() -> None:
    found = adopt(probed(maxtext=None), "ghcr.io/nvidia/jax:jax-2026-09-09")
    assert not found.probed
    assert found.maxtext == "0.2.5"
    assert xla.load(found.jaxlib).has("xla_gpu_new")


def test_the_oldest_catalogues_have_dates() -> None:
    assert oldest("maxtext") == ("0.2.4", "2026-08-21")
    assert oldest("jaxlib") == ("0.8.3", "2026-01-29")


@given(st.dates())
def test_every_date_has_catalogued_neighbours_that_hold_its_release_or_bound_it(date: Any) -> None:
    chosen = releases_for(image(date.isoformat()))
    assert set(chosen.maxtext_neighbours) <= set(maxtext.releases())
    assert set(chosen.jaxlib_neighbours) <= set(xla.releases())
    assert chosen.maxtext_neighbours
    assert chosen.jaxlib_neighbours
    assert chosen.notes
