"""Puts the probe program together and runs it with any interpreter of this machine.

The program is one file for an image that has no moectl: `probe_program.py` with the readers of
`moectl.evidence` inside, so that an image is read by the same code as a wheel is.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

from moectl.errors import BackendError, LocalFilesError, shown
from moectl.resources import package

READERS = ("moectl.evidence.maxtext_write", "moectl.evidence.xla_flags")
# What the readers look up beside their code.
_TABLES = ("evidence/xla_child.py", "facts/data/xla/shapes.tsv")
_FILES_LINE = "FILES: dict[str, str] = {}\n"
_SECRETS_LINE = "SECRETS: tuple[str, ...] = ()\n"
SECONDS = 600.0


def program() -> str:
    """Return the text of the probe program: one standard-library file."""
    text = _source("evidence/probe_program.py")
    head, files, tail = text.partition(_FILES_LINE)
    before, secrets, after = tail.partition(_SECRETS_LINE)
    assert files  # noqa: S101 - both lines are ours
    assert secrets  # noqa: S101
    names = "".join(f"    {name!r},\n" for name in _secret_names())
    return (
        f"{head}{before}SECRETS: tuple[str, ...] = (\n{names})\n"
        # At the end of what is read first: a person who opens the file sees what it does.
        + after.replace(
            'if __name__ == "__main__":\n',
            f"FILES: dict[str, str] = {{\n{''.join(map(_literal, _paths()))}}}\n\n"
            'if __name__ == "__main__":\n',
        )
    )


def run(python: str, *, seconds: float = SECONDS) -> str:
    """Run the probe with an interpreter and return the JSON it prints.

    Args:
        python: the interpreter.
        seconds: the longest it may take in all.

    Raises:
        BackendError: it cannot be started, fails, or takes too long.
    """
    share = max(1, int(seconds / 4))
    try:
        answer = subprocess.run(
            [python, "-", "--seconds", str(share)],
            input=program().encode(),
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, ValueError) as error:
        raise BackendError(f"cannot start {shown(python)}: {error}") from error
    except subprocess.TimeoutExpired:
        raise BackendError(f"the probe of {shown(python)} took over {seconds:g} s") from None
    if answer.returncode or not answer.stdout.startswith(b"{"):
        said = answer.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise BackendError(f"{shown(python)} cannot run the probe: {said or 'it said nothing'}")
    return answer.stdout.decode("utf-8", "replace")


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        LocalFilesError: it cannot be written.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, "utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise LocalFilesError(f"cannot write {path}: {error.strerror}") from error


def _secret_names() -> list[str]:
    from moectl.facts import environment  # noqa: PLC0415

    catalogue = environment.load()
    known = [*catalogue.variables.values(), *catalogue.families]
    return sorted(variable.name for variable in known if variable.secret)


def _paths() -> list[str]:
    """Return the modules the readers import, and the tables they look up, sorted."""
    found: set[str] = set(_TABLES)
    waiting = list(READERS)
    while waiting:
        path = _path(waiting.pop())
        if path is None or path in found:
            continue
        found.add(path)
        waiting += _imports(path)
    folders = {path.rpartition("/")[0] for path in found if path.endswith(".py")}
    return sorted(found | {f"{folder}/__init__.py".lstrip("/") for folder in folders | {""}})


def _imports(path: str) -> Iterator[str]:
    tree = ast.parse(_source(path))
    typing_only = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in typing_only:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def _path(module: str) -> str | None:
    head, _, rest = module.partition(".")
    path = f"{rest.replace('.', '/')}.py"
    return path if head == "moectl" and rest and package().joinpath(path).is_file() else None


def _source(path: str) -> str:
    return package().joinpath(*path.split("/")).read_text("utf-8")


def _literal(path: str) -> str:
    """Write a file as one string a line, so that a reviewer can read it."""
    lines = "".join(f"        {line!r}\n" for line in _source(path).splitlines(keepends=True))
    return f'    "moectl/{path}": (\n{lines or chr(32) * 8 + repr("") + chr(10)}    ),\n'
