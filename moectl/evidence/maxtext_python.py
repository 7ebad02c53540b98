"""Read Python source without running it: names across modules, constants, class order.

What cannot be known without running the code raises `Unseen`; nobody guesses.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

from moectl.errors import SourceError
from moectl.evidence.maxtext_tree import Tree

PACKAGE = "maxtext"
_DEPTH = 40
_LARGEST_BITS = 256
_OPERATORS: dict[type[ast.operator], Callable[..., object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COPIES = {"copy.copy", "copy.deepcopy", "builtins.list", "builtins.dict", "builtins.tuple"}


class Unseen(Exception):  # noqa: N818 - it is a statement, caught inside this package
    """Only running the code would tell."""


@dataclass(frozen=True, eq=False)
class Module:
    """One parsed file and the names it binds at top level."""

    path: str
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    values: dict[str, ast.expr] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Class:
    """A class statement and the module it stands in."""

    module: Module
    node: ast.ClassDef


@dataclass(frozen=True, eq=False)
class Expression:
    """An expression and the module whose names it uses."""

    module: Module
    node: ast.expr


class Reader:
    """Follows names through the modules of one tree; each file is parsed once."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._parsed: dict[str, ast.Module] = {}
        self._modules: dict[str, Module] = {}
        self._orders: dict[int, list[Class | str]] = {}

    def parsed(self, path: str) -> ast.Module:
        """Parse a file of the tree.

        Raises:
            SourceError: the file is missing or is not Python that can be parsed.
        """
        if path not in self._parsed:
            self._parsed[path] = _parsed(self.tree, path)
        return self._parsed[path]

    def module(self, path: str) -> Module:
        """Return the names that a file of the tree binds.

        Raises:
            SourceError: the file is missing or is not Python that can be parsed.
        """
        if path not in self._modules:
            self._modules[path] = _bindings(path, self.parsed(path))
        return self._modules[path]

    def find(self, module: Module, name: str, depth: int = 0) -> Class | Expression | str:
        """Follow a name to its class or expression, else to its dotted outside name."""
        head, _, rest = name.partition(".")
        if not rest and head in module.classes:
            return Class(module, module.classes[head])
        if not rest and head in module.values:
            return Expression(module, module.values[head])
        if head not in module.imports or depth > _DEPTH:
            return name if rest else f"builtins.{name}"
        target = ".".join(filter(None, [module.imports[head], rest]))
        owner, _, item = target.rpartition(".")
        path = _path_of(owner)
        if path is None or not self.tree.exists(path):
            return target
        return self.find(self.module(path), item, depth + 1)

    def order(self, cls: Class, _depth: int = 0) -> list[Class | str]:
        """Return the method resolution order (C3), outside classes as dotted names.

        Raises:
            Unseen: the bases have no order, e.g. because they inherit in a circle.
        """
        if id(cls.node) in self._orders:
            return self._orders[id(cls.node)]
        if _depth > _DEPTH:
            raise Unseen
        lines: list[list[Class | str]] = []
        bases: list[Class | str] = []
        for node in cls.node.bases:
            base = self.named(cls.module, node)
            if isinstance(base, Expression):
                raise Unseen
            bases.append(base)
            lines.append([base] if isinstance(base, str) else self.order(base, _depth + 1))
        self._orders[id(cls.node)] = [cls, *_merged([*lines, bases])]
        return self._orders[id(cls.node)]

    def named(self, module: Module, node: ast.expr) -> Class | Expression | str:
        """Follow a name or dotted name; other expressions come back as they are."""
        parts: list[str] = []
        walk = node
        while isinstance(walk, ast.Attribute):
            parts.append(walk.attr)
            walk = walk.value
        if not isinstance(walk, ast.Name):
            return Expression(module, node)
        return self.find(module, ".".join([walk.id, *reversed(parts)]))

    def members(self, cls: Class) -> dict[str, object] | None:
        """Return the members of an enum class by name, or None if it is no enum.

        Raises:
            Unseen: a member's value is computed.
        """
        try:
            names = {base.rpartition(".")[2] for base in self.order(cls) if isinstance(base, str)}
        except Unseen:
            return None
        if not names & {"Enum", "IntEnum", "StrEnum"}:
            return None
        found: dict[str, object] = {}
        for statement in cls.node.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = statement.targets[0].id
                if not name.startswith("_"):
                    found[name] = self.value(cls.module, statement.value)
        return found

    def value(self, module: Module, node: ast.expr, depth: int = 0) -> object:
        """Work out a constant expression; tuples become lists, enum members their values.

        Raises:
            Unseen: the expression calls or names what only a run would know.
        """
        if depth > _DEPTH:
            raise Unseen
        match node:
            case ast.Constant(value=value) if value is None or isinstance(
                value, bool | int | float | str
            ):
                return value
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self.value(module, item, depth + 1) for item in items]
            case ast.Dict(keys=keys, values=values):
                return self._mapping(module, keys, values, depth)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _calculated(operator.sub, 0, self.value(module, operand, depth + 1))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                first = self.value(module, left, depth + 1)
                second = self.value(module, right, depth + 1)
                return _calculated(_OPERATORS[type(op)], first, second)
            case ast.Lambda(body=body):
                return self.value(module, body, depth + 1)
            case ast.Call(func=func, args=args, keywords=[]):
                return self._called(module, func, args, depth)
            case ast.Attribute(value=owner, attr=name):
                return self._attribute(module, owner, name, depth)
            case ast.Name(id=name):
                found = self.find(module, name)
                if isinstance(found, Expression):
                    return self.value(found.module, found.node, depth + 1)
        raise Unseen

    def _mapping(
        self, module: Module, keys: list[ast.expr | None], values: list[ast.expr], depth: int
    ) -> dict[str, object]:
        result: dict[str, object] = {}
        for key, value in zip(keys, values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                raise Unseen
            result[key.value] = self.value(module, value, depth + 1)
        return result

    def _called(self, module: Module, func: ast.expr, args: list[ast.expr], depth: int) -> object:
        name = self.named(module, func)
        if name in {"builtins.list", "builtins.tuple"} and not args:
            return []
        if name == "builtins.dict" and not args:
            return {}
        if name in _COPIES and len(args) == 1:
            return self.value(module, args[0], depth + 1)
        raise Unseen

    def _attribute(self, module: Module, owner: ast.expr, name: str, depth: int) -> object:
        if name == "value":
            return self.value(module, owner, depth + 1)
        found = self.named(module, owner)
        members = self.members(found) if isinstance(found, Class) else None
        if members is None or name not in members:
            raise Unseen
        return members[name]


def _parsed(tree: Tree, path: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in somebody else's source
            return ast.parse(tree.read(path))
    except SyntaxError as error:
        raise SourceError(
            tree.place(path), error.lineno, f"is no Python this reader knows: {error.msg}"
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise SourceError(tree.place(path), None, "cannot be parsed as Python") from None


def _bindings(path: str, parsed: ast.Module) -> Module:
    module = Module(path)
    for statement in parsed.body:
        match statement:
            case ast.ClassDef(name=name):
                module.classes[name] = statement
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                module.values[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                module.values[name] = value
            case ast.Import(names=names):
                for item in names:
                    head = item.name.partition(".")[0]
                    module.imports[item.asname or head] = item.name if item.asname else head
            case ast.ImportFrom(module=source, names=names, level=level):
                owner = _absolute(path, source or "", level)
                for item in names:
                    module.imports[item.asname or item.name] = f"{owner}.{item.name}"
    return module


def _absolute(path: str, source: str, level: int) -> str:
    """Turn `from ..x import y` inside `path` into the full name of x."""
    if not level:
        return source
    folders = [PACKAGE, *path.split("/")[:-1]]
    kept = folders[: len(folders) - level + 1]
    return ".".join([*kept, *filter(None, [source])])


def _path_of(dotted: str) -> str | None:
    """Return the file of a module of the package; only plain modules hold what is read."""
    head, _, rest = dotted.partition(".")
    return f"{rest.replace('.', '/')}.py" if head.lower() == PACKAGE and rest else None


def _calculated(function: Callable[..., object], first: object, second: object) -> object:
    if not isinstance(first, int | float | str) or not isinstance(second, int | float | str):
        raise Unseen
    if function is operator.pow and not (isinstance(second, int) and abs(second) <= _LARGEST_BITS):
        raise Unseen
    if function is operator.mul and isinstance(first, str) | isinstance(second, str):
        raise Unseen
    try:
        result = function(first, second)
    except (TypeError, ValueError, ArithmeticError):
        raise Unseen from None
    if isinstance(result, int) and result.bit_length() > _LARGEST_BITS:
        raise Unseen
    return result


def _merged(lines: list[list[Class | str]]) -> list[Class | str]:
    """Merge the orders of the bases as C3 does: a class comes before its own bases."""
    result: list[Class | str] = []
    lines = [list(line) for line in lines if line]
    while lines:
        for line in lines:
            first = line[0]
            if not any(_same(first, later) for other in lines for later in other[1:]):
                break
        else:
            raise Unseen
        result.append(first)
        lines = [[item for item in line if not _same(item, first)] for line in lines]
        lines = [line for line in lines if line]
    return result


def _same(one: Class | str, other: Class | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return one.node is other.node
