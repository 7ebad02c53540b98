"""Reads `--set key=value`: a path of the run file, or a MaxText key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moectl.errors import UnknownNameError, UsageError, shown
from moectl.facts.maxtext import Catalogue
from moectl.settings.flatten import judge
from moectl.settings.setting import Layer, Setting
from moectl.settings.yaml_source import read_scalar
from moectl.spec.table import table
from moectl.values import Origin

_SET = Origin("--set")
_DECIDED_BEFORE = {"preset": "name the preset as the target of the command instead"}
_REMAT_CHOICES = ("remat", "device", "offload")


def option(path: str, value: Any, flag: str) -> Setting:
    """Return the setting of a command-line option such as `--gpus`."""
    return Setting(path, value, Layer.OPTION, Origin(flag))


def encodable(text: str) -> bool:
    """Whether a word of the command line is UTF-8 text, which a file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def assignments(
    texts: Sequence[str], catalogue: Catalogue
) -> tuple[list[Setting], list[UsageError]]:
    """Read `--set` options.

    Args:
        texts: "key=value" each; the value is read as MaxText's command line reads it.
        catalogue: keys of the MaxText release.

    Returns:
        What they say, and the faults: unknown keys (with the nearest), or values that cannot
        be meant.
    """
    faults: list[UsageError] = []
    settings: list[Setting] = []
    for text in texts:
        key, equals, raw = text.partition("=")
        if not equals or not key:
            faults.append(UsageError(f"--set wants key=value, not {shown(text)}"))
            continue
        try:
            path = owning_path(key, catalogue)
            if path in _DECIDED_BEFORE:
                faults.append(UsageError(f"--set {key}: {_DECIDED_BEFORE[path]}"))
                continue
            value = _value(path, raw, key)
        except UsageError as error:
            faults.append(error)
            continue
        fault = judge(path, value, _SET)
        if fault is None:
            settings.append(Setting(path, value, Layer.OPTION, _SET))
        else:
            faults.append(fault)
    return settings, faults


def owning_path(key: str, catalogue: Catalogue) -> str:
    """Return the run-file path that owns `key`, which is a path already or a MaxText key.

    Raises:
        UnknownNameError: neither; the nearest names of both kinds are given.
    """
    spec = table()
    if spec.field(key) is not None:
        return key
    if owner := spec.owners.get(key):
        return owner
    if spec.is_section(key):
        return key
    mesh = axis_path(key, catalogue)
    if mesh:
        return mesh
    known = catalogue.key(key)
    if known is not None:
        if tuple(known.choices) and set(known.choices) == set(_REMAT_CHOICES):
            return f"remat.tensors.{key}"
        return f"maxtext.{key}"
    legal = [*spec.fields, *catalogue.keys()]
    raise UnknownNameError(
        "key",
        key,
        legal,
        where="--set",
        why=f"neither a run-file path nor a key of MaxText {catalogue.release}",
    )


def axis_path(key: str, catalogue: Catalogue) -> str | None:
    """Return the path of a mesh degree, e.g. "parallelism.ici.fsdp" for ici_fsdp_parallelism."""
    group, _, rest = key.partition("_")
    axis = rest.removesuffix("_parallelism")
    if group in {"ici", "dcn"} and rest != axis and catalogue.key(key) is not None:
        return f"parallelism.{group}.{axis}"
    return None


def _value(path: str, raw: str, key: str) -> Any:
    field = table().field(path)
    if field is not None and field.kind in {"str", "text"}:
        # Text is taken as typed: "1e3" or "off" is a name here, not a number or a boolean.
        if not encodable(raw):
            raise UsageError(f"--set {key}: {shown(raw)} is not UTF-8 text")
        return None if raw in {"null", "~"} and field.nullable else raw
    return read_scalar(raw, f"--set {key}")
