"""Remedies that are safe to make, made in the files: shown first, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moectl.errors import LocalFilesError
from moectl.findings import Finding
from moectl.reports.escape import printable

_BOM = "\ufeff"
# YAML counts these as line ends and shells do not, so that a line's number is in doubt.
_DOUBTFUL = "\r\x85\u2028\u2029"


@dataclass(frozen=True, slots=True)
class FileFix:
    """What changes in one file.

    Attributes:
        name: the file as it was named.
        before: its content.
        after: its content with the remedies in it.
        made: the findings whose remedy is in it.
        left: findings whose remedy overlaps one of those, or whose place says something else.
    """

    name: str
    before: bytes
    after: bytes
    made: tuple[Finding, ...]
    left: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Fixes:
    """What changes in all files.

    Attributes:
        files: the files that change.
        left: findings whose remedy could not be made.
    """

    files: tuple[FileFix, ...] = ()
    left: tuple[Finding, ...] = field(default=())

    @property
    def made(self) -> int:
        """Return how many remedies are made."""
        return sum(len(one.made) for one in self.files)

    def diff(self) -> str:
        """Return all changes as a unified diff."""
        return "".join(map(diff, self.files))


def planned(findings: Iterable[Finding], names: Collection[str]) -> Fixes:
    """Return the changes that the safe remedies of findings make; nothing is written.

    Args:
        findings: what was found.
        names: the files that may change, as named in the findings; others (standard input,
            a file that a checked one builds on) stay as they are.

    Raises:
        LocalFilesError: a file cannot be read any more.
    """
    by_file: dict[str, list[Finding]] = {}
    left: list[Finding] = []
    for finding in dict.fromkeys(findings):
        if finding.fix is None:
            continue
        if finding.file in names:
            by_file.setdefault(finding.file, []).append(finding)
        else:
            left.append(finding)
    files = []
    for name, its in by_file.items():
        before = _read(name)
        after, made, missed = fixed(before, its)
        left += missed
        if after != before:
            files.append(FileFix(name, before, after, tuple(made), tuple(missed)))
    return Fixes(tuple(files), tuple(left))


def fixed(
    content: bytes, findings: Sequence[Finding]
) -> tuple[bytes, list[Finding], list[Finding]]:
    """Return a file's content with remedies made.

    A remedy is made only where exactly its old text stands; of two that overlap the first is
    made. Byte order mark, line ends, and all else stay.

    Args:
        content: the file; UTF-8.
        findings: findings of this file with a `fix`; line and column count from 1, the column
            in characters.

    Returns:
        The new content, the findings whose remedy was made, and the others.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return content, [], list(findings)
    mark = _BOM if text.startswith(_BOM) else ""
    text = text.removeprefix(_BOM)
    if any(letter in text.replace("\r\n", "\n") for letter in _DOUBTFUL):
        return content, [], list(findings)
    end = "\r\n" if "\r\n" in text else "\n"
    starts = _line_starts(text)
    edits: list[tuple[int, int, str, Finding]] = []
    left: list[Finding] = []
    for finding in findings:
        place = _place(finding, starts)
        old, new = finding.fix or ("", "")
        if place is None or not old or old == new or not text.startswith(old, place):
            left.append(finding)
        else:
            edits.append((place, place + len(old), new.replace("\n", end), finding))
    edits.sort(key=lambda edit: edit[:2])  # stable: of two remedies at a place the first stays
    parts: list[str] = []
    made: list[Finding] = []
    at = 0
    last: tuple[int, int, str] | None = None
    for start, stop, new, finding in edits:
        if (start, stop, new) == last:  # two rules that ask for the same
            made.append(finding)
        elif start < at:
            left.append(finding)
        else:
            parts += (text[at:start], new)
            at, last = stop, (start, stop, new)
            made.append(finding)
    parts.append(text[at:])
    return (mark + "".join(parts)).encode("utf-8"), made, left


def diff(change: FileFix) -> str:
    """Return a file's change as a unified diff; hostile names are escaped."""
    import difflib  # noqa: PLC0415 - only who fixes something pays for it

    before, after = (_lines(content) for content in (change.before, change.after))
    name = printable(change.name)
    lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def write(fixes: Fixes) -> None:
    """Write all changes, or none.

    Every file is first written beside its place, with its permissions; only when all are
    there does each take its place by a rename. A link stays, and its target changes.

    Raises:
        LocalFilesError: a file was changed meanwhile, or the file system refuses.
    """
    staged: list[tuple[Path, Path]] = []
    try:
        for change in fixes.files:
            if _read(change.name) != change.before:
                raise LocalFilesError(
                    f"{printable(change.name)} was changed meanwhile; nothing was written"
                )
            target = Path(change.name).resolve()
            if not os.access(target, os.W_OK):
                raise LocalFilesError(
                    f"{printable(change.name)} is not writable; nothing was written"
                )
            staged.append((_stage(target, change.after), target))
        _put(staged, [change.before for change in fixes.files])
    except OSError as error:
        raise LocalFilesError(
            f"{printable(str(error.filename or ''))}: {error.strerror or error}"
        ) from None
    finally:
        for temporary, _ in staged:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _put(staged: Sequence[tuple[Path, Path]], before: Sequence[bytes]) -> None:
    """Rename staged files into place; what is in place already is taken back when one fails."""
    done: list[tuple[Path, bytes]] = []
    try:
        for (temporary, target), content in zip(staged, before, strict=True):
            temporary.replace(target)
            done.append((target, content))
    except OSError:
        for target, content in done:
            _stage(target, content).replace(target)
        raise


def write_file(path: str, content: bytes) -> None:
    """Write one file whole or not at all; a device or pipe is written into.

    Raises:
        LocalFilesError: the file system refuses.
    """
    try:
        target = Path(path)
        if os.path.lexists(path):
            target = target.resolve()
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        temporary = _stage(target, content)
        try:
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LocalFilesError(f"{printable(path)}: {reason}; nothing was written") from None


def _stage(target: Path, content: bytes) -> Path:
    """Write content beside `target`, with the permissions it has or a new file gets."""
    handle, name = tempfile.mkstemp(prefix=".moectl-fix-", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            old = target.stat()
            with contextlib.suppress(OSError):  # only its owner may give a file away
                os.chown(temporary, old.st_uid, old.st_gid)
            temporary.chmod(old.st_mode & 0o7777)
        else:
            mask = os.umask(0o022)
            os.umask(mask)
            temporary.chmod(0o666 & ~mask)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _read(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LocalFilesError(f"{printable(name)}: {reason}; nothing was written") from None


def _line_starts(text: str) -> list[int]:
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts


def _place(finding: Finding, starts: list[int]) -> int | None:
    if finding.line is None or finding.column is None:
        return None
    if not (1 <= finding.line <= len(starts) and finding.column >= 1):
        return None
    place = starts[finding.line - 1] + finding.column - 1
    after = starts[finding.line] if finding.line < len(starts) else None
    return place if after is None or place < after else None


def _lines(content: bytes) -> list[str]:
    text = content.decode("utf-8")
    return list(_split(text))


def _split(text: str) -> Iterator[str]:
    parts = text.split("\n")
    yield from (f"{part}\n" for part in parts[:-1])
    if parts[-1]:
        yield parts[-1]
