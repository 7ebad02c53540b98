"""The folder of run records: one folder a run, plain files, no server.

A record is written whole or not at all, and is on the disk before anything is submitted. A
lock is the kernel's (flock), so that a process that died holds none.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from moectl.errors import LocalFilesError, UnknownNameError, UsageError, shown
from moectl.launch.record import RecordError, RunRecord, from_dict

RECORD = "record.json"
BUNDLE = "bundle"
LOCK = "lock"
VARIABLE = "MOECTL_RUNS"
_PART = f"{RECORD}.part-"
LARGEST = 1 << 20


def default_root() -> Path:
    """Return the folder of the records of this person.

    Raises:
        UsageError: there is no home folder, and nothing says where else.
    """
    try:
        if said := os.environ.get(VARIABLE):
            return Path(said).expanduser().absolute()
        state = Path(os.environ.get("XDG_STATE_HOME", ""))
        base = state if state.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:
        raise UsageError(
            f"there is no home folder for the records of runs; set {VARIABLE} to a folder"
        ) from None
    return base / "moectl" / "runs"


def run_id(name: str, moment: str) -> str:
    """Return a new id: the name, the moment in digits, and four random hexadecimal digits.

    Args:
        name: the run's name.
        moment: UTC time as 2026-11-30T12:00:00Z.
    """
    digits = moment.replace("-", "").replace(":", "").replace("T", "-").removesuffix("Z")
    return f"{name}-{digits}-{os.urandom(2).hex()}"


@dataclass(frozen=True, slots=True)
class Broken:
    """A folder among the records that holds no record which can be read."""

    folder: Path
    why: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What the folder holds.

    Attributes:
        records: the runs, newest first.
        broken: what holds a record that cannot be read.
        bare: folders without a record: of a launch that is at it, or died before it meant
            anything, or somebody else's.
    """

    records: tuple[RunRecord, ...]
    broken: tuple[Broken, ...] = ()
    bare: tuple[Path, ...] = ()


