"""Rules on containers: pyxis' options, image names, mounts, variables the image sets itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from moectl.errors import shown
from moectl.facts.image_variables import baked
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
from moectl.workload import MARK, Step, Text, Workload

RULES = rules()

_PYXIS = "NVIDIA/pyxis README and args.c (0.21)"
_ENROOT = "NVIDIA/enroot src/docker.sh (3.4 and 4.0)"

_IMAGE, _NAME, _MOUNTS, _ENV = (
    "--container-image",
    "--container-name",
    "--container-mounts",
    "--container-env",
)
_PREFIXES = ("--container-", "--no-container-")
# Slurm's own options for OCI bundles begin alike.
_OCI = frozenset({"--container-id", "--container-type"})
_EXCLUSIVE = (
    ("--container-mount-home", "--no-container-mount-home"),
    ("--container-remap-root", "--no-container-remap-root"),
    ("--container-entrypoint", "--no-container-entrypoint"),
    ("--container-writable", "--container-readonly"),
)
_ONCE = (_IMAGE, _NAME, "--container-workdir", "--container-save")
# Folders whose programs any node has as well.
_HOST_FOLDERS = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/")
_DOCKER_LIKE = frozenset({"docker", "podman", "nerdctl", "apptainer", "singularity"})
_SUBCOMMANDS = frozenset({"run", "exec", "pull", "build", "shell"})
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
        if option.name != _IMAGE or text is None or _expands(text):
            continue
        if fault := pyxis_fault(text):
            hint = f"{_IMAGE}={fault.hint}" if fault.hint else ""
            yield Fault(
                _IMAGE,
                f"{shown(text)} {fault.message}",
                option.origin,
                hint,
                severity=None if fault.certain else "warning",
            )


def _expands(text: str) -> bool:
    """Whether a text holds what a shell would have expanded; another rule says so."""
    return "$" in text or "`" in text


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
        for name, text in step.environment.items():
            severity = baked(name)
            if severity is None or name in names or _set_inside(step, name, text):
                continue
            also = ",".join(sorted({*names, name} - {""}))
            yield Fault(
                name,
                f"{name} is exported here, and an image that sets {name} too keeps its own: "
                f"{_ENV} does not name it",
                text.origin,
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
    "CTR107",
    "a container around the batch script",
    reason="With --container-* in a directive the batch script itself runs in the container, "
    "where there is no srun; its steps see another environment.",
    remedy="give the --container-* options to srun",
    source=f"{_PYXIS}; public report NVIDIA/pyxis issue 167",
    severity="note",
    stage="advice",
)
def container_directive(w: Workload) -> Iterator[Fault]:
    """Find pyxis' options in directives; with srun in the script it is a warning."""
    option = w.batch.directive(_IMAGE, _NAME) if w.batch is not None else None
    if option is None:
        return
    launches = any(step.program == SRUN for step in steps(w))
    yield Fault(
        option.name,
        f"{option.name} in a directive puts the batch script into the container"
        + (", and srun is not found there" if launches else ""),
        option.origin,
        severity="warning" if launches else None,
    )


@RULES.rule(
    "CTR108",
    "home directory in the container",
    reason="Packages of ~/.local then hide those of the image.",
    remedy="--no-container-mount-home, and mount what is needed",
    source=_PYXIS,
    severity="note",
    stage="advice",
)
def mounted_home(w: Workload) -> Iterator[Fault]:
    """Find a mounted home directory."""
    for _, option in slurm_options(w):
        if option.name == "--container-mount-home":
            yield Fault(
                option.name, "~/.local of the host hides the image's packages", option.origin
            )


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


@RULES.rule(
    "CTR112",
    "options of pyxis that exclude each other or do nothing",
    reason="pyxis refuses two opposite options, and an image or name said twice; without an image "
    "its other options do nothing.",
    remedy="keep one of them; add --container-image",
    source=_PYXIS,
)
def pyxis_options(w: Workload) -> Iterator[Fault]:
    """Find pyxis' options that cannot stand together, or that stand alone."""
    for step in steps(w):
        if step.program != SRUN:
            continue
        own = [
            option
            for option in step.options
            if option.name.startswith(_PREFIXES) and option.name not in _OCI
        ]
        if not own:
            continue
        for one, other in _EXCLUSIVE:
            first, second = step.option(one), step.option(other)
            if first is not None and second is not None:
                yield Fault(other, f"{one} and {other} exclude each other", second.origin)
        for name in _ONCE:
            texts = [option_text(option) for option in own if option.name == name]
            if None not in texts and len(set(texts)) > 1:
                option = step.option(name)
                assert option is not None  # noqa: S101 - it was counted
                yield Fault(
                    name, f"{name} is said {len(texts)} times, and pyxis takes one", option.origin
                )
        hidden = any(MARK in option.name for option in step.options)
        variables = any(name.startswith("PYXIS_") for name in step.environment)
        if step.option(_IMAGE, _NAME) is None and not hidden and not variables:
            yield Fault(
                own[0].name,
                f"{own[0].name} does nothing without --container-image or --container-name",
                own[0].origin,
                severity="warning",
            )
