"""Rules on where checkpoints and other output go."""

from __future__ import annotations

import re
from collections.abc import Iterator

from moectl.errors import shown
from moectl.facts.node_local import LocalFolder, local_folder, local_variable
from moectl.rules import start_up
from moectl.rules.launching import SRUN, environment_is_closed, whole
from moectl.rules.rule import Fault, rules
from moectl.workload import MARK, UNKNOWN, Piece, Text, Workload

RULES = rules()

_OUTPUT, _LOCAL = "base_output_directory", "local_checkpoint_directory"
_OUTPUT_VARIABLE = "M_BASE_OUTPUT_DIRECTORY"
_CHECKPOINTS = "enable_checkpointing"
_EMERGENCY = ("enable_emergency_checkpoint", "enable_multi_tier_checkpointing")
_GOOGLE = "gs://"
_CREDENTIALS = "GOOGLE_APPLICATION_CREDENTIALS"
_MOUNTS = "--container-mounts"
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_ORBAX = "Orbax of MaxText 0.2.5, _src/serialization/tensorstore_utils.py:356"


def _output(w: Workload) -> str | None:
    """Return the output directory that counts, where it is said and checkpoints go there."""
    path, said = w.value(_OUTPUT), w.said(_OUTPUT)
    if not w.is_maxtext or w.value(_CHECKPOINTS) is not True or said is None or not said.value:
        return None  # for an empty one MaxText takes a folder below the working directory
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
    nodes = whole(w.layout.nodes)
    if nodes == 1 or (w.layout.nodes is None and whole(w.layout.gpus) == 1):
        return
    told = _place(w)
    if told is None:
        return
    path, found = told
    where = f"{nodes} nodes" if nodes is not None else "several nodes, if there are"
    yield Fault(
        _OUTPUT,
        f"{shown(path)} is in {found.folder}, which each node has of its own: {where} write parts "
        "of a checkpoint that nobody can put together",
        w.where(_OUTPUT),
        severity="error" if nodes is not None and found.certain else "warning",
    )


def _place(w: Workload) -> tuple[str, LocalFolder] | None:
    """Return the output directory as said, and the folder of the node that it lies in."""
    path = _output(w)
    if path is not None:
        place = _on_host(w, path) if path.startswith("/") else None
        found = local_folder(place) if place is not None else None
        return (path, found) if found is not None else None
    text = _partly_known(w)
    if text is None:
        return None
    begin, shown_as = text.text.partition(MARK)[0], _as_written(text)
    if not begin:
        variable = _VARIABLE.match(text.pieces[0].raw) if text.pieces else None
        found = local_variable(variable[1]) if variable else None
        return (shown_as, found) if found is not None else None
    folder = begin.rpartition("/")[0]
    if not begin.startswith("/") or _mounted_below(w, folder):
        return None
    place = _on_host(w, f"{folder}/")
    found = local_folder(place) if place is not None else None
    return (shown_as, found) if found is not None else None


def _as_written(text: Text) -> str:
    return "".join(piece.raw or piece.text for piece in text.pieces).replace(MARK, "...")


def _partly_known(w: Workload) -> Text | None:
    """Return the output directory of the command line where a part of it is not known."""
    said = w.arguments.get(_OUTPUT)
    if not w.is_maxtext or w.value(_CHECKPOINTS) is not True or said is None or w.step is None:
        return None
    if said.value is not UNKNOWN:
        return None
    variable = w.environment.get(_OUTPUT_VARIABLE)
    if variable is not None and variable.origin == said.origin:
        return variable
    waiting, found = [w.step], None
    while waiting:
        step = waiting.pop()
        waiting += step.inside
        for word in step.words:
            if word.text.startswith(f"{_OUTPUT}=") and word.origin.line == said.origin.line:
                found = word
    return _after(found, len(_OUTPUT) + 1) if found is not None else None


def _after(text: Text, offset: int) -> Text:
    """Return what stands in a text from `offset` on."""
    pieces: list[Piece] = []
    for piece in text.pieces:
        if offset >= len(piece.text):
            offset -= len(piece.text)
            continue
        raw = "" if offset else piece.raw
        pieces.append(Piece(piece.text[offset:], text.origin, raw))
        offset = 0
    return Text(tuple(pieces))


def _mounted_below(w: Workload, folder: str) -> bool:
    """Whether a mount of the container may lie over the part of the path that is not known."""
    option = w.step.option(_MOUNTS) if w.step is not None else None
    if option is None or option.value is None:
        return False
    for entry in option.value.text.split(","):
        source, _, rest = entry.partition(":")
        target = rest.partition(":")[0] or source
        if MARK in target or target.startswith(f"{folder}/"):
            return True
    return False


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
    path = begin = _output(w)
    if path is None and (text := _partly_known(w)) is not None:
        path, begin = _as_written(text), text.text.partition(MARK)[0]
    if path is not None and begin and not begin.startswith("/") and "://" not in path:
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


# What a config says of its start holds without a script, as what it says of its output does.
RULES.all.extend(start_up.RULES.all)
