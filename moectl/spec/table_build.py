"""Turns the pydantic models of the spec into rows of the flat table."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from moectl.spec.base import MaxTextKey

_KINDS = {bool: "bool", int: "int", float: "float", str: "str"}
_UNIONS = {
    frozenset({bool, int, float, str}): "scalar",
    frozenset({int, float, str}): "text",
}


def leaves(model: type[BaseModel], prefix: str = "") -> Iterator[dict[str, Any]]:
    """Yield one row for every leaf of `model`, in the order of declaration."""
    for name, info in model.model_fields.items():
        path = f"{prefix}{info.alias or name}"
        yield from _leaf(path, info)


def _leaf(path: str, info: FieldInfo) -> Iterator[dict[str, Any]]:
    annotation, nullable = _without_none(info.annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if nullable:
            yield {"path": path, "kind": "model", "nullable": True, "doc": info.description}
        yield from leaves(annotation, f"{path}.")
        return
    row: dict[str, Any] = {"path": path, "kind": "model"}
    if get_origin(annotation) is dict:
        _, annotation = get_args(annotation)
        row["path"] = f"{path}.*"
        annotation, nullable = _without_none(annotation)
    row |= _kind(annotation)
    if nullable:
        row["nullable"] = True
    row |= _bounds([*_inner_marks(info.annotation), *info.metadata])
    if info.default is not PydanticUndefined and info.default is not None:
        row["default"] = info.default
    for mark in info.metadata:
        if isinstance(mark, MaxTextKey):
            row["maxtext"] = mark.name
    row["doc"] = info.description or ""
    yield row


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) in (Union, types.UnionType):
        members = [member for member in get_args(annotation) if member is not type(None)]
        nullable = len(members) < len(get_args(annotation))
        return (members[0] if len(members) == 1 else Union[tuple(members)]), nullable  # noqa: UP007
    return annotation, False


def _kind(annotation: Any) -> dict[str, Any]:
    origin = get_origin(annotation)
    if origin is Literal:
        return {"kind": "enum", "choices": list(get_args(annotation))}
    if origin is list:
        return {"kind": "list", "items": _kind(get_args(annotation)[0])["kind"]}
    if origin in (Union, types.UnionType):
        parts = [_kind(member) for member in get_args(annotation)]
        if all(part["kind"] == "enum" for part in parts):
            return {"kind": "enum", "choices": [c for part in parts for c in part["choices"]]}
        members = frozenset(get_args(annotation))
        return {"kind": _UNIONS.get(members, "model")}
    if annotation is Any:
        return {"kind": "any"}
    if hasattr(annotation, "__metadata__"):
        return _kind(get_args(annotation)[0])
    return {"kind": _KINDS.get(annotation, "model")}


def _inner_marks(annotation: Any) -> list[Any]:
    """Collect the bounds written inside a union or a map, e.g. `Positive | None`."""
    marks: list[Any] = []
    if hasattr(annotation, "__metadata__"):
        for mark in annotation.__metadata__:
            marks.extend(mark.metadata if isinstance(mark, FieldInfo) else [mark])
    for member in get_args(annotation):
        marks.extend(_inner_marks(member))
    return marks


def _bounds(marks: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for mark in marks:
        if isinstance(mark, annotated_types.Ge):
            found["minimum"] = mark.ge
        elif isinstance(mark, annotated_types.Gt):
            found |= {"minimum": mark.gt, "exclusive": True}
        elif isinstance(mark, annotated_types.Le):
            found["maximum"] = mark.le
        elif getattr(mark, "pattern", None):
            found["pattern"] = mark.pattern
    return found
