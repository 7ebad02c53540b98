"""Read the fields of pydantic classes in MaxText's source: type, bounds, default, place.

The rules are pydantic's (2.x): fields are collected along the method resolution order, the
nearest declaration wins, and a field without a default is required.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from moectl.evidence.maxtext_python import Class, Expression, Module, Reader, Unseen
from moectl.facts.maxtext_key import BOUNDS, Key

DERIVED_CLASS = "DerivedValues"
_SIMPLE = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "str",
    "dict": "dict",
    "Dict": "dict",
    "list": "list",
    "List": "list",
    "Any": "any",
    "object": "any",
}
_BOUNDED: dict[str, tuple[str, dict[str, int]]] = {
    f"{name}{suffix}": (kind, bounds)
    for suffix, kind in (("Int", "int"), ("Float", "float"))
    for name, bounds in (
        ("NonNegative", {"ge": 0}),
        ("Positive", {"gt": 0}),
        ("NonPositive", {"le": 0}),
        ("Negative", {"lt": 0}),
    )
}
# What Field() may be told without changing which values are legal.
_SILENT = {
    "default", "default_factory", "description", "title", "examples", "json_schema_extra",
    "repr", "deprecated", "frozen", "exclude",
}  # fmt: skip


@dataclass
class Shape:
    """What an annotation allows."""

    kinds: list[str] = field(default_factory=list)
    nullable: bool = False
    choices: list[object] = field(default_factory=list)
    bounds: dict[str, int | float] = field(default_factory=dict)
    opaque: bool = False
    model: Class | None = None

    def add(self, other: Shape) -> None:
        """Widen by one more alternative of a union."""
        # Choices and bounds are kept once a key: two kinds of number must agree on them.
        mixed = (self.choices, self.bounds) != (other.choices, other.bounds)
        clash = mixed and self.numeric and other.numeric
        clash |= bool((self.model and other.kinds) or (other.model and self.kinds))
        self.kinds += [kind for kind in other.kinds if kind not in self.kinds]
        self.choices += [choice for choice in other.choices if choice not in self.choices]
        self.bounds |= other.bounds
        self.nullable |= other.nullable
        self.opaque |= other.opaque or clash
        self.model = self.model or other.model

    @property
    def numeric(self) -> bool:
        """Whether a number is among what is allowed."""
        return any("int" in kind or "float" in kind for kind in self.kinds)


class Fields:
    """Reads the fields of classes through one `Reader`."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def keys(self, cls: Class) -> dict[str, Key]:
        """Return the fields of a class by name, in pydantic's order.

        Raises:
            Unseen: the order of the base classes cannot be told.
        """
        order = [item for item in self.reader.order(cls) if isinstance(item, Class)]
        declared: dict[str, tuple[Class, ast.AnnAssign]] = {}
        for owner in reversed(order):
            for name, statement in _annotated(owner.node):
                declared[name] = (owner, statement)
        judged = {name for owner in order for name in self._validated(owner)}
        return {
            name: self._key(name, owner, statement, bool(judged & {name, "*"}))
            for name, (owner, statement) in declared.items()
        }

    def closed(self, cls: Class) -> bool:
        """Whether the class refuses keys it does not declare (`extra="forbid"`)."""
        for owner in self.reader.order(cls):
            for statement in owner.node.body if isinstance(owner, Class) else []:
                match statement:
                    case ast.Assign(targets=[ast.Name(id="model_config")], value=value):
                        extra = _keyword_or_item(value, "extra")
                        if extra is not None:
                            return isinstance(extra, ast.Constant) and extra.value == "forbid"
        return False

    def model(self, cls: Class, name: str) -> Class | None:
        """Return the class of a field whose values are themselves a pydantic model."""
        for owner in self.reader.order(cls):
            for found, statement in _annotated(owner.node) if isinstance(owner, Class) else ():
                if found == name and isinstance(owner, Class):
                    return self.shape(owner.module, statement.annotation).model
        return None

    def shape(self, module: Module, node: ast.expr, depth: int = 0) -> Shape:
        """Read an annotation; what only a run could tell is `any` and opaque."""
        try:
            return self._shape(module, node, depth)
        except (Unseen, SyntaxError, ValueError, RecursionError, MemoryError):
            return Shape(["any"], nullable=True, opaque=True)

    def _shape(self, module: Module, node: ast.expr, depth: int) -> Shape:
        if depth > 40:
            raise Unseen
        match node:
            case ast.Constant(value=None):
                return Shape(nullable=True)
            case ast.Constant(value=str() as text):
                return self._shape(module, ast.parse(text, mode="eval").body, depth + 1)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._union(module, [left, right], depth)
            case ast.Subscript(value=value, slice=inner):
                items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                return self._subscript(module, value, items, depth)
            case ast.Name() | ast.Attribute():
                return self._named(module, node, depth)
            case ast.Call(func=func, args=[_, inner]) if self._is(module, func, "NewType"):
                return self._shape(module, inner, depth + 1)
        raise Unseen

    def _union(self, module: Module, parts: Iterable[ast.expr], depth: int) -> Shape:
        whole = Shape()
        for part in parts:
            whole.add(self.shape(module, part, depth + 1))
        return whole

    def _subscript(
        self, module: Module, value: ast.expr, items: list[ast.expr], depth: int
    ) -> Shape:
        if self._is(module, value, "Optional"):
            return self._union(module, [*items, ast.Constant(value=None)], depth)
        if self._is(module, value, "Union"):
            return self._union(module, items, depth)
        if self._is(module, value, "Literal"):
            return self._literal(module, items)
        if self._is(module, value, "Annotated"):
            whole = self.shape(module, items[0], depth + 1)
            for extra in items[1:]:
                self._constrain(whole, module, extra)
            return whole
        if self._is(module, value, "list", "List"):
            inner = self.shape(module, items[0], depth + 1)
            if inner.nullable or inner.opaque or inner.model or not inner.kinds:
                return Shape(["list"], opaque=inner.kinds != ["any"] or inner.opaque)
            return Shape([f"list[{'|'.join(inner.kinds)}]"], False, inner.choices, inner.bounds)
        if self._is(module, value, "dict", "Dict", "Mapping"):
            names, values = [self.shape(module, item, depth + 1) for item in items]
            known = names.kinds in (["str"], ["any"]) and values.kinds == ["any"]
            opaque = not known or names.opaque or values.opaque
            return Shape(["dict[str]" if names.kinds == ["str"] else "dict"], opaque=opaque)
        raise Unseen

    def _literal(self, module: Module, items: list[ast.expr]) -> Shape:
        shape = Shape()
        for item in items:
            value = self.reader.value(module, item)
            if value is None:
                shape.nullable = True
            else:
                shape.choices.append(value)
        shape.kinds = ["enum"] if shape.choices else []
        return shape

    def _named(self, module: Module, node: ast.expr, depth: int) -> Shape:
        found = self.reader.named(module, node)
        if isinstance(found, Expression):
            return self._shape(found.module, found.node, depth + 1)
        if isinstance(found, Class):
            return self._of_class(found)
        root, _, name = found.rpartition(".")
        if name in _BOUNDED and root.startswith("pydantic"):
            kind, bounds = _BOUNDED[name]
            return Shape([kind], bounds=dict(bounds))
        if name in _SIMPLE and root in {"builtins", "typing"}:
            kind = _SIMPLE[name]
            return Shape([kind], nullable=kind == "any")
        raise Unseen

    def _of_class(self, cls: Class) -> Shape:
        members = self.reader.members(cls)
        if members is not None:
            outside = {base for base in self.reader.order(cls) if isinstance(base, str)}
            if not all(isinstance(value, str | int | float) for value in members.values()):
                raise Unseen
            whole = outside & {"enum.IntEnum", "builtins.int"}
            return Shape(
                ["int" if whole else "enum"], choices=list(dict.fromkeys(members.values()))
            )
        if any(
            isinstance(base, str) and base.rpartition(".")[2] == "BaseModel"
            for base in self.reader.order(cls)
        ):
            return Shape(["dict"], model=cls)
        raise Unseen

    def _key(self, name: str, owner: Class, statement: ast.AnnAssign, judged: bool) -> Key:
        shape = self.shape(owner.module, statement.annotation)
        known: dict[str, object] = {}
        value = statement.value
        if isinstance(value, ast.Call) and self._is(owner.module, value.func, "Field"):
            self._constrain(shape, owner.module, value)
            value = _default_of(value)
        if value is None or (isinstance(value, ast.Constant) and value.value is ...):
            known["required"] = True
        else:
            try:
                known["default"] = self._default(owner.module, value)
            except Unseen:
                known["computed"] = True
        return Key(
            name=name,
            type="|".join(shape.kinds) or "any",
            nullable=shape.nullable,
            choices=tuple(shape.choices),  # type: ignore[arg-type]
            **shape.bounds,  # type: ignore[arg-type]
            **known,  # type: ignore[arg-type]
            derived=owner.node.name == DERIVED_CLASS,
            opaque=shape.opaque or judged,
            group=owner.node.name,
            where=f"{owner.module.path}:{statement.lineno}",
        )

    def _default(self, module: Module, node: ast.expr) -> object:
        """Work out a default; a model class as factory gives the defaults of its fields."""
        found = self.reader.named(module, node)
        if isinstance(found, Class):
            inner = self.keys(found).values()
            if any(key.computed or key.required for key in inner):
                raise Unseen
            return {key.name: key.default for key in inner}
        if found in {"builtins.list", "builtins.dict"}:
            return [] if found == "builtins.list" else {}
        return self.reader.value(module, node)

    def _constrain(self, shape: Shape, module: Module, node: ast.expr) -> None:
        """Apply the bounds of `Field(...)`; what cannot be read makes the shape opaque."""
        if not (isinstance(node, ast.Call) and self._is(module, node.func, "Field")):
            shape.opaque = True
            return
        for keyword in node.keywords:
            if keyword.arg in BOUNDS:
                bound = self._bound(module, keyword.value, whole="int" in shape.kinds)
                shape.opaque |= bound is None
                shape.bounds |= {} if bound is None else {keyword.arg: bound}
            elif keyword.arg not in _SILENT:
                shape.opaque = True

    def _bound(self, module: Module, node: ast.expr, *, whole: bool) -> int | float | None:
        try:
            bound = self.reader.value(module, node)
        except Unseen:
            return None
        if isinstance(bound, float) and whole:
            return int(bound) if bound.is_integer() else None
        return bound if isinstance(bound, int | float) else None

    def _validated(self, cls: Class) -> Iterator[str]:
        """Names of the fields that a `field_validator` of the class touches."""
        for node in _outer_calls(cls.node):
            if self._is(cls.module, node.func, "field_validator", "validator"):
                for argument in node.args:
                    plain = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                    yield argument.value if plain else "*"  # type: ignore[attr-defined]

    def _is(self, module: Module, node: ast.expr, *names: str) -> bool:
        found = self.reader.named(module, node)
        return isinstance(found, str) and found.rpartition(".")[2] in names


