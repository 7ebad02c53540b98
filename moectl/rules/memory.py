"""Rules on GPU and host memory: what certainly does not fit, and what probably does not.

The figures are those of `moectl.estimate.memory`: arguments exactly, the rest as a range. An
error needs even the low end of the range not to fit; the middle gives a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moectl.errors import shown
from moectl.resolve.platforms import platform_hinted
from moectl.rules.memory_case import (
    BATCH,
    GIB,
    Case,
    advice,
    blamed,
    case,
    fact,
    fault,
    fraction_for,
    fraction_needed,
    gib,
    mesh_sizes,
    platforms,
    release_of,
    words,
)
from moectl.rules.rule import Fault, rules
from moectl.workload import UNKNOWN, Workload

RULES = rules()

_HOST_LIMIT = "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB"
_HOST_PREALLOCATE = "XLA_PJRT_GPU_HOST_MEMORY_PREALLOCATE"
_ON = frozenset({"true", "True", "TRUE", "1"})
_SHARD_EXPERTS = "shard_exp_on_fsdp"
_OFFLOADS = ("optimizer_memory_host_offload", "parameter_memory_host_offload")
_ONE_PROCESS_A_GPU = "gpu_multiprocess"
# Expert weights are most of a model, and as a share of bytes at least this much of it.
_TOLERANT = 0.2
# A file without environment may run at any fraction; above this one the margin is thin.
_COMFORTABLE = 0.9


@RULES.rule(
    "MEM111",
    "the step cannot fit into GPU memory",
    reason="every rank runs out of memory in the first step, after queue, import and compile",
    remedy="use a smaller per_device_batch_size or more GPUs",
    source="own arithmetic over MaxText 0.2.5's weights; range fitted to the runs in "
    "facts/data/memory.yaml (jaxlib 0.8.2, B200 x 64)",
)
def _cannot_fit(w: Workload) -> Iterator[Fault]:
    found = case(w)
    if found is not None and found.hardware is not None and found.estimate.least > found.most:
        verdict = (
            "even the low end of the estimate does not fit"
            if found.estimate.measured
            else "even weights, moments and gradients alone do not fit"
        )
        yield fault(w, found, verdict, at_most=True)


@RULES.rule(
    "MEM112",
    "the step probably does not fit into GPU memory",
    reason="an out-of-memory in the first step costs queue, import and compile on every node",
    remedy="use a smaller per_device_batch_size, or a larger memory fraction",
    source="as MEM111; the middle of the range, seen on no hardware of ours",
    severity="warning",
)
def _may_not_fit(w: Workload) -> Iterator[Fault]:
    found = case(w)
    if found is None or found.hardware is None or found.estimate.least > found.most:
        return
    which = "middle" if found.estimate.measured else "low"
    needed = fraction_needed(found, found.estimate.total(which))
    limit = found.fraction if found.fraction is not None else _COMFORTABLE
    if needed > limit:
        end = "middle" if found.estimate.measured else "low end"
        yield fault(w, found, f"the {end} of the estimate does not fit")


@RULES.rule(
    "MEM113",
    "the step fits few of the GPUs there are",
    reason="an out-of-memory in the first step costs queue, import and compile on every node",
    remedy="say --hardware, so that it is judged for your GPUs",
    source="as MEM111; memory of the platforms: facts/data/hardware.yaml",
    severity="warning",
)
def _fits_few(w: Workload) -> Iterator[Fault]:
    if w.hardware is not None or w.value(_SHARD_EXPERTS) is True:
        return  # with the latter, MEM114 says what is wrong
    found = case(w)
    if found is None:
        return
    pools = platforms(w)
    fits = [name for name, (_, most) in pools.items() if found.estimate.least <= most]
    if 2 * len(fits) >= len(pools):
        return
    shares = ", ".join(f"{name} ({_share(found, pools[name][0])})" for name in fits)
    where = f"of {len(pools)} catalogued platforms only {shares} could hold that"
    if not fits:
        where = "no catalogued platform could hold that"
    said = words(found.estimate)
    yield Fault(
        blamed(w),
        f"{said}; {where}",
        w.where(blamed(w), BATCH, "model_name"),
        "; ".join(filter(None, [_whose(w), advice(w, found, None)])),
    )


def _whose(w: Workload) -> str:
    """Say how to have it judged for certain GPUs; a partition's name is a hint which."""
    hinted = platform_hinted(w.batch)
    if hinted is None:
        return "--hardware judges it for your GPUs"
    hardware, option = hinted
    partition = option.value.text if option.value is not None else ""
    return f"--hardware {hardware.name} judges it for what partition {shown(partition)} is called"


