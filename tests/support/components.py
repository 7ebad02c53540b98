"""The one place that decides what a test does when a component of the machine is missing.

A test asks `require("maxtext")` and gets the path it needs, or is skipped with one line. With
MOECTL_REQUIRE_COMPONENTS=1 it fails instead, so that a machine that should have everything
cannot pass by skipping.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest

from moectl import environments
from moectl.errors import MoectlError
from tests.support import slurm

REQUIRED = "MOECTL_REQUIRE_COMPONENTS"
SYSTEM_FOLDERS = "/usr/sbin:/usr/local/sbin:/sbin"  # where daemons lie and PATH often does not
MAXTEXT = "maxtext-0.2.5"


class Missing(Exception):  # noqa: N818 - a statement about the machine, not a fault
    """The component is not here; the text says why."""


def require(component: str) -> Path:
    """Return the path of a component, or skip the test that asks (fail, when required).

    It is the interpreter for "maxtext", "maxtext-cuda" and "jaxlib-<release>", the program for
    "shellcheck", "bash", "zsh", "fish", "chromium" and "slurm" (slurmctld), and "/" for "root".
    "slurm-cluster" is all that `tests.support.slurm.cluster` wants, "slurm-accounting" the same
    with accounts.
    """
    try:
        return found(component)
    except Missing as missing:
        sentence = f"needs {component}: {missing}"
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def found(component: str) -> Path:
    """Return the path of a component.

    Raises:
        Missing: it is not on this machine.
    """
    answer = _looked_for(component)
    if isinstance(answer, str):
        raise Missing(answer)
    return answer


@cache
def _looked_for(component: str) -> Path | str:
    """Look once a session; a build that failed is not tried again for the next test."""
    try:
        return COMPONENTS[component]()
    except Missing as missing:
        return str(missing)
    except MoectlError as error:
        return str(error).splitlines()[0]


def _environment(name: str) -> Callable[[], Path]:
    return lambda: environments.managed(name).python


def _program(*names: str) -> Callable[[], Path]:
    def find() -> Path:
        path = f"{os.environ.get('PATH', '')}:{SYSTEM_FOLDERS}"
        for name in names:
            if program := shutil.which(name, path=path):
                return Path(program)
        raise Missing(f"no {' or '.join(names)} on PATH")

    return find


def _slurm() -> Path:
    for name in ("sbatch", "slurmd", "munged"):
        _program(name)()
    return _program("slurmctld")()


def _slurm_cluster(*, accounting: bool = False) -> Path:
    if absent := slurm.missing(accounting=accounting):
        raise Missing(absent)
    return _slurm()


def _root() -> Path:
    if os.geteuid():
        raise Missing("the tests do not run as root")
    return Path("/")


COMPONENTS: dict[str, Callable[[], Path]] = {
    "maxtext": _environment(MAXTEXT),
    "maxtext-cuda": _environment(f"{MAXTEXT}-cuda13"),
    **{name: _environment(name) for name in environments.recipes() if name.startswith("jaxlib-")},
    "slurm": _slurm,
    "slurm-cluster": _slurm_cluster,
    "slurm-accounting": partial(_slurm_cluster, accounting=True),
    **{name: _program(name) for name in ("bash", "zsh", "fish")},
    "chromium": _program("chromium", "chromium-browser", "google-chrome"),
    "shellcheck": _program("shellcheck"),
    "root": _root,
}
