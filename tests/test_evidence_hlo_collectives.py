"""Counting collectives: pairs once, loops by their trips, and how far each reaches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.evidence.hlo_collectives import Collective, Places, collectives, tally
from moectl.evidence.hlo_groups import GroupsError
from moectl.evidence.hlo_text import module

ALL = "replica_groups={{0,1,2,3,4,5,6,7}}"
SENT = "source_target_pairs={{0,1}}"
PLACES = Places(range(8), per_slice=4, per_domain=2)


def found(body: str, entry: str = "", places: Places = PLACES) -> list[Collective]:
    """Return the collectives of a module with one computation beside its entry."""
    lines = ["HloModule m", "", "%inner (p: f32[4]) -> f32[4] {", "  %p = f32[4]{0} parameter(0)"]
    lines += [f"  {line}" for line in body.splitlines()]
    lines += ["}", "", "ENTRY %main (q: f32[4]) -> f32[4] {", "  %q = f32[4]{0} parameter(0)"]
    lines += [
        f"  {line}" for line in (entry or "%c = f32[4]{0} call(%q), to_apply=%inner").splitlines()
    ]
    return collectives(module("\n".join([*lines, "}", ""])), places)


def only(body: str, entry: str = "", places: Places = PLACES) -> Collective:
    (one,) = found(body, entry, places)
    return one


@pytest.mark.parametrize(
    ("line", "kind", "size"),
    [
        (f"%x = f32[32]{{0}} all-gather(%p), {ALL}, dimensions={{0}}", "all-gather", 128),
        (f"%x = f32[4]{{0}} all-reduce(%p), {ALL}, to_apply=%add", "all-reduce", 16),
        (f"%x = f32[1]{{0}} reduce-scatter(%p), {ALL}, to_apply=%add", "reduce-scatter", 16),
        (f"%x = f32[4]{{0}} all-to-all(%p), {ALL}", "all-to-all", 16),
        (f"%x = (f32[4]{{0}}, f32[4]{{0}}) all-to-all(%p, %p), {ALL}", "all-to-all", 32),
        (f"%x = f32[9]{{0}} ragged-all-to-all(%p, %p, %p, %p), {ALL}", "ragged-all-to-all", 16),
        (f"%x = f32[4]{{0}} collective-permute(%p), {SENT}", "collective-permute", 16),
        (f"%x = f32[4]{{0}} collective-broadcast(%p), {ALL}", "collective-broadcast", 16),
    ],
)  # fmt: skip
def test_kind_and_bytes_of_every_collective(line: str, kind: str, size: int) -> None:
    one = only(line)
    assert (one.kind, one.bytes, one.runs, one.sure) == (kind, size, 1, True)


PAIRS = {
    "all-gather": f"""\
%s = (f32[4]{{0}}, f32[32]{{0}}) all-gather-start(%p), {ALL}
%d = f32[32]{{0}} all-gather-done(%s)""",
    "all-reduce": f"""\
%s = f32[4]{{0}} all-reduce-start(%p), {ALL}, to_apply=%add
%d = f32[4]{{0}} all-reduce-done(%s)""",
    "collective-permute": """\
%s = (f32[4]{0}, f32[4]{0}, u32[], u32[]) collective-permute-start(%p), source_target_pairs={{0,1}}
%d = f32[4]{0} collective-permute-done(%s)""",
    "ragged-all-to-all": f"""\
%s = ((f32[4]{{0}}, f32[4]{{0}}, s64[4]{{0}}), f32[4]{{0}}) ragged-all-to-all-start(%p, %p), {ALL}
%d = f32[4]{{0}} ragged-all-to-all-done(%s)""",
}


@pytest.mark.parametrize("kind", PAIRS)
def test_a_pair_of_start_and_done_is_one_collective(kind: str) -> None:
    one = only(PAIRS[kind])
    assert (one.kind, one.runs) == (kind, 1)
    assert one.bytes in {16, 24, 128}


def test_a_collective_wrapped_in_a_start_of_any_kind_is_found_once() -> None:
    entry = """\
%s = ((f32[4]{0}), f32[1]{0}) async-start(%q), calls=%inner
%u = ((f32[4]{0}), f32[1]{0}) async-update(%s), calls=%inner
%d = f32[1]{0} async-done(%u), calls=%inner"""
    one = only(f"%x = f32[1]{{0}} reduce-scatter(%p), {ALL}, to_apply=%add", entry)
    assert (one.kind, one.runs) == ("reduce-scatter", 1)


def test_a_collective_inside_a_fusion_is_found_once() -> None:
    entry = """\
