"""What the tests of long runs share: a site whose Slurm keeps no accounts and preempts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import launching
from tests.support.launching import Site, eventually, person
from tests.support.slurm import Slurm, cluster

# Jobs of "low" are told 30 s before one of "urgent" takes their nodes.
CONFIGURATION = """\
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=ALL MaxTime=INFINITE PriorityTier=1 GraceTime=30 State=UP
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=10 State=UP
PartitionName=held Nodes=ALL MaxTime=INFINITE State=DOWN"""
MORE = """\
form: pretrain
data: {type: synthetic}
output_directory: gs://bucket/moe
"""
# Shell functions of a stand-in for MaxText; the folders of logs tell which start it is.
TRAINING = """\
start=$(ls -d logs/*/ | wc -l)
step() {
  echo "completed step: $1, seconds: 0.100, TFLOP/s/device: 100.000," \\
    "Tokens/s/device: 1000.000, total_weights: 1024, loss: 10.0"
}
stopped() { echo 'Training stopped: Job received termination signal (SIGTERM).'; exit 0; }
"""


@contextlib.contextmanager
def site_without_accounts() -> Iterator[Slurm]:
    """Start a Slurm of 4 nodes with 4 pretend GPUs each."""
    with cluster(nodes=4, gpus=4, cpus=64, extra=CONFIGURATION) as slurm:
        yield slurm


@contextlib.contextmanager
def at(slurm: Slurm, folder: Path) -> Iterator[Site]:
    """Be a person at a Slurm of one's own."""
    patch = pytest.MonkeyPatch()
    patch.setattr(launching, "slurm", lambda: slurm)
    try:
        with person(folder) as site:
            yield site
    finally:
        patch.undo()


def words(site: Site, *more: str, partition: str = "batch", profile: str = "") -> list[str]:
    """Return the words of a launch of a run that can be made of several jobs."""
    run = site.run_file("moe", 8, MORE)
    return ["launch", run, "--cluster", site.cluster_file(partition, profile), *more]


def record(site: Site) -> dict[str, Any]:
    """Return the only record."""
    (found,) = site.records().values()
    return found


def ids(site: Site) -> list[str]:
    """Return the jobs of the only run."""
    return [entry["job"] for entry in record(site)["jobs"]]


def logs(site: Site, job: str) -> Path:
    """Return the folder of logs of a start."""
    return Path(record(site)["bundle"]) / "logs" / job


def end(site: Site, job: str) -> dict[str, Any]:
    """Return what the script of a start left at its end."""
    found = json.loads((logs(site, job) / "end.json").read_text())
    assert isinstance(found, dict)
    return found


def printed(site: Site, job: str) -> str:
    """Return what the batch script of a job printed."""
    return (Path(record(site)["bundle"]) / f"moe-{job}.log").read_text()


def ended(site: Site, *jobs: str) -> list[str]:
    """Wait until jobs have ended and return Slurm's words for them."""
    for job in jobs:
        site.until(job, "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", limit=300)
    return [site.state(job) for job in jobs]


def begin_now(site: Site, job: str) -> None:
    """Let a requeued job begin soon; Slurm has it wait for two minutes.

    A node that still ends the first start refuses the second one, and so it does as long as it
    takes the new credential for that of the first; Slurm then ends or holds the job.
    """
    site.until(job, "PENDING", limit=120)
    site.slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now+10")

    def begun() -> bool:
        if site.state(job) == "PENDING":
            site.slurm.run("scontrol", "release", job)
        return any(logs(site, job).parent.glob(f"{job}.*"))

    eventually(begun, f"job {job} begins again", 240)


def last_start(site: Site, job: str) -> str:
    """Return the name of the folder of a job's last start."""
    found = logs(site, job).parent.glob(f"{job}.*")
    return max((path.name for path in found), key=lambda name: int(name.partition(".")[2]))
