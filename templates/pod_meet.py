"""Lets the pods of a job meet, and decides their order. Standard library only, Python 3.8 or newer.

All pods come to pod 0 and tell their node and NVLink domain; when all are there placement.py
decides which pod carries which slice, and every pod is told. pod_start.py does the rest.

MOECTL_HOST stands in for the names of the pods where several run on one machine.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import placement

LONGEST = 1 << 16  # bytes of what a pod says of itself
# What reading something else than a pod's line raises.
NO_POD = (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError)
placement.REMEDY = "Let Kueue place slices of {unit} (cluster.kubernetes.domain_topology)"


class Stop(Exception):  # noqa: N818 - it is how a pod ends
    """The pod cannot go on; one sentence and its exit code."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


class Pod:
    """What this pod is, and what it was told."""

    def __init__(self, plan: Any, environment: Any) -> None:
        self.plan = plan
        self.index = int(environment.get("JOB_COMPLETION_INDEX", "0"))
        self.jobset = environment.get("MOECTL_JOBSET", "run")
        self.restart = environment.get("MOECTL_RESTART", "0") or "0"
        self.node = environment.get("MOECTL_NODE") or socket.gethostname()
        self.pattern = environment.get("MOECTL_HOST") or plan["host"]
        work = plan["work"].replace("{jobset}", self.jobset)
        self.work = Path(environment.get("MOECTL_WORK") or work)
        name = self.jobset if self.restart == "0" else f"{self.jobset}.{self.restart}"
        self.logs = self.work / "logs" / name
        self.told_to_end = False

    def host(self, index: int) -> str:
        """Return the name under which a pod is found."""
        text = self.pattern.replace("{jobset}", self.jobset)
        return str(text.replace("{index}", str(index)))


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"moectl: {text}\n")
    sys.stdout.flush()