def _share(found: Case, visible: int) -> str:
    """Say from which memory fraction on a GPU holds the middle of an estimate."""
    needed = fraction_for(found.estimate.total(), visible)
    return f"from memory fraction {needed:g}" if needed <= 1 else "at the low end alone"


@RULES.rule(
    "MEM114",
    "shard_exp_on_fsdp leaves expert weights whole over the expert axis",
    reason="the experts' dimension is cut over fsdp instead of the expert axis, so every "
    "expert-parallel rank holds all of its slice's experts",
    remedy="leave shard_exp_on_fsdp out, or use no expert parallelism with it",
    source="MaxText 0.2.5 layers/moe.py:921, configs/pyconfig_deprecated.py:1213, "
    "utils/sharding.py assert_params_sufficiently_sharded; a published run was refused with "
    "arguments of 492042391348 bytes (facts/data/memory.yaml R1)",
)
def _experts_whole(w: Workload) -> Iterator[Fault]:
    if not w.is_maxtext or w.value(_SHARD_EXPERTS) is not True:
        return
    mesh = mesh_sizes(w)
    degree = mesh.get("expert", 1) if mesh else w.value("ici_expert_parallelism")
    if not isinstance(degree, int) or degree < 2:
        return
    experts, fsdp = w.value("num_experts"), (mesh or {}).get("fsdp")
    over = f"fsdp {fsdp}" if fsdp else "fsdp"
    message = (
        f"{_SHARD_EXPERTS} cuts the {experts if isinstance(experts, int) else ''} experts over "
        f"{over} and not over the expert axis of {degree}: each rank holds {degree} times the "
        "expert weights it should"
    ).replace("  ", " ")
    severity = None
    if mesh:
        from moectl.estimate import memory  # noqa: PLC0415

        values = dict(w.effective)
        held = memory.arguments(values, mesh, release_of(w))
        right = memory.arguments({**values, _SHARD_EXPERTS: False}, mesh, release_of(w))
        if held and right:
            message += (
                f"; weights and moments take {gib(held)} a GPU instead of {gib(right)}"
                f" ({held} bytes)"
            )
    tolerance = w.value("sharding_tolerance")
    if not isinstance(tolerance, int | float) or tolerance > _TOLERANT:
        severity = "warning"  # MaxText may have been told to start all the same
    yield Fault(
        _SHARD_EXPERTS,
        message,
        w.where(_SHARD_EXPERTS),
        f"{_SHARD_EXPERTS}: false",
        "warning" if severity else None,
    )


@RULES.rule(
    "MEM115",
    "offloading needs more pinned host memory than XLA may take",
    reason="XLA stops at its host limit with an out-of-memory that reads like the GPU's",
    remedy="set XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB to what each process may pin",
    source="openxla/xla PR 20633, xla/pjrt/gpu/gpu_helpers.cc: 64 GiB a process, 16 when it is "
    "preallocated",
)
def _host_limit(w: Workload) -> Iterator[Fault]:
    if not w.is_maxtext or w.kind == "MaxText config":
        return  # a file without environment may run with any limit
    keys = [key for key in _OFFLOADS if w.value(key) is True]
    limit = _limit(w)
    if limit is None:
        return
    mesh = mesh_sizes(w)
    if w.devices is not None and mesh:
        yield from _host_a_process(w, keys, limit, mesh)
    elif keys:
        yield from _host_in_all(w, keys, limit)


