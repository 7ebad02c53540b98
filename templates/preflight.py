"""Looks at one process of a job before it trains. Python 3.8 or newer, with the job's own jax.

    preflight.py FOLDER        in every process, as rank.sh starts it

It writes FOLDER/rank-N.json anew after each stage, so that what ends it leaves how far it came:
its variables, its GPU, memory, the shared folders, whether its peers come, work of its own, and
small collectives along each axis of the mesh and between neighbouring nodes. Its time is limited
by SIGALRM, which ends it inside of a library, too. preflight_judge.py reads what all wrote.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# What the job is and how much is measured; filled in when rendered.
PLAN: Any = {}

GPU_FIELDS = (
    "name,memory.total,driver_version,clocks.max.sm,power.limit,ecc.mode.current,"
    "mig.mode.current,memory.used,clocks.sm,temperature.gpu,ecc.errors.uncorrected.volatile.total"
)
FABRIC = re.compile(r"^\s*Fabric\s*\n\s*State\s*:\s*(.+?)\s*\n\s*Status\s*:\s*(.+?)\s*$", re.M)
TOOL_SECONDS = 20


class Process:
    """What one process found so far."""

    def __init__(self, folder: Path) -> None:
        self.rank = int(os.environ["SLURM_PROCID"])
        self.path = folder / f"rank-{self.rank}.json"
        self.began = time.monotonic()
        self.record: Any = {
            "format": 1,
            "rank": self.rank,
            "node": os.environ.get("SLURMD_NODENAME", ""),
            "stage": "environment",
            "error": "",
            "seconds": {},
        }

    def reach(self, stage: str) -> None:
        """Note how long the stage took that ends here, and which one begins."""
        now = time.monotonic()
        self.record["seconds"][self.record["stage"]] = round(now - self.began, 3)
        self.began, self.record["stage"] = now, stage
        self.write()

    def write(self) -> None:
        """Write the record whole or not at all."""
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.record) + "\n", encoding="utf-8")
        part.replace(self.path)


def measure(folder: Path) -> None:
    """Run all stages of one process."""
    process = Process(folder)
    signal.alarm(PLAN["wait"] + PLAN["limit"])
    process.write()
    try:
        stages(process, folder)
    except Exception as error:  # whatever it is, the judge must hear of it
        process.record["error"] = f"{type(error).__name__}: {error}"[:2000]
        process.write()
        raise


def stages(process: Process, folder: Path) -> None:
    """Go through the stages."""
    record = process.record
    record["environment"], record["hash"] = watched(dict(os.environ))
    record["memory"] = memory()
    process.reach("gpu")
    record["gpu"] = gpu()
    process.reach("folders")
    for name in [str(folder), *PLAN["folders"]]:
        keep_and_read(Path(name), process.rank)
    process.reach("jax")

    import jax  # noqa: PLC0415

    record["versions"] = {"python": platform.python_version(), "jax": jax.__version__}
    with contextlib.suppress(AttributeError):  # it would profile what is measured here
        jax.config.update("jax_enable_pgle", False)
    process.reach("peers")
    jax.distributed.initialize(initialization_timeout=PLAN["wait"])
    signal.alarm(PLAN["limit"])
    devices = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
    kind = jax.local_devices()[0]
    record["versions"].update(platform=kind.platform, device=kind.device_kind)
    process.reach("work")
    rules = PLAN["platforms"].get(kind.platform, PLAN["platforms"]["other"])
    record.update(work={}, host={})
    process.write()
    for table, title, taken in work(rules):
        record[table][title] = taken
        process.write()
    process.reach("axes")
    if len(devices) != PLAN["ranks"]:
        raise RuntimeError(f"JAX sees {len(devices)} devices of {PLAN['ranks']}")
    record["axes"] = {}
    for title, groups in arrangements(PLAN):
        mine = next((group for group in groups if process.rank in group), None)
        if mine is not None:
            rows = [[devices[rank] for rank in group] for group in groups]
            record["axes"][title] = {"first": mine[0], "seconds": collective(rows, rules)}
            process.write()
    process.reach("done")
    with contextlib.suppress(Exception):
        jax.distributed.shutdown()  # waits for the others, who may still need process 0


def watched(values: Any) -> Any:
    """Return (variables that matter, their digest without what differs by rank)."""
    names = [
        name
        for name in sorted(values)
        if (name in PLAN["environment"] or name.startswith(tuple(PLAN["watched"])))
        and name not in PLAN["secrets"]
    ]
    kept = {name: values[name].encode("utf-8", "replace").decode() for name in names}
    common = [[name, text] for name, text in kept.items() if name not in PLAN["by_rank"]]
    return kept, hashlib.sha256(json.dumps(common).encode()).hexdigest()


def memory() -> Any:
    """Return the host's memory in MiB."""
    found = {}
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text("utf-8").splitlines():
            name, _, rest = line.partition(":")
            if name in {"MemTotal", "MemAvailable"}:
                found[name] = int(rest.split()[0]) // 1024
        shared = os.statvfs("/dev/shm")  # noqa: S108 - the place NCCL uses
        found["SharedFree"] = shared.f_bavail * shared.f_frsize >> 20
    return found


