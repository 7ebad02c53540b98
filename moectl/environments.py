"""Managed Python environments: a pinned set of packages, built once with uv, whole or not at all.

They hold what moectl asks real programs about but must not import itself: MaxText, and the
jaxlib releases. The pinned sets are data (`moectl/facts/data/environments/`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from moectl.errors import (
    BackendError,
    LocalFilesError,
    UnknownNameError,
    UsageError,
    ValueUsageError,
)
from moectl.interpreters import check_minor, expanded, find_python, find_uv
from moectl.resources import fact

__all__ = [
    "Environment",
    "Recipe",
    "built",
    "ensure",
    "find_python",
    "find_uv",
    "folder_of",
    "home",
    "managed",
    "recipes",
    "remove",
]

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_SHOWN_LINES = 8
# How lines of uv begin that tell how far it is; the others list every package.
_PROGRESS = (
    "Resolved ",
    "Downloading ",
    "Downloaded ",
    "Building ",
    "Built ",
    "Prepared ",
    "Installed ",
)


@dataclass(frozen=True, slots=True)
class Environment:
    """A finished environment.

    Attributes:
        name: the name it was asked for by.
        folder: where it lies; the name ends in a digest of what is in it.
        python: its interpreter.
    """

    name: str
    folder: Path
    python: Path


@dataclass(frozen=True, slots=True)
class Recipe:
    """A pinned set of packages that ships with moectl.

    Attributes:
        name: e.g. "maxtext-0.2.5".
        python: the Python it is pinned for, e.g. "3.12".
        requirements: the text of its requirements file.
        purpose: what it is for.
    """

    name: str
    python: str
    requirements: str
    purpose: str


@cache
def recipes() -> dict[str, Recipe]:
    """Return the pinned sets that ship with moectl, by name."""
    import json  # noqa: PLC0415 - only who asks for an environment pays for it

    index = json.loads(fact("environments", "environments.json").read_text("utf-8"))
    return {
        name: Recipe(
            name=name,
            python=row["python"],
            requirements=fact("environments", row["requirements"]).read_text("utf-8"),
            purpose=row["for"],
        )
        for name, row in index["environments"].items()
    }


def managed(
    name: str, root: Path | None = None, say: Callable[[str], None] | None = None
) -> Environment:
    """Return the environment of a pinned set that ships with moectl, building it if need be.

    Raises:
        UnknownNameError: there is no such set.
        BackendError: no fitting Python or uv, or uv could not build it.
        LocalFilesError: the folder cannot be written.
    """
    known = recipes()
    if name not in known:
        raise UnknownNameError("environment", name, known)
    recipe = known[name]
    return ensure(name, recipe.requirements, recipe.python, root, say)


def ensure(
    name: str,
    requirements: Path | str,
    python: str,
    root: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> Environment:
    """Return the environment of `requirements`, building it first if it is not there.

    It is built in a temporary folder beside its place and renamed into it, so whoever sees it
    sees it whole. Of several processes that want it at once, one builds and the others wait.
    What a killed process left behind is removed by the next build.

    Args:
        name: the first half of the folder's name.
        requirements: a requirements file, or its text; it must not refer to other files.
        python: the Python to build it with, as "3.12".
        root: the folder of all environments; by default `home()`.
        say: called with one sentence before work that takes seconds.

    Raises:
        ValueUsageError: a name that cannot be a folder's, or a Python that is no version.
        BackendError: no fitting Python or uv, or uv could not build it.
        LocalFilesError: the requirements cannot be read or the folder cannot be written.
    """
    if not name or name.startswith((".", "-")) or not _NAME.issuperset(name):
        raise ValueUsageError(
            "the name of an environment", name, "letters, digits, '.', '-' and '_'"
        )
    check_minor(python)
    try:
        text = requirements if isinstance(requirements, str) else requirements.read_text("utf-8")
        parent = home() if root is None else root
        folder = parent / f"{name}-{_digest(text, python)}"
        if not _usable(folder):
            parent.mkdir(parents=True, exist_ok=True)
            with _alone(parent / f".{folder.name}.lock") as locked:
                if not _usable(folder):
                    _build(folder, text, python, locked, say or _silent)
    except OSError as error:
        raise LocalFilesError(f"cannot prepare the environment {name}: {error}") from error
    return Environment(name=name, folder=folder, python=_interpreter(folder))


def built(name: str, root: Path | None = None) -> bool:
    """Whether the environment of a pinned set is there, so that nothing has to be fetched."""
    return _usable(folder_of(name, root))


def folder_of(name: str, root: Path | None = None) -> Path:
    """Return the folder of the environment of a pinned set, built or not.

    Raises:
        UnknownNameError: there is no such set.
    """
    known = recipes()
    if name not in known:
        raise UnknownNameError("environment", name, known)
    recipe = known[name]
    parent = home() if root is None else root
    return parent / f"{name}-{_digest(recipe.requirements, recipe.python)}"


def home() -> Path:
    """Return the folder of all managed environments.

    It is `$MOECTL_HOME/environments`, else `$XDG_CACHE_HOME/moectl/environments` (a relative
    one is ignored, as the XDG base directory specification asks), else below `~/.cache`.
    """
    own = os.environ.get("MOECTL_HOME")
    if own:
        return expanded(own).absolute() / "environments"
    cached = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(cached) if cached.startswith("/") else expanded("~/.cache")
    return base / "moectl" / "environments"


def remove(name: str, root: Path | None = None) -> bool:
    """Remove the environment of a pinned set; return whether there was one.

    It is renamed first, so that nobody finds half of one.

    Raises:
        UnknownNameError: there is no such set.
        UsageError: something runs in it.
        LocalFilesError: the file system refuses.
    """
    import shutil  # noqa: PLC0415

    folder = folder_of(name, root)
    if not folder.is_dir():
        return False
    if users := _users(folder):
        raise UsageError(
            f"{name} is in use by process {', '.join(map(str, users[:5]))}: end it first"
        )
    gone = folder.with_name(f".{folder.name}.removed.partial")
    try:
        with _alone(folder.parent / f".{folder.name}.lock"):
            shutil.rmtree(gone, ignore_errors=True)
            folder.rename(gone)
            shutil.rmtree(gone)
    except OSError as error:
        raise LocalFilesError(f"{error.filename or folder}: {error.strerror or error}") from None
    return True


def _users(folder: Path) -> list[int]:
    """Return the processes whose program lies in a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            program = (entry / "cmdline").read_bytes().partition(b"\0")[0]
        except OSError:
            continue
        if os.fsdecode(program).startswith(f"{folder}/"):
            found.append(int(entry.name))
    return sorted(found)


