"""docs/cluster.md, made of the descriptions of the spec and of one example a key.

`python -m tests.support.cluster_page` writes it.
"""

from __future__ import annotations

from pathlib import Path

from moectl.spec.table import Field, table

PAGE = Path(__file__).parent.parent.parent / "docs" / "cluster.md"

SECTIONS: dict[str, dict[str, str]] = {
    "What the scheduler is asked for": {
        "name": "name: alpha",
        "launcher": "launcher: slurm",
        "partition": "partition: gb200",
        "account": "account: team",
        "qos": "qos: high",
        "reservation": "reservation: friday",
        "time": "time: 04:00:00",
        "gpu_request": "gpu_request: gres",
        "gres": "gres: gpu:gb200",
        "memory": "memory: 800G",
        "exclusive": "exclusive: false",
        "cpus_per_task": "cpus_per_task: 36",
        "directives": "directives: [--comment=moe]",
    },
    "Placement": {
        "segment": "segment: false",
        "slurm_release": 'slurm_release: "24.11.5"',
        "block_topology": "block_topology: true",
        "nodes_per_domain": "nodes_per_domain: 18",
        "usable_nodes": "usable_nodes: 16",
        "spare_nodes": "spare_nodes: 2",
        "preflight": "preflight: true",
        "preflight_retry": "preflight_retry: true",
    },
    "Container": {
        "runtime": "runtime: apptainer",
        "python": "python: /opt/venv/bin/python3",
        "devices": "devices: cpu",
        "processes": "processes: 2",
        "image": "image: nvcr.io/team/jax:maxtext-2026-09-09",
        "image_folder": "image_folder: /lustre/images",
        "node_architecture": "node_architecture: aarch64",
        "mounts": "mounts: [{source: /lustre/data, target: /data, read_only: true}]",
    },
    "Network, variables and folders": {
        "socket_interfaces": "socket_interfaces: [eth0]",
        "ib_hcas": "ib_hcas: [mlx5_0, mlx5_1, mlx5_4, mlx5_5]",
        "environment": "environment: {NCCL_IB_GID_INDEX: 3}",
        "runs_folder": "runs_folder: /lustre/me/runs",
    },
    "Limits": {
        "gpu_hours_limit": "gpu_hours_limit: 1000",
        "compile_limit": "compile_limit: 3600",
        "step_limit": "step_limit: 900",
        "watchdog_factor": "watchdog_factor: 10",
        "watchdog_grace": "watchdog_grace: 180",
        "signal_seconds": "signal_seconds: 600",
        "requeue": "requeue: 2",
    },
}
# Keys of the section `kubernetes`.
KUBERNETES = {
    "context": "context: gke_team_europe-west4_moe",
    "namespace": "namespace: team",
    "network": "network: gke-gib-a4x",
    "gpu_resource": "gpu_resource: nvidia.com/gpu.shared",
    "resources": "resources: [cpu=120, memory=750Gi, rdma/ib=1]",
    "shared_memory": "shared_memory: 256Gi",
    "annotations": "annotations: [example.com/owner=moe]",
    "labels": "labels: [team=nlp]",
    "node_selector": "node_selector: [cloud.google.com/gke-accelerator=nvidia-gb200]",
    "tolerations": 'tolerations: ["nvidia.com/gpu:NoSchedule", "dedicated=moe:NoSchedule"]',
    "priority_class": "priority_class: production",
    "service_account": "service_account: trainer",
    "image_pull_secrets": "image_pull_secrets: [registry]",
    "secret": "secret: moectl",
    "secret_keys": "secret_keys: [HF_TOKEN=hugging-face/token]",
    "volumes": "volumes: [{claim: runs, target: /runs}, {bucket: gcs:team-data, target: /data}]",
    "init_containers": "init_containers: [{name: warm, image: busybox:1.37, command: [ls, /data]}]",
    "termination_grace": "termination_grace: 900",
    "compute_domain": "compute_domain: false",
    "queue": "queue: gpu",
    "workload_priority": "workload_priority: high",
    "suspend": "suspend: true",
    "domain_topology": "domain_topology: nvidia.com/gpu.clique",
    "required_topology": "required_topology: topology.kubernetes.io/zone",
    "preferred_topology": "preferred_topology: cloud.google.com/gce-topology-block",
    "max_restarts": "max_restarts: 10",
    "keep_seconds": "keep_seconds: 86400",
}
TEXTS = {
    "What the scheduler is asked for": """\
Nothing is required. What is left out is left out of the script, or is what the column says.""",
    "Placement": """\
A slice is the set of nodes that carries one ICI mesh. It takes the nodes of one NVLink domain,
and all slices are equal: 24 nodes of a platform with 16 usable nodes of 18 become two slices of
12, and the ICI degrees follow. `--segment` makes Slurm give each slice nodes of one block. It is
left out, with a note in the script, where `slurm_release` is older than 23.11 or `block_topology`
is false; where both are unsaid it is asked for. In every case the job asks its nodes for their
domains before MaxText starts, orders them, and stops with the arithmetic when they do not make
whole slices. Where a slice is wider than a domain, the same holds for the nodes of an expert
group.

Spare nodes are asked for beyond those of the job. With `--segment` each segment gets the same
number of them, so 32 nodes in slices of 16 with `spare_nodes: 2` are two segments of 17. Where a
domain has no room for that, `--segment` is left out. The nodes that do not answer, and those that
a file `excluded` in the folder of the logs names (one a line), carry nothing; the first nodes of
every domain that make whole slices do.

A preflight looks at every process before it trains (docs/runs.md). With `preflight_retry` the
nodes that it names go into that file, and it is done once more where the spare nodes suffice.""",
    "Container": """\
With `image_folder` the image of a registry is a file there, whose name follows from the image,
its digest if pinned, and the architecture; `moectl image pull` makes it, and a job whose file is
missing stops at once and says so. Apptainer gets `exec --nv --cleanenv --no-home
--writable-tmpfs`; the variables of the job and Slurm's own go in as `APPTAINERENV_NAME`, secrets
by name like the rest, so no value stands on a command line or in a file. The tests run that
command line against a stand-in for apptainer, not against apptainer itself.""",
    "Network, variables and folders": """\
`socket_interfaces` and `ib_hcas` are `NCCL_SOCKET_IFNAME` and `NCCL_IB_HCA`; said here and
differently in `environment` they are refused.""",
    "Kubernetes": """\
These stand under `kubernetes`; [kubernetes.md](kubernetes.md) says what becomes of them. Of the
keys above, `time`, `mounts`, `environment`, `socket_interfaces`, `ib_hcas`, `image`,
`nodes_per_domain`, `usable_nodes` and the limits count too; those of Slurm and of containers on
its nodes do not. `runs_folder` is the pods' working folder where a volume holds it.""",
    "Limits": """\
They change no result: the first makes `moectl launch` ask, the others are for the watchdog that
runs inside the job.""",
}
HEAD = """\
# Cluster profiles

A cluster profile is a YAML file that says once what a site's scheduler wants. `moectl doctor
--output site.yaml` writes one from what it finds on a login node. A command takes it with
`--cluster`: a path, or the name of a file `~/.config/moectl/clusters/NAME.yaml`
(`$XDG_CONFIG_HOME` counts). Without the option, `$MOECTL_CLUSTER` is used in the same way.

A profile wins over a preset and loses to a run file and to options. An unknown key is an error
that names its line and the nearest key; all faults of a file are told at once. The same keys may
stand in a run file under `cluster`. `moectl schema cluster` prints them for editors.

<!-- Made from moectl/spec/cluster.py by tests/support/cluster_page.py. -->
"""


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for title, examples in SECTIONS.items():
        rows = [_row(key) for key in examples]
        head = ["| key | values | default | what it is |", "|---|---|---|---|"]
        block = ["```yaml", *examples.values(), "```"]
        parts.append("\n".join([f"## {title}", "", TEXTS[title], "", *head, *rows, "", *block, ""]))
    title = "Kubernetes"
    rows = [_row(f"kubernetes.{key}") for key in KUBERNETES]
    lines = [f"  {example}" for example in KUBERNETES.values()]
    block = ["```yaml", "kubernetes:", *lines, "```"]
    parts.append("\n".join([f"## {title}", "", TEXTS[title], "", *head, *rows, "", *block, ""]))
    return "\n".join(parts)


def _row(key: str) -> str:
    fields = table().fields
    field = fields.get(f"cluster.{key}") or fields[f"cluster.{key}.*"]
    return f"| `{key}` | {_values(field)} | {_default(field)} | {field.doc} |"


def _values(field: Field) -> str:
    if field.choices:
        return ", ".join(f"`{choice}`" for choice in field.choices)
    if field.path.endswith(".*"):
        return "names and values"
    if field.kind == "list" and field.items != "str":
        return "list of mappings"
    names = {
        "bool": "`true`, `false`", "int": "whole number", "float": "number", "str": "text",
        "list": "list of texts",
    }  # fmt: skip
    return names[field.kind]


def _default(field: Field) -> str:
    if field.default in (None, "", []) or field.path.endswith(".*"):
        return ""
    default = field.default
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
