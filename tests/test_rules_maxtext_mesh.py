"""The mesh: degrees against devices and slices, as MaxText's mesh creation judges them."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.findings import Finding
from moectl.rules.maxtext_verdict import all_rules, refused, workload

BASE = "base_config: base.yml\nhardware: gpu_multiprocess\n"
DEGREES = st.sampled_from([1, 2, 4, 8, -1, 3, 0])


def found(code: str, text: str, devices: int | None = 8, slices: int | None = 1) -> list[Finding]:
    rule = next(rule for rule in all_rules() if rule.code == code)
    return list(rule.findings(workload(BASE + text, (), devices, slices)))


def lines(code: str, text: str, devices: int | None = 8, slices: int | None = 1) -> list[int]:
    return [finding.line or 0 for finding in found(code, text, devices, slices)]


@pytest.mark.parametrize("devices", [None, 8, 32])
def test_two_open_degrees_inside_a_slice_are_refused_however_many_devices(
    devices: int | None,
) -> None:
    text = "ici_fsdp_parallelism: -1\nici_tensor_parallelism: -1\n"
    faults = found("MESH110", text, devices)
    assert [(f.line, f.field) for f in faults] == [(4, "ici_tensor_parallelism")]
    assert faults[0].hint == "write ici_fsdp_parallelism: 1"
    assert found("MESH110", "ici_tensor_parallelism: 2\n", devices) == []


def test_an_open_degree_beside_the_open_default_names_the_default() -> None:
    faults = found("MESH110", "ici_tensor_parallelism: -1\n")
    assert "ici_fsdp_parallelism by default" in faults[0].message
    assert faults[0].line == 3


def test_two_open_degrees_across_slices_count_where_there_are_several() -> None:
    text = "dcn_fsdp_parallelism: -1\n"
    assert lines("MESH111", text, 16, 2) == [3]
    assert lines("MESH111", text, 8, 1) == []
    assert lines("MESH111", text, 8, None) == []
    assert lines("MESH111", f"{text}dcn_data_parallelism: 1\n", 16, 2) == []


@pytest.mark.parametrize("degree", [0, -2, -8])
def test_a_degree_below_one_is_refused(degree: int) -> None:
    assert lines("MESH112", f"ici_tensor_parallelism: {degree}\n", None) == [3]
    assert lines("MESH112", f"dcn_fsdp_parallelism: {degree}\n", 16, 2) == [3]
    # With one slice MaxText never looks at the DCN degrees of a mesh.
    assert lines("MESH112", f"dcn_fsdp_parallelism: {degree}\n", 8, 1) == []
    assert lines("MESH112", "ici_tensor_parallelism: 2\n", None) == []


def test_the_product_is_compared_with_the_devices_of_a_slice_and_the_repair_is_said() -> None:
    text = "ici_fsdp_parallelism: 4\nici_expert_parallelism: 4\ndcn_data_parallelism: 4\n"
    faults = found("MESH113", text, 32, None)
    assert [f.line for f in faults] == [4]
    assert "fsdp 4 x expert 4 = 16" in faults[0].message
    assert "32 GPUs / 4 slices = 8" in faults[0].message
    assert faults[0].hint == "ici_expert_parallelism may be 2, the others kept"
    mended = text.replace("expert_parallelism: 4", "expert_parallelism: 2")
    assert found("MESH113", mended, 32, None) == []
    assert found("MESH113", text, None, None) == []


def test_what_an_open_degree_cannot_fill_is_refused() -> None:
    faults = found("MESH113", "ici_tensor_parallelism: 3\n", 8)
    assert [f.line for f in faults] == [3]
    assert "does not divide the 8 GPUs / 1 slice = 8 devices" in faults[0].message
    assert faults[0].hint == "ici_tensor_parallelism may be 1 or 2 or 4 or 8, the others kept"
    assert found("MESH113", "ici_tensor_parallelism: 4\n", 8) == []


def test_the_slices_are_compared_with_the_dcn_degrees() -> None:
    text = "dcn_data_parallelism: 4\n"
    assert lines("MESH114", text, 16, 2) == [3]
    assert lines("MESH114", text, 16, 4) == []
    assert lines("MESH114", "dcn_fsdp_parallelism: 3\n", 16, 2) == [3]
    assert lines("MESH114", text, 16, None) == []


def test_num_slices_against_the_hardware() -> None:
    text = "num_slices: 2\ndcn_data_parallelism: 2\n"
    assert lines("MESH114", text, 16, 4) == [3]
    assert lines("MESH105", text, 16, 4) == [3]
    assert lines("MESH105", text, 16, 2) == []
    assert lines("MESH105", text, 16, None) == []
    assert lines("MESH105", "num_slices: -1\n", 16, 2) == []


def test_dcn_degrees_want_more_than_one_slice() -> None:
    faults = found("MESH115", "dcn_fsdp_parallelism: 2\n", 8, 1)
    assert [(f.line, f.field) for f in faults] == [(3, "dcn_fsdp_parallelism")]
    assert "ici_fsdp_parallelism instead" in faults[0].hint
    assert found("MESH115", "dcn_fsdp_parallelism: 2\n", 16, 2) == []
    assert found("MESH115", "dcn_fsdp_parallelism: -1\n", 8, 1) == []


@pytest.mark.parametrize(("said", "refuses"), [(0, 1), (-2, 1), (9, 1), (1, 0), (-1, 0), (8, 0)])
def test_num_slices_is_a_number_of_slices(said: int, refuses: int) -> None:
    assert len(found("MESH116", f"num_slices: {said}\n")) == refuses


def test_a_mesh_names_an_axis_once() -> None:
    assert lines("MESH117", "mesh_axes: [data, fsdp, fsdp]\n") == [3]
    assert lines("MESH117", "mesh_axes: [data, fsdp]\n") == []


def test_ring_meshes_of_a_tpu_pod() -> None:
    assert lines("MESH118", "custom_mesh: nope\n", 16, 2) == [3]
    assert lines("MESH118", "custom_mesh: hybrid_ring_64x4\n", 16, 2) == [3]
    assert lines("MESH118", "custom_mesh: nope\nallow_split_physical_axes: true\n") == [3]
    assert lines("MESH118", "custom_mesh: nope\n") == []
    ring = "custom_mesh: hybrid_ring_64x4\nici_fsdp_parallelism: 64\nici_tensor_parallelism: 4\n"
    assert lines("MESH118", ring, 512, 2) == []


def test_a_mesh_of_maxtext_needs_its_file() -> None:
    assert lines("MESH119", "custom_mesh_and_rule: 2d-fsdp\n") == [3]
    assert lines("MESH119", "custom_mesh_and_rule_for_eval: 2d-fsdp\n") == [3]
    assert lines("MESH119", "custom_mesh_and_rule: ep-as-dp\n") == []


@pytest.mark.parametrize(
    ("value", "refuses"),
    [("embed", 1), ("[1]", 1), ("5", 1), ("[[embed, fsdp]]", 0), ("[]", 0), ("[abc]", 0)],
)
def test_logical_axis_rules_are_lists(value: str, refuses: int) -> None:
    assert len(found("MESH120", f"logical_axis_rules: {value}\n")) == refuses


def test_an_empty_rule_on_the_command_line_is_refused() -> None:
    assert refused(BASE, ["logical_axis_rules=[[]]"], 8, 1)
    assert refused(BASE, ["logical_axis_rules=[[embed, fsdp]]"], 8, 1) == []


def test_axes_that_want_a_slice_are_warned_of_across_slices() -> None:
    faults = found("MESH121", "dcn_tensor_parallelism: 2\n", 16, 2)
    assert [(f.line, f.severity) for f in faults] == [(3, "warning")]
    assert found("MESH121", "dcn_fsdp_parallelism: 2\nici_tensor_parallelism: 2\n", 32, 2) == []


def test_a_custom_mesh_ignores_degrees_of_axes_it_lacks() -> None:
    text = "custom_mesh_and_rule: pure-fsdp\nici_expert_parallelism: 4\n"
    assert refused(BASE + text, (), 8, 1) == []
    assert refused(BASE + "ici_expert_parallelism: 3\n", (), 8, 1)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(DEGREES, min_size=3, max_size=3),
    st.lists(DEGREES, min_size=2, max_size=2),
    st.sampled_from([8, 16, 24]),
    st.sampled_from([1, 2, 4]),
)
def test_a_mesh_is_refused_exactly_when_it_cannot_be_filled(
    ici: list[int], dcn: list[int], devices: int, slices: int
) -> None:
    """The arithmetic of MaxText 0.2.5 utils/max_utils.py:462-485, told anew."""

    def fits(degrees: list[int], target: int) -> bool:
        if degrees.count(-1) > 1 or any(degree == 0 for degree in degrees):
            return False
        fixed = prod(degree for degree in degrees if degree != -1)
        return target % fixed == 0 and target >= fixed if -1 in degrees else fixed == target

    axes = [f"ici_{axis}_parallelism" for axis in ("fsdp", "expert", "tensor")]
    across = [f"dcn_{axis}_parallelism" for axis in ("data", "fsdp")]
    text = "".join(
        f"{key}: {degree}\n" for key, degree in zip([*axes, *across], [*ici, *dcn], strict=True)
    )
    legal = fits(ici, devices // slices)
    legal &= fits(dcn, slices) if slices > 1 else abs(prod(dcn)) <= 1
    assert (refused(BASE + text, (), devices, slices) == []) is legal