def listener(port: int) -> socket.socket:
    """Return a socket that listens, on both families where there are both."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(
                ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512
            )
    return socket.create_server(("", port), backlog=512)


def line_of(connection: socket.socket) -> bytes:
    """Return the line that the other side sends; less when it goes away."""
    data = b""
    while not data.endswith(b"\n") and len(data) < LONGEST:
        part = connection.recv(LONGEST)
        if not part:
            break
        data += part
    return data


def own_row(pod: Pod) -> str:
    """Return what this pod knows of its place: node name and NVLink domain."""
    fabric = placement.fabric_domain(placement.nvidia_smi()) if pod.plan["spans"] else ""
    return f"{placement.word(pod.node)} {placement.word(fabric)}"


def decide(pod: Pod, rows: Any) -> Any:
    """Return {"order": pod indices in the order of the ranks, "nodes": lines}, or {"refused"}.

    Args:
        pod: pod 0.
        rows: pod index to (node, domain).
    """
    plan = pod.plan
    order = [(str(index), placement.UNKNOWN) for index in sorted(rows)]
    if plan["spans"]:
        known = [(str(index), rows[index][1], placement.UNKNOWN) for index in sorted(rows)]
        try:
            order, said = placement.placed(
                known,
                plan["nodes"],
                plan["nodes_per_slice"],
                plan["nodes_per_domain"],
                plan["per_node"],
                plan["nodes_per_group"],
            )
        except ValueError as error:
            return {"refused": str(error)}
        say(said)
    lines = [
        f"{rows[int(index)][0]} {at * plan['per_node'] // plan['gpus_per_slice']} {domain}"
        for at, (index, domain) in enumerate(order)
    ]
    return {"order": [int(index) for index, _ in order], "nodes": lines}


def joined(pod: Pod, connection: socket.socket) -> Any:
    """Return (index, [node, domain]) of the pod on the other side, None for a stranger."""
    connection.settimeout(5.0)
    with contextlib.suppress(*NO_POD):
        said = json.loads(line_of(connection))
        words = str(said["row"]).split()
        index = int(said["index"])
        ours = said["jobset"] == pod.jobset and said["restart"] == pod.restart
        if ours and 0 < index < pod.plan["nodes"] and len(words) == 2:
            return index, words
    return None


def gone(connection: socket.socket) -> bool:
    """Whether the other side hung up."""
    try:
        connection.setblocking(False)
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def answer(connection: socket.socket, decided: Any) -> None:
    """Tell a pod what was decided."""
    with contextlib.suppress(OSError), connection:
        connection.settimeout(5.0)
        connection.sendall(json.dumps(decided).encode() + b"\n")


def serve(pod: Pod, server: socket.socket, decided: Any) -> None:
    """Answer pods whose connection was lost just before they were told."""
    while True:
        with contextlib.suppress(OSError):
            connection, _ = server.accept()
            if joined(pod, connection) is None:
                connection.close()
            else:
                answer(connection, decided)


def receive(pod: Pod, deadline: float) -> Any:
    """Be met by all other pods; return what was decided."""
    nodes = pod.plan["nodes"]
    rows = {pod.index: own_row(pod).split()}
    waiting: Any = {}
    server = listener(pod.plan["join_port"])
    server.settimeout(1.0)
    while True:
        for index in [index for index, connection in waiting.items() if gone(connection)]:
            waiting.pop(index).close()
            del rows[index]
        if len(rows) == nodes:
            break
        ended(pod)
        if time.monotonic() > deadline:
            missing = [str(index) for index in range(nodes) if index not in rows]
            raise Stop(
                f"{len(missing)} of {nodes} pods did not come in "
                f"{pod.plan['join_seconds']} s: {', '.join(missing[:20])}",
                pod.plan["exits"]["join"],
            )
        try:
            connection, _ = server.accept()
        except OSError:
            continue
        found = joined(pod, connection)
        if found is None:
            connection.close()
        else:
            index, words = found
            rows[index] = words
            if index in waiting:  # of a pod that came twice, the newer one
                waiting[index].close()
            waiting[index] = connection
    decided = decide(pod, rows)
    for connection in waiting.values():
        answer(connection, decided)
    server.settimeout(None)
    threading.Thread(target=serve, args=(pod, server, decided), daemon=True).start()
    return decided


def announce(pod: Pod, deadline: float) -> Any:
    """Meet pod 0; return what was decided."""
    said = {"index": pod.index, "jobset": pod.jobset, "restart": pod.restart, "row": own_row(pod)}
    text = json.dumps(said).encode() + b"\n"
    where = (pod.host(0), pod.plan["join_port"])
    while time.monotonic() < deadline:
        ended(pod)
        try:
            with socket.create_connection(where, timeout=5.0) as connection:
                connection.sendall(text)
                connection.settimeout(1.0)
                answer = b""
                while not answer.endswith(b"\n") and time.monotonic() < deadline:
                    ended(pod)
                    with contextlib.suppress(socket.timeout):
                        part = connection.recv(LONGEST)
                        if not part:
                            break
                        answer += part
                if answer.endswith(b"\n"):
                    return json.loads(answer)
        except (OSError, ValueError):
            pass
        time.sleep(1.0)
    raise Stop(
        f"pod 0 ({where[0]}) did not answer in {pod.plan['join_seconds']} s",
        pod.plan["exits"]["join"],
    )


def meet(pod: Pod) -> Any:
    """Return the order of the pods, once all are there."""
    deadline = time.monotonic() + pod.plan["join_seconds"]
    if pod.plan["nodes"] == 1:
        return decide(pod, {0: own_row(pod).split()})
    decided = receive(pod, deadline) if pod.index == 0 else announce(pod, deadline)
    if "refused" in decided:
        raise Stop(decided["refused"], pod.plan["exits"]["config"])
    return decided


def ended(pod: Pod) -> None:
    """Stop when the pod was told to end."""
    if pod.told_to_end:
        raise Stop("told to end before MaxText started", pod.plan["exits"]["ended"])
