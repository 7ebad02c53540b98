"""The one exception family, and what each member does to the exit code.

Exit codes: 0 fine; 1 error findings or a failed run; 2 usage (a value that cannot be meant);
3 a backend that is unreachable or refuses; 4 local files (permission, disk, somebody's
files in the way); 130 interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from moectl.findings import Finding


class MoectlError(Exception):
    """Tell the person and leave; never shown as a traceback."""

    exit_code: ClassVar[int] = 1


class FindingsError(MoectlError):
    """The job cannot be rendered: error findings remain that nobody allowed."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = list(findings)
        errors = sum(finding.severity == "error" for finding in self.findings)
        super().__init__(f"{errors} error{'' if errors == 1 else 's'} found; nothing was written")


class UsageError(MoectlError):
    """Somebody typed what cannot be meant."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A name that is in no catalogue.

    Args:
        kind: what was named, e.g. "preset" or "MaxText key".
        name: the name as typed.
        legal: the legal names; the nearest are suggested.
        where: the place that said it, e.g. "run.yaml:3" or "--set".
        why: one more sentence, e.g. which release lacks it.
    """

    def __init__(
        self, kind: str, name: str, legal: Iterable[str], *, where: str = "", why: str = ""
    ) -> None:
        self.kind, self.name, self.where = kind, name, where
        self.suggestions = nearest(name, legal)
        hint = (
            f"; did you mean {' or '.join(map(shown, self.suggestions))}?"
            if (self.suggestions)
            else ""
        )
        prefix = f"{where}: " if where else ""
        reason = f" ({why})" if why else ""
        super().__init__(f"{prefix}unknown {kind} {shown(name)}{reason}{hint}")


class ValueUsageError(UsageError):
    """A value that cannot be meant, with what is legal.

    Args:
        what: the option or key, e.g. "--gpus".
        value: the value as typed.
        legal: what is legal near it, as a phrase.
        where: the place that said it.
    """

    def __init__(self, what: str, value: object, legal: str, *, where: str = "") -> None:
        self.what, self.value, self.legal, self.where = what, value, legal, where
        prefix = f"{where}: " if where else ""
        super().__init__(f"{prefix}{what} cannot be {shown(value)}: {legal}")


class SourceError(UsageError):
    """A file that cannot be read as what it should be: file, line, one sentence."""

    def __init__(self, path: str, line: int | None, sentence: str) -> None:
        self.path, self.line, self.sentence = path, line, sentence
        place = f"{path}:{line}" if line else path
        super().__init__(f"{place}: {sentence}")


class SeveralUsageErrors(UsageError):  # noqa: N818 - it is a group of the errors above
    """Several usage errors found in one pass."""

    def __init__(self, errors: Sequence[UsageError]) -> None:
        self.errors: list[UsageError] = [
            single
            for error in errors
            for single in (error.errors if isinstance(error, SeveralUsageErrors) else [error])
        ]
        super().__init__("\n".join(str(error) for error in self.errors))


class BackendError(MoectlError):
    """A scheduler, registry or parser that cannot be reached or refuses."""

    exit_code = 3


class LocalFilesError(MoectlError):
    """The local file system refuses: permission, space, somebody's files in the way."""

    exit_code = 4


# Beginnings that providers give their tokens: Hugging Face, GitHub, GitLab, NVIDIA, AWS, OpenAI.
_TOKEN = re.compile(
    r"\b(hf_|gh[opusr]_|github_pat_|glpat-|nvapi-|AKIA|sk-)[A-Za-z0-9_-]{8,}", re.ASCII
)


def masked(text: str) -> str:
    """Return a text in which nothing shaped like a token can be read."""
    return _TOKEN.sub(r"\1...", text)


def is_token(text: str) -> bool:
    """Return whether a value is shaped like a token of a known provider."""
    return _TOKEN.fullmatch(text) is not None


def shown(value: object, limit: int = 80) -> str:
    """Quote a value from a person on one line, control characters escaped, long ones cut.

    What is shaped like a token is not shown.
    """
    text = masked(repr(value))
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def nearest(name: str, legal: Iterable[str], count: int = 3) -> list[str]:
    """Return up to `count` legal names near `name`, best first; none when nothing is near.

    Near is a difflib ratio of 0.6 or more; only the names that share most pairs of letters
    with it are compared, as a comparison costs more than everything else a fault does.
    """
    return list(_nearest(name[:_COMPARED], tuple(legal), count))


_COMPARED = 200
_CANDIDATES = 10
_RATIO = 0.6


@lru_cache(maxsize=1024)
def _nearest(name: str, legal: tuple[str, ...], count: int) -> tuple[str, ...]:
    from difflib import SequenceMatcher  # noqa: PLC0415 - only a fault pays for it

    folded, pairs = _index(legal)
    wanted = name.casefold()
    shared: dict[str, int] = {}
    for pair in _pairs(wanted):
        for candidate in pairs.get(pair, ()):
            shared[candidate] = shared.get(candidate, 0) + 1
    # Ratio <= 2 x shorter / both, so that names of another length need not be looked at.
    alike = {
        candidate: 2 * number / (len(candidate) + len(wanted) + 2)
        for candidate, number in shared.items()
        if 2 * min(len(candidate), len(wanted)) >= _RATIO * (len(candidate) + len(wanted))
    }
    best = sorted(alike, key=lambda candidate: (-alike[candidate], candidate))[:_CANDIDATES]
    matcher = SequenceMatcher()
    matcher.set_seq2(wanted)
    scored = []
    for candidate in best:
        matcher.set_seq1(candidate)
        if matcher.quick_ratio() >= _RATIO and (ratio := matcher.ratio()) >= _RATIO:
            scored.append((ratio, candidate))
    close = [candidate for _, candidate in sorted(scored, reverse=True)[:count]]
    if not close and len(name) >= _LEAST_PART:
        close = [candidate for candidate in folded if wanted in candidate][:count]
    return tuple(folded[candidate] for candidate in close)


_LEAST_PART = 3


@lru_cache(maxsize=16)
def _index(legal: tuple[str, ...]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the names by their folded form, and the folded names by pairs of letters."""
    folded = {candidate.casefold(): candidate for candidate in sorted(set(legal))}
    pairs: dict[str, list[str]] = {}
    for candidate in folded:
        for pair in _pairs(candidate):
            pairs.setdefault(pair, []).append(candidate)
    return folded, pairs


def _pairs(text: str) -> set[str]:
    """Return the pairs of neighbouring letters, the ends marked."""
    marked = f"^{text}$"
    return {marked[at : at + 2] for at in range(len(marked) - 1)}
