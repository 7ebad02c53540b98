"""Decides what MaxText is told: what stands in config.yml and what on its command line.

MaxText merges base.yml < config.yml < the model's own file < the command line
(configs/pyconfig.py), so a key that the model file also sets is lost in silence when it stands
in config.yml. Such keys go on the command line, with override_model_config=true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from moectl.errors import UnknownNameError, UsageError, shown
from moectl.facts.maxtext import Catalogue
from moectl.facts.yaml_facts import read
from moectl.job import Batch, Mesh
from moectl.resolve.merge import Effective
from moectl.resolve.scale import batch_path
from moectl.resolve.weights import RULES
from moectl.settings.bundle_names import MOUNTED
from moectl.settings.flatten import place, raise_all
from moectl.settings.options import axis_path, owning_path
from moectl.settings.setting import Layer, Setting
from moectl.spec.table import table
from moectl.values import Origin, Value

BASE = "base.yml"
OUTPUT = "base_output_directory"
_CONTAINED = frozenset({"pyxis"})


@dataclass(frozen=True, slots=True)
class Told:
    """What MaxText is told.

    Attributes:
        config: keys of config.yml.
        arguments: keys of the command line.
        effective: every key anyone sets, base.yml and the model file included.
    """

    config: dict[str, Value]
    arguments: dict[str, Value]
    effective: dict[str, Any]


def standing(effective: Effective, catalogue: Catalogue) -> list[Setting]:
    """Return the defaults of the run file that are not MaxText's own, as the weakest settings.

    They are few: what base.yml sets for TPUs, and where output goes. A model file keeps its
    own value.
    """
    name = str(effective.get("model.name"))
    model = catalogue.model(name) or {}
    origin = Origin("moectl default")
    return [
        Setting(path, field.default, Layer.DEFAULT, origin)
        for path, field in table().fields.items()
        if field.maxtext
        and field.default is not None
        and catalogue.key(field.maxtext) is not None
        and field.maxtext not in model
        and catalogue.default(field.maxtext) != field.default
    ]


def model_values(effective: Effective, catalogue: Catalogue) -> dict[str, Any]:
    """Return the effective MaxText values before mesh and batch are known.

    Raises:
        UsageError: unknown keys or models, values MaxText refuses, or keys said in a section
            that does not own them; all in one pass.
    """
    said = _said(effective)
    raise_all(_faults(effective, said, catalogue))
    values = dict(catalogue.base)
    values |= catalogue.model(str(said["model_name"].value)) or {}
    return values | {key: value.value for key, value in said.items()}


def told(
    effective: Effective,
    catalogue: Catalogue,
    mesh: Mesh,
    batch: Batch,
    rules: Value | None,
    name: str,
) -> Told:
    """Return config, arguments and effective values, mesh and batch included.

    Args:
        effective: the merged settings.
        catalogue: keys of the MaxText release.
        mesh: the mesh of the job.
        batch: its batch arithmetic.
        rules: logical axis rules to override, or None.
        name: the run's name.
    """
    said = _said(effective)
    said["per_device_batch_size"] = _per_device(effective, batch)
    said["run_name"] = Value(name, effective.origin("name"))
    said[OUTPUT] = _output(said[OUTPUT], str(effective.get("cluster.runtime")))
    said |= _degrees(effective, catalogue, mesh)
    model = catalogue.model(str(said["model_name"].value)) or {}
    config = {"base_config": Value(BASE, Origin("moectl default"))}
    arguments: dict[str, Value] = {}
    overrides = effective.section("model.overrides")
    for key, value in said.items():
        if key in model and (key in overrides or model[key] != value.value):
            if model[key] != value.value:
                model_says = (model[key], Origin(f"MaxText {catalogue.release} model file"))
                arguments[key] = Value(value.value, value.origin, (*value.overrode, model_says))
        else:
            config[key] = _over_base(value, key, catalogue)
    for key in read("launch.yaml")["command_line_keys"]:
        if key in config:
            arguments[key] = config.pop(key)
    if model.keys() & arguments.keys():
        first = next(iter(arguments.values())).origin
        arguments["override_model_config"] = Value(value=True, origin=first)
    values = {**catalogue.base, **model, **{key: value.value for key, value in said.items()}}
    if rules is not None:
        arguments[RULES] = rules
        values[RULES] = rules.value
    return Told(config, arguments, values)


def _per_device(effective: Effective, batch: Batch) -> Value:
    """Return the sequences a GPU, remembering whom the decisive field overrode."""
    number = batch.per_device
    size = int(number) if number == int(number) else number
    own = effective.values.get("batch.per_device")
    path = batch_path(effective)
    weaker = own.overrode if own else ()
    if own is not None and path != "batch.per_device":
        weaker = ((own.value, own.origin), *weaker)
    return Value(size, effective.origin(path), weaker)


def _output(value: Value, runtime: str) -> Value:
    """Return MaxText's output folder; one inside the bundle is absolute in the container.

    Orbax wants absolute paths of checkpoints.
    """
    if runtime not in _CONTAINED or value.value.startswith("/") or "://" in value.value:
        return value
    return replace(value, value=f"{MOUNTED}/{value.value.removeprefix('./')}")


def _over_base(value: Value, key: str, catalogue: Catalogue) -> Value:
    """Return the value with base.yml's as the weakest that it overrode."""
    if key not in catalogue.base:
        return value
    base = (catalogue.base[key], Origin(f"MaxText {catalogue.release} base.yml"))
    return Value(value.value, value.origin, (*value.overrode, base))


