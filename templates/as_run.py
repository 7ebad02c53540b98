"""Notes down what ran: FOLDER/as-run.json. Standard library only, Python 3.8 or newer.

Rank 0 starts it beside the run. It gives up after a minute, and nothing waits for its answer
but the end of the run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import signal
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

SECONDS = 60
FILES = (
    "config.yml",
    "launch.sbatch",
    "launch.py",
    "launch.json",
    "rank.sh",
    "placement.py",
    "pod_start.py",
    "pod.json",
    "watchdog.py",
    "preflight.py",
    "preflight_judge.py",
    "go_on.py",
    "moectl.lock.yaml",
)
SECRET = re.compile(r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY", re.I)


def environment(values: Mapping[str, str], secrets: set[str]) -> tuple[dict[str, str], list[str]]:
    """Return (variables without secrets, names withheld)."""
    withheld = sorted(name for name in values if name in secrets or SECRET.search(name))
    shown = {name: values[name] for name in sorted(values) if name not in withheld}
    return shown, withheld


def packages() -> dict[str, str]:
    """Return the version of every installed package, without importing one."""
    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(name, distribution.version)
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def slices(folder: Path) -> list[dict[str, list[str]]]:
    """Return the nodes of every slice, in the order of the ranks, and their NVLink domains."""
    found: dict[int, dict[str, list[str]]] = {}
    for row in (line.split() for line in read(folder / "nodes").splitlines()):
        if len(row) == 3 and row[1].isdigit():
            held = found.setdefault(int(row[1]), {"nodes": [], "domains": []})
            held["nodes"].append(row[0])
            if row[2] != "-" and row[2] not in held["domains"]:
                held["domains"].append(row[2])
    return list(found.values())


def read(path: Path) -> str:
    """Return the text of a file, or nothing."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the files of the bundle."""
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in FILES
        if (folder / name).is_file()
    }


def record(
    values: Mapping[str, str], folder: Path, image: str, secrets: set[str]
) -> dict[str, object]:
    """Return the whole record."""
    shown, withheld = environment(values, secrets)
    return {
        "format": 1,
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "job": values.get("SLURM_JOB_ID"),
        "restarts": int(values.get("SLURM_RESTART_COUNT") or 0),
        "cluster": values.get("SLURM_CLUSTER_NAME"),
        "partition": values.get("SLURM_JOB_PARTITION"),
        "processes": int(values.get("SLURM_NTASKS") or 0),
        "coordinator": values.get("JAX_COORDINATOR_ADDRESS"),
        "slices": slices(folder),
        "image": image,
        "python": platform.python_version(),
        "system": platform.platform(),
        "driver": read(Path("/proc/driver/nvidia/version")).split("\n", 1)[0],
        "files": digests(Path()),
        "packages": packages(),
        "environment": shown,
        "withheld": withheld,
    }


def main(arguments: list[str]) -> int:
    """Write the record whole or not at all."""
    parser = argparse.ArgumentParser(description="Note down what runs.")
    parser.add_argument("--image", default="")
    parser.add_argument("--secret", action="append", default=[])
    parser.add_argument("--job", help="its name, where no Slurm says it")
    parser.add_argument("--restarts", type=int, default=0)
    parser.add_argument("folder")
    options = parser.parse_args(arguments)
    signal.alarm(SECONDS)
    folder = Path(options.folder)
    found = record(os.environ, folder, options.image, set(options.secret))
    if options.job is not None:
        found.update(job=options.job, restarts=options.restarts)
    text = json.dumps(found, indent=1)
    part = folder / "as-run.json.part"
    part.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
    part.replace(folder / "as-run.json")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
