"""Judges files: what each starts is made into a workload or a job, and every rule looks at it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moectl.actions.paths import STANDARD_INPUT, is_plain_folder, meant
from moectl.checked import Checked, Report
from moectl.errors import LocalFilesError, MoectlError, SourceError
from moectl.findings import Finding
from moectl.given import Given
from moectl.rules.reading import nothing_read, refusals
from moectl.settings.bundle_names import LOCK
from moectl.settings.text_file import MAX_BYTES, decoded, read_text
from moectl.values import Origin

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from moectl.resolve.workload import Basis
    from moectl.settings.shell import World

__all__ = ["Checked", "Given", "Outcome", "Report", "outcome_of", "outcomes_of", "validate"]

MANY_PARTS = 64  # a script that starts more is read once only, for what it certainly does
UNREADABLE = "unreadable"  # the kind of what could not be opened
MARKER = "moectl:"  # no suppression stands in a file without it
# A pool of processes costs more than it brings for fewer files.
FEW = 64
# Files that a process judges in one go, and such portions that may be under way.
PORTION = 16
AHEAD = 32
FLAGS = "--xla-flags"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one checked thing came to."""

    checked: Checked
    findings: tuple[Finding, ...]
    suppressed: int = 0

    @property
    def report(self) -> Report:
        """Return it as a report of its own."""
        return Report(self.findings, (self.checked,), self.suppressed)


def validate(paths: Sequence[str], given: Given | None = None) -> Report:
    """Judge files, folders, standard input ("-") and texts of XLA_FLAGS.

    Raises:
        MoectlError: what was given beside the files cannot be meant.
    """
    given = given or Given()
    outcomes = list(outcomes_of(paths, given))
    return Report(
        tuple(finding for outcome in outcomes for finding in outcome.findings),
        tuple(outcome.checked for outcome in outcomes),
        sum(outcome.suppressed for outcome in outcomes),
    )


def outcomes_of(paths: Sequence[str], given: Given) -> Iterator[Outcome]:
    """Yield what each file comes to, in order; many are judged by several processes."""
    from moectl.resolve.workload import basis  # noqa: PLC0415

    probe = read_text(Path(given.probe)) if given.probe is not None else None
    the_basis = basis(given, probe)
    for text in given.xla_flags:
        yield _judged(FLAGS, text, the_basis)
    names = list(meant(paths))
    named = frozenset(paths)
    workers = min(os.cpu_count() or 1, 8)
    if len(names) < FEW or workers == 1 or STANDARD_INPUT in names:
        yield from (outcome_of(name, the_basis, named) for name in names)
        return
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415
    from functools import partial  # noqa: PLC0415
    from multiprocessing import get_context  # noqa: PLC0415

    judge = partial(outcome_of, the_basis=the_basis, named=named)
    judge(names[0])  # what is imported and read once is shared by the forks
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        yield from _in_order(pool, judge, names)


def _in_order(
    pool: Executor, judge: Callable[[str], Outcome], names: Sequence[str]
) -> Iterator[Outcome]:
    """Yield outcomes in the order of names, with no more of them under way than are soon read."""
    from collections import deque  # noqa: PLC0415

    waiting: deque[Future[list[Outcome]]] = deque()
    for start in range(0, len(names), PORTION):
        portion = names[start : start + PORTION]
        waiting.append(pool.submit(_all, judge, portion))
        if len(waiting) > AHEAD:
            yield from waiting.popleft().result()
    while waiting:
        yield from waiting.popleft().result()


def _all(judge: Callable[[str], Outcome], names: Sequence[str]) -> list[Outcome]:
    return [judge(name) for name in names]


def outcome_of(name: str, the_basis: Basis, named: AbstractSet[str] | None = None) -> Outcome:
    """Judge one file, bundle, or standard input.

    Args:
        name: the file.
        the_basis: what was given beside the files.
        named: the paths as typed: a file of which nothing is read is a fault only when somebody
            named it, not when a folder was searched. None when the file itself was named.
    """
    if is_plain_folder(name):
        return _selected(_empty_folder(name), the_basis.given)
    try:
        text = _content(name)
    except MoectlError as error:
        kind = UNREADABLE if isinstance(error, LocalFilesError) else "unknown"
        unreadable = Outcome(Checked(name, kind), tuple(refusals(error, name)))
        return _selected(unreadable, the_basis.given)
    return _judged(name, text, the_basis, searched=named is not None and name not in named)


def _empty_folder(name: str) -> Outcome:
    from moectl.rules.reading import UNRECOGNISED  # noqa: PLC0415
    from moectl.rules.rule import Fault  # noqa: PLC0415

    sentence = "the folder holds no file that moectl reads"
    return Outcome(
        Checked(name, "folder"), (UNRECOGNISED.finding(Fault("", sentence, Origin(name, name))),)
    )


def _content(name: str) -> str:
    if name == STANDARD_INPUT:
        raw = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise SourceError(name, None, f"it is larger than {MAX_BYTES >> 20} MiB")
        return decoded(raw, name)
    path = Path(name)
    return read_text(path / LOCK if path.is_dir() else path)


