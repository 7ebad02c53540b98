"""The mesh a number of GPUs gets: arithmetic that must hold for every request."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.mesh import MeshError, MeshRequest, divisors, nearest_legal, solve

DEEPSEEK = MeshRequest(
    gpus=128,
    gpus_per_node=4,
    domain_gpus=64,
    ici={"fsdp": 8, "expert": 8},
    dcn={"fsdp": 2},
    experts=256,
)
CUTS = ("fsdp", "fsdp_transpose", "expert")
AXES = ("fsdp", "expert", "tensor", "data", "pipeline")


@st.composite
def requests(draw: st.DrawFn) -> MeshRequest:
    """Return requests as presets, run files and platforms make them."""
    node = draw(st.sampled_from([1, 4, 8]))
    degrees = st.dictionaries(st.sampled_from(AXES), st.sampled_from([-1, 1, 2, 3, 4, 8, 16]))
    ici, dcn = draw(degrees), draw(degrees)
    axes = st.frozensets(st.sampled_from(AXES))
    return MeshRequest(
        gpus=node * draw(st.integers(1, 512)),
        gpus_per_node=node,
        domain_gpus=node * draw(st.sampled_from([1, 2, 16])),
        ici=ici,
        dcn=dcn,
        pinned_ici=frozenset(a for a in draw(axes) if ici.get(a, -1) != -1),
        pinned_dcn=frozenset(a for a in draw(axes) if dcn.get(a, -1) != -1),
        slice_gpus=draw(st.none() | st.integers(1, 64)),
        weight_shards=draw(st.none() | st.integers(1, 512)),
        experts=draw(st.none() | st.sampled_from([8, 16, 60, 128, 256])),
    )


def solved(request: MeshRequest) -> tuple[dict[str, int], dict[str, int]] | None:
    """Return the degrees, or None where there are none."""
    try:
        return solve(request)
    except MeshError:
        return None


@given(requests())
def test_the_degrees_multiply_to_the_gpus_and_none_is_left_open(request: MeshRequest) -> None:
    if found := solved(request):
        ici, dcn = found
        assert prod(ici.values()) * prod(dcn.values()) == request.gpus
        assert all(degree > 1 for degree in [*ici.values(), *dcn.values()])


@given(requests())
def test_a_slice_is_whole_nodes_and_divides_the_gpus(request: MeshRequest) -> None:
    if found := solved(request):
        size = prod(found[0].values())
        assert size % request.gpus_per_node == 0
        assert request.gpus % size == 0


@given(requests())
def test_pinned_degrees_stay(request: MeshRequest) -> None:
    if found := solved(request):
        ici, dcn = found
        assert {a: ici.get(a, 1) for a in request.pinned_ici} == {
            a: request.ici[a] for a in request.pinned_ici
        }
        assert {a: dcn.get(a, 1) for a in request.pinned_dcn} == {
            a: request.dcn[a] for a in request.pinned_dcn
        }


@given(requests())
def test_a_chosen_expert_degree_divides_the_experts_and_the_wish(request: MeshRequest) -> None:
    wish = request.ici.get("expert", 1)
    if (found := solved(request)) and wish != -1 and "expert" not in request.pinned_ici:
        chosen = found[0].get("expert", 1)
        assert wish % chosen == 0
        assert (request.experts or chosen) % chosen == 0


@given(gpus=st.integers(1, 1024).map(lambda n: 4 * n), shards=st.integers(1, 4096))
def test_a_data_degree_comes_only_above_the_weight_shards(gpus: int, shards: int) -> None:
    request = replace(DEEPSEEK, gpus=gpus, weight_shards=shards)
    ici, dcn = solve(request)
    cut = prod(ici.get(a, 1) for a in CUTS) * dcn.get("fsdp", 1)
    if dcn.get("data", 1) > 1:
        # The next larger cut would be over more GPUs than allowed.
        more = min(d for d in divisors(dcn["data"]) if d > 1)
        assert cut * more > shards or more * dcn.get("fsdp", 1) not in set(
            divisors(gpus // prod(ici.values()))
        )
    if dcn.get("fsdp", 1) > 1:
        assert cut <= shards


@pytest.mark.parametrize(
    ("gpus", "ici", "dcn"),
    [
        (128, {"expert": 8, "fsdp": 8}, {"fsdp": 2}),
        (256, {"expert": 8, "fsdp": 8}, {"fsdp": 4}),
        (512, {"expert": 8, "fsdp": 8}, {"fsdp": 8}),
        (1024, {"expert": 8, "fsdp": 8}, {"fsdp": 16}),
        (2048, {"expert": 8, "fsdp": 8}, {"fsdp": 32}),
        (16_384, {"expert": 8, "fsdp": 8}, {"fsdp": 256}),
        (64, {"expert": 8, "fsdp": 8}, {}),
        (32, {"expert": 8, "fsdp": 4}, {}),
        (8, {"expert": 8}, {}),
        (4, {"expert": 4}, {}),
    ],
)
def test_deepseek_keeps_its_slice_and_grows_fsdp_across_slices(
    gpus: int, ici: dict[str, int], dcn: dict[str, int]
) -> None:
    assert solve(replace(DEEPSEEK, gpus=gpus)) == (ici, dcn)


@pytest.mark.parametrize("gpus", [128, 256, 512, 1024, 2048])
def test_deepseek_on_nodes_of_eight_has_a_slice_a_node(gpus: int) -> None:
    request = replace(DEEPSEEK, gpus=gpus, gpus_per_node=8, domain_gpus=8)
    assert solve(request) == ({"expert": 8}, {"fsdp": gpus // 8})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpus": 130}, "130 GPUs are not whole nodes of 4"),
        ({"ici": {"fsdp": -1, "expert": -1}}, "only one ICI degree may be -1"),
        ({"dcn": {"fsdp": -1, "data": -1}}, "only one DCN degree may be -1"),
        (
            {"ici": {"fsdp": 3, "expert": 8}, "pinned_ici": frozenset({"fsdp", "expert"})},
            "multiply to 24",
        ),
        (
            {"dcn": {"fsdp": 3}, "pinned_dcn": frozenset({"fsdp", "data"})},
            "fsdp 3 multiply to 3, but 128 GPUs in slices of 64 are 2 slices",
        ),
        ({"ici": {"tensor": 3}}, "divides no slice"),
    ],
)
def test_impossible_degrees_are_refused_with_the_arithmetic(
    changes: dict[str, object], said: str
) -> None:
    with pytest.raises(MeshError, match=r"^[^\n]+$") as refused:
        solve(replace(DEEPSEEK, **changes))  # type: ignore[arg-type]
    assert said in str(refused.value)


@given(st.integers(1, 20_000))
def test_divisors_are_all_of_them_greatest_first(number: int) -> None:
    assert list(divisors(number)) == [d for d in range(number, 0, -1) if number % d == 0]


def test_the_nearest_legal_numbers_stand_on_both_sides() -> None:
    assert nearest_legal(130, range(4, 200, 4), 1) == [128, 132]
    assert nearest_legal(0, [4, 8, 12]) == [4, 8]
    assert nearest_legal(99, [4, 8, 12]) == [8, 12]
    assert nearest_legal(8, [8]) == []