%s = ((f32[4]{0}), f32[4]{0}) fusion-start(%q), kind=kLoop, calls=%inner
%d = f32[4]{0} fusion-done(%s)"""
    assert only(f"%x = f32[4]{{0}} all-reduce(%p), {ALL}, to_apply=%add", entry).runs == 1


LOOP = (
    "%w = f32[4]{0} while(%q), condition=%none, body=%inner, "
    'backend_config={"known_trip_count":{"n":"58"}}'
)


def test_what_stands_in_a_loop_runs_as_often_as_the_loop() -> None:
    one = only(f"%x = f32[4]{{0}} all-to-all(%p), {ALL}", LOOP)
    assert (one.runs, one.sure) == (58, True)


def test_a_loop_of_unknown_trips_counts_once_and_says_so() -> None:
    one = only(f"%x = f32[4]{{0}} all-to-all(%p), {ALL}", "%w = f32[4]{0} while(%q), body=%inner")
    assert (one.runs, one.sure) == (1, False)


def test_a_loop_that_never_runs_has_none() -> None:
    assert found(f"%x = f32[4]{{0}} all-to-all(%p), {ALL}", LOOP.replace("58", "0")) == []


def test_a_computation_that_is_called_twice_counts_twice() -> None:
    entry = """\
%c = f32[4]{0} call(%q), to_apply=%inner
%e = f32[4]{0} call(%c), to_apply=%inner"""
    assert only(f"%x = f32[4]{{0}} all-to-all(%p), {ALL}", entry).runs == 2


def test_a_transfer_to_the_host_is_no_collective() -> None:
    line = "%x = (f32[4]{0}, u32[]) send(%p), channel_id=1, is_host_transfer=true"
    assert found(line) == []


def test_a_transfer_between_devices_tells_its_pairs() -> None:
    line = (
        "%x = (f32[4]{0}, u32[], token[]) send(%p), channel_id=1, "
        "frontend_attributes={_xla_send_recv_source_target_pairs={{0,4},{4,0}}}"
    )
    one = only(line)
    assert (one.kind, one.group, one.reach) == ("send", 2, "slices")


@pytest.mark.parametrize(
    ("groups", "reach"),
    [
        ("{{0,1},{2,3},{4,5},{6,7}}", "domain"),
        ("{{0,2},{1,3},{4,6},{5,7}}", "domains"),
        ("{{0,1,2,3},{4,5,6,7}}", "domains"),
        ("{{0,4},{1,5},{2,6},{3,7}}", "slices"),
        ("mesh['dcn'=2,'ici'=4] {'ici'}", "domains"),
        ("mesh['dcn'=2,'ici'=4] {'dcn'}", "slices"),
        ("[4,2]<=[8]", "domain"),
        ("[4,2]<=[2,4]T(1,0)", "slices"),
    ],
)
def test_how_far_a_collective_reaches(groups: str, reach: str) -> None:
    one = only(f"%x = f32[4]{{0}} all-to-all(%p), replica_groups={groups}")
    assert one.reach == reach


def test_participants_are_places_in_the_mesh_and_not_devices() -> None:
    # The mesh puts devices 0 and 4 side by side, so participants 0 and 1 are in two slices.
    turned = Places([0, 4, 1, 5, 2, 6, 3, 7], per_slice=4, per_domain=2)
    one = only("%x = f32[4]{0} all-to-all(%p), replica_groups=[4,2]<=[8]", places=turned)
    assert one.reach == "slices"


def test_groups_in_no_known_form_are_not_guessed() -> None:
    with pytest.raises(GroupsError):
        found("%x = f32[4]{0} all-to-all(%p), replica_groups={{a}}")


@given(st.lists(st.tuples(st.sampled_from(["all-gather", "all-to-all"]), st.integers(1, 9))))
def test_a_tally_loses_nothing(rows: list[tuple[str, int]]) -> None:
    made = [Collective("n", kind, runs, True, 10, 2, "domain") for kind, runs in rows]
    summed = tally(made)
    assert sum(int(row["runs"]) for row in summed.values()) == sum(runs for _, runs in rows)
    assert sum(int(row["bytes"]) for row in summed.values()) == 10 * sum(r for _, r in rows)
    assert sum(int(row["instructions"]) for row in summed.values()) == len(rows)


def test_a_tally_keeps_kinds_in_order_and_unsure_ones_marked() -> None:
    made = [
        Collective("a", "all-to-all", 1, True, 1, 2, "domain"),
        Collective("b", "all-gather", 1, True, 1, 2, "slices"),
        Collective("c", "all-gather", 1, False, 1, 2, "domain"),
    ]
    summed = tally(made)
    assert list(summed) == [
        ("all-gather", "domain"), ("all-gather", "slices"), ("all-to-all", "domain"),
    ]  # fmt: skip
    assert [row["sure"] for row in summed.values()] == [False, True, True]
