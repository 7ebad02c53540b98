"""Turns a mapping of a run file, preset or profile into settings, checking every leaf.

All faults are found in one pass. The flat table accepts what is legal beyond doubt; anything
else is judged by the pydantic models, whose verdict is final.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moectl.errors import SeveralUsageErrors, UnknownNameError, UsageError, shown
from moectl.settings.setting import Layer, Setting
from moectl.spec.table import table
from moectl.values import Origin

Locate = Callable[[tuple[str, ...]], Origin]


def flatten(
    data: Mapping[str, Any], layer: Layer, locate: Locate, *, prefix: str = ""
) -> list[Setting]:
    """Return one setting for every leaf of `data`.

    Args:
        data: the mapping as read.
        layer: force of these settings.
        locate: gives the origin of a key path.
        prefix: run-file path under which `data` stands, e.g. "cluster".

    Raises:
        UsageError: one fault or, as `SeveralUsageErrors`, all of them.
    """
    faults: list[UsageError] = []
    settings: list[Setting] = []
    for path, keys, value in _leaves(data, prefix, ()):
        origin = locate(keys)
        fault = judge(path, value, origin)
        if fault is None:
            settings.append(Setting(path, value, layer, origin))
        else:
            faults.append(fault)
    raise_all(faults)
    return settings


def raise_all(faults: list[UsageError]) -> None:
    """Raise the fault, or all of them as one; nothing when there is none."""
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise SeveralUsageErrors(faults)


def judge(path: str, value: object, origin: Origin) -> UsageError | None:
    """Return why `value` cannot stand at `path`, or None."""
    where = place(origin)
    field = table().field(path)
    if field is None:
        return _unknown(path, where)
    head = path.partition(".")[0]
    if head in {"maxtext", "model"} and (owner := table().owners.get(path.rpartition(".")[2])):
        if owner != path:
            key = path.rpartition(".")[2]
            return UsageError(f"{where}: {path} belongs to {owner}; write it there ({key})")
        return None if field.accepts(value) else _judged_by_models(path, value, where)
    if field.accepts(value):
        return None
    return _judged_by_models(path, value, where)


def place(origin: Origin) -> str:
    """Return file:line:column of an origin, or its layer."""
    parts = [origin.file or origin.layer, origin.line, origin.column]
    return ":".join(str(part) for part in parts if part is not None)


def _leaves(
    data: Mapping[str, Any], prefix: str, keys: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    fields = table().fields
    for key, value in data.items():
        path = f"{prefix}.{key}" if prefix else key
        at = (*keys, key)
        is_leaf = f"{prefix}.*" in fields or (path in fields and not table().is_section(path))
        if isinstance(value, Mapping) and not is_leaf:
            yield from _leaves(value, path, at)
        elif value is None and not is_leaf and table().is_section(path):
            continue  # a section with nothing under it
        else:
            yield path, at, value


def _unknown(path: str, where: str) -> UsageError:
    head, _, key = path.rpartition(".")
    if table().is_section(path):
        return UsageError(f"{where}: {path} is a section; its keys stand under it")
    parent = head
    while parent and not table().is_section(parent):
        parent = parent.rpartition(".")[0]
    depth = parent.count(".") + 1 if parent else 0
    known = {
        known.split(".")[depth]
        for known in table().fields
        if (not parent or known.startswith(f"{parent}.")) and len(known.split(".")) > depth
    }
    name = path.split(".")[depth] if depth < len(path.split(".")) else key
    why = f"in {parent}" if parent else ""
    owner = table().owners.get(name)
    if owner:
        return UsageError(f"{where}: {path} is no key of a run file; MaxText's {name} is {owner}")
    return UnknownNameError("key", name, known, where=where, why=why)


def _judged_by_models(path: str, value: object, where: str) -> UsageError | None:
    from pydantic import ValidationError  # noqa: PLC0415 - only a doubtful value pays for it

    from moectl.spec.run import RunSpec  # noqa: PLC0415

    nested: Any = value
    for key in reversed(path.split(".")):
        nested = {key: nested}
    try:
        RunSpec.model_validate(nested, strict=True)
    except ValidationError as error:
        sentences = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg'][0].lower()}{fault['msg'][1:]}"
            if len(fault["loc"]) > len(path.split("."))
            else _said(fault, path, value)
            for fault in error.errors()[:4]
        )
        return UsageError(f"{where}: {path} cannot be {shown(value)}: {sentences}")
    return None


def _said(fault: Any, path: str, value: object) -> str:
    field = table().field(path)
    if fault["type"] == "string_pattern_mismatch" and field is not None:
        # An abbreviation at the beginning, GPU or MaxText, stays as it is written.
        plain = field.doc[1:2].islower() and field.doc.split()[0][1:].islower()
        doc = field.doc[0].lower() + field.doc[1:] if plain else field.doc
        return f"wanted is {doc.rstrip('.')}"
    if fault["type"] == "string_type" and isinstance(value, bool | int | float):
        return "text is wanted; put it in quotes"
    message = str(fault["msg"])
    return f"{message[0].lower()}{message[1:]}"
