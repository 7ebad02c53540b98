"""Rules on pyxis' options: where they stand, which exclude each other, which do nothing."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.rules.launching import SRUN, option_text, slurm_options, steps
from moectl.rules.rule import Fault, rules
from moectl.workload import MARK, Workload

RULES = rules()

_PYXIS = "NVIDIA/pyxis README and args.c (0.21)"
_IMAGE, _NAME = "--container-image", "--container-name"
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
