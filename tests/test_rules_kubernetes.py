"""Kubernetes: what the API refuses and what never trains is found; clean manifests stay clean."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.findings import Finding
from moectl.rules.kubernetes import RULES
from moectl.rules.kubernetes_read import platform_of
from moectl.settings.sources.read import read_source
from moectl.workload import Workload


def judged(text: str) -> list[Finding]:
    source = read_source("m.yml", text, lambda _: None, "manifest")
    found = list(source.findings)
    for part in source.parts:
        workload = Workload(
            kind=part.kind, origin=part.origin, maxtext="0.2.5", jaxlib="0.12.0.1",
            is_maxtext=part.is_maxtext, config=part.config, arguments=part.arguments,
            environment=part.environment, manifest=part.manifest, layout=part.layout,
        )  # fmt: skip
        for rule in RULES.all:
            found += rule.findings(workload)
    return list(dict.fromkeys(found))


def loud(text: str) -> list[tuple[str, str, int | None]]:
    return [(f.code, f.severity, f.line) for f in judged(text) if f.severity != "note"]


CLEAN_JOBSET = """apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: ds3
  labels: {kueue.x-k8s.io/queue-name: train}
spec:
  failurePolicy: {maxRestarts: 0}
  network: {enableDNSHostnames: true, subdomain: ds3}
  replicatedJobs:
  - name: workers
    replicas: 1
    template:
      spec:
        parallelism: 16
        completions: 16
        completionMode: Indexed
        backoffLimit: 0
        template:
          metadata:
            annotations: {kueue.x-k8s.io/podset-required-topology: nvlink}
          spec:
            restartPolicy: Never
            hostNetwork: true
            dnsPolicy: ClusterFirstWithHostNet
            nodeSelector:
              cloud.google.com/gke-accelerator: nvidia-gb200
            volumes:
            - name: shm
              emptyDir: {medium: Memory, sizeLimit: 200Gi}
            containers:
            - name: train
              image: ghcr.io/nvidia/jax:maxtext-2026-10-06
              env:
              - name: NODE_RANK
                valueFrom: {fieldRef: {fieldPath: metadata.name}}
              - {name: JOB, value: ds3}
              - {name: JAX_COORDINATOR_IP, value: "$(JOB)-workers-0-0.ds3"}
              - {name: JAX_COORDINATOR_PORT, value: "6002"}
              - {name: NNODES, value: "16"}
              - name: HF_TOKEN
                valueFrom: {secretKeyRef: {name: hf, key: token}}
              command: [bash, -c]
              args:
              - |
                exec python3 -m maxtext.trainers.pre_train.train base.yml \\
                  run_name=ds3 hardware=gpu
              resources:
                requests: {nvidia.com/gpu: 4}
                limits: {nvidia.com/gpu: 4}
              volumeMounts:
              - {name: shm, mountPath: /dev/shm}
"""
CLEAN_JOB = """apiVersion: batch/v1
kind: Job
metadata: {name: llama}
spec:
  parallelism: 4
  completions: 4
  completionMode: Indexed
  backoffLimit: 0
  template:
    spec:
      subdomain: llama
      restartPolicy: Never
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
      containers:
      - name: t
        image: ghcr.io/nvidia/jax:maxtext-2026-10-06
        command: [python3, -m, maxtext.trainers.pre_train.train, base.yml, run_name=r]
        resources: {limits: {nvidia.com/gpu: "8"}}
        volumeMounts: [{name: s, mountPath: /dev/shm}]
      volumes: [{name: s, emptyDir: {medium: Memory}}]
"""
CLEAN_POD = """apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: Never
  hostIPC: true
  containers:
  - name: t
    image: nvcr.io/nvidia/jax:26.03-maxtext-py3
    env:
    - {name: XLA_FLAGS, value: "x"}
    - {name: XLA_FLAGS, value: "$(XLA_FLAGS) y"}
    resources: {limits: {nvidia.com/gpu: 8}}
