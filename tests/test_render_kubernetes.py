"""The manifest: golden files, the real schemas, and one choice at a time."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl import placement
from moectl.errors import UsageError
from moectl.job import Checkout, Container, Job
from moectl.job_kubernetes import Volume
from moectl.launch.kubernetes_names import named
from moectl.render import kubernetes_objects
from moectl.render.kubernetes import documents, manifest
from moectl.render.kubernetes_plan import plan
from moectl.render.variables import value_text
from moectl.resolve.kubernetes import networks
from tests.support import golden, jobs, kubernetes_schemas
from tests.support.kubernetes_jobs import JOBS, LOCK, full, nvl72, on, plain
from tests.support.pods import environment, pod_spec

# Of these the keys are data: any is legal to the API, and the golden files hold them.
FREE = {"data", "labels", "annotations", "nodeSelector", "limits", "volumeAttributes"}


def read(job: Job) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(manifest(job, LOCK)))


def jobset(job: Job) -> dict[str, Any]:
    return read(job)[-1]


def faults(found: list[dict[str, Any]]) -> list[Any]:
    of_schemas = [fault for document in found for fault in kubernetes_schemas.faults(document)]
    return of_schemas or kubernetes_objects.faults(found)


def without_programs(text: str) -> str:
    """Return a manifest without the programs, which are the same for every job."""
    kept, skip = [], False
    for line in text.splitlines(keepends=True):
        if line.startswith("  ") and not line.startswith("   "):
            skip = line.strip().endswith(".py: |")
        elif line.strip() and not line.startswith("  "):
            skip = False
        if not skip:
            kept.append(line)
    return "".join(kept)


@pytest.mark.parametrize("name", JOBS)
def test_the_manifests_are_as_they_were(name: str) -> None:
    written = {"jobset.yaml": without_programs(manifest(JOBS[name], LOCK))}
    golden.compare(f"kubernetes/{name}", written)


@pytest.mark.parametrize("name", JOBS)
def test_a_manifest_reads_back_as_the_objects_it_was_written_from(name: str) -> None:
    assert read(JOBS[name]) == documents(JOBS[name], LOCK)


@pytest.mark.parametrize("name", JOBS)
def test_every_object_validates_against_the_real_schemas(name: str) -> None:
    assert faults(read(JOBS[name])) == []


@pytest.mark.parametrize("network", networks())
def test_every_ready_network_gives_a_valid_manifest_and_names_its_source(network: str) -> None:
    found = read(on(jobs.deepseek(), network=network))
    assert faults(found) == []
    row = networks()[network]
    assert row["title"]
    assert row["source"]


def keys(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every field of an object; what is free is left out."""
    if isinstance(value, dict):
        for key, held in value.items():
            yield (*path, key)
            if key not in FREE:
                yield from keys(held, (*path, key))
    elif isinstance(value, list):
        for index, held in enumerate(value):
            yield from keys(held, (*path, index))


