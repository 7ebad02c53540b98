"""The one exception family, and what each member does to the exit code.

Exit codes: 0 fine; 1 error findings or a failed run; 2 usage (a value that cannot be meant);
3 a backend that is unreachable or refuses; 4 local files (permission, disk, somebody's
files in the way); 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def shown(value: object, limit: int = 80) -> str:
    """Quote a value from a person on one line, control characters escaped, long ones cut."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def nearest(name: str, legal: Iterable[str], count: int = 3) -> list[str]:
    """Return up to `count` legal names near `name`, best first; none when nothing is near."""
    import difflib  # noqa: PLC0415 - only a fault pays for it

    names = sorted(set(legal))
    folded = {candidate.casefold(): candidate for candidate in names}
    close = difflib.get_close_matches(name.casefold()[:200], folded, n=count, cutoff=0.6)
    if not close and len(name) >= 3:
        close = [candidate for candidate in folded if name.casefold() in candidate][:count]
    return [folded[candidate] for candidate in close]