"""
CLEAN_CLAIM = """apiVersion: batch/v1
kind: Job
metadata: {name: gb300}
spec:
  parallelism: 8
  completions: 8
  completionMode: Indexed
  template:
    spec:
      restartPolicy: OnFailure
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions:
              - {key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-GB300]}
      resourceClaims: [{name: domain, resourceClaimTemplateName: channel}]
      containers:
      - name: t
        image: ghcr.io/nvidia/jax:maxtext-2026-10-06
        resources: {limits: {nvidia.com/gpu: 4}, claims: [{name: domain}]}
        volumeMounts: [{name: s, mountPath: /dev/shm/}]
      volumes: [{name: s, hostPath: {path: /dev/shm}}]
"""
CLEAN_CPU = """apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: one, annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}
spec:
  replicatedJobs:
  - name: a
    template: {spec: {parallelism: 2, completions: 2, template: {spec: {containers: [{name: c, image: a:1}]}}}}
  - name: b
    template: {spec: {parallelism: 2, template: {spec: {containers: [{name: c, image: a:1}]}}}}
"""  # noqa: E501
CLEAN = [CLEAN_JOBSET, CLEAN_JOB, CLEAN_POD, CLEAN_CLAIM, CLEAN_CPU]


@pytest.mark.parametrize("text", CLEAN, ids=["jobset", "job", "pod", "claim", "cpu"])
def test_a_clean_manifest_has_no_finding_above_a_note(text: str) -> None:
    assert loud(text) == []


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


FAULTS = {
    "used before": (CLEAN_JOBSET, [("              - {name: JOB, value: ds3}\n", ""), (
        "              - {name: NNODES, value: \"16\"}\n",
        "              - {name: NNODES, value: \"16\"}\n              - {name: JOB, value: ds3}\n",
    )], ("K8S111", "error", 36)),
    "itself": (CLEAN_JOBSET, [("value: ds3}", 'value: "$(JOB)"}')], ("K8S111", "error", 36)),
    "undefined": (CLEAN_JOBSET, [('"16"}', '"$(NUM)"}')], ("K8S112", "warning", 39)),
    "number": (CLEAN_JOBSET, [('"16"}', "16}")], ("K8S113", "error", 39)),
    "boolean": (CLEAN_JOBSET, [('"16"}', "yes}")], ("K8S113", "error", 39)),
    "twice": (CLEAN_JOBSET, [("{name: JAX_COORDINATOR_PORT", "{name: NNODES")],
              ("K8S114", "warning", 39)),
    "secret": (CLEAN_JOBSET, [("NNODES, value: \"16\"", "WANDB_API_KEY, value: abcdef")],
               ("K8S115", "warning", 39)),
    "more completions": (CLEAN_JOBSET, [("completions: 16", "completions: 32")],
                         ("K8S121", "warning", 15)),
    "fewer completions": (CLEAN_JOB, [("completions: 4", "completions: 2")],
                          ("K8S121", "warning", 6)),
    "no index": (CLEAN_JOB, [("  completionMode: Indexed\n", "")], ("K8S122", "warning", 5)),
    "index off": (CLEAN_JOBSET, [("Indexed", "NonIndexed")], ("K8S122", "warning", 16)),
    "always": (CLEAN_JOB, [("Never", "Always")], ("K8S123", "error", 12)),
    "no policy": (CLEAN_JOB, [("      restartPolicy: Never\n", "")], ("K8S123", "error", 10)),
    "no queue": (CLEAN_JOBSET, [("labels: {kueue.x-k8s.io/queue-name: train}", "labels: {a: b}"),
                                ("kueue.x-k8s.io/podset-required-topology", "a")],
                 ("K8S131", "warning", 5)),
    "eight on four": (CLEAN_JOBSET, [("nvidia.com/gpu: 4", "nvidia.com/gpu: 8")],
                      ("K8S141", "error", 49)),
    "sixteen on eight": (CLEAN_JOB, [('gpu: "8"', 'gpu: "16"')], ("K8S141", "error", 18)),
    "no clique": (CLEAN_CLAIM, [
        ("      resourceClaims: [{name: domain, resourceClaimTemplateName: channel}]\n", "")],
        ("K8S142", "warning", 9)),
    "request": (CLEAN_JOBSET, [("requests: {nvidia.com/gpu: 4}", "requests: {nvidia.com/gpu: 2}")],
                ("K8S143", "error", 48)),
    "fraction": (CLEAN_JOB, [('gpu: "8"', 'gpu: "0.5"')], ("K8S143", "error", 18)),
    "no limit": (CLEAN_JOB, [("{limits: {", "{requests: {")], ("K8S143", "error", 18)),
    "no shm": (CLEAN_JOB, [("mountPath: /dev/shm", "mountPath: /data")],
               ("K8S144", "warning", 18)),
    "shm on disk": (CLEAN_JOB, [("{medium: Memory}", "{}")], ("K8S144", "warning", 18)),
    "coordinator": (CLEAN_JOBSET, [("-workers-0-0.ds3", "-worker-0-0.ds3")],
                    ("K8S161", "error", 37)),
    "subdomain": (CLEAN_JOBSET, [("-workers-0-0.ds3", "-workers-0-0.other")],
                  ("K8S161", "error", 37)),
    "no names": (CLEAN_JOBSET, [("enableDNSHostnames: true", "enableDNSHostnames: false")],
                 ("K8S161", "error", 37)),
    "host network": (CLEAN_JOBSET, [("            dnsPolicy: ClusterFirstWithHostNet\n", "")],
                     ("K8S162", "warning", 23)),
    "version": (CLEAN_JOBSET, [("v1alpha2", "v1alpha1")], ("K8S171", "error", 1)),
    "old job": (CLEAN_JOB, [("batch/v1", "batch/v1beta1")], ("K8S171", "error", 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_in_its_line_and_alone(name: str) -> None:
    text, changes, found = FAULTS[name]
    others = [("K8S142", "warning", 21)] if name == "no queue" else []
    assert loud(changed(text, *changes)) == [*others, found]


NOTES = {
    "retries": (changed(CLEAN_JOBSET, ("maxRestarts: 0", "maxRestarts: 3")), "K8S151", 7),
    "default retries": (changed(CLEAN_JOB, ("  backoffLimit: 0\n", "")), "K8S151", 4),
    "latest": (changed(CLEAN_JOB, (":maxtext-2026-10-06", ":latest")), "K8S172", 16),
    "no tag": (changed(CLEAN_JOB, (":maxtext-2026-10-06", "")), "K8S172", 16),
}


@pytest.mark.parametrize("name", NOTES)
def test_what_may_be_better_is_a_note(name: str) -> None:
    text, code, line = NOTES[name]
    assert [(f.code, f.severity, f.line) for f in judged(text)] == [(code, "note", line)]


def test_a_failure_policy_answers_the_note_on_retries() -> None:
    text = changed(
        CLEAN_JOB,
        ("  backoffLimit: 0\n", "  podFailurePolicy: {rules: [{action: FailJob}]}\n"),
    )
    assert judged(text) == []


def test_a_time_to_live_matters_where_a_controller_owns_the_object() -> None:
    text = changed(CLEAN_JOBSET, ("  failurePolicy:", "  ttlSecondsAfterFinished: 60\n"
                                  "  failurePolicy:"))  # fmt: skip
    assert loud(text) == []
    owned = changed(text, ("  name: ds3\n", "  name: ds3\n  ownerReferences: [{kind: TrainJob, "
                           "name: t, controller: true}]\n"))  # fmt: skip
    assert loud(owned) == [("K8S152", "warning", 8)]
    runtime = (
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata: {name: r}\n"
        "spec:\n  template:\n    spec:\n      ttlSecondsAfterFinished: 60\n"
    )
    assert loud(runtime) == [("K8S152", "warning", 7)]


def test_two_jobs_of_one_run_are_admitted_one_by_one() -> None:
    worker = changed(
        CLEAN_JOB,
        ("name: llama}", "name: llama-more}"),
        ("        resources:", "        env: [{name: JAX_COORDINATOR_IP, value: llama-0.llama}]\n"
         "        resources:"),
    )  # fmt: skip
    assert loud(f"{CLEAN_JOB}---\n{worker}") == [("K8S132", "warning", 39)]
    itself = changed(worker, ("value: llama-0.llama", "value: llama-more-0.llama"))
    assert loud(f"{CLEAN_JOB}---\n{itself}") == []
    assert loud(worker) == []


def test_what_is_wrong_is_said_with_its_numbers_and_a_remedy() -> None:
    text = changed(CLEAN_JOBSET, ("nvidia.com/gpu: 4", "nvidia.com/gpu: 8"))
    (found,) = [f for f in judged(text) if f.code == "K8S141"]
    assert "8 GPUs" in found.message
    assert "has 4" in found.message
    assert "32 pods for the same 128 GPUs" in found.hint


def test_what_a_template_lacks_may_still_come() -> None:
    text = changed(
        CLEAN_JOB,
        ("name: llama", "name: {{ .Values.name }}"),
        ("      restartPolicy: Never\n", ""),
        ("  completionMode: Indexed\n", ""),
        ("[{name: s, mountPath: /dev/shm}]", "{{ .Values.mounts }}"),
    )
    assert loud(text) == []


def test_what_env_from_defines_may_be_used() -> None:
    text = changed(
        CLEAN_JOBSET,
        ("              env:\n", "              envFrom: [{configMapRef: {name: c}}]\n"
         "              env:\n"),
        ('"16"}', '"$(NUM)"}'),
    )  # fmt: skip
    assert loud(text) == []


@pytest.mark.parametrize(
    ("label", "platform"),
    [
        ("gb200", "gb200-nvl72"),
        ("NVIDIA-GB300", "gb300-nvl72"),
        ("nvidia-h100-mega-80gb", "h100-hgx"),
        ("p6e-gb200.36xlarge", "gb200-nvl72"),
        ("Standard_ND128isr_NDR_GB200_v6", "gb200-nvl72"),
        ("BM.GPU.B200.8", "b200-hgx"),
        ("a4x-highgpu-4g", "gb200-nvl72"),
        ("a3-ultragpu-8g", "h200-hgx"),
        ("p5en.48xlarge", "h200-hgx"),
        ("p5.48xlarge", "h100-hgx"),
        ("linux", None),
        ("a100", None),
        ("vr", None),
        ("gb2000", None),
        ("", None),
    ],
)
def test_a_label_names_its_platform(label: str, platform: str | None) -> None:
    assert platform_of(label) == platform


def test_a_name_in_both_branches_of_a_template_is_defined_once() -> None:
    text = changed(
        CLEAN_JOB,
        ("        resources:", "        env:\n        {{- if .Values.a }}\n"
         "        - {name: A, value: x}\n        {{- else }}\n        - {name: A, value: y}\n"
         "        {{- end }}\n        - {name: B, value: x}\n        - {name: B, value: y}\n"
         "        resources:"),
    )  # fmt: skip
    assert [(code, line) for code, _, line in loud(text)] == [("K8S114", 25)]


def test_pods_without_gpus_need_no_gang() -> None:
    text = (
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec:\n"
        "  replicatedJobs:\n  - name: w\n    template:\n      spec:\n        parallelism: 3\n"
        "        completions: 3\n        template:\n          spec:\n"
        "            containers: [{name: c, image: 'busybox:1', command: [sleep, '9']}]\n"
    )
    assert loud(text) == []
    gpus = changed(text, ("command: [", "resources: {limits: {nvidia.com/gpu: 1}}, command: ["))
    assert [code for code, _, _ in loud(gpus)] == ["K8S131"]


def test_init_containers_define_their_variables_before_they_use_them() -> None:
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  initContainers:\n"
        "  - {name: i, image: 'b:1', env: [{name: A, value: $(B)}, {name: B, value: 3}]}\n"
        "  containers: [{name: c, image: 'b:1'}]\n"
    )
    assert [(code, line) for code, _, line in loud(pod)] == [("K8S111", 6), ("K8S113", 6)]
    listed = "apiVersion: v1\nkind: List\nitems:\n- " + pod.replace("\n", "\n  ").rstrip(" ")
    assert [(code, line) for code, _, line in loud(listed)] == [("K8S111", 9), ("K8S113", 9)]


RENDEZVOUS = changed(
    CLEAN_JOB,
    ("        resources:", "        env:\n"
     "        - {name: JAX_COORDINATOR_IP, value: llama-0.llama}\n"
     "        - {name: JAX_COORDINATOR_PORT, value: '6002'}\n"
     "        - {name: NNODES, value: '4'}\n"
     "        - name: NODE_RANK\n          valueFrom: {fieldRef: {fieldPath: x}}\n"
     "        command: [python3, -m, maxtext.trainers.pre_train.train, base.yml, hardware=gpu]\n"
     "        resources:"),
)  # fmt: skip


def rendezvous(text: str) -> list[tuple[int | None, str]]:
    """Return line and variable of what K8S163 finds when hardware is gpu."""
    found = []
    for part in read_source("m.yml", text, lambda _: None, "manifest").parts:
        workload = Workload(
            kind=part.kind, origin=part.origin, maxtext="0.2.5", jaxlib="0.12.0.1",
            is_maxtext=part.is_maxtext, environment=part.environment, manifest=part.manifest,
            layout=part.layout, step=part.step, effective={"hardware": "gpu"},
        )  # fmt: skip
        for rule in RULES.all:
            if rule.code == "K8S163":
                found += [(fault.line, fault.field) for fault in rule.findings(workload)]
    return found


def test_a_rendezvous_has_the_count_of_the_pods_and_a_rank() -> None:
    assert rendezvous(RENDEZVOUS) == []
    fewer = changed(RENDEZVOUS, ("NNODES, value: '4'", "NNODES, value: '2'"))
    assert rendezvous(fewer) == [(21, "NNODES")]
    more = changed(RENDEZVOUS, ("NNODES, value: '4'", "NNODES, value: '8'"))
    assert rendezvous(more) == [(21, "NNODES")]
    no_rank = changed(RENDEZVOUS, ("name: NODE_RANK", "name: OTHER"))
    assert rendezvous(no_rank) == [(19, "NODE_RANK")]
    no_count = changed(RENDEZVOUS, ("name: NNODES", "name: OTHER"))
    assert rendezvous(no_count) == [(19, "NNODES")]


def test_a_rendezvous_that_may_be_completed_elsewhere_is_not_judged() -> None:
    no_rank = changed(RENDEZVOUS, ("name: NODE_RANK", "name: OTHER"))
    more = changed(no_rank, ("        env:\n", "        envFrom: [{secretRef: {name: s}}]\n"
                                               "        env:\n"))  # fmt: skip
    assert rendezvous(more) == []
    template = changed(no_rank, ("value: '6002'", "value: '{{ .Values.port }}'"))
    assert rendezvous(template) == []
    in_script = changed(
        no_rank,
        ("[python3, -m, maxtext.trainers.pre_train.train, base.yml, hardware=gpu]",
         "[bash, -c, 'export NODE_RANK=$JOB_COMPLETION_INDEX; python3 -m "
         "maxtext.trainers.pre_train.train base.yml hardware=gpu']"),
    )  # fmt: skip
    assert rendezvous(in_script) == []
    unknown = changed(RENDEZVOUS, ("value: '4'", "value: $(COUNT)"))
    assert rendezvous(unknown) == []
    assert rendezvous(changed(RENDEZVOUS, ("name: JAX_COORDINATOR_IP", "name: OTHER"))) == []


def test_every_rule_that_judges_is_tried_here() -> None:
    judging = {rule.code for rule in RULES.all if rule.check is not None}
    tried = {found[0] for _, _, found in FAULTS.values()} | {code for _, code, _ in NOTES.values()}
    assert judging == tried | {"K8S152", "K8S163"}


def spots(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(data, dict):
        pairs = data.items()
    elif isinstance(data, list):
        pairs = enumerate(data)
    for key, value in pairs:
        yield from spots(value, (*path, key))


ODD: list[Any] = [
    None, True, 0, -1, 3.5, 10**30, "", "x", "{{ x }}", "$(A)", "0.5", "gb200", [], {}, [None],
    [[]], [{}], {"a": 1}, ["a", {"b": None}],
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(CLEAN),
    st.lists(st.tuples(st.integers(0, 500), st.sampled_from(ODD)), min_size=1, max_size=3),
)
def test_a_manifest_of_any_shape_is_judged(text: str, changes: list[tuple[int, Any]]) -> None:
    data = yaml.safe_load(text)
    for number, value in changes:
        paths = list(spots(data))
        *above, last = paths[number % len(paths)]
        inside = data
        for key in above:
            inside = inside[key]
        inside[last] = copy.deepcopy(value)
    for found in judged(yaml.safe_dump(data)):
        assert found.code
        assert found.file == "m.yml"
