"""Jobs on Kubernetes, for tests of manifests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moectl.job import Job, Mount
from moectl.job_kubernetes import InitContainer, Volume
from tests.support import jobs

LOCK = "moectl: 1\n"


def on(job: Job, **site: Any) -> Job:
    """Return a job on Kubernetes with what a profile says there."""
    held = replace(job.cluster.kubernetes, **site)
    return replace(job, launcher="kubernetes", cluster=replace(job.cluster, of_kubernetes=held))


def nvl72() -> Job:
    """Return DeepSeek-V3 on 32 nodes of GB200 NVL72 at GKE, with Kueue."""
    return on(
        jobs.deepseek(),
        namespace="team",
        network="gke-gib-a4x",
        queue="gpu",
        workload_priority="high",
        domain_topology="nvidia.com/gpu.clique",
        preferred_topology="cloud.google.com/gce-topology-block",
    )


def full() -> Job:
    """Return a job that uses everything a profile may say."""
    job = jobs.hgx()
    container = replace(job.container, mounts=(Mount("/data/c4", "/data", read_only=True),))
    job = replace(
        job,
        container=container,
        environment=jobs.said({"A": "$(HOME) $$ `id` é", "LONG": "x" * 5000}),
        cache_directory="/runs/cache",
        debug=True,
    )
    return on(
        job,
        namespace="team-a",
        network="coreweave-ib",
        resources={"cpu": "100", "memory": "1500Gi"},
        shared_memory="256Gi",
        annotations={"example.com/note": "it's [a] note: #1"},
        labels={"team": "nlp"},
        node_selector={"gpu.nvidia.com/class": "H100_NVLINK_80GB"},
        tolerations=("dedicated=moe:NoSchedule", "spot"),
        priority_class="production",
        service_account="trainer",
        image_pull_secrets=("registry",),
        secret="moectl",  # noqa: S106 - the name of a Secret
        secret_keys={"HF_TOKEN": ("hugging-face", "token")},
        volumes=(
            Volume("/runs", claim="runs"),
            Volume("/scratch", host_path="/mnt/nvme"),
            Volume("/bucket", bucket="gcs:team-data", read_only=True),
        ),
        init_containers=(InitContainer("warm", "busybox:1.37", ("sh", "-c", "echo $(date)")),),
        termination_grace=900,
        queue="gpu",
        workload_priority="low",
        suspend=True,
        required_topology="topology.kubernetes.io/zone",
        max_restarts=0,
        keep_seconds=None,
    )


def plain() -> Job:
    """Return a job of which a profile says nothing."""
    return on(jobs.one_node())


JOBS = {"nvl72": nvl72(), "full": full(), "plain": plain()}
