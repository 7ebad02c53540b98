"""Starts the processes of one pod, one a GPU. Standard library only, Python 3.8 or newer.

Every pod of the job runs it, from the folder of the ConfigMap, with the environment of its
container; pod.json beside it says the rest. It

    meets the other pods at pod 0, so that MaxText starts when all are there and not before,
    and lets placement.py decide which pod carries which slice;
    starts the processes with what `hardware: gpu_multiprocess` finds its peers by: JAX asks
    its Slurm detection before that of Kubernetes, and five variables are all it wants;
    copies what they write, each line behind its rank, and keeps one log a rank;
    ends all when one fails, with that one's exit code, or with one of pod.json that the
    JobSet does not start again: the configuration is refused, the memory does not suffice.

MOECTL_HOST stands in for the names of the pods where several run on one machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import placement
import watchdog

MODULE = "maxtext.trainers.pre_train.train"
LONGEST = 1 << 16  # bytes of what a pod says of itself
TAIL = 1 << 17  # bytes of a log that are judged
LOOK = 0.2
# What reading something else than a pod's line raises.
NO_POD = (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError)
OOM_EVENTS = Path("/sys/fs/cgroup/memory.events")
MESSAGE = Path("/dev/termination-log")
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


# ---- Meeting the others ---------------------------------------------------------------------


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


# ---- The processes --------------------------------------------------------------------------


def environment_of(pod: Pod, rank: int, local: int, coordinator: str) -> Any:
    """Return the environment of a process."""
    plan = pod.plan
    port = str(plan["coordinator_port"])
    values = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OMPI_", "PMIX_", "SLURM_"))  # which JAX would ask first
    }
    values.update(
        SLURM_JOB_ID="1",
        SLURM_STEP_NODELIST=coordinator,
        SLURM_NTASKS=str(plan["nodes"] * plan["per_node"]),
        SLURM_PROCID=str(rank),
        SLURM_LOCALID=str(local),
        JAX_COORDINATOR_ADDRESS=f"{coordinator}:{port}",
        JAX_COORDINATOR_PORT=port,
        JAX_PARTITION_INDEX=str(rank // plan["gpus_per_slice"]),
        MOECTL_LOGS=str(pod.logs),
    )
    values.setdefault("PYTHONUNBUFFERED", "1")
    for name, front in (
        ("PYTHONPATH", plan["python_path"]),
        ("LD_LIBRARY_PATH", plan["library_path"]),
    ):
        if front:
            values[name] = ":".join([*front, *filter(None, [values.get(name)])])
    if plan["debug"]:
        values["NCCL_DEBUG_FILE"] = str(pod.logs / "nccl" / f"rank-{rank}.log")
        if plan["dump"]:
            folder = pod.logs / "hlo" / f"rank-{rank}"
            values["XLA_FLAGS"] = f"{values.get('XLA_FLAGS', '')} --{plan['dump']}={folder}"
    return values


def copy(process: Any, rank: int, path: Path) -> None:
    """Write what a process says to its log, and to this pod's output behind its rank."""
    output = sys.stdout.buffer
    label = b"%d: " % rank
    with path.open("ab", buffering=0) as log:
        for line in process.stdout:
            with contextlib.suppress(OSError):  # a full disk ends no run
                log.write(line)
            with contextlib.suppress(OSError, ValueError):
                output.write(label + line)
                output.flush()


def start(pod: Pod, first: int, coordinator: str, config: Path) -> Any:
    """Start the processes; return [(rank, process, what copies its output)]."""
    started = []
    for local in range(pod.plan["per_node"]):
        rank = first + local
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE, str(config), *pod.plan["arguments"]],
            cwd=pod.work,
            env=environment_of(pod, rank, local, coordinator),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        path = pod.logs / f"rank-{rank}.log"
        copier = threading.Thread(target=copy, args=(process, rank, path), daemon=True)
        copier.start()
        started.append((rank, process, copier))
    return started


