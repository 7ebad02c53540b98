"""Rules on containers: pyxis' options, image names, mounts, variables the image sets itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from moectl.errors import shown
from moectl.facts.image_variables import baked
from moectl.rules import containers_options
from moectl.rules.image_names import (
    NameFault,
    docker_fault,
    enroot_fault,
    floating,
    mount_fault,
    pyxis_fault,
)
from moectl.rules.launching import SRUN, known, option_text, slurm_options, steps, whole
from moectl.rules.rule import Fault, rules
from moectl.workload import MARK, Option, Step, Text, Workload

RULES = rules()

_PYXIS = "NVIDIA/pyxis README and args.c (0.21)"
_ENROOT = "NVIDIA/enroot src/docker.sh (3.4 and 4.0)"

_IMAGE, _NAME, _MOUNTS, _ENV = (
    "--container-image",
    "--container-name",
    "--container-mounts",
    "--container-env",
)
# Folders whose programs any node has as well.
_HOST_FOLDERS = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/")
_DOCKER_LIKE = frozenset({"docker", "podman", "nerdctl", "apptainer", "singularity"})
_SUBCOMMANDS = frozenset({"run", "exec", "pull", "build", "shell"})
_EXPANSION = re.compile(r"\$\{\w+[^}]*\}|\$\w+|\$\(|`")
_SINGULAR = frozenset({"apptainer", "singularity"})


def _pyxis_steps(w: Workload) -> Iterator[Step]:
    """Yield the srun steps that run in a container of pyxis."""
    for step in steps(w):
        if step.program == SRUN and step.option(_IMAGE, _NAME) is not None:
            yield step


@RULES.rule(
    "CTR101",
    "image of pyxis",
    reason="pyxis takes [USER@][REGISTRY#]IMAGE[:TAG] or a path that begins with / or ./; "
    "anything else is looked for on Docker Hub, and every node fails there.",
    remedy="--container-image=registry#path:tag, or an absolute path",
    source=f"{_PYXIS}; {_ENROOT}; public reports NVIDIA/pyxis issues 127 and 168",
)
def pyxis_image(w: Workload) -> Iterator[Fault]:
    """Find images that pyxis reads otherwise than meant."""
    for _, option in slurm_options(w):
        text = option_text(option)
        if option.name != _IMAGE or text is None:
            continue
        if _expands(text):
            if not _is_directive(w, option):
                yield _not_expanded(option, text)
            continue
        if fault := pyxis_fault(text):
            hint = f"{_IMAGE}={fault.hint}" if fault.hint else ""
            if _is_directive(w, option):  # where no shell puts $HOME in
                hint = hint.replace("$HOME", "/<your home>")
            yield Fault(
                _IMAGE,
                f"{shown(text)} {fault.message}",
                option.origin,
                hint,
                severity=None if fault.certain else "warning",
            )


def _expands(text: str) -> bool:
    """Whether a text still holds what a shell would have expanded."""
    return "$" in text or "`" in text


def _is_directive(w: Workload, option: Option) -> bool:
    """Whether an option is a directive; SLURM107 says that nothing is expanded there."""
    return w.batch is not None and any(option is other for other in w.batch.directives)


def _not_expanded(option: Option, text: str) -> Fault:
    """Return the fault of a command's option whose $ a quote or backslash keeps from the shell."""
    found = _EXPANSION.search(text)
    what = found[0] if found else text
    return Fault(
        option.name,
        f"{shown(text)}: {what} stands in single quotes or behind a backslash, so no shell "
        "expands it, and pyxis takes it as it stands",
        option.value.origin if option.value is not None else option.origin,
        f'{option.name}="{text}"'
        if '"' not in text and "..." not in text
        else "double quotes in place of single ones, and no backslash before the $",
    )


@RULES.rule(
    "CTR102",
    "image of enroot, docker or apptainer",
    reason="Each tool has a grammar of its own: enroot import wants a scheme, and only enroot "
    "and pyxis put # after the registry.",
    remedy="enroot import docker://registry#path:tag; docker pull registry/path:tag",
    source=f"{_ENROOT}; distribution reference grammar; public report soperator pull request 2309",
)
def other_image(w: Workload) -> Iterator[Fault]:
    """Find image names in the grammar of another tool."""
    for step in steps(w):
        subcommand = known(step.words[0]) if len(step.words) > 1 else None
        if step.program == "enroot" and subcommand == "import":
            yield from _named(step, 1, enroot_fault)
        elif step.program in _DOCKER_LIKE and subcommand in _SUBCOMMANDS:
            # apptainer pull may name the file it writes before the image
            place = -1 if step.program in _SINGULAR and subcommand == "pull" else 1
            yield from _named(step, place, docker_fault)


def _named(step: Step, place: int, judge: Callable[[str], NameFault | None]) -> Iterator[Fault]:
    text = known(step.words[place])
    if text is not None and (fault := judge(text)):
        yield Fault(
            step.program, f"{shown(text)} {fault.message}", step.words[place].origin, fault.hint
        )


