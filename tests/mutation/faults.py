"""Draws one-line faults: the operators of cosmic-ray, spread evenly over the modules."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOMS = ("rules", "estimate", "render", "launch")
# What turns a type error into a crash at once says nothing of the tests, so of the operators
# that replace one sign by another only those stay that give another value of the same kind.
SIGNS = {
    "ReplaceBinaryOperator": (
        "Add_Sub",
        "Sub_Add",
        "Mul_Div",
        "Div_Mul",
        "FloorDiv_Mul",
        "Mul_Add",
        "Mod_Mul",
        "Pow_Mul",
        "BitOr_BitAnd",
        "BitAnd_BitOr",
    ),
    "ReplaceComparisonOperator": (
        "Eq_NotEq",
        "NotEq_Eq",
        "Lt_LtE",
        "LtE_Lt",
        "Gt_GtE",
        "GtE_Gt",
        "Is_IsNot",
        "IsNot_Is",
    ),
    "ReplaceUnaryOperator": ("USub_UAdd", "Delete_Not", "Delete_USub"),
}
OPERATORS = (
    *tuple(f"core/{kind}_{pair}" for kind, pairs in SIGNS.items() for pair in pairs),
    "core/AddNot",
    "core/ReplaceTrueWithFalse",
    "core/ReplaceFalseWithTrue",
    "core/ReplaceAndWithOr",
    "core/ReplaceOrWithAnd",
    "core/ReplaceBreakWithContinue",
    "core/ReplaceContinueWithBreak",
    "core/ExceptionReplacer",
    "core/NumberReplacer",
    "core/RemoveDecorator",
    "core/ZeroIterationForLoop",
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One deliberate fault.

    Attributes:
        module: the file, as its path in the tree.
        operator: cosmic-ray's name of what was done.
        occurrence: at which of the places in the file that the operator fits.
        line: the line, from 1.
        before: that line as it stands, without its indentation.
        after: what it became; "" where it is gone.
    """

    module: str
    operator: str
    occurrence: int
    line: int
    before: str
    after: str

    @property
    def name(self) -> str:
        """Return what the fault is called as long as its line stays as it is."""
        return f"{self.module}: {self.before} => {self.after}"

    @property
    def room(self) -> str:
        """Return the part of the product that it is in."""
        return self.module.split("/")[1]


class _Meaning(ast.NodeTransformer):
    """Leaves out what is never run: annotations and the text of docstrings."""

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant):
            return ast.Pass()
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return ast.Pass()
        return self.generic_visit(node)


def meaning(text: str) -> str:
    """Return what two texts of a module share when they run alike."""
    return ast.dump(_Meaning().visit(ast.parse(text)))


@cache
def _operators() -> Mapping[str, Any]:
    from cosmic_ray.plugins import get_operator  # noqa: PLC0415

    return {name: get_operator(name)() for name in OPERATORS}


def changed(text: str, operator: str, occurrence: int) -> str:
    """Return a module's text with the fault in it.

    Raises:
        ValueError: there is no such place.
    """
    from cosmic_ray.mutating import mutate_code  # noqa: PLC0415

    answer = mutate_code(text, _operators()[operator], occurrence)
    if not isinstance(answer, str):
        raise ValueError(f"{operator} fits fewer than {occurrence + 1} places")
    return answer


def places(text: str) -> Mapping[tuple[int, int], Sequence[tuple[str, int]]]:
    """Return, by line and column, which operators fit there, each with its occurrence."""
    from cosmic_ray.ast import ast_nodes, get_ast  # noqa: PLC0415

    found: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    counts: dict[str, int] = defaultdict(int)
    for node in ast_nodes(get_ast(text)):
        for name, operator in _operators().items():
            for start, _ in operator.mutation_positions(node):
                found[start[0], start[1]].append((name, counts[name]))
                counts[name] += 1
    return found


def drawn_of(path: Path, module: str, generator: random.Random) -> Iterator[Fault]:
    """Yield the faults of a module in a random order, one at each place that runs."""
    text = path.read_text("utf-8")
    same, fits = meaning(text), places(text)
    order = sorted(fits)
    generator.shuffle(order)
    for place in order:
        operator, occurrence = generator.choice(fits[place])
        faulty = changed(text, operator, occurrence)
        try:
            if meaning(faulty) == same:
                continue
        except SyntaxError:
            continue
        yield _told(module, operator, occurrence, text, faulty)


def _told(module: str, operator: str, occurrence: int, text: str, faulty: str) -> Fault:
    """Return the fault with the line it is in."""
    old, new = text.splitlines(), faulty.splitlines()
    number = next(
        (n for n, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), 0
    )
    gone = len(new) < len(old)
    after = "" if gone else new[number].strip()
    return Fault(module, operator, occurrence, number + 1, old[number].strip(), after)


def drawn(root: Path, count: int, seed: int) -> list[Fault]:
    """Draw faults: as many in each room, and in each room one a module, in turns.

    Args:
        root: the tree.
        count: how many, a multiple of the number of rooms.
        seed: the same faults for the same seed and tree.
    """
    chosen: list[list[Fault]] = []
    for room in ROOMS:
        generator = random.Random(f"{seed} {room}")  # noqa: S311 - a sample, no secret
        files = sorted((root / "moectl" / room).rglob("*.py"))
        generator.shuffle(files)
        turns = [drawn_of(file, file.relative_to(root).as_posix(), generator) for file in files]
        faults: list[Fault] = []
        while turns and len(faults) < count // len(ROOMS):
            turns = [turn for turn in turns if _one_more(turn, faults)]
        chosen.append(faults[: count // len(ROOMS)])
    return [fault for some in zip(*chosen, strict=True) for fault in some]


def _one_more(turn: Iterator[Fault], faults: list[Fault]) -> bool:
    """Take the next fault of a module that reads unlike all others; return whether it had one."""
    names = {fault.name for fault in faults}
    fault = next((fault for fault in turn if fault.name not in names), None)
    if fault is not None:
        faults.append(fault)
    return fault is not None
