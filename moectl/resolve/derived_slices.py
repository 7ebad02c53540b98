"""How many slices there are: what the hardware makes of the GPUs, else what the degrees want.

MaxText 0.2.5 counts the slice indices of the devices (utils/max_utils.py:412,
utils/elastic_utils.py:175). XLA gives every host one of its own (openxla
xla/pjrt/distributed/topology_util.cc, by boot id); since 2025 hosts of one NVLink fabric clique
share one (openxla PR 23320, PR 24473), and JAX_PARTITION_INDEX overrides both
(jax PR 26906: _src/distributed.py:216-229).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from moectl.workload import UNKNOWN, Text

if TYPE_CHECKING:
    from moectl.values import Hardware

# The variables that say the slice of a process, the older name last.
PARTITION = ("JAX_PARTITION_INDEX", "JAX_SLICE_INDEX")
_DCN = (
    *("data", "pipeline", "fsdp", "fsdp_transpose", "sequence", "context"),
    *("context_usp_ulysses", "tensor", "tensor_sequence", "expert"),
    *("context_autoregressive", "autoregressive"),
)
_REPLICAS = "dcn_diloco_parallelism"


def dcn_degrees(values: Mapping[str, Any]) -> list[Any]:
    """Return the raw DCN degrees that MaxText multiplies (configs/types.py:5340)."""
    return [values.get(f"dcn_{axis}_parallelism", 1) for axis in _DCN]


def slices_of(
    values: Mapping[str, Any],
    devices: int | None,
    nodes: int | None,
    hardware: Hardware | None,
    environment: Mapping[str, Text],
) -> int | None:
    """Return the slices that the hardware makes of the GPUs; None where they follow the degrees.

    Args:
        values: effective values, see `moectl.resolve.effective`.
        devices: GPUs of the job; None when nobody says.
        nodes: its nodes; None when nobody says.
        hardware: the platform; None when nobody says.
        environment: variables of the processes.
    """
    index = [environment[name] for name in PARTITION if name in environment]
    if index:
        # The same index in every process; one that differs stands in an expansion.
        same = index[0].known and index[0].text.strip().isdigit()
        return 1 if same and _wanted(values) in {None, 1} else None
    if nodes is None and hardware is not None and devices is not None:
        nodes = max(1, -(-devices // hardware.gpus_per_node))
    if nodes is None or nodes < 1 or (devices is not None and devices < nodes):
        return 1 if devices == 1 else None
    if nodes == 1:
        return 1
    if hardware is None:
        known = node_is_domain(devices, nodes) and _open_ici(values)
        return nodes if known and _wanted(values) is None else None
    if hardware.domain_gpus <= hardware.gpus_per_node:
        return nodes
    if devices is not None and devices != nodes * hardware.gpus_per_node:
        return None  # not the nodes of this platform
    return _domains(values, devices, nodes, hardware)


def node_is_domain(devices: int | None, nodes: int | None) -> bool:
    """Whether every platform with so many GPUs a node has NVLink inside the node only."""
    if not devices or not nodes or devices % nodes:
        return False
    from moectl.facts.yaml_facts import read  # noqa: PLC0415 - few workloads ask

    rows = [
        row
        for row in read("hardware.yaml")["platforms"].values()
        if row["gpus_per_node"] == devices // nodes
    ]
    return bool(rows) and all(row["domain_gpus"] <= row["gpus_per_node"] for row in rows)


def _domains(
    values: Mapping[str, Any], devices: int | None, nodes: int, hardware: Hardware
) -> int | None:
    """Return the NVLink domains of nodes; None where degrees or num_slices say possible ones.

    How many domains an allocation spreads over is the scheduler's choice, so that any equal
    parts that fit a domain are possible.
    """
    whole = hardware.domain_gpus // hardware.gpus_per_node
    wanted = _wanted(values)
    if wanted is None and not _open_ici(values):
        size = prod(values[key] for key in _ici_keys(values) if isinstance(values[key], int))
        wanted = devices // size if devices and size > 0 and devices % size == 0 else None
    if wanted is not None and wanted > 0 and nodes % wanted == 0 and nodes // wanted <= whole:
        return None
    return domains(nodes, hardware)


def domains(nodes: int, hardware: Hardware) -> int | None:
    """Return the NVLink domains that nodes lie in; None where that depends on the placement."""
    whole = hardware.domain_gpus // hardware.gpus_per_node
    fewest, usual = -(-nodes // whole), -(-nodes // hardware.nodes_per_domain)
    return usual if fewest == usual and nodes % usual == 0 else None


def _wanted(values: Mapping[str, Any]) -> int | None:
    """Return the slices that num_slices or the DCN degrees, if none is open, ask for."""
    said = values.get("num_slices")
    if isinstance(said, int) and said != -1:
        return said
    degrees = [*dcn_degrees(values), values.get(_REPLICAS, 1)]
    if any(not isinstance(degree, int) or degree == -1 for degree in degrees):
        return None
    wanted: int = prod(max(degree, 1) for degree in degrees)
    return wanted


def _open_ici(values: Mapping[str, Any]) -> bool:
    """Whether MaxText fills a degree inside a slice."""
    return any(values[key] == -1 for key in _ici_keys(values))


def _ici_keys(values: Mapping[str, Any]) -> list[str]:
    return [key for key in values if key.startswith("ici_") and key.endswith("_parallelism")]


def counted(values: Mapping[str, Any], devices: Any, slices: int | None, ici: Any) -> Any:
    """Return num_slices (utils/max_utils.py:412 get_num_slices); UNKNOWN where nothing tells it.

    Args:
        values: effective values.
        devices: GPUs of the job, or UNKNOWN.
        slices: slices of the hardware; None when they follow the degrees.
        ici: degrees inside a slice by axis, or UNKNOWN.
    """
    said, compiled = values.get("num_slices"), values.get("compile_topology_num_slices")
    if said != -1:
        return said if isinstance(said, int) else UNKNOWN
    if not isinstance(compiled, int):
        return UNKNOWN
    if compiled > 0:
        return compiled
    if slices is not None:
        return slices
    degrees = [*dcn_degrees(values), values.get(_REPLICAS, 1)]
    if any(not isinstance(degree, int) for degree in degrees):
        return UNKNOWN
    if -1 not in degrees:
        return prod(max(degree, 1) for degree in degrees)
    if devices == 1:
        return 1
    if not isinstance(devices, int) or not isinstance(ici, list):
        return UNKNOWN
    if any(not isinstance(degree, int) or degree < 1 for degree in ici):
        return UNKNOWN
    return devices // prod(ici) if devices % prod(ici) == 0 else UNKNOWN