@RULES.rule(
    "CTR104",
    "mounts of pyxis",
    reason="pyxis cuts the list at commas and each mount at colons, and refuses what is no path; "
    "the step does not start.",
    remedy="--container-mounts=/source:/target[:ro+...],...",
    source=_PYXIS,
)
def mounts(w: Workload) -> Iterator[Fault]:
    """Find mounts that pyxis refuses."""
    for _, option in slurm_options(w):
        if option.name != _MOUNTS or option.value is None:
            continue
        text = option.value.text
        if _expands(text):
            if not _is_directive(w, option):
                yield _not_expanded(option, text.replace(MARK, "..."))
            continue
        start = 0
        for entry in text.split(","):
            if fault := mount_fault(entry, MARK):
                plain = entry.replace(MARK, "...")
                yield Fault(
                    _MOUNTS,
                    f"{shown(plain)} {fault.message}",
                    option.value.at(start) if option.value.pieces else option.origin,
                    fault.hint.replace(MARK, "..."),
                )
            start += len(entry) + 1


@RULES.rule(
    "CTR105",
    "variables the image sets too",
    reason="In a container of pyxis the image's value of a variable wins over the job's, unless "
    "--container-env names it.",
    remedy="srun --container-env=NAME[,NAME...]",
    source=f"{_PYXIS}; facts/data/image_variables.tsv; public report NVIDIA/pyxis issue 124",
    severity="warning",
    stage="silent",
)
def baked_variables(w: Workload) -> Iterator[Fault]:
    """Find exported variables that the image's own may replace."""
    for step in _pyxis_steps(w):
        listed = step.option(_ENV)
        if any(MARK in option.name for option in step.options) or (
            listed is not None and option_text(listed) is None
        ):
            continue
        if "PYXIS_CONTAINER_ENV" in step.environment:
            continue
        names = set((option_text(listed) or "").split(","))
        missing = {
            name: severity
            for name, text in step.environment.items()
            if name not in names
            and (severity := baked(name)) is not None
            and not _set_inside(step, name, text)
        }
        # one list for all: of two --container-env only the last counts
        also = ",".join(sorted({*names, *missing} - {""}))
        for name, severity in missing.items():
            yield Fault(
                name,
                f"{name} is exported here, and an image that sets {name} too keeps its own: "
                f"{_ENV} does not name it",
                step.environment[name].origin,
                f"{_ENV}={also}",
                severity=severity,
            )


def _set_inside(step: Step, name: str, text: Text) -> bool:
    """Whether every command inside the container sets the variable itself."""
    return bool(step.inside) and all(inside.environment.get(name) != text for inside in step.inside)


@RULES.rule(
    "CTR106",
    "a program of the image by its path",
    reason="Some releases of Slurm look for the command on the host before the container is "
    "entered, and find nothing at that path.",
    remedy="srun ... bash -c 'exec /path/of/the/program ...'",
    source="public report NVIDIA/pyxis issue 104",
    severity="warning",
)
def image_path(w: Workload) -> Iterator[Fault]:
    """Find absolute commands that only the image has."""
    for step in _pyxis_steps(w):
        text = known(step.words[0]) if step.words else None
        if text is None or not text.startswith("/") or text.startswith(_HOST_FOLDERS):
            continue
        if _mounted_in_place(step, text):
            continue
        yield Fault(
            SRUN,
            f"{text} is looked for on the host, and is a path of the image",
            step.words[0].origin,
            f"bash -c 'exec {text} ...'",
        )


def _mounted_in_place(step: Step, path: str) -> bool:
    """Whether a mount shows the host's own folder at the same path, or may do so."""
    option = step.option(_MOUNTS)
    if option is None or option.value is None:
        return any(MARK in option.name for option in step.options)
    for entry in option.value.text.split(","):
        source, _, rest = entry.partition(":")
        target = rest.partition(":")[0] or source
        if MARK in target or (source == target and path.startswith(target.rstrip("/") + "/")):
            return True
    return False


@RULES.rule(
    "CTR109",
    "an image imported by every node",
    reason="Without a file or a named container each node downloads and unpacks the image at the "
    "start of every step.",
    remedy="enroot import it once into a .sqsh file on shared storage",
    source=_PYXIS,
    severity="note",
    stage="advice",
)
def imported(w: Workload) -> Iterator[Fault]:
    """Find an image of a registry that several nodes pull, or that may change."""
    nodes = whole(w.layout.nodes)
    for step in _pyxis_steps(w):
        option = step.option(_IMAGE)
        text = option_text(option)
        if option is None or not text or text.startswith(("/", ".")) or pyxis_fault(text):
            continue
        if floating(text):
            yield Fault(
                _IMAGE, f"{shown(text)} may be another image at every start", option.origin,
                "a tag with a date, or @sha256:...",
            )  # fmt: skip
        if nodes is not None and nodes > 1 and step.option(_NAME) is None:
            yield Fault(
                _IMAGE, f"each of {nodes} nodes downloads and unpacks {shown(text)}", option.origin
            )


RULES.all.extend(containers_options.RULES.all)
