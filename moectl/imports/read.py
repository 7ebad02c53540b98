"""Reads the files of one run, whatever they are, as one workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from moectl.errors import UsageError, shown
from moectl.resolve.workload import Basis, workload
from moectl.settings.sources.detect import detect
from moectl.settings.sources.read import read_source
from moectl.workload import Workload

_CONFIG = "MaxText config"


@dataclass(frozen=True, slots=True)
class Old:
    """One file to take over.

    Attributes:
        name: its name.
        text: its content.
        opener: gives the text of a file named beside it, or None.
    """

    name: str
    text: str
    opener: Callable[[str], str | None]


def read(files: Sequence[Old], basis: Basis) -> tuple[Workload, tuple[str, ...]]:
    """Return what the files start together, and remarks on them.

    A config beside a script or manifest fills in what those do not say themselves.

    Args:
        files: the files.
        basis: what was given beside them.

    Raises:
        UsageError: they start nothing, or more than one run.
    """
    found: list[Workload] = []
    told: list[str] = []
    for file in files:
        source = read_source(file.name, file.text, file.opener, detect(file.name, file.text))
        told += [f"{file.name}: {said}" for said in source.told]
        for part in source.parts:
            made, notes = workload(part, basis)
            told += [f"{file.name}: {note}" for note in notes]
            found.append(made)
    runs = [one for one in found if one.is_maxtext and one.kind != _CONFIG]
    # A launcher and the script it starts tell of the same run; the launcher tells more.
    runs.sort(key=lambda one: one.batch is None)
    runs = list({(one.origin.file, one.origin.line): one for one in reversed(runs)}.values())[::-1]
    configs = [one for one in found if one.kind == _CONFIG]
    rest = [one for one in found if not one.is_maxtext and one.kind != _CONFIG]
    if len(runs) > 1:
        places = ", ".join(f"{one.origin.file}:{one.origin.line}" for one in runs[:5])
        raise UsageError(
            f"{len(runs)} runs are started ({places}), and a run file is one; import a file that "
            "starts one of them"
        )
    if not runs and not configs:
        verb = "starts" if len(files) == 1 else "start"
        raise UsageError(
            f"{' and '.join(shown(file.name) for file in files)} {verb} no MaxText run that could "
            "be taken over"
        )
    base = runs[0] if runs else _merged(configs[0], configs[1:])
    for one in (*(configs if runs else ()), *rest):
        base = _merged(base, [one])
    return base, tuple(dict.fromkeys(told))


def _merged(base: Workload, others: Sequence[Workload]) -> Workload:
    """Return a workload with what others say and it does not."""
    for other in others:
        said: Mapping[str, Any] = {**other.config, **base.config}
        base = replace(
            base,
            config=said,
            arguments={**other.arguments, **base.arguments},
            environment={**other.environment, **base.environment},
            flags=base.flags if base.flags is not None else other.flags,
            devices=base.devices if base.devices is not None else other.devices,
            hardware=base.hardware if base.hardware is not None else other.hardware,
            image=base.image if base.image_said is not None else other.image,
            image_said=base.image_said or other.image_said,
        )
    return base
