"""Runs a bundle on this machine, and writes down how it ended. Standard library only.

    python3 launch.py --python PYTHON       in the foreground, from any folder

`moectl launch --launcher local` starts it in a session of its own, so that it outlives the
terminal. Before anything else it writes JOBS/<job>.json, whole or not at all: who it is, by
process id, start time and boot, so that nobody takes another process for it; and at the end
what came of it. It starts the processes of launch.json, one log each, with the environment
written there and nothing else of the shell; runs watchdog.py beside them; ends all when one
fails; and passes SIGTERM on. When it is killed itself, the kernel kills its processes.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODULE = "maxtext.trainers.pre_train.train"
STOPPED = 78  # EX_CONFIG of sysexits.h: the job stopped before MaxText started
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
LOOK = 0.2


class Stop(Exception):  # noqa: N818 - not a fault of the program
    """The job cannot start; one sentence."""


def start_ticks(pid: Any) -> int:
    """Return when a process started, in clock ticks since boot; 0 for one that is not there."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return 0 if fields[0] in "ZX" else int(fields[19])


def boot() -> str:
    """Return the identity of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def moment() -> str:
    """Return now, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def write(path: Path, record: Any) -> None:
    """Write a record whole or not at all, on the disk when this returns."""
    part = path.with_name(f".{path.name}.part")
    with part.open("w", encoding="utf-8") as stream:
        stream.write(json.dumps(record, indent=1) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    with contextlib.suppress(OSError):
        os.fsync(folder)
    os.close(folder)


def alive(path: Path) -> bool:
    """Whether the job of a record may still do something."""
    try:
        record = json.loads(path.read_text("utf-8"))
        same = record["boot"] == boot() and start_ticks(record["pid"]) == record["start_ticks"]
        return "exit_code" not in record and same
    except (OSError, ValueError, KeyError):
        return False


def environment(plan: Any) -> Any:
    """Return the variables of all processes: few of the shell's, then the bundle's.

    Raises:
        Stop: this shell lacks a secret.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in plan["keep"] or name.startswith(tuple(plan["keep_prefixes"]))
    }
    missing = [name for name in plan["secrets"] if not os.environ.get(name)]
    if missing:
        raise Stop(f"the shell does not have the secrets this job declares: {' '.join(missing)}")
    secrets = {name: os.environ[name] for name in plan["secrets"]}
    return {"PYTHONUNBUFFERED": "1", **kept, **plan["environment"], **secrets}


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Processes:
    """The processes of a job."""

    def __init__(self, plan: Any, python: str, job: str, logs: Path) -> None:
        self.plan = plan
        self.logs = logs
        self.job = job
        self.python = python
        self.running: Any = {}
        self.kill_at: Any = None
        self.libc = ctypes.CDLL(None, use_errno=True)

    def start(self) -> None:
        """Start all of them.

        Raises:
            Stop: one cannot be started.
        """
        count = self.plan["processes"]
        shared = environment(self.plan)
        # What JAX reads of Slurm in a step: MaxText's own start-up finds the peers by it.
        shared |= {
            "SLURM_JOB_ID": self.job,
            "SLURM_STEP_NODELIST": "localhost",
            "SLURM_NTASKS": str(count),
            "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{free_port()}",
            "MOECTL_LOGS": str(self.logs),
        }
        output = json.dumps(str(Path(self.plan["output"]).absolute()), ensure_ascii=False)
        words = [self.python, "-m", MODULE, "config.yml", *self.plan["arguments"]]
        if "://" not in self.plan["output"]:  # Orbax wants absolute paths of checkpoints
            words.append(f"base_output_directory={output}")
        for rank in range(count):
            own = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)}
            with (self.logs / f"rank-{rank}.log").open("ab") as log:
                self.running[rank] = self.begin(words, {**shared, **own}, log)
        notes = [self.python, "./as_run.py"]
        notes += [word for name in self.plan["secrets"] for word in ("--secret", name)]
        with Path(os.devnull).open("ab") as nowhere:
            env = {**shared, "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
            self.recorder = self.begin([*notes, str(self.logs)], env, nowhere)

    def begin(self, words: Any, env: Any, log: Any) -> Any:
        """Start one in a session of its own; it dies with this program."""
        me = os.getpid()

        def tie() -> None:
            self.libc.prctl(DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() != me:
                os._exit(STOPPED)

        try:
            return subprocess.Popen(
                words,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=tie,  # noqa: PLW1509 - there is one thread
            )
        except OSError as error:
            raise Stop(f"{words[0]} cannot be started: {error.strerror or error}") from None

    def signal(self, number: int) -> None:
        """Send all that run a signal, and whatever they started."""
        for process in self.running.values():
            with contextlib.suppress(OSError):
                os.killpg(process.pid, number)

    def end(self, seconds: float) -> None:
        """Ask all to end, and give them that long."""
        if self.kill_at is None:
            self.kill_at = time.monotonic() + seconds
            self.signal(signal.SIGTERM)

    def look(self) -> None:
        """Take in who ended; the first that failed leaves the job's exit code and ends all."""
        for rank, process in list(self.running.items()):
            code = process.poll()
            if code is None:
                continue
            del self.running[rank]
            code = code if code >= 0 else 128 - code
            if code:
                with contextlib.suppress(OSError), (self.logs / "first-failure").open("x") as file:
                    file.write(f"{code} {rank} localhost\n")
                self.end(self.plan["kill_wait"])
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            self.signal(signal.SIGKILL)

    def code(self) -> int:
        """Return the job's exit code."""
        try:
            words = (self.logs / "first-failure").read_text("utf-8").split()
            return int(words[0])
        except (OSError, ValueError, IndexError):
            return 0


def run(plan: Any, options: Any, job: str, told: Any) -> int:
    """Run the job to its end and return its exit code."""
    logs = Path("logs") / job
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "nodes").write_text("localhost 0 -\n", encoding="utf-8")
    processes = Processes(plan, options.python, job, logs)
    watchdog: Any = None
    try:
        processes.start()
        words = ["./watchdog.py", f"--parent={os.getpid()}", "--program=", *plan["watchdog"]]
        with contextlib.suppress(Stop):
            watchdog = processes.begin(
                [sys.executable, "-I", *words, str(logs)], dict(os.environ), sys.stderr
            )
        while processes.running:
            if told:
                processes.end(plan["kill_wait"])
            time.sleep(LOOK)
            processes.look()
        if (logs / "watchdog.json").exists() and watchdog is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                watchdog.wait(plan["kill_wait"])  # it still writes what it found
        with contextlib.suppress(subprocess.TimeoutExpired):
            processes.recorder.wait(plan["kill_wait"])
        return processes.code()
    finally:
        processes.signal(signal.SIGKILL)
        for left in (watchdog, getattr(processes, "recorder", None)):
            if left is not None and left.poll() is None:
                left.kill()
                left.wait()


