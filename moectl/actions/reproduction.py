"""Says whether a bundle or a run can be reproduced today, and what drifted since."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from moectl.actions.differences import differences
from moectl.actions.plan import Wishes, find
from moectl.actions.render import Rendered, render
from moectl.errors import FindingsError, MoectlError, UnknownNameError, UsageError
from moectl.launch.store import Store
from moectl.logs.folders import job_folders
from moectl.render import templates
from moectl.settings.files import LOCK_NAME, RunFile
from moectl.version import __version__

State: TypeAlias = Literal["same", "drifted", "unknown"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a run rests on.

    Attributes:
        what: moectl, facts, templates, lock, a file's name, image, or what ran.
        state: whether it is what it was.
        told: why, or what is different and what to do.
    """

    what: str
    state: State
    told: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What became of what a bundle was made with.

    Attributes:
        bundle: the bundle.
        checks: what was looked at.
    """

    bundle: str
    checks: tuple[Check, ...]

    @property
    def drifted(self) -> bool:
        """Whether anything is not what it was."""
        return any(check.state == "drifted" for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        checks = [asdict(check) for check in self.checks]
        return {"bundle": self.bundle, "reproducible": not self.drifted, "checks": checks}


def verify(said: str) -> Verified:
    """Look at a bundle, or at the bundle of a run.

    Args:
        said: the bundle's folder, or a run by its id or name.

    Raises:
        UsageError: it is no bundle.
        MoectlError: its lock cannot be read.
    """
    folder = _bundle(said)
    source = find(str(folder))
    if not isinstance(source, RunFile) or not source.lock:
        raise UsageError(f"{folder} has no {LOCK_NAME}, so nothing says what it was made with")
    return Verified(str(folder), tuple(_checks(folder, source)))


def _bundle(said: str) -> Path:
    path = Path(said)
    if path.is_dir():
        return path
    if path.exists():
        raise UsageError(f"{said} is a file; verify looks at a bundle's folder or at a run")
    try:
        return Path(Store().find(said).bundle)
    except UnknownNameError:
        raise UsageError(f"{said} is neither a folder nor a run that `moectl runs` knows") from None


def _checks(folder: Path, source: RunFile) -> Iterator[Check]:
    lock = source.lock
    yield _equal("moectl", str(lock.get("version")), __version__, "a bundle keeps what it says")
    yield _equal(
        "templates",
        str(lock.get("templates")),
        templates.digest(),
        "scripts rendered now may differ; the bundle's own are as they were",
    )
    try:
        rendered = render(str(folder), Wishes())
    except FindingsError as error:
        stopped = sorted({finding.code for finding in error.findings if finding.stops})
        told = f"rules of today refuse it: {', '.join(stopped)}; `moectl validate` shows them"
        yield Check("lock", "drifted", told)
    except MoectlError as error:
        yield Check("lock", "drifted", f"it makes no job: {str(error).splitlines()[0]}")
    else:
        yield Check("lock", "same", "it makes a job, and nothing in it is refused")
        yield from _facts(lock, rendered)
        yield from _files(folder, rendered)
        yield _image(rendered)
    yield from _ran(folder)


def _equal(what: str, then: str, now: str, told: str) -> Check:
    if then == now:
        return Check(what, "same", now)
    return Check(what, "drifted", f"made with {then}, now {now}; {told}")


def _facts(lock: Any, rendered: Rendered) -> Iterator[Check]:
    """Yield whether the catalogues that judged it then judge it now."""
    image = rendered.job.container.image
    now = {"maxtext": image.maxtext, "jaxlib": image.jaxlib}
    for name, then in (lock.get("facts") or {}).items():
        told = "its keys and flags are judged by other lists"
        yield _equal(f"facts of {name}", str(then), str(now.get(name)), told)


def _files(folder: Path, rendered: Rendered) -> Iterator[Check]:
    """Yield every file that its lock would render to other bytes."""
    differ = edited(folder, rendered)
    for name in differ:
        there = (folder / name).exists()
        told = "its lock renders other bytes now" if there else "it is not there"
        yield Check(name, "drifted", f"{told}; `moectl render {folder} --force` makes it anew")
    same = len(rendered.files) - len(differ)
    yield Check("files", "same", f"{same} of {len(rendered.files)} are what the lock renders")


def edited(folder: Path, rendered: Rendered) -> list[str]:
    """Return the files of a bundle that hold other bytes than its lock renders, or are gone."""
    return [name for name, text in rendered.files.items() if not _holds(folder / name, text)]


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode()
    except OSError:
        return False


def _image(rendered: Rendered) -> Check:
    image = rendered.job.container.image
    if image.digest:
        return Check("image", "same", f"{image.reference} is pinned by {image.digest}")
    told = (
        f"{image.reference} has no digest, so another image may lie under its name by now; "
        "--set container.digest=sha256:... pins it"
    )
    return Check("image", "unknown", told)


def _ran(folder: Path) -> Iterator[Check]:
    """Yield how the last start differs from the lock, as the job itself wrote it down."""
    starts = job_folders(folder)
    if not starts:
        return
    found = differences(folder, starts[-1].path)
    for clause in found:
        yield Check("what ran", "drifted", clause)
    if not found:
        yield Check("what ran", "same", f"job {starts[-1].job} ran with what the lock says")
