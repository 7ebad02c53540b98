"""Read a MaxText wheel, source tree or installed folder into the tables of its catalogue.

MaxText is never imported: its Python is parsed and its YAML read. One reading takes about
half a second.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from moectl.errors import SourceError
from moectl.evidence.maxtext_python import Class, Reader, Unseen
from moectl.evidence.maxtext_tree import TYPES, Tree, opened
from moectl.evidence.maxtext_types import Fields
from moectl.facts.maxtext import MeshAxis
from moectl.facts.maxtext_key import Key
from moectl.facts.maxtext_values import prepare
from moectl.settings.yaml_source import read_mapping

CONFIG_CLASS = "MaxTextConfig"
BASE = "configs/base.yml"
MODELS = "configs/models"
LOADER = "configs/pyconfig.py"
VERSION = "version.py"
_PREPARES = "_prepare_for_pydantic"
_CALLS = {"_coerce_to_list": "text_is_list"}


@dataclass(frozen=True)
class Tables:
    """What one MaxText release says about its configuration.

    Attributes:
        release: the release, e.g. "0.2.5".
        digests: SHA-256 of the files that were decisive, by path in the package.
        keys: the top-level keys in the order of the source.
        nested: the keys under each top-level key whose value is a pydantic model.
        base: base.yml as MaxText uses it (`facts.maxtext.prepare` applied).
        models: the files of configs/models by name, in the same form.
        axes: every axis name a mesh may have, with the keys that size it.
        strays: keys of base.yml and the model files that the release itself would refuse.
    """

    release: str
    digests: Mapping[str, str]
    keys: Mapping[str, Key]
    nested: Mapping[str, Mapping[str, Key]]
    base: Mapping[str, object]
    models: Mapping[str, Mapping[str, object]]
    axes: Mapping[str, MeshAxis]
    strays: tuple[str, ...]


def read_source(source: Path, release: str | None = None) -> Tables:
    """Read the tables of a MaxText release.

    Args:
        source: a wheel, a source tree, a site-packages folder, a virtual environment or the
            `maxtext` folder itself.
        release: what to call it; by default what its version.py says.

    Raises:
        SourceError: there is no MaxText in it, or a file of it cannot be read.
    """
    with opened(source) as tree:
        reader = Reader(tree)
        config = reader.module(TYPES).classes.get(CONFIG_CLASS)
        if config is None:
            raise SourceError(tree.place(TYPES), None, f"declares no class {CONFIG_CLASS}")
        cls = Class(reader.module(TYPES), config)
        keys, nested = _keys(reader, cls)
        base = _yaml(tree, BASE, keys)
        models = {
            name: _yaml(tree, f"{MODELS}/{name}.yml", keys) for name in tree.names(MODELS, ".yml")
        }
        return Tables(
            release=release or _release(reader),
            digests={path: tree.digest(path) for path in (TYPES, BASE)},
            keys=keys,
            nested=nested,
            base=base,
            models=models,
            axes=_axes(config),
            strays=tuple(_strays(keys, {"base": base, **models})),
        )


def _keys(reader: Reader, cls: Class) -> tuple[dict[str, Key], dict[str, dict[str, Key]]]:
    fields = Fields(reader)
    prepared = _prepared(reader)
    keys: dict[str, Key] = {}
    nested: dict[str, dict[str, Key]] = {}
    try:
        for name, key in fields.keys(cls).items():
            model = fields.model(cls, name)
            inner = fields.keys(model) if model else {}
            if model:
                # Only one level is read: what stands deeper, MaxText alone can judge.
                nested[name] = {
                    n: replace(k, parent=name, opaque=k.opaque or bool(fields.model(model, n)))
                    for n, k in inner.items()
                }
            keys[name] = replace(
                key,
                prepared=tuple(prepared.get(name, ())),
                nested=tuple(inner),
                closed=fields.closed(model) if model else False,
            )
    except Unseen:
        place = reader.tree.place(cls.module.path)
        raise SourceError(
            place, cls.node.lineno, "the base classes have no order, or are computed"
        ) from None
    return keys, nested


def _yaml(tree: Tree, path: str, keys: Mapping[str, Key]) -> dict[str, object]:
    values = read_mapping(tree.read(path), tree.place(path)).data
    return {
        name: prepare(keys[name], value) if name in keys else value
        for name, value in values.items()
    }


def _strays(
    keys: Mapping[str, Key], documents: Mapping[str, Mapping[str, object]]
) -> Iterator[str]:
    for name, values in documents.items():
        yield from (f"{name}: {key}" for key in values if key not in keys)


def _release(reader: Reader) -> str:
    """Return `__version__` of the package."""
    value: object = None
    if reader.tree.exists(VERSION):
        module = reader.module(VERSION)
        found = module.values.get("__version__")
        try:
            value = reader.value(module, found) if found is not None else None
        except Unseen:
            value = None
    if not isinstance(value, str):
        raise SourceError(
            reader.tree.place(VERSION), None, "does not say which release it is: name it"
        )
    return value


def _axes(config: ast.ClassDef) -> dict[str, MeshAxis]:
    """Find the mappings from mesh axis to `self.ici_*` or `self.dcn_*` in the class.

    An axis with a constant has no key: MaxText fixes its size.
    """
    found: dict[str, dict[str, str]] = {}
    for node in ast.walk(config):
        if not isinstance(node, ast.Dict):
            continue
        pairs = [
            (key.value, value.attr if isinstance(value, ast.Attribute) else "")
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        ]
        for side in ("ici", "dcn"):
            if any(attribute.startswith(f"{side}_") for _, attribute in pairs):
                for axis, attribute in pairs:
                    found.setdefault(axis, {})[side] = attribute
    return {axis: MeshAxis(axis, **keys) for axis, keys in found.items()}


def _prepared(reader: Reader) -> dict[str, list[str]]:
    """Find what the loader does to single keys before pydantic sees their values.

    It reads statements of the form `if key in (...) [and new_value ...]: new_value = ...`.
    """
    found: dict[str, list[str]] = {}
    if not reader.tree.exists(LOADER):
        return found
    functions = [
        node
        for node in reader.parsed(LOADER).body
        if isinstance(node, ast.FunctionDef) and node.name == _PREPARES
    ]
    for node in (part for function in functions for part in ast.walk(function)):
        match node:
            case ast.If(test=test, body=[ast.Assign(value=value)]):
                action = _action(ast.unparse(test), value)
                for name in _tested(test) if action else ():
                    found.setdefault(name, []).append(action)
    return found


def _action(test: str, value: ast.expr) -> str:
    match value:
        case ast.Constant(value=None) if "new_value == ''" in test:
            return "empty_is_none"
        case ast.Constant(value="") if "new_value is None" in test:
            return "none_is_empty"
        case ast.Call(func=ast.Name(id=name)):
            return _CALLS.get(name, "")
    return ""


def _tested(test: ast.expr) -> Iterator[str]:
    """The key names that a condition compares `key` with."""
    for node in ast.walk(test):
        match node:
            case ast.Compare(left=ast.Name(id="key"), comparators=[other]):
                names = other.elts if isinstance(other, ast.Tuple | ast.List) else [other]
                for name in names:
                    if isinstance(name, ast.Constant) and isinstance(name.value, str):
                        yield name.value
