"""Every way to lay GPUs out, and none that cannot be."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.planner.meshes import Layout, Space, has_mesh, matches, meshes, nearest, slices, ways

AXES = ("data", "fsdp", "expert", "tensor")


def space(
    gpus: int, node: int = 4, domain: int = 64, experts: int | None = 256, **changes: object
) -> Space:
    said = {"ici": ("fsdp", "expert"), "dcn": ("fsdp",), **changes}
    return Space(gpus, node, domain, said["ici"], said["dcn"], experts)  # type: ignore[arg-type]


@given(st.integers(1, 256), st.integers(0, 4))
def test_degrees_multiply_to_the_number_and_no_way_comes_twice(number: int, axes: int) -> None:
    found = ways(number, AXES[:axes])
    assert len(found) == len(set(found))
    assert all(prod(degree for _, degree in way) == number for way in found)
    assert all(degree > 1 for way in found for _, degree in way)
    assert bool(found) is (axes > 0 or number == 1)


@pytest.mark.parametrize(("axes", "count"), [(1, 1), (2, 7), (3, 28), (4, 84)])
def test_a_power_of_two_has_as_many_ways_as_combinatorics_says(axes: int, count: int) -> None:
    assert len(ways(64, AXES[:axes])) == count


@given(
    st.integers(1, 80),
    st.sampled_from([1, 4, 8]),
    st.sampled_from([8, 16, 64]),
    st.sampled_from([None, 8, 60, 256]),
)
def test_every_mesh_has_the_gpus_whole_nodes_a_domain_and_divided_experts(
    nodes: int, node: int, domain: int, experts: int | None
) -> None:
    asked = space(nodes * node, node, domain, experts)
    found = list(meshes(asked))
    assert len(found) == len(set(found))
    for mesh in found:
        size = prod(degree for _, degree in mesh.ici)
        assert size * prod(degree for _, degree in mesh.dcn) == asked.gpus
        assert size % node == 0
        assert size <= domain
        assert (experts or 1) % mesh.degree("ici", "expert") == 0
    assert found == list(meshes(asked))


def test_the_published_mesh_is_among_them() -> None:
    published = Layout((("fsdp", 8), ("expert", 8)), (("fsdp", 2),))
    assert published in set(meshes(space(128)))
    assert str(published) == "ici fsdp 8 x expert 8, dcn fsdp 2"
    assert published.totals() == (("expert", 8), ("fsdp", 16))
    assert matches(published, {("ici", "expert"): 8, ("dcn", "data"): 1})
    assert not matches(published, {("ici", "fsdp"): 16})


def test_an_axis_that_stays_in_a_node_does() -> None:
    asked = Space(64, 4, 64, ("fsdp", "tensor"), ("fsdp",), None, ("tensor",))
    assert {mesh.degree("ici", "tensor") for mesh in meshes(asked)} == {1, 2, 4}


def test_a_number_without_a_mesh_gets_the_nearest_that_have_one() -> None:
    asked = space(12, node=8, domain=8)
    assert slices(asked) == []
    assert not has_mesh(asked)
    assert nearest(asked, 10, 100) == [8, 16]
    assert nearest(space(4, node=8, domain=8), 10, 100) == [8]
