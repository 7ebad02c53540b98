"""Rules on how the processes of a run find each other: addresses, ports, host lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from moectl.errors import shown
from moectl.hostlist import is_compact
from moectl.rules import rendezvous_lists
from moectl.rules.launching import (
    PROCESS_PER_GPU,
    PROCESS_PER_NODE,
    SRUN,
    environment_is_closed,
    known,
    mode,
    number,
    spoken,
    whole,
)
from moectl.rules.rule import Fault, rules
from moectl.values import Origin
from moectl.workload import Workload

RULES = rules()

VARIABLES: Final = "variables"
"""The kind of a workload that is a file of variables alone, whoever reads it."""

_JAX = "JAX 0.12.0.1 _src/distributed.py:104-170 and _src/clusters/slurm_cluster.py"
_MAXTEXT = "MaxText 0.2.5 utils/max_utils.py:283-347"

_IP, _PORT, _ADDRESS = "JAX_COORDINATOR_IP", "JAX_COORDINATOR_PORT", "JAX_COORDINATOR_ADDRESS"
_BIND = "JAX_COORDINATOR_BIND_ADDRESS"
# What each way onto GPUs reads (max_utils.py:285 and 318-347).
_READ_BY = {PROCESS_PER_NODE: (_IP, _PORT), PROCESS_PER_GPU: (_ADDRESS, _PORT)}
_UNREAD_BY = {
    PROCESS_PER_NODE: (_ADDRESS,),
    PROCESS_PER_GPU: (_IP, "NNODES", "NODE_RANK"),
}
# No JAX of the catalogue reads these, whatever their names say (0.12.0.1, searched).
_READ_NOWHERE = (
    "JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_PROCESS_COUNT", "JAX_PROCESS_INDEX",
    "JAX_COORDINATOR",
)  # fmt: skip

_LOOPBACK_NAMES = frozenset({
    "localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost",
    "ip6-loopback", "::1", "0:0:0:0:0:0:0:1",
})  # fmt: skip
_NO_HOST = frozenset({"0.0.0.0", "::", "0", "*"})  # noqa: S104 - recognised, not bound

_LAST_PORT = 65535
_FIRST_FREE_PORT = 1024  # below, only root may listen (IANA system ports)
_JAX_PORTS = (61440, 65535)  # 61440 + job id % 4096
_OUTGOING_PORTS = (32768, 60999)  # Linux' default net.ipv4.ip_local_port_range

_WHOLE_NODE = 4  # GPUs; no platform of the catalogue has fewer on a node


@RULES.rule(
    "NET101",
    "a coordinator nobody else can reach",
    reason="A loopback address is each node's own: the first process waits there, and the others "
    "ask themselves until the time-out.",
    remedy="the name of the first node of the job",
    source=f"{_JAX}; public report jax-ml/jax pull request 13944",
)
def loopback(w: Workload) -> Iterator[Fault]:
    """Find a loopback coordinator where there are, or may be, several nodes."""
    nodes = _nodes(w)
    if nodes == 1 or (nodes is None and not _may_have_several_nodes(w)):
        return
    for name in _read(w):
        text = known(w.environment.get(name))
        if text is None or name == _PORT:
            continue
        host = _host(text.strip()) if name == _ADDRESS else text.strip().strip("[]")
        if not _is_loopback(host) and host not in _NO_HOST:
            continue
        meet = (
            f"{nodes} nodes cannot meet there"
            if nodes is not None
            else "how many nodes there are is not said, and several cannot meet there"
        )
        yield Fault(
            name,
            f"{shown(text)} is every node's own address; {meet}",
            w.where(name),
            _first_host(w, name, text),
            severity=None if nodes is not None else "warning",
        )


def _may_have_several_nodes(w: Workload) -> bool:
    """Whether a cluster starts it; a plain script may be meant for one machine."""
    scheduled = w.batch is not None and w.batch.scheduled
    return scheduled or w.kind == VARIABLES or (w.batch is None and w.layout.nodes is not None)


def _first_host(w: Workload, name: str, text: str) -> str:
    """Return what to write for the first node's name, with the port where it belongs."""
    port = f":{text.rpartition(':')[2]}" if name == _ADDRESS and ":" in text else ""
    if name == _ADDRESS and number(port[1:]) is None:
        port = ":<port>"
    if w.manifest is not None:
        return (
            f"{name}=<first pod>.<headless service>{port}; in a JobSet "
            f"<jobset>-<job>-0-0.<jobset>{port}"
        )
    if w.kind == VARIABLES:
        return f"{name}=<name of the first node>{port}"
    host = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
    return f'{name}="{host}{port}"'


def _way(w: Workload) -> str:
    """Return MaxText's way onto GPUs; in a file of variables alone, the one they are for."""
    if w.kind != VARIABLES:
        return mode(w)
    if _IP in w.environment:
        return PROCESS_PER_NODE
    return PROCESS_PER_GPU if {_ADDRESS, _PORT} & set(w.environment) else ""


def _read(w: Workload) -> tuple[str, ...]:
    """Return the variables that are read for the coordinator's place."""
    if w.kind == VARIABLES:
        return (_IP, _ADDRESS)
    return _READ_BY.get(mode(w), ())


def _nodes(w: Workload) -> int | None:
    """Return the nodes, or with one process a node the processes NNODES tells."""
    nodes = whole(w.layout.nodes)
    if nodes is None and (w.kind == VARIABLES or mode(w) == PROCESS_PER_NODE):
        nodes = number((known(w.environment.get("NNODES")) or "").strip())
    return nodes


