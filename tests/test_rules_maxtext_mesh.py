"""The mesh: degrees against devices and slices, as MaxText's mesh creation judges them."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.facts.hardware import platform
from moectl.findings import Finding
from moectl.resolve.derived import derived
from moectl.resolve.derived_slices import slices_of
from moectl.rules.maxtext_verdict import all_rules, refused, workload
from moectl.values import Origin, Value
from moectl.workload import Batch, Layout, Text, Workload

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
    assert [f.severity for f in found("MESH111", text, 16, 2)] == ["error"]
    # However many slices there will be.
    assert [f.severity for f in found("MESH111", text, 8, None)] == ["warning"]
    assert [f.severity for f in found("MESH111", text, None, None)] == ["warning"]
    assert lines("MESH111", text, 1, None) == []
    several = f"{text}ici_fsdp_parallelism: 4\n"
    assert [f.severity for f in found("MESH111", several, 8, None)] == ["error"]
    assert lines("MESH111", several, 4, None) == []
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
    assert faults[0].hint == (
        "ici_expert_parallelism may be 2, or ici_fsdp_parallelism may be 2, the others kept; "
        "or dcn_data_parallelism may be 2, the others kept"
    )
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
    assert lines("MESH105", text, 16, 4) == []  # MESH114 has said it
    one = "num_slices: 1\n"
    assert lines("MESH105", one, 16, 4) == [3]
    assert lines("MESH105", one, 16, 1) == []
    assert lines("MESH105", one, 16, None) == []
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


def on(
    text: str,
    nodes: int,
    hardware: str | None = None,
    each: int = 8,
    *,
    script: bool = True,
    **variables: str,
) -> Workload:
    """Return what starts on so many nodes, its slices as the hardware makes them."""
    here = Origin("script", "run.sh", 1)
    environment = {name: Text.of(value, here) for name, value in variables.items()}
    made = workload(BASE + text, (), nodes * each, None)
    known = platform(hardware) if hardware else None
    slices = slices_of(made.effective, nodes * each, nodes, known, environment)
    return replace(
        made,
        slices=slices,
        derived=derived(made.effective, nodes * each, slices),
        hardware=known,
        environment=environment,
        layout=Layout(nodes=Value(nodes, here)),
        batch=Batch((), (), scheduled=True) if script else None,
    )


def told(made: Workload) -> list[tuple[str, str, str]]:
    """Return code, severity and field of what the mesh rules say."""
    rules = [rule for rule in all_rules() if rule.code.startswith("MESH1")]
    found = [finding for rule in rules for finding in rule.findings(made)]
    return [(f.code, f.severity, f.field) for f in found]


FSDP = "ici_fsdp_parallelism"


@pytest.mark.parametrize("hardware", [None, "h100", "b200"])
def test_the_standard_launch_on_several_nodes_is_clean(hardware: str | None) -> None:
    text = f"{FSDP}: 8\nper_device_batch_size: 1\n"
    assert told(on(text, 4, hardware)) == []
    assert told(on(f"{text}dcn_data_parallelism: 4\n", 4, hardware)) == []
    assert told(on("per_device_batch_size: 1\n", 4, hardware)) == []


def test_ici_degrees_wider_than_a_host_die_where_each_host_is_a_slice() -> None:
    wide = f"{FSDP}: 32\nper_device_batch_size: 1\n"
    assert told(on(wide, 4, "h100")) == [("MESH113", "error", FSDP)]
    (fault,) = [
        f for r in all_rules() if r.code == "MESH113" for f in r.findings(on(wide, 4, "h100"))
    ]
    assert "32 GPUs / 4 slices = 8" in fault.message
    assert "h100-hgx makes each node a slice" in fault.message
    assert fault.hint == f"{FSDP} may be 8, the others kept"
    # A file without its launcher does not show the variable that would group hosts.
    assert told(on(wide, 4, "h100", script=False)) == [("MESH113", "warning", FSDP)]
    assert told(on(wide, 4, None)) == [("MESH122", "warning", FSDP)]
    assert told(on(wide, 4, "h100", JAX_PARTITION_INDEX="0")) == []
    assert told(on(wide, 4, None, JAX_PARTITION_INDEX="0")) == []
    assert told(on(wide, 8, "gb200", 4)) == []


def test_a_slice_of_two_hosts_dies_with_every_degree_said() -> None:
    text = f"{FSDP}: 16\ndcn_data_parallelism: 2\nper_device_batch_size: 1\n"
    assert told(on(text, 4, "h100")) == [
        ("MESH113", "error", FSDP),
        ("MESH114", "error", "dcn_data_parallelism"),
    ]
    assert told(on(text, 4, None)) == [("MESH122", "warning", FSDP)]
    # Two domains of 4 trays each are possible, and one is likelier.
    assert told(on(text, 8, "gb200", 4)) == [("MESH122", "warning", FSDP)]
    assert told(on(text.replace("16", "64"), 32, "gb200", 4)) == []


def test_domains_that_nobody_can_count_are_a_warning() -> None:
    text = f"{FSDP}: 8\nper_device_batch_size: 1\n"
    assert told(on(text, 8, "gb200", 4)) == [("MESH122", "warning", FSDP)]
    assert told(on(text, 8, "gb200", 4, JAX_PARTITION_INDEX="x")) == []
    assert told(on(text.replace("8", "32"), 8, "gb200", 4)) == []
    assert told(on(text.replace("8", "24"), 8, "gb200", 4)) == [("MESH113", "error", FSDP)]


def test_degrees_that_fit_no_number_of_slices_are_an_error_whoever_makes_them() -> None:
    text = f"{FSDP}: 16\ndcn_data_parallelism: 4\nper_device_batch_size: 1\n"
    weights = {weight for _, weight, _ in told(on(text, 4, "h100", script=False))}
    assert weights == {"error"}
    fits = text.replace("ism: 4", "ism: 2")
    assert {weight for _, weight, _ in told(on(fits, 4, "h100", script=False))} == {"warning"}


def test_dcn_degrees_that_do_not_divide_the_devices_are_named_themselves() -> None:
    text = f"{FSDP}: 8\ndcn_data_parallelism: 3\nper_device_batch_size: 1\n"
    assert told(on(text, 4, None)) == [("MESH114", "error", "dcn_data_parallelism")]
    (fault,) = found("MESH114", text, 32, None)
    assert fault.hint == "dcn_data_parallelism may be 4, the others kept"
    assert "data 3 = 3 slices, which do not divide 32 GPUs" in fault.message
    open_text = "dcn_data_parallelism: 3\n"
    (fault,) = found("MESH114", open_text, 32, None)
    assert fault.hint == "dcn_data_parallelism may be 1 or 2 or 4 or 8, the others kept"
    assert found("MESH114", text.replace(": 3", ": 4"), 32, None) == []


def test_ici_degrees_that_divide_no_devices_are_refused_whatever_the_slices() -> None:
    text = f"{FSDP}: 12\n"
    (fault,) = found("MESH113", text, 32, None)
    assert "multiply to 12, which does not divide the 32 GPUs" in fault.message
    assert fault.hint == f"{FSDP} may be 4 or 8 or 16 or 32, the others kept"
    assert found("MESH113", f"{FSDP}: 16\n", 32, None) == []


def test_two_open_dcn_degrees_on_several_hosts_are_an_error() -> None:
    text = f"{FSDP}: 8\ndcn_fsdp_parallelism: -1\n"
    assert ("MESH111", "error", "dcn_fsdp_parallelism") in told(on(text, 4))
    assert told(on(f"{text}per_device_batch_size: 1\n", 1)) == []


def test_dcn_degrees_on_one_node_are_refused() -> None:
    (fault, *_) = told(on("dcn_fsdp_parallelism: 2\n", 1))
    assert fault == ("MESH115", "error", "dcn_fsdp_parallelism")
