"""How findings about MaxText's keys name them and say what to type, by the kind of file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moectl.errors import MoectlError
from moectl.facts import maxtext
from moectl.facts.maxtext import Catalogue
from moectl.values import Value
from moectl.workload import Workload

RUN_FILE = "run file"
# Axis of the mesh to the middle of its two keys, where they differ (configs/types.py:5575).
_KEYS = {"stage": "pipeline", "model": "tensor"}


def catalogue(w: Workload) -> Catalogue | None:
    """Return the catalogue that judges a workload; None when MaxText is not started."""
    if not w.is_maxtext:
        return None
    try:
        return maxtext.load(w.maxtext)
    except MoectlError:
        return None


def all_said(w: Workload) -> Iterator[tuple[str, Value, bool]]:
    """Yield everything said: key, value, and whether a command line said it."""
    yield from ((key, value, False) for key, value in w.config.items())
    yield from ((key, value, True) for key, value in w.arguments.items())


def exists(keys: Catalogue, name: str, *, argument: bool) -> bool:
    """Whether MaxText's loader lets a name pass; a dot means nesting on a command line only."""
    if "." in name and keys.key(name) is None:
        parent = keys.key(name.partition(".")[0])
        return argument and parent is not None and bool(parent.nested) and not parent.closed
    return keys.key(name) is not None and (argument or "." not in name)


def whole(*values: Any) -> bool:
    """Whether all values are whole numbers, none of them unknown."""
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


def real(*values: Any) -> bool:
    """Whether all values are numbers, none of them unknown."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def axis_sizes(w: Workload) -> dict[str, Any]:
    """Return the devices along each mesh axis, as far as they are known."""
    sizes = w.value("axis_sizes")
    return sizes if isinstance(sizes, dict) else {}


def key_of(group: str, axis: str) -> str:
    """Return the key of a degree, e.g. ici_pipeline_parallelism for ("ici", "stage")."""
    return f"{group}_{_KEYS.get(axis, axis)}_parallelism"


def degree_keys(*axes: str) -> list[str]:
    """Return the keys of some axes, ICI before DCN."""
    return [key_of(group, axis) for axis in axes for group in ("ici", "dcn")]


def own_rules(w: Workload) -> bool:
    """Whether somebody replaced MaxText's logical axis rules, so that its own do not hold."""
    said = ("logical_axis_rules", "override_logical_axis_rules", "custom_mesh_and_rule")
    return any(w.said(key) is not None for key in said) and w.kind != RUN_FILE


def typed(value: Any) -> str:
    """Write a value as one types it."""
    if value is None:
        return "null"
    if value == "":
        return '""'
    return str(value).lower() if isinstance(value, bool) else str(value)


def field(w: Workload, key: str) -> str:
    """Return how a file names a key: the path of a run file, or the key itself."""
    if w.kind != RUN_FILE:
        return key
    from moectl.spec.table import table  # noqa: PLC0415 - only a finding pays for it

    group, _, rest = key.partition("_")
    axis = rest.removesuffix("_parallelism")
    if group in {"ici", "dcn"} and axis != rest:
        return f"parallelism.{group}.{axis}"
    return table().owners.get(key, key)


def write(w: Workload, **values: Any) -> str:
    """Say what to type to set keys to values."""
    if w.kind == RUN_FILE:
        return " ".join(f"--set {field(w, key)}={_plain(value)}" for key, value in values.items())
    words = []
    for key, value in values.items():
        argument = key in w.arguments or (not w.config and bool(w.arguments))
        words.append(f"{key}={typed(value)}" if argument else f"{key}: {typed(value)}")
    return f"write {' and '.join(words)}"


def _plain(value: Any) -> str:
    return "" if value in (None, "") else typed(value)
