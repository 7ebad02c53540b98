"""Rules on where checkpoints and other output go."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.errors import shown
from moectl.facts.node_local import local_folder
from moectl.rules.launching import SRUN, environment_is_closed, whole
from moectl.rules.rule import Fault, rules
from moectl.workload import MARK, Workload

RULES = rules()

_OUTPUT, _LOCAL = "base_output_directory", "local_checkpoint_directory"
_CHECKPOINTS = "enable_checkpointing"
_EMERGENCY = ("enable_emergency_checkpoint", "enable_multi_tier_checkpointing")
_GOOGLE = "gs://"
_CREDENTIALS = "GOOGLE_APPLICATION_CREDENTIALS"
_MOUNTS = "--container-mounts"
_ORBAX = "Orbax of MaxText 0.2.5, _src/serialization/tensorstore_utils.py:356"


def _output(w: Workload) -> str | None:
    """Return the output directory that counts, where it is said and checkpoints go there."""
    path = w.value(_OUTPUT)
    if not w.is_maxtext or w.value(_CHECKPOINTS) is not True or w.said(_OUTPUT) is None:
        return None
    return path if isinstance(path, str) and path and MARK not in path else None


@RULES.rule(
    "CKPT201",
    "checkpoints on a node's own disk",
    reason="Every process writes only its shards, so each node keeps a part of a checkpoint that "
    "none can read back, and it is gone with the allocation.",
    remedy="a directory that all nodes share, or gs://",
    source="public report AI-Hypercomputer/maxtext issue 879; facts/data/node_local_folders.tsv",
    stage="silent",
)
def node_local_output(w: Workload) -> Iterator[Fault]:
    """Find output on a node's own disk where there are several nodes."""
    path = _output(w)
    if path is None or not path.startswith("/"):
        return
    nodes = whole(w.layout.nodes)
    if nodes is None and w.layout.nodes is None and whole(w.layout.gpus) == 1:
        return
    place = _on_host(w, path)
    found = local_folder(place) if place is not None else None
    if found is None or nodes == 1:
        return
    where = f"{nodes} nodes" if nodes is not None else "several nodes, if there are"
    yield Fault(
        _OUTPUT,
        f"{shown(path)} is in {found.folder}, which each node has of its own: {where} write parts "
        "of a checkpoint that nobody can put together",
        w.where(_OUTPUT),
        severity="error" if nodes is not None and found.certain else "warning",
    )


def _on_host(w: Workload, path: str) -> str | None:
    """Return where a path of the process lies on the host; None when that cannot be told."""
    option = w.step.option(_MOUNTS) if w.step is not None and w.step.program == SRUN else None
    if option is None or option.value is None:
        return path
    for entry in option.value.text.split(","):
        source, _, rest = entry.partition(":")
        target = rest.partition(":")[0] or source
        if MARK in target:
            return None
        if target and (path + "/").startswith(target.rstrip("/") + "/"):
            inside = path[len(target.rstrip("/")) :]
            return None if MARK in source else source.rstrip("/") + inside
    return path


@RULES.rule(
    "CKPT202",
    "a relative output directory",
    reason="Orbax refuses to write a checkpoint to a path that is not absolute, at the first one "
    "it saves; ~ is expanded by nobody.",
    remedy="an absolute path, or gs://",
    source=_ORBAX,
)
def relative_output(w: Workload) -> Iterator[Fault]:
    """Find an output directory that is no absolute path."""
    path = _output(w)
    if path is not None and not path.startswith("/") and "://" not in path:
        yield Fault(
            _OUTPUT,
            f"{shown(path)} is not absolute, and the first checkpoint fails",
            w.where(_OUTPUT),
        )


@RULES.rule(
    "CKPT203",
    "local checkpoints elsewhere",
    reason="Emergency checkpoints are fast because they stay on the node; the directory must be a "
    "path of it.",
    remedy="an absolute path on the node's own disk or in its memory",
    source="MaxText 0.2.5 configs/types.py:4736-4765",
)
def remote_local(w: Workload) -> Iterator[Fault]:
    """Find a local checkpoint directory that is not local."""
    path = w.value(_LOCAL)
    if not w.is_maxtext or not any(w.value(key) is True for key in _EMERGENCY):
        return
    if isinstance(path, str) and path and not path.startswith("/") and MARK not in path:
        yield Fault(
            _LOCAL,
            f"{shown(path)} is no absolute path of the node",
            w.where(_LOCAL),
            "/local/checkpoints, or another folder of the node's own",
        )


@RULES.rule(
    "CKPT204",
    "credentials of Google Cloud",
    reason="Outside Google Cloud a gs:// path is readable only with credentials in the job.",
    remedy="export GOOGLE_APPLICATION_CREDENTIALS=/path/of/key.json",
    source="Google Cloud, application default credentials",
    severity="note",
    stage="advice",
)
def credentials(w: Workload) -> Iterator[Fault]:
    """Find gs:// output of a batch job that sets no credentials."""
    path = _output(w)
    if path is None or not path.startswith(_GOOGLE) or w.batch is None or not w.batch.scheduled:
        return
    if _CREDENTIALS not in w.environment and environment_is_closed(w.batch):
        yield Fault(
            _OUTPUT, f"{shown(path)}: nobody sets {_CREDENTIALS} in this job", w.where(_OUTPUT)
        )


@RULES.rule(
    "CKPT205",
    "output inside the container",
    reason="What is written outside the mounts stays in the container and is removed with it.",
    remedy="--container-mounts=/shared/output:/shared/output, unless the site mounts it by itself",
    source="NVIDIA/pyxis README: unnamed containers are removed after the task",
    severity="note",
    stage="silent",
)
def unmounted_output(w: Workload) -> Iterator[Fault]:
    """Find output that no mount of the container covers."""
    path = _output(w)
    step = w.step
    if path is None or not path.startswith("/") or step is None or step.program != SRUN:
        return
    if step.option("--container-image") is None or any(MARK in o.name for o in step.options):
        return
    option = step.option(_MOUNTS)
    if step.option("--container-mount-home") is not None and path.startswith("/home/"):
        return
    texts = option.value.text.split(",") if option is not None and option.value else []
    for entry in texts:
        source, _, rest = entry.partition(":")
        target = (rest.partition(":")[0] or source).rstrip("/")
        if MARK in target or (path + "/").startswith(target + "/"):
            return
    yield Fault(
        _OUTPUT, f"{shown(path)} is in no mount of the container, and is lost with it",
        w.where(_OUTPUT),
    )  # fmt: skip
