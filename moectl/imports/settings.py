"""Finds the place in a run file for everything that a workload says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from moectl.errors import UnknownNameError, shown
from moectl.facts import environment as variables
from moectl.facts import maxtext
from moectl.facts.maxtext import Catalogue
from moectl.settings.options import axis_path, owning_path
from moectl.spec.table import table
from moectl.values import Origin
from moectl.workload import UNKNOWN, Option, Workload
from moectl.xla_text import parse

# Directives to the key of the cluster profile that says the same.
_CLUSTER = {
    "--partition": "partition",
    "--account": "account",
    "--qos": "qos",
    "--reservation": "reservation",
    "--time": "time",
}
# Directives that moectl says itself from GPUs, platform and name.
_OURS = frozenset(
    {
        "--nodes", "--ntasks", "--ntasks-per-node", "--gpus", "--gpus-per-node", "--gpus-per-task",
        "--gres", "--cpus-per-task", "--mem", "--exclusive", "--job-name", "--output", "--error",
        "--segment", "--signal", "--requeue", "--no-requeue", "--open-mode",
    }
)  # fmt: skip
# Variables that the launch script sets, or that a shell has anyway.
_LAUNCHER = (
    "JAX_COORDINATOR_", "JAX_PARTITION_INDEX", "JAX_LOCAL_DEVICE_IDS", "JAX_NUM_PROCESSES",
    "JAX_PROCESS_", "NNODES", "NODE_RANK", "SLURM_", "CUDA_VISIBLE_DEVICES", "MASTER_", "RANK",
    "LOCAL_RANK", "WORLD_SIZE", "PATH", "HOME", "USER", "PWD", "SHELL", "PYTHONPATH", "HOSTNAME",
)  # fmt: skip
_NAME = "run_name"
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")  # what the run file takes as a name
_READ = frozenset({"base_config"})


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Something that has no place in the run file, with the reason."""

    what: str
    why: str
    origin: Origin


@dataclass(slots=True)
class Understood:
    """What was understood.

    Attributes:
        settings: path of the run file to value.
        secrets: variables whose values are secrets; only their names are taken.
        unplaced: what has no place.
        keys, flags, variables: how many of each are placed.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    unplaced: list[Unplaced] = field(default_factory=list)
    keys: int = 0
    flags: int = 0
    variables: int = 0


def understood(w: Workload) -> Understood:
    """Return the settings of a run file that say what a workload says."""
    catalogue = maxtext.load(w.maxtext)
    found = Understood()
    _layout(w, found)
    _keys(w, catalogue, found)
    _flags(w, found)
    _environment(w, found)
    _directives(w, found)
    return found


def placed(key: str, value: Any, catalogue: Catalogue) -> dict[str, Any]:
    """Return the setting that gives a MaxText key a value.

    Raises:
        UnknownNameError: MaxText has no such key.
    """
    # A key of MaxText, whatever path of the run file may be called the same.
    return {table().owners.get(key) or owning_path(key, catalogue): value}


def _layout(w: Workload, found: Understood) -> None:
    if w.devices is not None:
        found.settings["gpus"] = w.devices
    if w.hardware is not None:
        found.settings["hardware"] = w.hardware.name
    if w.image is not None and w.image_said is not None:
        found.settings["container.image"] = w.image.reference
        if w.image.digest:
            found.settings["container.digest"] = w.image.digest


def _keys(w: Workload, catalogue: Catalogue, found: Understood) -> None:
    for key in dict.fromkeys([*w.config, *w.arguments]):
        if key in _READ:  # the files it names are read already
            continue
        said = w.said(key)
        assert said is not None  # noqa: S101 - it is one of the two
        # What counts, as MaxText reads it: a model's file may win over the YAML.
        value = w.effective.get(key, said.value)
        if key == _NAME and isinstance(value, str) and _RUN.fullmatch(value):
            found.settings["name"] = value
            found.keys += 1
            continue
        if key == _NAME and isinstance(value, str):
            why = f"no name of a run is {shown(value)}; letters, digits, dots, _ and - make one"
            found.unplaced.append(Unplaced(key, why, said.origin))
            continue
        if value is UNKNOWN or said.value is UNKNOWN:
            why = "its value is only known when the file runs"
            found.unplaced.append(Unplaced(key, why, said.origin))
            continue
        try:
            found.settings |= placed(key, value, catalogue)
        except UnknownNameError as error:
            hint = f"; did you mean {error.suggestions[0]}?" if error.suggestions else ""
            why = f"MaxText {catalogue.release} has no such key{hint}"
            found.unplaced.append(Unplaced(key, why, said.origin))
        else:
            found.keys += 1


def _flags(w: Workload, found: Understood) -> None:
    if w.flags is None:
        return
    if not w.flags.known:
        why = "a part of it is only known when the file runs"
        found.unplaced.append(Unplaced("XLA_FLAGS", why, w.flags.origin))
    read = parse(w.flags.text.replace("\0", ""))
    for token in read.kept:
        found.settings[f"xla_flags.{token.name}"] = _scalar(token.value)
        found.flags += 1
    for token in read.dropped:
        why = "XLA stops reading before it, so it never had an effect"
        found.unplaced.append(Unplaced(f"--{token.name}", why, w.flags.at(token.offset)))


def _scalar(text: str | None) -> Any:
    """Return a flag's value as a run file says it."""
    if text is None or text.lower() == "true":
        return True
    if text.lower() == "false":
        return False
    return int(text) if text.lstrip("-").isascii() and text.lstrip("-").isdigit() else text


def _environment(w: Workload, found: Understood) -> None:
    catalogue = variables.load()
    for name, text in w.environment.items():
        if name.startswith(_LAUNCHER) or not name.isidentifier():
            continue
        if catalogue.secret(name):
            found.secrets.append(name)
        elif text.origin.line is None:  # said by the surroundings, not by the files
            continue
        elif not text.known:
            why = "its value is only known when the file runs"
            found.unplaced.append(Unplaced(name, why, text.origin))
        else:
            found.settings[f"environment.{name}"] = text.text
            found.variables += 1
    if found.secrets:
        found.settings["secrets"] = sorted(set(found.secrets))


def _directives(w: Workload, found: Understood) -> None:
    if w.batch is None:
        return
    further = []
    for option in w.batch.directives:
        if option.name in _OURS:
            continue
        value = option.value
        if value is not None and not value.known:
            why = "its value is only known when the file runs"
            found.unplaced.append(Unplaced(option.name, why, option.origin))
        elif option.name in _CLUSTER and value is not None:
            found.settings[f"cluster.{_CLUSTER[option.name]}"] = value.text
        else:
            further.append(_directive(option))
    if further:
        found.settings["cluster.directives"] = further


def _directive(option: Option) -> str:
    return option.name if option.value is None else f"{option.name}={option.value.text}"


def missing(w: Workload, effective: Mapping[str, Any], catalogue: Catalogue) -> Iterator[str]:
    """Yield the keys that another job gives another value than the workload has.

    Args:
        w: the workload.
        effective: MaxText values of the other job.
        catalogue: the MaxText release.
    """
    for key, value in w.effective.items():
        known = value is not UNKNOWN and key in effective and catalogue.key(key) is not None
        left = value == -1 and axis_path(key, catalogue) is not None  # what is left of the devices
        if known and not left and effective[key] != value:
            yield key