def beside(pod: Pod, first: int, coordinator: str, folder: Path) -> Any:
    """Start the watchdog, and in the pod of rank 0 what notes down the run; return them."""
    words = [*pod.plan["watchdog"], f"--ranks={pod.plan['per_node']}", f"--first={first}"]
    words += ["--program=", f"--parent={os.getpid()}"]
    commands = [[str(folder / "watchdog.py"), *words, str(pod.logs)]]
    if first == 0:
        secrets = [word for name in pod.plan["secrets"] for word in ("--secret", name)]
        image = ["--image", pod.plan["image"]]
        job = ["--job", pod.jobset, "--restarts", pod.restart]
        commands.append([str(folder / "as_run.py"), *image, *secrets, *job, str(pod.logs)])
    return [
        subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=environment_of(pod, first, 0, coordinator),
            stdin=subprocess.DEVNULL,
        )
        for command in commands
    ]


def finish(processes: Any, seconds: float) -> None:
    """End what still runs: first politely, then for good."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            if process.poll() is None:
                with contextlib.suppress(OSError):
                    process.send_signal(number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and any(p.poll() is None for p in processes):
            time.sleep(LOOK)


def run(pod: Pod, decided: Any, folder: Path) -> int:
    """Start everything, wait for its end and return the pod's exit code."""
    plan = pod.plan
    for name in ("", "nccl", "hlo") if plan["debug"] else ("",):
        (pod.logs / name).mkdir(parents=True, exist_ok=True)
    # The folder may be one that all pods share, who then write the same.
    part = pod.logs / f"nodes.{pod.index}.part"
    part.write_text("\n".join([*decided["nodes"], ""]), encoding="utf-8")
    part.replace(pod.logs / "nodes")
    first = decided["order"].index(pod.index) * plan["per_node"]
    coordinator = pod.host(decided["order"][0])
    say(
        f"pod {pod.index} on {pod.node}, ranks {first} to {first + plan['per_node'] - 1}, "
        f"coordinator {coordinator}:{plan['coordinator_port']}, logs {pod.logs}"
    )
    ended(pod)
    kills = killed_for_memory()
    started = start(pod, first, coordinator, folder / "config.yml")
    helpers = beside(pod, first, coordinator, folder)
    processes = [process for _, process, _ in started]

    def forward(*_: Any) -> None:
        pod.told_to_end = True
        for process in processes:
            with contextlib.suppress(OSError):
                process.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, forward)
    if pod.told_to_end:
        forward()
    failed = None
    recorded = first != 0
    while failed is None and any(process.poll() is None for process in processes):
        time.sleep(LOOK)
        recorded = recorded or show(pod.logs / "as-run.json")
        failed = next(((r, p) for r, p, _ in started if p.poll() not in (None, 0)), None)
    if failed is None:
        failed = next(((r, p) for r, p, _ in started if p.returncode), None)
    told_to_end = pod.told_to_end
    if failed is not None:
        code = failed[1].returncode
        leave(pod, failed[0], code if code >= 0 else 128 - code)
        # Where the watchdog ends the processes it says why, and does not take long.
        finish(processes, plan["end_seconds"])
    for _, _, copier in started:
        copier.join(5.0)
    finish([helper for helper in helpers if failed is not None], 5.0)
    for helper in helpers[1:]:
        with contextlib.suppress(subprocess.TimeoutExpired):
            helper.wait(60)
    finish(helpers, 5.0)
    if not recorded:
        show(pod.logs / "as-run.json")
    show(pod.logs / "watchdog.json")
    return verdict(pod, told_to_end, killed_for_memory() > kills)


def show(path: Path) -> bool:
    """Print a record on one line, for those who see no more of the pod; return whether it is there.

    `moectl logs` and `status` make a file of it again.
    """
    try:
        say(f"{path.name}: {json.dumps(json.loads(path.read_text('utf-8')))}")
    except (OSError, ValueError):
        return False
    return True