def _is_loopback(host: str) -> bool:
    folded = host.casefold().rstrip(".")
    parts = folded.split(".")
    numeric = len(parts) == 4 and all(part.isdigit() for part in parts)
    return folded in _LOOPBACK_NAMES or (numeric and parts[0] == "127")


def _host(address: str) -> str:
    """Return the host of "host:port" or "[host]:port"."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.rpartition(":")[0] or address


@RULES.rule(
    "NET102",
    "the coordinator's port",
    reason="Process 0 must listen on this port of its node, and every other process asks there.",
    remedy="a port from 1024 to 32767 that no other job of the node uses, e.g. from the job id",
    source=f"{_JAX}; public report jax-ml/jax pull request 12152",
)
def port(w: Workload) -> Iterator[Fault]:
    """Find ports that do not exist, that only root gets, or that others take."""
    if not _way(w):
        return
    for name, text, origin in _ports(w):
        plain = number(text.strip())
        if plain is None or not 0 < plain <= _LAST_PORT:
            yield Fault(name, f"{shown(text)} is no port; they run from 1 to {_LAST_PORT}", origin)
        elif plain < _FIRST_FREE_PORT:
            yield Fault(
                name,
                f"port {plain} is a system port: only root may listen there, and services do",
                origin,
                severity="warning",
            )
        elif spoken(w, "--exclusive") is None and w.batch is not None and w.manifest is None:
            # A script without a scheduler runs on somebody's own machines.
            shares = w.batch.scheduled or (w.step is not None and w.step.program == SRUN)
            gpus = whole(w.layout.gpus_per_node) if shares else _WHOLE_NODE
            yield from _shared(name, plain, origin, gpus)


def _shared(name: str, plain: int, origin: Origin, gpus: int | None) -> Iterator[Fault]:
    """Judge a fixed port on nodes that other jobs may share."""
    if _JAX_PORTS[0] <= plain <= _JAX_PORTS[1]:
        why = f"is of JAX's own range ({_JAX_PORTS[0]} + job id % 4096)"
    elif _OUTGOING_PORTS[0] <= plain <= _OUTGOING_PORTS[1]:
        why = "is of the range from which Linux takes outgoing ports"
    else:
        why = "is fixed"
    yield Fault(
        name,
        f"port {plain} {why}, and the nodes are not exclusive: another job on the node may have it",
        origin,
        # a job that takes all GPUs of a node has it for itself, as far as GPU jobs go
        severity="note" if gpus is not None and gpus >= _WHOLE_NODE else "warning",
    )


def _ports(w: Workload) -> Iterator[tuple[str, str, Origin]]:
    """Yield the ports that count: variable, text, place."""
    found = known(w.environment.get(_PORT))
    if found is not None and (_way(w) == PROCESS_PER_NODE or _ADDRESS not in w.environment):
        yield _PORT, found, w.where(_PORT)
    address = known(w.environment.get(_ADDRESS))
    if address is not None and _way(w) == PROCESS_PER_GPU and ":" in address:
        yield _ADDRESS, address.rpartition(":")[2], w.where(_ADDRESS)


@RULES.rule(
    "NET103",
    "form of the coordinator's address",
    reason="MaxText joins JAX_COORDINATOR_IP and JAX_COORDINATOR_PORT with a colon; JAX cuts "
    "JAX_COORDINATOR_ADDRESS at its last colon.",
    remedy="a bare host in JAX_COORDINATOR_IP, host:port in JAX_COORDINATOR_ADDRESS",
    source=f"{_MAXTEXT}; {_JAX}",
)
def address_form(w: Workload) -> Iterator[Fault]:
    """Find hosts with a port or a scheme, addresses without a port, a port left out."""
    way = _way(w)
    if way == PROCESS_PER_NODE and _IP in w.environment:
        host = known(w.environment[_IP])
        if host is not None and (fault := _bad_host(host.strip())):
            yield Fault(_IP, f"{shown(host)} {fault}", w.where(_IP))
        closed = w.batch is not None and environment_is_closed(w.batch)
        if _PORT not in w.environment and closed:
            yield Fault(
                _PORT,
                f"{_IP} is set and {_PORT} is not: MaxText asks for port None",
                w.where(_IP),
                f"export {_PORT}=<a free port>",
            )
    address = known(w.environment.get(_ADDRESS))
    if way == PROCESS_PER_GPU and address is not None:
        if "://" in address:
            yield Fault(_ADDRESS, f"{shown(address)} has a scheme", w.where(_ADDRESS), "host:port")
        elif ":" not in address:
            yield Fault(_ADDRESS, f"{shown(address)} has no port", w.where(_ADDRESS), "host:port")


def _bad_host(host: str) -> str:
    if not host:
        return "is empty"
    if "://" in host:
        return "has a scheme"
    if is_compact(host) or "," in host:
        return "is a list of hosts; one is meant"
    if re.fullmatch(r"[^:]+:\d+", host):
        return f"has a port, which belongs into {_PORT}"
    return ""


@RULES.rule(
    "NET104",
    "variables nobody reads",
    reason="Each of MaxText's two ways onto GPUs reads variables of its own and ignores the "
    "other's.",
    remedy="drop them, or change hardware",
    source=f"{_MAXTEXT}; {_JAX}",
    severity="note",
    stage="silent",
)
def unread(w: Workload) -> Iterator[Fault]:
    """Find variables that the chosen way does not read."""
    way = mode(w)
    for name in (*_UNREAD_BY.get(way, ()), *(_READ_NOWHERE if way else ())):
        if name in w.environment:
            yield Fault(name, f"hardware={way} does not read {name}", w.where(name))


RULES.all.extend(rendezvous_lists.RULES.all)
