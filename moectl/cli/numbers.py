"""Reads numbers of options: what is legal is said by one sentence everywhere."""

from __future__ import annotations

from moectl.errors import ValueUsageError

_DIGITS = 9


def whole(flag: str, text: str, legal: str, *, least: int = 1, most: int | None = None) -> int:
    """Return a whole number of an option.

    Args:
        flag: the option, e.g. "--gpus".
        text: its value as typed: ASCII digits.
        legal: what is legal, as a phrase.
        least: the smallest legal number.
        most: the largest one.

    Raises:
        ValueUsageError: it is none.
    """
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        number = int(text)
        if least <= number and (most is None or number <= most):
            return number
    raise ValueUsageError(flag, text, legal)


def wholes(flag: str, text: str, legal: str, *, least: int = 1) -> list[int]:
    """Return the whole numbers of an option, which have commas between them.

    Raises:
        ValueUsageError: one is none.
    """
    parts = [part.strip() for part in text.split(",")]
    try:
        return [whole(flag, part, legal, least=least) for part in parts]
    except ValueUsageError:
        raise ValueUsageError(flag, text, legal) from None
