"""The plan of the house holds: arrows point down, nothing goes round, and the pure stay pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Room or module of `moectl` -> floor; everything that is not named stands on floor 1.
FLOORS = {
    "__main__": 8, "cli": 7, "actions": 6, "campaign": 5, "comments": 5, "fixes": 5, "planner": 5,
    "report": 5, "reports": 5, "suppress": 5, "evidence": 4, "imports": 4, "launch": 4,
    "rules": 4, "estimate": 3, "placement": 3, "render": 3, "resolve": 3, "shrink": 3, "given": 2,
    "job": 2, "settings": 2, "workload": 2,
}  # fmt: skip
STARTS_PROCESSES = {"launch", "evidence", "environments", "interpreters"}
HEAVY = {"jax", "jaxlib", "numpy", "kubernetes", "matplotlib", "typer", "rich", "pydantic"}
MAY_BE_HEAVY = {"spec", "cli"}  # the models, and the application that typer builds


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(module: str) -> str:
    return [*module.split("."), ""][1]


def imported(tree: ast.AST, *, at_start: bool = False) -> Iterator[str]:
    """Yield what is imported, for types only left out; with `at_start` not inside functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if at_start and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            yield from imported(node, at_start=at_start)


@cache
def trees() -> dict[str, ast.Module]:
    paths = (ROOT / "moectl").rglob("*.py")
    return {name_of(path): ast.parse(path.read_text("utf-8")) for path in paths}


@cache
def arrows() -> dict[str, set[str]]:
    known = trees().keys()
    return {
        module: {name for name in imported(tree) if name in known and name != "moectl"} - {module}
        for module, tree in trees().items()
    }


def test_no_arrow_points_up() -> None:
    up = [
        f"{module} -> {used}"
        for module, names in arrows().items()
        for used in names
        if FLOORS.get(room(used), 1) > FLOORS.get(room(module), 1)
    ]
    assert up == []


def test_nothing_goes_round_when_modules_are_loaded() -> None:
    known = trees().keys()
    at_start = {
        module: {n for n in imported(tree, at_start=True) if n in known and n != module}
        for module, tree in trees().items()
    }
    # A package that gathers its own modules is loaded before them.
    for module, names in at_start.items():
        names -= {name for name in names if module.startswith(f"{name}.")}
    assert len(tuple(TopologicalSorter(at_start).static_order())) == len(known)


@pytest.mark.parametrize("module", sorted(trees()))
def test_a_module_is_no_longer_than_the_house_allows(module: str) -> None:
    path = ROOT / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    assert len(path.read_text("utf-8").splitlines()) <= 500


def test_only_the_rooms_for_it_start_processes() -> None:
    users = {module for module, tree in trees().items() if "subprocess" in set(imported(tree))}
    assert {room(module) for module in users} <= STARTS_PROCESSES


def test_heavy_packages_are_imported_only_when_needed() -> None:
    found = [
        f"{module}: {name}"
        for module, tree in trees().items()
        if room(module) not in MAY_BE_HEAVY
        for name in imported(tree, at_start=True)
        if name.partition(".")[0] in HEAVY
    ]
    assert found == []
