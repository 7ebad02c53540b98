"""Fixtures of all tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# `pytest` alone does not put the repository on the path; test files import `tests.support`.
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.judge.client import Judge
from tests.support import components

# What must pass before a change lands draws the same examples each time; a run of the tests by
# hand draws new ones, and so does `.ci/full`.
hypothesis.settings.register_profile("repeatable", derandomize=True)
if os.environ.get(components.REQUIRED) == "1":
    hypothesis.settings.load_profile("repeatable")

# What a person may have set for their own work does not reach the tests.
for name in ("MOECTL_CLUSTER", "MOECTL_RUNS"):
    os.environ.pop(name, None)

SUMMARY = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def maxtext(pytestconfig: pytest.Config) -> Iterator[Judge]:
    """Real MaxText as judge: `maxtext(jobs) -> verdicts`, see `tests/judge/maxtext_judge.py`."""
    with Judge(components.require("maxtext")) as judge:
        yield judge
    pytestconfig.stash.setdefault(SUMMARY, []).append(judge.summary)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what the judge was asked."""
    for line in config.stash.get(SUMMARY, []):
        terminalreporter.write_line(line)