def _judged(name: str, text: str, the_basis: Basis, *, searched: bool = False) -> Outcome:
    """Judge a text; a fault of reading is a finding as well."""
    from moectl.settings.sources.detect import detect  # noqa: PLC0415

    kind = "flags" if name == FLAGS else detect(name, text)
    told: tuple[str, ...] = ()
    found: list[Finding] = []
    try:
        if kind == "preset":
            told = ("a preset of moectl; its form is what `moectl schema preset` says",)
        elif kind in {"run file", "cluster profile"}:
            found = _run_file(name, kind, the_basis.given)
        else:
            kind, found, told = _foreign(name, kind, text, the_basis, searched=searched)
    except MoectlError as error:
        found = list(refusals(error, name))
    suppressed = 0
    if MARKER in text:
        from moectl.suppress import apply  # noqa: PLC0415

        kept, suppressed, extra = apply(found, {name: text})
        found = [*kept, *extra]
    ordered = _ordered(found)
    shown = _without_secrets(text, ordered) if ordered else ""
    others = tuple(_others(name, ordered))
    return _selected(
        Outcome(Checked(name, kind, shown, told, others), ordered, suppressed), the_basis.given
    )


def _others(name: str, findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    """Yield the files beside `name` in which something was found, with their texts."""
    own = {name, f"{name.rstrip('/')}/{LOCK}"}
    for other in sorted({finding.file for finding in findings} - own):
        if other and not other.startswith("-") and os.path.isfile(other):  # noqa: PTH113
            try:
                text = read_text(Path(other))
            except MoectlError:
                continue
            its = [finding for finding in findings if finding.file == other]
            yield other, _without_secrets(text, its)


def _run_file(name: str, kind: str, given: Given) -> list[Finding]:
    """Judge a file of moectl's own: it becomes a job, or says why it cannot."""
    from moectl.actions.plan import Wishes, plan  # noqa: PLC0415

    if kind == "cluster profile":
        from moectl.settings.files import cluster_profile  # noqa: PLC0415

        cluster_profile(Path(name))
        return []
    said: dict[str, tuple[Any, str]] = {
        "gpus": (given.gpus, "--gpus"),
        "hardware": (given.hardware, "--hardware"),
        "container.image": (given.image, "--image"),
        "container.maxtext_release": (given.maxtext, "--maxtext"),
        "container.jaxlib_release": (given.jaxlib, "--jaxlib"),
    }
    filled = {path: wish for path, wish in said.items() if wish[0] is not None}
    job = plan(name if Path(name).is_dir() else str(Path(name)), Wishes(fallbacks=filled))
    return [
        replace(finding, severity="note") if finding.accepted else finding
        for finding in job.findings
    ]


def _foreign(
    name: str, kind: str, text: str, the_basis: Basis, *, searched: bool
) -> tuple[str, list[Finding], tuple[str, ...]]:
    """Judge a file that is not of moectl."""
    from moectl.resolve.workload import workload  # noqa: PLC0415
    from moectl.rules.registry import judged  # noqa: PLC0415
    from moectl.settings.sources.read import read_source  # noqa: PLC0415

    source = read_source(name, text, opener(name), kind)
    # A broken file of another program in a folder is nobody's fault here.
    foreign = searched and source.kind == "unknown"
    found = [f for f in source.findings if not (foreign and f.code == "YAML101")]
    told = list(source.told)
    if not source.parts and not found and searched:
        told.append("nothing in it is read by moectl")
    elif not source.parts and not found:
        found.append(nothing_read(name, text))
    for part in source.parts:
        made, notes = workload(part, the_basis)
        told += notes
        found += judged(made)
    doubted = source.doubts is not None and len(source.parts) <= MANY_PARTS
    for world in source.doubts.worlds if doubted and source.doubts is not None else ():
        found += _only_in(world, name, kind, text, the_basis, found)
    return source.kind, found, tuple(dict.fromkeys(told))


def _only_in(
    world: World, name: str, kind: str, text: str, the_basis: Basis, certain: list[Finding]
) -> list[Finding]:
    """Return what is found only when something about a script is taken for granted."""
    from moectl.resolve.workload import workload  # noqa: PLC0415
    from moectl.rules.registry import judged  # noqa: PLC0415
    from moectl.settings.shell import soften  # noqa: PLC0415
    from moectl.settings.sources.read import read_source  # noqa: PLC0415

    source = read_source(name, text, opener(name), kind, world=world)
    found = list(source.findings)
    for part in source.parts:
        found += judged(workload(part, the_basis)[0])
    return soften(certain, found, source.doubts) if source.doubts is not None else []


def opener(name: str) -> Any:
    """Return a function that gives the text of a file named beside `name`, or None."""
    beside = Path() if name in {STANDARD_INPUT, FLAGS} else Path(name).parent

    def opened(path: str) -> str | None:
        try:
            return read_text(beside / path)
        except (MoectlError, ValueError):
            return None

    return opened


def _ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort by place, each finding once."""
    unique = dict.fromkeys(findings)
    return tuple(
        sorted(unique, key=lambda f: (f.file, f.line or 0, f.column or 0, f.code, f.field))
    )


def _without_secrets(text: str, findings: Iterable[Finding]) -> str:
    """Return the text with the lines blank that hold a secret."""
    hidden = {finding.line for finding in findings if finding.hides}
    if not hidden:
        return text
    lines = text.split("\n")
    return "\n".join("" if i in hidden else line for i, line in enumerate(lines, start=1))


def _selected(outcome: Outcome, given: Given) -> Outcome:
    """Leave out what was not asked for."""
    chosen = tuple(
        finding
        for finding in outcome.findings
        if (not given.select or finding.code.startswith(tuple(given.select)))
        and not (given.ignore and finding.code.startswith(tuple(given.ignore)))
    )
    return replace(outcome, findings=chosen)