class Store:
    """The records under one folder.

    Args:
        root: the folder; it is made when the first record is written.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or default_root()

    def folder(self, identity: str) -> Path:
        """Return the folder of a run."""
        return self.root / identity

    def create(self, record: RunRecord) -> Path:
        """Write a new record, on the disk when this returns; return the run's folder.

        Raises:
            LocalFilesError: a run of that id exists, or the file system refuses.
        """
        folder = self.reserve(record.id)
        self.save(record)
        return folder

    def reserve(self, identity: str) -> Path:
        """Make the folder of a new run, which is none before its record is saved.

        Raises:
            LocalFilesError: a folder of that name exists, or the file system refuses.
        """
        folder = self.folder(identity)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
            _sync(self.root)
        except FileExistsError:
            raise LocalFilesError(f"{folder} exists already") from None
        except OSError as error:
            raise LocalFilesError(
                f"{error.filename or folder}: {error.strerror or error}"
            ) from None
        return folder

    def discard(self, identity: str) -> None:
        """Remove the folder of a run that nothing was submitted of."""
        shutil.rmtree(self.folder(identity), ignore_errors=True)

    def save(self, record: RunRecord) -> None:
        """Write a record over the one of the same id, whole or not at all.

        Raises:
            LocalFilesError: the file system refuses; the old record stays.
        """
        self._write(self.folder(record.id), record)

    def update(self, identity: str, change: Callable[[RunRecord], RunRecord]) -> RunRecord:
        """Change a record as it is on the disk now, while nobody else changes it."""
        with self.locked(identity):
            record = change(self.read(identity))
            self.save(record)
        return record

    def read(self, identity: str) -> RunRecord:
        """Return the record of an id.

        Raises:
            UnknownNameError: there is no such run.
            LocalFilesError: its record cannot be read.
        """
        found = _read(self.folder(identity))
        if found is None:
            raise UnknownNameError("run", identity, [r.id for r in self.list().records])
        if isinstance(found, Broken):
            raise LocalFilesError(f"{found.folder / RECORD} {found.why}")
        return found

    def find(self, said: str) -> RunRecord:
        """Return the run a person means: an id, the beginning of one, or a name (its newest).

        Raises:
            UnknownNameError: there is none.
            UsageError: the beginning fits several runs of different names.
        """
        records = self.list().records
        exact = [r for r in records if said in {r.id, r.name} or said in r.job_ids]
        if exact:
            return exact[0]
        begun = [r for r in records if said and r.id.startswith(said)]
        if len({r.name for r in begun}) > 1:
            names = ", ".join(r.id for r in begun[:4])
            raise UsageError(f"{shown(said)} may be {names}; type more of it")
        if begun:
            return begun[0]
        raise UnknownNameError("run", said, [name for r in records for name in (r.id, r.name)])

    def list(self) -> Listing:
        """Return all records, newest first; what is no record is told, never an end."""
        records: list[RunRecord] = []
        broken: list[Broken] = []
        bare: list[Path] = []
        try:
            with os.scandir(self.root) as entries:
                # Hidden folders hold what belongs to no run: calibrations, climbs.
                folders = sorted(
                    entry.path
                    for entry in entries
                    if not entry.name.startswith(".") and _is_folder(entry)
                )
        except FileNotFoundError:
            return Listing(())
        except OSError as error:
            raise LocalFilesError(f"{self.root}: {error.strerror or error}") from None
        for path in folders:
            found = _read(Path(path))
            if isinstance(found, RunRecord):
                records.append(found)
            elif found is not None:
                broken.append(found)
            else:
                bare.append(Path(path))
        records.sort(key=lambda record: (record.created, record.id), reverse=True)
        return Listing(tuple(records), tuple(broken), tuple(bare))

    @contextlib.contextmanager
    def locked(self, identity: str, *, wait: bool = True) -> Iterator[int | None]:
        """Hold the lock of a run; yield its file descriptor, or None when it is not held.

        A process that gets the descriptor holds the lock as well, until it ends.

        Args:
            identity: the run.
            wait: whether to wait for it; otherwise a lock held elsewhere yields None.

        Raises:
            LocalFilesError: the lock file cannot be made.
        """
        path = self.folder(identity) / LOCK
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise LocalFilesError(f"{path}: {error.strerror or error}") from None
        try:
            yield descriptor if _lock(descriptor, path, wait=wait) else None
        finally:
            os.close(descriptor)  # frees the lock

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Hold the lock of all records, for what must happen once among all launches."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise LocalFilesError(f"{self.root}: {error.strerror or error}") from None
        try:
            _lock(descriptor, self.root / LOCK, wait=True)
            yield
        finally:
            os.close(descriptor)

    def _write(self, folder: Path, record: RunRecord) -> None:
        text = json.dumps(record.as_dict(), indent=1, ensure_ascii=False) + "\n"
        try:
            for left in folder.glob(f"{_PART}*"):  # of a writer that died
                left.unlink(missing_ok=True)
            descriptor, part = tempfile.mkstemp(prefix=_PART, dir=folder)
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                    stream.write(text)
                    stream.flush()
                    os.fsync(stream.fileno())
                Path(part).replace(folder / RECORD)
                _sync(folder)
            except BaseException:
                Path(part).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise LocalFilesError(
                f"{error.filename or folder}: {error.strerror or error}"
            ) from None


def _lock(descriptor: int, path: Path, *, wait: bool) -> bool:
    """Lock a file; return whether it is held.

    Raises:
        LocalFilesError: its file system keeps no locks, e.g. Lustre mounted without flock.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        raise LocalFilesError(
            f"{path} cannot be locked ({error.strerror or error}): its file system keeps no "
            f"locks; set {VARIABLE} to a folder on one that does, such as your home"
        ) from None
    return True


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _read(folder: Path) -> RunRecord | Broken | None:
    """Return the record in a folder; None when nobody wrote one there."""
    path = folder / RECORD
    try:
        with path.open("rb") as stream:
            raw = stream.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Broken(folder, f"cannot be read: {error.strerror or error}")
    if len(raw) > LARGEST:
        return Broken(folder, "is too large to be a record")
    try:
        record = from_dict(json.loads(raw))
    except (RecordError, ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, RecordError) else "is no JSON"
        return Broken(folder, why)
    if record.id != folder.name:
        return Broken(folder, f"is the record of {shown(record.id)}, a copy in another folder")
    return record


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot sync a folder
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
