"""Finds the interpreters and the uv that managed environments are built with.

Every candidate is run before it is believed: a pyenv shim bears the name of a Python that it
may refuse to start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from moectl.errors import BackendError, LocalFilesError, ValueUsageError

ANSWER_SECONDS = 30.0  # a pyenv shim on a slow network disk takes a few
_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def find_python(minor: str = "3.12") -> Path:
    """Return a working interpreter of Python `minor`.

    Looked at in this order, each one run and asked for its version: every `python<minor>` on
    PATH (a pyenv shim of that name may exist and refuse), this interpreter, the versions of
    pyenv with the newest patch first, and what `uv python find` names.

    Raises:
        ValueUsageError: `minor` is not like "3.12".
        BackendError: none works; the message lists where it looked.
    """
    check_minor(minor)
    looked: list[str] = []
    for candidate in _python_candidates(minor):
        fault = _python_fault(candidate, minor)
        if not fault:
            return candidate
        looked.append(f"{candidate}: {fault}")
    candidates = "".join(f"\n  {line}" for line in looked) or " there was no candidate"
    raise BackendError(
        f"no working Python {minor} found; install it (e.g. `uv python install {minor}`) or put "
        f"it on PATH. Looked at PATH, {_pyenv_versions()} and `uv python find {minor}`:"
        f"{candidates}"
    )


def find_uv() -> Path:
    """Return a working uv: a program on PATH, else the one of the `uv` Python package.

    Raises:
        BackendError: there is none; the message says what to type.
    """
    faults: list[str] = []
    for candidate in _uv_candidates():
        code, said = _answer([str(candidate), "--version"])
        if code == 0 and said.startswith("uv "):
            return candidate
        faults.append(f"\n  {candidate}: {_last_line(said) or f'exit code {code}'}")
    raise BackendError(
        "uv is needed to build environments and was not found; type `pip install uv`, or put uv "
        f"on PATH{''.join(faults)}"
    )


def _python_candidates(minor: str) -> Iterator[Path]:
    yield from _on_path(f"python{minor}")
    if minor == "{}.{}".format(*sys.version_info[:2]):
        yield Path(sys.executable)
    versions = _pyenv_versions()
    try:
        found = [entry.name for entry in versions.iterdir()]
    except OSError:
        found = []
    mine = [name for name in found if name == minor or name.startswith((f"{minor}.", f"{minor}-"))]
    for name in sorted(mine, key=lambda name: _patch(name, minor), reverse=True):
        yield versions / name / "bin" / f"python{minor}"
    for uv in _uv_candidates():
        code, said = _answer([str(uv), "python", "find", "--no-project", minor])
        if code == 0 and said.strip():
            yield Path(_last_line(said))


def _patch(name: str, minor: str) -> tuple[int, str]:
    """Rank a pyenv version: released patches by number, then whatever else has that minor."""
    patch = name.removeprefix(f"{minor}.")
    return (int(patch), "") if patch.isascii() and patch.isdigit() else (-1, name)


def _pyenv_versions() -> Path:
    return expanded(os.environ.get("PYENV_ROOT") or "~/.pyenv") / "versions"


def _uv_candidates() -> Iterator[Path]:
    yield from _on_path("uv")
    import importlib  # noqa: PLC0415

    try:
        package = importlib.import_module("uv")
        yield Path(package.find_uv_bin())
    except (ImportError, FileNotFoundError):  # no package, or one without its program
        return


def _on_path(program: str) -> Iterator[Path]:
    """Yield every executable of that name on PATH; the first may be a shim that refuses."""
    import shutil  # noqa: PLC0415

    for entry in dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep)):
        if entry and (found := shutil.which(program, path=entry)):
            yield Path(found)


def _python_fault(candidate: Path, minor: str) -> str:
    """Run an interpreter; return why it is not Python `minor`, or "" if it is."""
    code, said = _answer([str(candidate), "-I", "-c", _VERSION])
    if code:
        return _last_line(said) or f"exit code {code}"
    return "" if said.strip() == minor else f"is Python {said.strip()[:20]}"


def _answer(command: Sequence[str]) -> tuple[int, str]:
    """Run a program that answers at once; return its exit code and what it said.

    On success that is its standard output, otherwise its standard error.
    """
    import subprocess  # noqa: PLC0415

    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=ANSWER_SECONDS,
            env=os.environ | {"UV_PYTHON_DOWNLOADS": "never"},
        )
    except subprocess.TimeoutExpired:
        return 124, f"gave no answer within {ANSWER_SECONDS:g} s"
    except OSError as error:
        return 126, error.strerror or str(error)
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    # pyenv says what is wrong first and explains itself afterwards.
    pyenv = [line for line in lines if line.startswith("pyenv:")]
    return (pyenv or lines[-1:] or [""])[0]


def expanded(path: str) -> Path:
    """Return a path with its ~ replaced.

    Raises:
        LocalFilesError: there is no home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:  # no HOME, and no such user
        raise LocalFilesError(f"{path}: no home folder; set HOME or MOECTL_HOME") from error


def check_minor(python: str) -> None:
    """Refuse what is not like "3.12".

    Raises:
        ValueUsageError: it is not.
    """
    parts = python.split(".")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueUsageError("the Python of an environment", python, 'a version such as "3.12"')
