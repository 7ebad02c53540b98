"""How many slices there are: the hardware's, else the degrees', never a guess."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.facts import maxtext
from moectl.facts.hardware import platform
from moectl.resolve.derived import derived
from moectl.resolve.derived_slices import node_is_domain, slices_of
from moectl.resolve.effective import effective
from moectl.values import Hardware, Origin, Value
from moectl.workload import MARK, UNKNOWN, Text

CATALOGUE = maxtext.load("0.2.5")
HERE = Origin("a")
HGX, NVL = platform("h100"), platform("gb200")
INDEX = "JAX_PARTITION_INDEX"


def values(**said: Any) -> dict[str, Any]:
    config = {key: Value(value, HERE) for key, value in said.items()}
    config["base_config"] = Value("base.yml", HERE)
    return effective(config, {}, CATALOGUE)


def slices(
    devices: int | None,
    nodes: int | None,
    hardware: Hardware | None = None,
    index: str | None = None,
    **said: Any,
) -> int | None:
    environment = {} if index is None else {INDEX: Text.of(index, HERE)}
    return slices_of(values(**said), devices, nodes, hardware, environment)


@pytest.mark.parametrize("nodes", [1, 2, 4, 9])
def test_every_host_without_a_fabric_is_a_slice_whatever_the_degrees_say(nodes: int) -> None:
    assert slices(8 * nodes, nodes, HGX) == nodes
    assert slices(8 * nodes, None, HGX) == nodes
    assert slices(8 * nodes, nodes, HGX, dcn_data_parallelism=3) == nodes


@pytest.mark.parametrize(
    ("nodes", "said", "count"),
    [
        (8, {}, 1),
        (16, {}, 1),
        (17, {}, None),  # one domain of 18 trays, or two of which 16 are used each
        (32, {}, 2),
        (33, {}, None),
        (36, {}, None),
        (32, {"dcn_data_parallelism": 2}, None),
        (32, {"dcn_data_parallelism": 4}, None),
        (32, {"dcn_data_parallelism": 3}, 2),
        (32, {"num_slices": 2}, None),
        (32, {"dcn_data_parallelism": 1}, 2),
        (32, {"ici_fsdp_parallelism": 32}, None),
        (32, {"ici_fsdp_parallelism": 128}, 2),
        (32, {"ici_fsdp_parallelism": 24}, 2),
    ],
)
def test_domains_count_where_no_equal_parts_are_asked_for(
    nodes: int, said: dict[str, Any], count: int | None
) -> None:
    assert slices(4 * nodes, nodes, NVL, **said) == count


def test_nodes_of_another_platform_make_no_domains() -> None:
    assert slices(64, 8, NVL) is None
    assert slices(64, 8, HGX) == 8


def test_one_node_is_one_slice_and_many_nodes_of_an_unknown_platform_are_not_guessed() -> None:
    assert slices(8, 1) == 1
    assert slices(8, None) is None
    assert slices(None, None) is None
    assert slices(1, None) == 1
    assert slices(32, 4, ici_fsdp_parallelism=8) is None
    assert slices(16, 4) is None  # 4 GPUs a node may share a fabric
    assert slices(32, 4) == 4  # every known platform of 8 GPUs a node
    assert slices(32, 4, dcn_data_parallelism=1) is None


@pytest.mark.parametrize(
    ("index", "said", "count"),
    [
        ("0", {}, 1),
        ("0", {"dcn_data_parallelism": 2}, None),
        (f"{MARK}", {}, None),
        ("x", {}, None),
    ],
)
def test_an_explicit_partition_overrides_the_hardware(
    index: str, said: dict[str, Any], count: int | None
) -> None:
    assert slices(32, 4, HGX, index, **said) == count


def test_where_nvlink_ends_is_read_from_every_platform_of_such_nodes() -> None:
    assert node_is_domain(32, 4)
    assert not node_is_domain(16, 4)
    assert not node_is_domain(6, 2)
    assert not node_is_domain(None, 4)
    assert not node_is_domain(8, None)


@pytest.mark.parametrize(
    ("devices", "said", "count"),
    [
        (32, {"ici_fsdp_parallelism": 8}, 4),
        (32, {"ici_fsdp_parallelism": 32}, 1),
        (32, {"ici_fsdp_parallelism": 12}, UNKNOWN),
        (32, {}, UNKNOWN),
        (1, {}, 1),
        (None, {"ici_fsdp_parallelism": 8}, UNKNOWN),
        (32, {"dcn_data_parallelism": 4}, 4),
        (32, {"dcn_data_parallelism": 1}, 1),
        (32, {"num_slices": 2}, 2),
        (32, {"ici_fsdp_parallelism": 8, "dcn_fsdp_parallelism": -1}, 4),
    ],
)
def test_slices_that_nobody_says_follow_the_degrees(
    devices: int | None, said: dict[str, Any], count: Any
) -> None:
    assert derived(values(**said), devices, None)["num_slices"] == count


DEGREE = st.sampled_from([1, 2, 3, 4, 8])


@settings(max_examples=60, deadline=None)
@given(fsdp=DEGREE, expert=DEGREE, nodes=st.integers(1, 6))
def test_an_open_dcn_degree_makes_the_slices_that_cover_the_devices(
    fsdp: int, expert: int, nodes: int
) -> None:
    said = {"ici_fsdp_parallelism": fsdp, "ici_expert_parallelism": expert}
    devices = 8 * nodes
    found = derived(values(**said), devices, None)
    if devices % (fsdp * expert):
        assert found["num_slices"] is UNKNOWN
        return
    assert found["num_slices"] * fsdp * expert == devices
    assert prod(found["axis_sizes"].values()) == devices