def _build(folder: Path, text: str, python: str, locked: bool, say: Callable[[str], None]) -> None:
    """Build the environment beside `folder` and rename it into place."""
    import shutil  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    interpreter, uv = find_python(python), find_uv()
    prefix = f".{folder.name}."
    if locked:  # nobody else builds it now, so what is there was left by a killed process
        for left in folder.parent.glob(f"{prefix}*.partial"):
            shutil.rmtree(left, ignore_errors=True)
    say(f"building the environment {folder.name} (once; about 15 s, longer with a cold cache)")
    partial = Path(tempfile.mkdtemp(prefix=prefix, suffix=".partial", dir=folder.parent))
    try:
        partial.chmod(0o755)
        _uv(uv, "venv", "--no-project", "--relocatable", "--allow-existing",
            "--python", str(interpreter), str(partial), say=_silent)  # fmt: skip
        wanted = partial / "requirements.txt"
        wanted.write_text(text, "utf-8")
        if _significant(text):
            into = str(_interpreter(partial))
            _uv(uv, "pip", "install", "--python", into, "-r", str(wanted), say=say)
        _settle(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _settle(partial: Path, folder: Path) -> None:
    """Rename a finished build into its place, unless somebody else's is there by now."""
    import shutil  # noqa: PLC0415

    if folder.exists() and not _usable(folder):
        # Its base interpreter is gone, so nothing can be running from it.
        old = partial.with_name(f"{partial.name}.old.partial")
        folder.rename(old)
        shutil.rmtree(old, ignore_errors=True)
    try:
        partial.rename(folder)
    except OSError:
        if not _usable(folder):
            raise


def _uv(uv: Path, *arguments: str, say: Callable[[str], None]) -> None:
    """Run uv, and tell on what it says of its progress: without a terminal that is few lines."""
    import shlex  # noqa: PLC0415
    import subprocess  # noqa: PLC0415

    command = [str(uv), *arguments]
    lines: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | {"UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never"},
    ) as running:
        assert running.stdout is not None  # noqa: S101 - opened above
        for line in running.stdout:
            lines.append(line.rstrip())
            if line.lstrip().startswith(_PROGRESS):
                say(f"uv: {line.strip()}")
    if running.returncode:
        said = "\n".join(f"  {line}" for line in lines[-_SHOWN_LINES:])
        raise BackendError(
            f"uv failed (exit code {running.returncode}) at `{shlex.join(command)}`:\n{said}"
        )


@contextmanager
def _alone(lock: Path) -> Iterator[bool]:
    """Hold a file lock, which the kernel drops when the process dies in whatever way.

    Yields whether it is held: some network file systems have no locks, and there the rename
    alone decides who was first.
    """
    import fcntl  # noqa: PLC0415

    with lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            yield False
        else:
            yield True


def _digest(text: str, python: str) -> str:
    """Digest what decides the content: the requirements, the Python, the kind of processor.

    A home folder may be shared by x86-64 login nodes and Arm compute nodes.
    """
    import hashlib  # noqa: PLC0415

    content = "\n".join([python, os.uname().machine, *_significant(text)])
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _significant(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _interpreter(folder: Path) -> Path:
    return folder / "bin" / "python"


def _usable(folder: Path) -> bool:
    # False too when the interpreter it links to was removed since.
    return _interpreter(folder).exists()


def _silent(sentence: str) -> None:
    """Say nothing."""
