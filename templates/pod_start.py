"""Starts the processes of one pod, one a GPU. Standard library only, Python 3.8 or newer.

Every pod of the job runs it, from the folder of the ConfigMap, with the environment of its
container; pod.json beside it says the rest. It

    meets the other pods (pod_meet.py), so that MaxText starts when all are there and not
    before, and is told which slice it carries;
    starts the processes with what `hardware: gpu_multiprocess` finds its peers by: JAX asks
    its Slurm detection before that of Kubernetes, and five variables are all it wants;
    copies what they write, each line behind its rank, and keeps one log a rank;
    ends all when one fails, with that one's exit code, or with one of pod.json that the
    JobSet does not start again: the configuration is refused, the memory does not suffice.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import watchdog
from pod_meet import Pod, Stop, ended, meet, say

MODULE = "maxtext.trainers.pre_train.train"
TAIL = 1 << 17  # bytes of a log that are judged
LOOK = 0.2
OOM_EVENTS = Path("/sys/fs/cgroup/memory.events")
MESSAGE = Path("/dev/termination-log")


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
