"""Rules on Kubernetes jobs: what the API refuses, and what starts and never trains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moectl.errors import shown
from moectl.rules import kubernetes_env, kubernetes_gpus, kubernetes_ranks
from moectl.rules.kubernetes_read import (
    facts,
    first,
    jobs_of,
    pods_of,
    says_nothing,
    scheduled_together,
    trains,
)
from moectl.rules.rule import Fault, Rule, rules
from moectl.settings.sources.manifest import is_template
from moectl.settings.sources.pods import (
    Job,
    Path,
    entries,
    jobs,
    known,
    mapping,
    number,
    pods,
)
from moectl.workload import UNKNOWN, Manifest, Workload

RULES = rules()
_API: Final = "Kubernetes API reference v1.33"
_JOBSET: Final = "JobSet v0.12.0"

RULES.all.extend(
    [
        Rule(
            "K8S101",
            "manifest that is a template",
            "What a template fills in is not known before it is rendered.",
            "check what it renders: helm template … | moectl validate -",
            "moectl",
            "note",
            "advice",
        ),
        Rule(
            "K8S132",
            "jobs of one run that are admitted one by one",
            "Each job of a file is a workload of its own to Kueue: one can hold its nodes and wait "
            "for the other, which waits for those nodes.",
            "make them replicated jobs of one JobSet, or pods of one pod group",
            "kubernetes-sigs/kueue issue 2796",
            "warning",
            "advice",
        ),
        Rule(
            "K8S102",
            "kind that is not read in depth",
            "Its controller makes the pods, and lays out processes by rules of its own.",
            "give --gpus and --gpus-per-node",
            "moectl",
            "note",
            "advice",
        ),
    ]
)


for module in (kubernetes_env, kubernetes_ranks, kubernetes_gpus):
    RULES.all.extend(module.RULES.all)


@RULES.rule(
    "K8S121",
    "job that never runs all its pods at once",
    reason="Distributed training waits until every process is there.",
    remedy="set completions and parallelism to the number of pods",
    source=f"{_API}, batch/v1 JobSpec",
    severity="warning",
)
def all_at_once(w: Workload) -> Iterator[Fault]:
    """Find completions that differ from parallelism."""
    for manifest, job in jobs_of(w):
        parallelism = number(job.spec.get("parallelism"))
        completions = number(job.spec.get("completions"))
        if UNKNOWN in (parallelism, completions) or completions is None or is_template(manifest):
            continue
        at_once = 1 if parallelism is None else parallelism
        if completions != at_once and max(completions, at_once) > 1:
            fewer = (
                "some never start while the others wait"
                if completions > at_once
                else (f"only {completions} ever run")
            )
            yield Fault(
                "completions",
                f"completions is {completions} and parallelism {at_once}: {fewer}.",
                manifest.at(*job.path, "spec", "completions"),
                f"set both to {max(completions, at_once)}",
            )


@RULES.rule(
    "K8S122",
    "pods without an index",
    reason="Without completionMode: Indexed no pod knows its rank: JOB_COMPLETION_INDEX is not "
    "set and host names are random.",
    remedy="add completionMode: Indexed",
    source=f"{_API}, batch/v1 JobSpec.completionMode; JAX 0.8 jax/_src/clusters/k8s_cluster.py",
    severity="warning",
)
def indexed(w: Workload) -> Iterator[Fault]:
    """Find jobs of several pods with GPUs that are not indexed; JobSet makes its jobs so."""
    for manifest, pod in pods_of(w):
        job = pod.job
        if job is None or not trains(pod):
            continue
        parallelism = number(job.spec.get("parallelism"))
        mode = job.spec.get("completionMode")
        unsaid = mode is None and not job.group and not is_template(manifest)
        if isinstance(parallelism, int) and parallelism > 1 and (unsaid or mode == "NonIndexed"):
            key = "completionMode" if mode is not None else "parallelism"
            yield Fault(
                "completionMode",
                f"{parallelism} pods with GPUs, and completionMode is "
                f"{'NonIndexed' if mode else 'not said, which is NonIndexed'}.",
                manifest.at(*job.path, "spec", key),
            )


@RULES.rule(
    "K8S123",
    "restart policy that a job cannot have",
    reason="The API takes Never or OnFailure for the pods of a job; the default, Always, is "
    "refused.",
    remedy="add restartPolicy: Never",
    source=f"{_API}, batch/v1 JobSpec.template; {_JOBSET} defaults it to OnFailure",
    stage="reads",
)
def restart_policy(w: Workload) -> Iterator[Fault]:
    """Find jobs whose pods restart always."""
    for manifest, pod in pods_of(w):
        if pod.job is None or not pod.spec:
            continue
        policy = pod.spec.get("restartPolicy")
        if policy == "Always" or (
            policy is None and not pod.job.group and not (is_template(manifest))
        ):
            where = (*pod.path, "spec", "restartPolicy")
            said = "is not said, which is Always" if policy is None else "is Always"
            yield Fault("restartPolicy", f"restartPolicy {said}.", manifest.at(*where))


@RULES.rule(
    "K8S131",
    "pods that are not admitted together",
    reason="When two such jobs start at a time each can hold half of the nodes, and both wait for "
    "ever; Kueue admits a whole JobSet or nothing of it, if all its pods are ready in time.",
    remedy="add the label kueue.x-k8s.io/queue-name, and let Kueue wait for pods "
    "(waitForPodsReady)",
    source="kubernetes-sigs/kueue issue 2796",
    severity="warning",
    stage="advice",
)
def gang(w: Workload) -> Iterator[Fault]:
    """Find JobSets of several pods that no queue and no scheduler takes as one."""
    manifest = first(w)
    if manifest is None or is_template(manifest):
        return
    found = [job for job in jobs(manifest) if "replicatedJobs" in job.path]
    of_them = [
        pod for pod in pods(manifest) if pod.job is not None and "replicatedJobs" in pod.job.path
    ]
    if not any(trains(pod) or says_nothing(pod) for pod in of_them):
        return  # half of a job without GPUs holds nothing that another job waits for
    counts = [pod.count for pod in of_them]
    if not found or UNKNOWN in counts or sum(filter(None, counts)) < 2:
        return
    labels = mapping(mapping(manifest.data.get("metadata")).get("labels"))
    if facts()["queue_label"] in labels or scheduled_together(manifest):
        return
    yield Fault(
        "metadata.labels",
        f"{sum(filter(None, counts))} pods, and nothing admits them together: no Kueue queue, no "
        "gang scheduler, no exclusive topology.",
        manifest.at("metadata", "labels"),
    )


@RULES.rule(
    "K8S151",
    "retries of what cannot succeed",
    reason="MaxText exits with 2 for a configuration it refuses; every retry ends the same way, "
    "after image pull and start-up on all nodes.",
    remedy="add podFailurePolicy with action FailJob for exit code 2",
    source="MaxText 0.2.5 configs/pyconfig.py:371-397; AI-Hypercomputer/maxtext PR 3933",
    severity="note",
    stage="advice",
)
def retries(w: Workload) -> Iterator[Fault]:
    """Find MaxText jobs that are started again whatever ended them."""
    manifest = w.manifest
    if manifest is None or not w.is_maxtext:
        return
    policy = mapping(mapping(manifest.data.get("spec")).get("failurePolicy"))
    restarts = number(policy.get("maxRestarts"))
    for job in _job_of(w, manifest):
        if "podFailurePolicy" in job.spec or entries(policy.get("rules")):
            continue
        limit = number(job.spec.get("backoffLimit"))
        if limit is UNKNOWN or restarts is UNKNOWN or is_template(manifest):
            continue
        times = (6 if limit is None else limit) if not job.group else 0
        times = max(times, restarts or 0)
        if times:
            key: Path = (
                ("spec", "failurePolicy", "maxRestarts")
                if restarts
                else (
                    *job.path,
                    "spec",
                    "backoffLimit",
                )
            )
            yield Fault(
                str(key[-1]),
                f"a configuration that MaxText refuses is tried {times + 1} times.",
                manifest.at(*key),
            )


def _job_of(w: Workload, manifest: Manifest) -> list[Job]:
    """Return the job in which a workload stands: the last one that begins above it."""
    line = w.origin.line or 0
    above = [job for job in jobs(manifest) if (manifest.at(*job.path).line or 0) <= line]
    return above[-1:] or jobs(manifest)[:1]


@RULES.rule(
    "K8S152",
    "finished job that its controller makes anew",
    reason="When the time to live deletes a failed JobSet that a controller owns, the controller "
    "makes it again with its restart counter at zero.",
    remedy="leave ttlSecondsAfterFinished to the owner",
    source="kubeflow/trainer issue 3779",
    severity="warning",
    stage="silent",
)
def owned_and_short_lived(w: Workload) -> Iterator[Fault]:
    """Find a time to live on an object that a controller owns, or makes from a runtime."""
    manifest = w.manifest
    if manifest is None:
        return
    data = manifest.data
    owners = entries(mapping(data.get("metadata")).get("ownerReferences"))
    owned = any(mapping(owner).get("controller") is True for owner in owners)
    ttl = "ttlSecondsAfterFinished"
    path: Path = ("spec", ttl)
    spec = mapping(data.get("spec"))
    if str(data.get("kind")).endswith("TrainingRuntime"):
        owned, path = True, ("spec", "template", *path)
        spec = mapping(mapping(spec.get("template")).get("spec"))
    seconds = number(spec.get(ttl))
    if owned and isinstance(seconds, int):
        yield Fault(
            ttl,
            f"it is deleted {seconds} s after it ended, and its controller makes it anew.",
            manifest.at(*path),
        )


@RULES.rule(
    "K8S171",
    "API version that is not served",
    reason="The API server knows no such kind under this version.",
    remedy="use the version that the message gives",
    source=f"{_API}; {_JOBSET} config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
    stage="reads",
)
def api_version(w: Workload) -> Iterator[Fault]:
    """Find e.g. JobSet under jobset.x-k8s.io/v1alpha1."""
    manifest = w.manifest
    if manifest is None:
        return
    kind = known(manifest.data.get("kind"))
    version = known(manifest.data.get("apiVersion"))
    row = facts()["kinds"].get(kind)
    if row is None or version is None or version in row["versions"]:
        return
    served = row["versions"][0]
    ours = version.partition("/")[0] == served.partition("/")[0] or "/" not in version
    if ours or "." not in version.partition("/")[0]:  # another group may have its own kind
        yield Fault(
            "apiVersion",
            f"{kind} is not served as {shown(version, 60)}.",
            manifest.at("apiVersion"),
            f"apiVersion: {served}",
        )