def tool(*words: str) -> str:
    """Return what a program prints; nothing where it is not there or fails."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TOOL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""


def gpu() -> Any:
    """Return what nvidia-smi and nvidia-imex-ctl say of this process's GPU; {} without them."""
    rows = [
        [cell.strip() for cell in line.split(",")]
        for line in tool(
            "nvidia-smi", f"--query-gpu=index,uuid,{GPU_FIELDS}", "--format=csv,noheader,nounits"
        ).splitlines()
    ]
    local = int(os.environ.get("SLURM_LOCALID", "0"))
    seen = [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word]
    name = seen[local % len(seen)] if seen else str(local)
    mine = [row for row in rows if row[0] == name or row[1:2] == [name]]
    row = (mine or rows[local : local + 1] or rows[:1] or [[]])[0]
    names = ["index", "uuid", *GPU_FIELDS.split(",")]
    if len(row) != len(names):
        return {}
    found: Any = {name: row[place] for place, name in enumerate(names)}
    links = tool("nvidia-smi", "nvlink", "--status", "-i", found["uuid"])
    found["links"] = len(re.findall(r"^\s*Link \d+: *[\d.]+ GB/s", links, re.MULTILINE))
    text = tool("nvidia-smi", "-q", "-i", found["uuid"])
    fabric = FABRIC.search(text)
    found["fabric"] = " ".join(fabric.groups()) if fabric else ""
    found["imex"] = tool("nvidia-imex-ctl", "-q").strip()[:100]
    channels = Path("/dev/nvidia-caps-imex-channels")
    found["imex_channels"] = len(list(channels.glob("channel*"))) if channels.is_dir() else 0
    return found


def keep_and_read(folder: Path, rank: int) -> None:
    """Write a megabyte into a folder that all nodes share, and read it back.

    Raises:
        OSError: it cannot be written, or what is read is not what was written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".preflight-{rank}"
    data = os.urandom(1 << 20)
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    same = path.read_bytes() == data
    path.unlink()
    if not same:
        raise OSError(f"{folder}: what is read is not what was written")


def median_of(repeats: int, once: Any) -> float:
    """Return the median time in s of a call that gives an array, the first call left out."""
    once().block_until_ready()
    times = []
    for _ in range(repeats):
        before = time.perf_counter()
        once().block_until_ready()
        times.append(time.perf_counter() - before)
    return statistics.median(times)


def work(rules: Any) -> Any:
    """Yield (table, title, time in s) of what needs no other process."""
    import jax  # noqa: PLC0415
    import jax.numpy as jnp  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    size, megabytes = rules["matmul"], rules["megabytes"]
    square = jax.device_put(np.ones((size, size), jnp.bfloat16 if rules["half"] else np.float32))
    host = np.ones(megabytes << 18, np.float32)
    long = jax.device_put(host)
    product = jax.jit(lambda x: x @ x)
    copied = jax.jit(lambda x: x + 1)
    for table, title, once in (
        ("work", f"matrix product of {size}", lambda: product(square)),
        ("work", f"copy of {megabytes} MiB", lambda: copied(long)),
        ("host", f"transfer of {megabytes} MiB", lambda: jax.device_put(host)),
    ):
        yield table, title, median_of(rules["repeats"], once)


def collective(rows: Any, rules: Any) -> float:
    """Return the median time in s of a sum over the members of each group.

    Args:
        rows: devices, one row a group.
        rules: the row of the platform.
    """
    import jax  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415
    from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: PLC0415

    mesh = Mesh(np.array(rows), ("group", "member"))
    spread = NamedSharding(mesh, PartitionSpec("group", "member"))
    shape = (len(rows), len(rows[0]), rules["message"] << 18)
    data = jax.make_array_from_callback(
        shape, spread, lambda _: np.ones((1, 1, shape[2]), np.float32)
    )
    together = jax.jit(
        lambda x: x.sum(axis=1), out_shardings=NamedSharding(mesh, PartitionSpec("group"))
    )
    return median_of(rules["repeats"], lambda: together(data))


def arrangements(plan: Any) -> Any:
    """Return [(title, groups of ranks)]: each axis of the mesh, and neighbouring nodes.

    Devices lie in the mesh row by row, slices first, so an axis links ranks that lie a stride
    apart, the product of all degrees after it. Neighbours show which node is slow where one
    group is the whole job: a node that is slow is slow with both of its neighbours.
    """
    ranks, per_node = plan["ranks"], plan["per_node"]
    axes = [("dcn", *row) for row in plan["dcn"]] + [("ici", *row) for row in plan["ici"]]
    found = []
    stride = ranks
    for where, name, degree in axes:
        stride //= degree
        starts = [rank for rank in range(ranks) if rank // stride % degree == 0]
        groups = [[start + index * stride for index in range(degree)] for start in starts]
        found.append((f"{where} {name}", groups))
    nodes = ranks // per_node
    for first in (0, 1) if nodes >= 4 else ():
        pairs = [(node, (node + 1) % nodes) for node in range(first, nodes - 1 + first, 2)]
        if nodes % 2:
            pairs = [pair for pair in pairs if pair[0] < pair[1]]
        groups = [
            [node * per_node + local for node in pair]
            for pair in pairs
            for local in range(per_node)
        ]
        found.append((f"neighbours from node {first}", groups))
    return found


def main(arguments: list[str]) -> int:
    """Go through the stages; an exception ends it, and its text is in the record."""
    parser = argparse.ArgumentParser(description="Look at one process before it trains.")
    parser.add_argument("folder", type=Path)
    measure(parser.parse_args(arguments).folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