def misspelt(document: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    """Return an object with one field's name misspelt."""
    changed = copy.deepcopy(document)
    at: Any = changed
    for part in path[:-1]:
        at = at[part]
    at[f"{path[-1]}s"] = at.pop(path[-1])
    return changed


@pytest.mark.parametrize("name", ["nvl72", "full"])
def test_a_typo_in_any_field_is_found(name: str) -> None:
    found = read(JOBS[name])
    passed, tried = [], 0
    for number, document in enumerate(found):
        for path in keys(document):
            changed = [*found]
            changed[number] = misspelt(document, path)
            tried += 1
            of_schema = kubernetes_schemas.faults(changed[number])
            if not (of_schema or kubernetes_objects.faults(changed)):
                passed.append(path)
    assert passed == []
    assert tried > 100


def at(document: Any, path: str) -> tuple[Any, Any]:
    """Return the holder and the key of a dotted path."""
    *heads, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    for part in heads:
        document = document[part]
    return document, last


POD = "spec/replicatedJobs/0/template/spec/template"
WRONG: dict[str, tuple[str, Any]] = {
    "a name too long": ("metadata/name", "a" * 42),
    "a name with capitals": ("metadata/name", "Run"),
    "a name that begins with a digit": ("metadata/name", "8x7b"),
    "a namespace with dots": ("metadata/namespace", "a.b"),
    "a label too long": ("metadata/labels/team", "x" * 64),
    "a label with a blank": ("metadata/labels/team", "a b"),
    "a label key with two slashes": ("metadata/labels/a//b", "x"),
    "a slip in a key of Kueue": ("metadata/labels/kueue.x-k8s.io~1queue-nam", "x"),
    "an unknown restart policy": (f"{POD}/spec/restartPolicy", "Always"),
    "an unknown action": ("spec/failurePolicy/rules/0/action", "Fail"),
    "a rule's name with a dash": ("spec/failurePolicy/rules/0/name", "never-again"),
    "an unknown effect": (f"{POD}/spec/tolerations/0/effect", "NoScheduling"),
    "a value where none may be": (f"{POD}/spec/tolerations/1/value", "x"),
    "an unknown medium": (f"{POD}/spec/volumes/2/emptyDir/medium", "memory"),
    "a size that is no quantity": (f"{POD}/spec/volumes/2/emptyDir/sizeLimit", "64 GB"),
    "a resource that is no quantity": (
        f"{POD}/spec/containers/0/resources/limits/cpu", "many"
    ),
    "a mount without a volume": (f"{POD}/spec/containers/0/volumeMounts/0/name", "nothing"),
    "a relative mount": (f"{POD}/spec/containers/0/volumeMounts/0/mountPath", "data"),
    "two mounts at one path": (f"{POD}/spec/containers/0/volumeMounts/0/mountPath", "/dev/shm"),  # noqa: S108
    "a volume said twice": (f"{POD}/spec/volumes/1/name", "files"),
    "a volume of two sources": (f"{POD}/spec/volumes/1/hostPath", {"path": "/x"}),
    "a ConfigMap that is not there": (f"{POD}/spec/volumes/0/configMap/name", "other"),
    "a variable said twice": (f"{POD}/spec/containers/0/env/1/name", "A"),
    "a variable with a blank": (f"{POD}/spec/containers/0/env/1/name", "A B"),
    "a service account with a blank": (f"{POD}/spec/serviceAccountName", "a b"),
    "a priority class with capitals": (f"{POD}/spec/priorityClassName", "High"),
    "a Secret's name with a blank": (f"{POD}/spec/imagePullSecrets/0/name", "a b"),
    "an image with a blank": (f"{POD}/spec/containers/0/image", "a b"),
    "a container's name with dots": (f"{POD}/spec/initContainers/0/name", "a.b"),
    "another container's exit code": (
        "spec/replicatedJobs/0/template/spec/podFailurePolicy/rules/1/onExitCodes/containerName",
        "other",
    ),
    "pods that never run at once": ("spec/replicatedJobs/0/template/spec/parallelism", 2),
    "pods' names too long": ("spec/replicatedJobs/0/name", "n" * 50),
    "a claim that the pod lacks": (
        f"{POD}/spec/containers/0/resources/claims", [{"name": "compute-domain-channel"}]
    ),
    "slices that do not divide": (
        f"{POD}/metadata/annotations/kueue.x-k8s.io~1podset-slice-size", "3"
    ),
    "two topologies": (
        f"{POD}/metadata/annotations/kueue.x-k8s.io~1podset-preferred-topology", "a/b"
    ),
    "a topology that is no label": (
        f"{POD}/metadata/annotations/kueue.x-k8s.io~1podset-required-topology", "a b"
    ),
    "annotations too large": (f"{POD}/metadata/annotations/a", "x" * (256 << 10)),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_rules_of_our_own_find_what_schemas_miss(what: str) -> None:
    found = read(full())
    path, value = WRONG[what]
    holder, key = at(found[-1], path.replace("//", "\0"))
    key = key.replace("~1", "/").replace("\0", "//") if isinstance(key, str) else key
    holder[key] = value
    assert kubernetes_objects.faults(found) != []


def test_a_config_map_too_large_is_found() -> None:
    found = read(plain())
    found[0]["data"]["config.yml"] = "x" * (1 << 20)
    assert kubernetes_objects.faults(found) != []


@pytest.mark.parametrize("name", JOBS)
def test_variables_arrive_as_the_job_says_them(name: str) -> None:
    job = JOBS[name]
    values = environment(jobset(job))
    for variable, said in job.environment.items():
        assert values[variable] == value_text(said.value)


def test_secrets_stand_there_by_reference_only() -> None:
    (row,) = [
        row for row in pod_spec(jobset(full()))["containers"][0]["env"] if "HF_" in row["name"]
    ]
    reference = {"secretKeyRef": {"name": "hugging-face", "key": "token"}}
    assert row == {"name": "HF_TOKEN", "valueFrom": reference}
    own = on(jobs.hgx(), secret="moectl")  # noqa: S106 - the name of a Secret
    (row,) = [row for row in pod_spec(jobset(own))["containers"][0]["env"] if "HF_" in row["name"]]
    assert row["valueFrom"]["secretKeyRef"] == {"name": "moectl", "key": "HF_TOKEN"}


def test_slices_and_the_compute_domain_follow_the_numbers_that_slurm_gets() -> None:
    job = nvl72()
    found = read(job)
    annotations = jobset(job)["spec"]["replicatedJobs"][0]["template"]["spec"]["template"][
        "metadata"
    ]["annotations"]
    segment = placement.ask(job).segment
    assert annotations["kueue.x-k8s.io/podset-slice-size"] == str(segment) == "16"
    assert [d["kind"] for d in found] == ["ConfigMap", "ComputeDomain", "JobSet"]
    assert found[1]["spec"]["numNodes"] == job.nodes
    claim = found[1]["spec"]["channel"]["resourceClaimTemplate"]["name"]
    assert pod_spec(found[2])["resourceClaims"][0]["resourceClaimTemplateName"] == claim
    told = plan(job)
    assert told["nodes_per_slice"] == 16
    assert told["spans"]


def test_without_kueue_a_job_of_one_slice_is_kept_in_one_domain() -> None:
    label = "nvidia.com/gpu.clique"
    job = on(jobs.job(jobs.GB200, 8, slice_gpus=32), domain_topology=label)
    found = read(job)
    assert faults(found) == []
    (term,) = pod_spec(found[-1])["affinity"]["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["topologyKey"] == label
    (renamed,) = [
        d for d in named(found, "x-20261130-120000-ab12", "1", "n") if d["kind"] == "JobSet"
    ]
    (term,) = pod_spec(renamed)["affinity"]["podAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert list(term["labelSelector"]["matchLabels"].values()) == [renamed["metadata"]["name"]]
    two = jobset(on(jobs.deepseek(), domain_topology=label))
    assert "affinity" not in pod_spec(two)
    assert (
        "annotations"
        not in two["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"]
    )


def test_nodes_that_share_no_nvlink_get_no_compute_domain() -> None:
    assert [d["kind"] for d in read(on(jobs.hgx(), secret="s"))] == ["ConfigMap", "JobSet"]  # noqa: S106
    assert len(read(on(jobs.deepseek(), compute_domain=False))) == 2
    assert len(read(on(jobs.one_node(), compute_domain=True))) == 3


def test_config_errors_and_memory_are_not_started_again_and_disruptions_are() -> None:
    job = jobset(plain())["spec"]["replicatedJobs"][0]["template"]["spec"]
    disruption, never = job["podFailurePolicy"]["rules"]
    assert disruption["action"] == "Count"
    assert disruption["onPodConditions"][0]["type"] == "DisruptionTarget"
    exits = plan(plain())["exits"]
    again = {exits["join"], exits["ended"], 1, 124, 125, 134, 139}
    values = set(never["onExitCodes"]["values"])
    assert {exits["config"], exits["memory"], exits["hopeless"]} <= values
    assert not again & values


REFUSED: dict[str, tuple[Job, str]] = {
    "a squashfs image": (
        on(replace(jobs.one_node(), container=Container(replace(jobs.IMAGE, reference="/x.sqsh")))),
        "Kubernetes pulls images from a registry",
    ),
    "a secret without a Secret": (on(jobs.hgx()), "cluster.kubernetes.secret"),
    "a secret by value": (
        on(replace(jobs.one_node(), environment=jobs.said({"HF_TOKEN": "hf_0123456789abcdef"}))),
        "HF_TOKEN is a secret",
    ),
    "checkpoints that vanish": (
        on(replace(jobs.one_node(), config=jobs.said({"enable_checkpointing": True}))),
        "would vanish with the pods",
    ),
    "a cache that vanishes": (
        on(replace(jobs.one_node(), cache_directory="/cache")),
        "would vanish with the pods",
    ),
    "a volume over the bundle": (
        on(jobs.one_node(), volumes=(Volume("/moectl", claim="x"),)),
        "something else is there",
    ),
    "two volumes at one path": (
        on(jobs.one_node(), volumes=(Volume("/a", claim="x"), Volume("/a", claim="y"))),
        "stands twice",
    ),
    "a relative host path": (
        on(jobs.one_node(), volumes=(Volume("/a", host_path="x"),)),
        "an absolute path",
    ),
    "a bucket of nobody": (
        on(jobs.one_node(), volumes=(Volume("/a", bucket="s4:x"),)),
        "unknown kind of bucket 's4'",
    ),
    "a quantity of nothing": (on(jobs.one_node(), resources={"cpu": "lots"}), "a quantity"),
    "a toleration of nothing": (on(jobs.one_node(), tolerations=("a b",)), "a key's name"),
    "a label with blanks": (on(jobs.one_node(), labels={"a": "b c"}), "a label's value"),
    "a topology without Kueue": (
        on(jobs.one_node(), required_topology="zone"),
        "Kueue alone reads it",
    ),
    "two topologies": (
        on(jobs.one_node(), queue="q", required_topology="a", preferred_topology="b"),
        "Kueue takes one of",
    ),
    "a NUL character": (
        on(replace(jobs.one_node(), environment=jobs.said({"A": "a\0b"}))),
        "NUL",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_manifest_cannot_say_is_refused_in_a_sentence(what: str) -> None:
    job, told = REFUSED[what]
    with pytest.raises(UsageError) as caught:
        manifest(job, LOCK)
    assert told in str(caught.value)
    assert "hf_0123456789abcdef" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_all_faults_are_told_at_once() -> None:
    job = on(jobs.hgx(), volumes=(Volume("a", host_path="x"), Volume("/b", bucket="s4:x")))
    with pytest.raises(UsageError) as caught:
        manifest(job, LOCK)
    assert str(caught.value).count("\n") >= 3


@pytest.mark.parametrize(
    "name", ["-a 'b' $(d) `e` é\\", "8x7b", "A" * 200, "...", "mixtral.8x7b_v1", "ünï"]
)
def test_names_are_legal_whatever_the_run_is_called(name: str) -> None:
    found = read(replace(plain(), name=name, title="x\n---\nkind: Pod"))
    assert len(found) == 2
    assert faults(found) == []


def test_checkouts_are_mounted_and_come_first() -> None:
    checkouts = (Checkout("maxtext", "/home/me/max text", "0123"),)
    job = on(replace(jobs.one_node(), container=Container(jobs.IMAGE, (), checkouts)))
    assert faults(read(job)) == []
    assert plan(job)["python_path"] == ["/moectl-source/maxtext/src"]
    assert "/moectl-source/maxtext" in {
        mount["mountPath"] for mount in pod_spec(jobset(job))["containers"][0]["volumeMounts"]
    }


def test_the_work_is_done_where_the_site_keeps_its_runs() -> None:
    job = on(jobs.one_node(), volumes=(Volume("/runs", claim="runs"),))
    assert plan(job)["work"] == "/moectl"
    held = replace(job, cluster=replace(job.cluster, runs_folder="/runs/me"))
    assert plan(held)["work"] == "/runs/me/{jobset}"
    assert faults(read(held)) == []


def test_a_time_limit_of_none_leaves_the_deadline_out() -> None:
    job = plain()
    job = replace(job, cluster=replace(job.cluster, time="0"))
    assert (
        "activeDeadlineSeconds" not in jobset(job)["spec"]["replicatedJobs"][0]["template"]["spec"]
    )


WORDS = st.text(max_size=12) | st.sampled_from(
    ["a", "gpu", "a/b", "A.b_c", "-x", "x" * 64, "x" * 300, "8Gi", "1.5e3", "", " ", "é", "a\nb"]
)
PATHS = st.sampled_from(["/a", "/b/c", "/runs", "/moectl", "/dev/shm", "a", "/a/../b", "/a:b", ""])  # noqa: S108
PAIRS = st.dictionaries(WORDS, WORDS, max_size=2)
VOLUMES = st.lists(
    st.builds(Volume, PATHS, claim=WORDS.filter(bool))
    | st.builds(Volume, PATHS, host_path=PATHS.filter(bool))
    | st.builds(Volume, PATHS, bucket=WORDS.filter(bool) | WORDS.map("gcs:{}".format)),
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "namespace": WORDS,
            "network": st.sampled_from(sorted(networks())),
            "gpu_resource": WORDS,
            "resources": PAIRS,
            "shared_memory": WORDS,
            "annotations": PAIRS,
            "labels": PAIRS,
            "node_selector": PAIRS,
            "tolerations": st.lists(WORDS, max_size=2).map(tuple),
            "priority_class": WORDS,
            "service_account": WORDS,
            "image_pull_secrets": st.lists(WORDS, max_size=2).map(tuple),
            "volumes": VOLUMES.map(tuple),
            "queue": WORDS,
            "workload_priority": WORDS,
            "domain_topology": WORDS,
            "required_topology": WORDS,
            "preferred_topology": WORDS,
        },
    ),
    WORDS,
)
def test_whatever_a_profile_says_it_is_refused_or_valid(site: dict[str, Any], name: str) -> None:
    job = on(replace(jobs.deepseek(), name=name), **site)
    try:
        text = manifest(job, LOCK)
    except UsageError:
        return
    found = list(yaml.safe_load_all(text))
    assert [fault for document in found for fault in kubernetes_schemas.faults(document)] == []
    assert found == documents(job, LOCK)