def _said(effective: Effective) -> dict[str, Value]:
    """Return every MaxText key somebody said, in the order of the spec, then as said."""
    said: dict[str, Value] = {}
    for key, path in table().owners.items():
        if path in effective.values:
            said[key] = effective.values[path]
    said.setdefault("model_name", Value("default", Origin("moectl default")))
    for section in ("remat.tensors", "maxtext", "model.overrides"):
        said |= effective.section(section)
    return said


def _degrees(effective: Effective, catalogue: Catalogue, mesh: Mesh) -> dict[str, Value]:
    """Return the ici_* and dcn_* keys: those above 1, and those whose default is not 1."""
    found: dict[str, Value] = {}
    names = catalogue.keys()
    for key in names:
        path = axis_path(key, catalogue)
        if path is None:
            continue
        _, group, axis = path.split(".")
        if axis not in mesh.degrees:
            continue
        degree = mesh.degrees[axis]
        size = degree.ici if group == "ici" else degree.dcn
        if size != 1 or catalogue.base.get(key, 1) != 1 or path in effective.values:
            said = effective.values.get(path)
            if said is not None and said.value == size:
                found[key] = said
            else:
                weaker = ((said.value, said.origin), *said.overrode) if said else ()
                found[key] = Value(size, Origin("scaling"), weaker)
    return found


def _faults(
    effective: Effective, said: Mapping[str, Value], catalogue: Catalogue
) -> list[UsageError]:
    faults: list[UsageError] = []
    model = said["model_name"]
    told_already: set[str] = set()
    if model.value != "default" and catalogue.model(model.value) is None:
        told_already.add("model_name")
        faults.append(
            UnknownNameError(
                f"model of MaxText {catalogue.release}",
                model.value,
                catalogue.models(),
                where=place(model.origin),
            )
        )
    reserved: dict[str, str] = read("launch.yaml")["reserved_keys"]
    secret_keys: dict[str, str] = read("launch.yaml")["secret_keys"]
    for section in ("maxtext", "model.overrides", "remat.tensors"):
        for key, value in effective.section(section).items():
            where = place(value.origin)
            if key in secret_keys:
                variable = secret_keys[key]
                faults.append(
                    UsageError(f"{where}: {key} is a secret; write secrets: [{variable}] instead")
                )
            elif key in reserved:
                faults.append(UsageError(f"{where}: {key} is decided by {reserved[key]}"))
            elif catalogue.key(key) is None:
                why = f"in MaxText {catalogue.release}"
                legal = catalogue.keys()
                faults.append(UnknownNameError("MaxText key", key, legal, where=where, why=why))
            elif (
                section == "maxtext" and (owner := owning_path(key, catalogue)) != f"maxtext.{key}"
            ):
                faults.append(
                    UsageError(f"{where}: maxtext.{key} belongs to {owner}; write it there")
                )
    for key, value in said.items():
        if catalogue.key(key) is None:
            if value.origin.layer != "moectl default" and key in table().owners:
                faults.append(_missing(key, value, catalogue))
            continue
        clause = catalogue.check(key, value.value)
        if clause and key not in told_already:
            faults.append(
                UsageError(
                    f"{place(value.origin)}: {key} cannot be {shown(value.value)}: MaxText "
                    f"{catalogue.release} takes {clause}"
                )
            )
    return faults


def _missing(key: str, value: Value, catalogue: Catalogue) -> UsageError:
    return UsageError(
        f"{place(value.origin)}: {table().owners[key]} sets {key}, which MaxText "
        f"{catalogue.release} does not have"
    )
