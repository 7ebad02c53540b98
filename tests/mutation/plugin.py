"""What pytest is told in the copy: no heavy components, the chosen tests, in the chosen order.

MOECTL_MUTATION_TESTS names a file with the ids of the tests to run, one a line;
MOECTL_MUTATION_TIMES one that gets the seconds of every test that passed.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support import components

KEPT = ("shellcheck", "root")
TESTS, TIMES = "MOECTL_MUTATION_TESTS", "MOECTL_MUTATION_TIMES"
SECONDS: dict[str, float] = defaultdict(float)
FAILED: set[str] = set()


def _left_out() -> Path:
    raise components.Missing("left out of the mutation check")


def pytest_configure() -> None:
    """Leave the heavy components out where this is a plugin; importing it changes nothing."""
    for component in components.COMPONENTS:
        if component not in KEPT:
            components.COMPONENTS[component] = _left_out


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the chosen tests, in their order."""
    if chosen := os.environ.get(TESTS):
        lines = json.loads(Path(chosen).read_text("utf-8"))
        order = {name: number for number, name in enumerate(lines)}
        left = [item for item in items if item.nodeid not in order]
        config.hook.pytest_deselected(items=left)
        items[:] = sorted(
            (item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid]
        )


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how long a test took."""
    SECONDS[report.nodeid] += report.duration
    if not report.passed:
        FAILED.add(report.nodeid)


def pytest_sessionfinish() -> None:
    """Write the times down."""
    if place := os.environ.get(TIMES):
        passed = {name: round(took, 4) for name, took in SECONDS.items() if name not in FAILED}
        Path(place).write_text(json.dumps(passed), "utf-8")
