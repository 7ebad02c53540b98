"""When a line was written and by whom, by the prefix it has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from moectl.logs.prefixes import strip

# srun --label, kubectl --prefix and --timestamps, absl; each may be missing. What has another
# form is read by `prefixes`, more slowly and without a time.
PREFIX = (
    rb"(?: {0,6}(\d{1,7}): )?(?:\[pod/([^\s\]]{1,300})\] )?"
    rb"(?:(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:)(\d\d(?:\.\d{1,9})?)(?:Z|[+-]\d\d:\d\d)? )?"
    rb"(?:[DIWEF](\d{4} \d\d:\d\d:)(\d\d(?:\.\d{1,9})?) +(\d{1,20}) [^\s\]]{1,200}\] ?)?"
)
_FITS = re.compile(PREFIX)
_NAN = float("nan")
_YEAR = 366 * 86400.0


def stamp(prefix: bytes) -> tuple[object, float] | None:
    """Return who wrote what follows a prefix, and when; None when it is no prefix.

    Who is a rank, the name of a pod, the number of a thread, or None; the time is in s since a
    moment that all lines of a log share, nan where the prefix has none.
    """
    match = _FITS.fullmatch(prefix)
    if match is not None:
        return of_groups(*match.groups())
    line = strip(prefix.decode("utf-8", "replace"))
    return None if line.text else (line.rank, _NAN)


def of_groups(
    rank: bytes | None,
    pod: bytes | None,
    date: bytes | None,
    date_seconds: bytes | None,
    day: bytes | None,
    day_seconds: bytes | None,
    thread: bytes | None,
) -> tuple[object, float]:
    """Return who and when, by the groups of `PREFIX`."""
    who: object = None
    if rank:
        who = int(rank)
    elif pod:
        who = pod.decode("utf-8", "replace")
    elif thread:
        who = b"thread " + thread
    if day and day_seconds:
        return who, _minute(day) + float(day_seconds)
    if date and date_seconds:
        return who, _date(date) + float(date_seconds)
    return who, _NAN


@lru_cache(maxsize=4096)
def _minute(text: bytes) -> float:
    """Return absl's MMDD HH:MM: in s of a leap year; it has no year."""
    return _moment(text[:2], text[2:4], text[5:7], text[8:10])


@lru_cache(maxsize=4096)
def _date(text: bytes) -> float:
    return _moment(text[5:7], text[8:10], text[11:13], text[14:16])


def _moment(month: bytes, day: bytes, hour: bytes, minute: bytes) -> float:
    from datetime import UTC, datetime  # noqa: PLC0415 - once a minute of the log

    try:
        when = datetime(2000, int(month), int(day), int(hour), int(minute), tzinfo=UTC)
    except ValueError:
        return _NAN
    return when.timestamp()


def moments(minutes: Sequence[bytes], seconds: Sequence[bytes]) -> list[float]:
    """Return when lines were written, by absl's MMDD HH:MM: or a date to the minute, and s."""
    read = _minute if minutes[0][4:5] == b" " else _date
    known = {text: read(text) for text in set(minutes)}
    return [known[text] + value for text, value in zip(minutes, map(float, seconds), strict=True)]


def elapsed(before: float, after: float) -> float:
    """Return the time between two lines in s; a new year between them is seen by its size."""
    difference = after - before
    return difference + _YEAR if difference < -_YEAR / 2 else difference
