"""What loggers and launchers put before a line: absl, `srun -l`, kubectl, Open MPI, timestamps."""

from __future__ import annotations

import re
from dataclasses import dataclass

# A line may carry several, e.g. a pod's name, a timestamp and absl's own.
_MOST = 6
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# No message that matters begins within the first bytes of a longer line than this.
LONGEST = 8192

_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        # Python's absl and the C++ one: I1130 15:28:42.045803 140702875618176 train.py:265] TEXT;
        # before its start-up the C++ one writes I0000 00:00:1732982400.123456 15217 file.cc:1].
        r"(?P<level>[DIWEF])\d{4} \d\d:\d\d:\d+(?:\.\d+)? +\d+ [^\s\]]{1,200}\] ?",
        # srun --label, also padded to the width of the highest rank.
        r" {0,6}(?P<rank>\d{1,7}): ",
        # kubectl logs --prefix, with the index of an indexed job's pod at its end or without.
        r"\[pod/[^\s\]]{1,300}\] ",
        # mpirun --tag-output.
        r"\[\d+,(?P<mpi>\d{1,7})\]<std(?:out|err)>: ?",
        r"\[rank(?P<named>\d{1,7})\]: ?",
        # kubectl logs --timestamps, a container runtime's own file, Python's logging, `ts`.
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? "
        r"(?:std(?:out|err) [FP] )?",
        r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ",
        r"(?P<word>DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.]{1,100}:",
        r"(?P<bare>DEBUG|INFO|WARNING|ERROR|CRITICAL)(?::| -) ",
    )
)
_RANKS = ("rank", "mpi", "named")
_LEVELS = ("level", "word", "bare")


@dataclass(frozen=True, slots=True)
class Line:
    """A line without what stood before its message.

    Attributes:
        text: the message.
        level: first letter of its level (D, I, W, E, F or C), "" when none was said.
        rank: which process wrote it, None when the line does not say.
    """

    text: str
    level: str = ""
    rank: int | None = None


def strip(text: str) -> Line:
    """Return a line's message, without end of line, colours and prefixes; any text will do."""
    text = text[:LONGEST].rstrip("\r\n")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    level, rank = "", None
    for _ in range(_MOST):
        match = next((found for each in _PREFIXES if (found := each.match(text))), None)
        if match is None:
            break
        said = match.groupdict()
        level = next((said[name] for name in _LEVELS if said.get(name)), level)[:1]
        number = next((said[name] for name in _RANKS if said.get(name)), None)
        rank = int(number) if number is not None else rank
        text = text[match.end() :]
    return Line(text, level, rank)