def to_log(path: Path) -> None:
    """Write what this program says into a log from now on."""
    with path.open("ab", buffering=0) as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)


def main(arguments: Any) -> int:
    """Write down who this is, run the job, write down how it ended."""
    parser = argparse.ArgumentParser(description="Run a bundle on this machine.")
    parser.add_argument("--python", required=True, help="interpreter that has MaxText")
    parser.add_argument("--jobs", help="folder of the job's file; without it, the foreground")
    parser.add_argument("--name", default="", help="name of the run")
    parser.add_argument("--lock", type=int, help="file descriptor to close when it is written")
    parser.add_argument("--after", help="file of a job whose end is waited for")
    options = parser.parse_args(arguments)
    if options.jobs:  # nobody waits for it, and no terminal's end reaches it
        if os.fork():
            return 0
        os.setsid()
    bundle = Path(__file__).absolute().parent
    os.chdir(bundle)
    plan = json.loads((bundle / "launch.json").read_text("utf-8"))
    told: Any = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.append(moment()))
    pid = os.getpid()
    job = f"{int(time.time())}{pid:07d}"
    record: Any = {
        "format": 1, "job": job, "name": options.name, "pid": pid, "boot": boot(),
        "start_ticks": start_ticks(pid), "phase": "pending" if options.after else "running",
        "created": moment(), "host": os.uname().nodename,
    }  # fmt: skip
    jobs = Path(options.jobs) if options.jobs else bundle / "logs"
    jobs.mkdir(parents=True, exist_ok=True)
    path = jobs / f"{job}.json"
    write(path, record)
    if options.jobs:
        with contextlib.suppress(OSError):  # nobody may be there any more to hear it
            os.write(1, f"{job}\n".encode())
        to_log(bundle / f"{plan['log']}-{job}.log")
        if options.lock is not None:
            os.close(options.lock)
    sys.stderr.write(f"moectl: job {job} on this machine, {plan['processes']} processes\n")
    sys.stderr.flush()
    code = 0
    try:
        while options.after and alive(Path(options.after)) and not told:
            time.sleep(1)
        if not told:
            record |= {"phase": "running", "start": moment()}
            write(path, record)
            code = run(plan, options, job, told)
    except Stop as error:
        sys.stderr.write(f"moectl: {error}\n")
        record["reason"] = str(error)
        code = STOPPED
    except OSError as error:
        sys.stderr.write(f"moectl: {error}\n")
        record["reason"] = f"{error.filename or bundle}: {error.strerror or error}"
        code = STOPPED
    ended = "cancelled" if told else "failed" if code else "completed"
    write(path, record | {"phase": ended, "exit_code": code, "end": moment()})
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