def leave(pod: Pod, rank: int, code: int) -> None:
    """Leave who failed first, if nobody did before."""
    with contextlib.suppress(OSError), (pod.logs / "first-failure").open("x") as stream:
        stream.write(f"{code} {rank} {pod.node}\n")


def killed_for_memory() -> int:
    """Return how many processes of this container the kernel ended for its memory."""
    with contextlib.suppress(OSError, ValueError):
        rows = dict(line.split() for line in OOM_EVENTS.read_text("ascii").splitlines())
        return int(rows.get("oom_kill", 0))
    return 0


def verdict(pod: Pod, told_to_end: bool, out_of_memory: bool) -> int:
    """Return the pod's exit code and tell why, also where Kubernetes shows it."""
    exits = pod.plan["exits"]
    words = text_of(pod.logs / "first-failure", 0).split()
    if told_to_end:
        # MaxText ends with 0 when it is told to end; the pod must not count as done for that.
        return tell("told to end, by Kubernetes or a person", exits["ended"])
    if len(words) < 2:
        return 0
    code = int(words[0])
    what = f"rank {words[1]} on {words[-1]} failed first, with exit code {code}"
    watched = json.loads(text_of(pod.logs / "watchdog.json", 0) or "{}")
    if watched.get("code") == code:
        where = f", rank {words[1]} on {words[-1]}" if words[1].isdigit() else ""
        what = f"the watchdog ended the pod: {watched['verdict']}; {watched['cause']}{where}"
    if out_of_memory:
        return tell(f"{what}; the container has too little memory", exits["memory"])
    rows = found_rows(text_of(pod.logs / f"rank-{words[1]}.log", TAIL))
    if rows and not watched:
        what = f"{what}; {rows[0][2]}; {rows[0][3]}"
    if any(row[6] for row in rows):
        time.sleep(pod.plan["victim_seconds"])  # the pod that failed first has the word
    if rows and not any(row[4] for row in rows):
        kinds = {
            "config": set(pod.plan["config_rows"]),
            "memory": set(pod.plan["memory_rows"]),
        }
        kind = next((name for name, ids in kinds.items() if rows[0][0] in ids), "hopeless")
        return tell(what, exits[kind])
    return tell(what, code)


def found_rows(text: str) -> Any:
    """Return the rows of the known texts that a log holds, in their order, each once."""
    found: Any = {}
    rows = [(row, re.compile(row[1])) for row in watchdog.FATAL]
    for line in text.splitlines():
        row = next((row for row, pattern in rows if pattern.search(line[:8192])), None)
        if row is not None:
            found.setdefault(row[0], row)
    return list(found.values())


def text_of(path: Path, tail: int) -> str:
    """Return the end of a file as text, or nothing."""
    try:
        with path.open("rb") as stream:
            if tail:
                stream.seek(max(0, stream.seek(0, 2) - tail))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def tell(sentence: str, code: int) -> int:
    """Say why the pod ends, and return its exit code."""
    say(sentence)
    with contextlib.suppress(OSError):
        if MESSAGE.exists():
            MESSAGE.write_text(sentence[:4000], encoding="utf-8")
    return code


def main() -> int:
    """Run the pod; return its exit code."""
    folder = Path(__file__).absolute().parent
    pod = Pod(json.loads((folder / "pod.json").read_text("utf-8")), os.environ)

    def note(*_: Any) -> None:
        pod.told_to_end = True

    signal.signal(signal.SIGTERM, note)
    try:
        return run(pod, meet(pod), folder)
    except Stop as stop:
        return tell(str(stop), stop.code)
    except OSError as error:
        sentence = f"{error.filename or 'a connection'}: {error.strerror or error}"
        return tell(sentence, pod.plan["exits"]["join"])


if __name__ == "__main__":
    sys.exit(main())