def _annotated(node: ast.ClassDef) -> Iterator[tuple[str, ast.AnnAssign]]:
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                special = any(
                    isinstance(part, ast.Name | ast.Attribute)
                    and (part.id if isinstance(part, ast.Name) else part.attr) == "ClassVar"
                    for part in ast.walk(annotation)
                )
                if not name.startswith("_") and name != "model_config" and not special:
                    yield name, statement


def _outer_calls(node: ast.ClassDef) -> Iterator[ast.Call]:
    """The calls in decorators and assignments right in a class body."""
    for statement in node.body:
        match statement:
            case ast.FunctionDef(decorator_list=outer):
                pass
            case ast.Assign(value=value):
                outer = [value]
            case _:
                continue
        for expression in outer:
            yield from (part for part in ast.walk(expression) if isinstance(part, ast.Call))


def _default_of(call: ast.Call) -> ast.expr | None:
    """Return the expression of the default that a `Field(...)` call gives."""
    if call.args:
        return call.args[0]
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    return named.get("default") or named.get("default_factory")


def _keyword_or_item(node: ast.expr, name: str) -> ast.expr | None:
    """Return `name` from `ConfigDict(name=...)` or `{"name": ...}`."""
    if isinstance(node, ast.Call):
        return next((item.value for item in node.keywords if item.arg == name), None)
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == name:
                return value
    return None
