"""Which devices take part in a collective, in every form XLA writes."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.evidence.hlo_groups import GroupsError, replica_groups, source_target_pairs, transposed


def test_explicit_groups_are_read() -> None:
    assert replica_groups("{{0,1},{2,3}}", 4) == ((0, 1), (2, 3))


def test_groups_of_unlike_sizes_are_read() -> None:
    assert replica_groups("{{0},{1,2}}", 3) == ((0,), (1, 2))


def test_an_empty_list_is_one_group_of_all() -> None:
    assert replica_groups("{}", 3) == ((0, 1, 2),)


def test_iota_groups_are_read() -> None:
    assert replica_groups("[2,4]<=[8]", 8) == ((0, 1, 2, 3), (4, 5, 6, 7))


def test_turned_iota_groups_are_read() -> None:
    assert replica_groups("[4,2]<=[2,4]T(1,0)", 8) == ((0, 4), (1, 5), (2, 6), (3, 7))


def test_groups_along_an_axis_of_a_mesh_are_read() -> None:
    assert replica_groups("mesh['a'=2,'b'=4] {'b'}", 8) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert replica_groups("mesh['a'=2,'b'=4] {'a'}", 8) == ((0, 4), (1, 5), (2, 6), (3, 7))


def test_groups_along_two_axes_follow_their_order() -> None:
    assert replica_groups("mesh['a'=2,'b'=2] {'b','a'}", 4) == ((0, 2, 1, 3),)


def test_names_of_a_mesh_need_no_quotes() -> None:
    assert replica_groups("mesh[a=2,b=2] {a}", 4) == ((0, 2), (1, 3))


def test_groups_along_a_part_of_an_axis_are_read() -> None:
    # The part of size 2 with nothing before it is the outermost: 0 goes with 4.
    assert replica_groups("mesh['a'=8] {'a':(1)2}", 8) == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert replica_groups("mesh['a'=8] {'a':(2)4}", 8) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert replica_groups("mesh['a'=8] {'a':(2)2}", 8) == ((0, 2), (1, 3), (4, 6), (5, 7))


def test_devices_of_a_mesh_may_be_turned_or_written_out() -> None:
    turned = replica_groups("mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'b'}", 4)
    assert turned == ((0, 2), (1, 3))
    assert replica_groups("mesh['a'=2,'b'=2], device_ids=(0,3,1,2) {'b'}", 4) == ((0, 3), (1, 2))


def test_no_axis_of_a_mesh_is_a_group_for_each_device() -> None:
    assert replica_groups("mesh['a'=2] {}", 2) == ((0,), (1,))


def test_pairs_are_read() -> None:
    assert source_target_pairs("{{0,1},{1,0}}") == ((0, 1), (1, 0))
    assert source_target_pairs("{}") == ()


@st.composite
def grids(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    return shape, draw(st.permutations(range(len(shape))))


@given(grids())
def test_a_turned_grid_is_read_as_numpy_reads_it(grid: tuple[list[int], list[int]]) -> None:
    shape, order = grid
    wanted = np.arange(prod(shape)).reshape(shape).transpose(order).ravel().tolist()
    assert list(transposed(shape, order)) == wanted


@given(grids(), st.data())
def test_iota_groups_are_what_numpy_makes_of_them(
    grid: tuple[list[int], list[int]], data: st.DataObject
) -> None:
    source, order = grid
    total = prod(source)
    size = data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
    text = f"[{total // size},{size}]<=[{','.join(map(str, source))}]"
    if order != list(range(len(source))):
        text += f"T({','.join(map(str, order))})"
    wanted = np.arange(total).reshape(source).transpose(order).reshape(-1, size)
    assert replica_groups(text, total) == tuple(map(tuple, wanted.tolist()))


@given(grids(), st.data())
def test_groups_of_a_mesh_are_what_numpy_makes_of_them(
    grid: tuple[list[int], list[int]], data: st.DataObject
) -> None:
    shape, order = grid
    chosen = order[: data.draw(st.integers(0, len(order)))]
    axes = ",".join(f"'x{at}'={size}" for at, size in enumerate(shape))
    names = ",".join(f"'x{at}'" for at in chosen)
    text = f"mesh[{axes}] {{{names}}}"
    outside = [at for at in range(len(shape)) if at not in chosen]
    size = prod(shape[at] for at in chosen)
    wanted = np.arange(prod(shape)).reshape(shape).transpose([*outside, *chosen])
    assert replica_groups(text, prod(shape)) == tuple(map(tuple, wanted.reshape(-1, size).tolist()))


@given(grids(), st.data())
def test_every_device_is_in_one_group(
    grid: tuple[list[int], list[int]], data: st.DataObject
) -> None:
    shape, order = grid
    name = data.draw(st.sampled_from(order))
    axes = ",".join(f"'x{at}'={size}" for at, size in enumerate(shape))
    found = replica_groups(f"mesh[{axes}] {{'x{name}'}}", prod(shape))
    assert sorted(device for group in found for device in group) == list(range(prod(shape)))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_a_part_of_an_axis_is_what_numpy_makes_of_it(before: int, size: int, after: int) -> None:
    total = before * size * after
    found = replica_groups(f"mesh['a'={total}] {{'a':({before}){size}}}", total)
    wanted = np.arange(total).reshape(before, size, after).transpose(0, 2, 1).reshape(-1, size)
    assert found == tuple(map(tuple, wanted.tolist()))


@pytest.mark.parametrize(
    "text",
    [
        "0,1", "{0,1}x", "{{0,a}}", "[2,4]", "[2,4]<=[9]", "[2,4]<=[8]T(1,0)", "[0]<=[0]",
        "[2]<=[1000000000]", "[99999999,9999999]<=[99999999,9999999]", "mesh['a'=2", "mesh['a'] {}",
        "mesh['a'=2] {'b'}", "mesh['a'=8] {'a':(3)2}", "mesh['a'=8] {'a':2}", "mesh['a'=2] x",
        "mesh['a'=2,'a'=2] {'a'}", "mesh['a'=99999999] {'a'}",
        "mesh['a'=4], device_ids=(0,1) {'a'}",
    ],
)  # fmt: skip
def test_what_is_no_group_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(GroupsError) as refused:
        replica_groups(text, 8)
    assert str(refused.value)


def test_pairs_of_three_are_refused() -> None:
    with pytest.raises(GroupsError, match="no list of pairs"):
        source_target_pairs("{{0,1,2}}")


@given(st.text(alphabet="mesh[]{}()<=T,0123456789'ab: ", max_size=40))
def test_no_text_does_worse_than_be_refused(text: str) -> None:
    try:
        found = replica_groups(text, 4)
    except GroupsError:
        return
    assert all(isinstance(device, int) for group in found for device in group)