def _limit(w: Workload) -> int | None:
    """Return the host memory limit of a process in bytes; None when it is open or faulty."""
    text = w.environment.get(_HOST_LIMIT)
    if text is not None:
        short = text.known and text.text.isascii() and text.text.isdigit() and len(text.text) < 9
        return int(text.text) * GIB if short else None
    preallocated = w.variable(_HOST_PREALLOCATE) in _ON
    name = "host_limit_preallocated_gib" if preallocated else "host_limit_gib"
    return int(fact(name)) * GIB


def _gpus_a_process(w: Workload) -> int | None:
    """Return the GPUs that one process drives; None when nobody says."""
    if w.value("hardware") == _ONE_PROCESS_A_GPU:
        return 1
    if w.value("hardware") is UNKNOWN or w.devices is None:
        return None
    said = w.layout.processes
    if said is not None and isinstance(said.value, int) and said.value > 0:
        return max(1, w.devices // said.value)
    each = w.layout.gpus_per_node
    return each.value if each is not None and isinstance(each.value, int) else None


def _host_a_process(
    w: Workload, keys: list[str], limit: int, mesh: Mapping[str, int]
) -> Iterator[Fault]:
    from moectl.estimate import memory  # noqa: PLC0415

    found = memory.estimate(dict(w.effective), mesh, release_of(w))
    each = _gpus_a_process(w)
    if found is None and keys:
        processes = max(1, w.devices // each) if w.devices is not None and each else None
        yield from _host_in_all(w, keys, limit, processes)
        return
    if found is None or each is None or not found.host:
        return
    needed = found.host * each
    # Weights and moments are exact; kept activations are counted from their shapes.
    if needed <= limit:
        return
    whole = -(-needed * 5 // (4 * GIB))
    yield Fault(
        keys[0] if keys else "remat_policy",
        f"offloading pins {gib(found.host)} a GPU"
        f"{f', {gib(needed)} in a process with {each} GPUs' if each > 1 else ''}, and XLA stops "
        f"at {gib(limit)} a process{_unset(w)}",
        w.where(*keys, "remat_policy", _HOST_LIMIT),
        f"export {_HOST_LIMIT}={whole}, times the processes of a node within its memory",
    )


def _host_in_all(
    w: Workload, keys: list[str], limit: int, started: int | None = None
) -> Iterator[Fault]:
    """Judge the whole of what is offloaded, where the share of a process is not known.

    Args:
        w: the workload.
        keys: what offloads.
        limit: bytes of host memory that a process may pin.
        started: processes, where they are known.
    """
    from moectl.estimate import memory  # noqa: PLC0415

    total = memory.offloaded_at_least(dict(w.effective), release_of(w))
    if total is None:
        return
    processes = -(-total // limit)
    if started is not None:
        if started < processes:
            yield Fault(
                keys[0],
                f"offloading pins {gib(total)} or more over all processes, {gib(total // started)} "
                f"in each of {started}, and XLA stops at {gib(limit)} a process{_unset(w)}: it "
                f"takes {processes} processes or more",
                w.where(*keys),
                f"export {_HOST_LIMIT}=N with N above {gib(total // started)}, or more processes",
            )
        return
    told = any(v is not None for v in (w.layout.nodes, w.layout.processes, w.layout.gpus))
    if processes < 2:
        return
    yield Fault(
        keys[0],
        f"offloading pins {gib(total)} or more over all processes, and XLA stops at {gib(limit)} a "
        f"process{_unset(w)}: it takes {processes} processes or more, "
        + ("which cannot be told here" if told else "and nothing here starts that many"),
        w.where(*keys),
        f"export {_HOST_LIMIT}=N with N above {gib(total)} over the number of processes",
        "warning" if told else None,
    )


def _unset(w: Workload) -> str:
    return "" if _HOST_LIMIT in w.environment else f" ({_HOST_LIMIT} is not set)"
