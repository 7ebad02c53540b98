"""Whole-number arithmetic of `$((...))` over what is known."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(r"\s*(?:([0-9]{1,18})|\$?\{?([A-Za-z_][A-Za-z0-9_]*)\}?|([-+*/%()]))")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_LIMIT = 2**63
_LONGEST = 200


def evaluated(text: str, value: Callable[[str], str | None]) -> int | None:
    """Return the value of an expression of numbers, names, + - * / % and brackets.

    Args:
        text: what stands between the double brackets.
        value: gives the text of a variable, or None when it is not known.

    Returns:
        The number as the shell computes it (64 bits, division towards zero); None for
        anything that is not certain.
    """
    tokens: list[str | int] = []
    at, text = 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found or len(tokens) >= _LONGEST:
            return None
        number, name, sign = found.groups()
        if name:
            number = value(name)
            if number is None or not _NUMBER.fullmatch(number):
                return None
        elif number and len(number) > 1 and number[0] == "0":
            return None  # octal to a shell
        tokens.append(sign or int(number))
        at = found.end()
    try:
        result, rest = _sum(tokens, 0, 0)
    except (ValueError, IndexError, ZeroDivisionError):
        return None
    return result if rest == len(tokens) and -_LIMIT <= result < _LIMIT else None


def _sum(tokens: list[str | int], at: int, depth: int) -> tuple[int, int]:
    result, at = _product(tokens, at, depth)
    while at < len(tokens) and tokens[at] in {"+", "-"}:
        term, after = _product(tokens, at + 1, depth)
        result = result + term if tokens[at] == "+" else result - term
        at = after
    return result, at


def _product(tokens: list[str | int], at: int, depth: int) -> tuple[int, int]:
    result, at = _factor(tokens, at, depth)
    while at < len(tokens) and tokens[at] in {"*", "/", "%"}:
        factor, after = _factor(tokens, at + 1, depth)
        if tokens[at] == "*":
            result *= factor
        else:
            quotient = abs(result) // abs(factor)
            quotient = -quotient if (result < 0) != (factor < 0) else quotient
            result = quotient if tokens[at] == "/" else result - quotient * factor
        if not -_LIMIT <= result < _LIMIT:
            raise ValueError
        at = after
    return result, at


def _factor(tokens: list[str | int], at: int, depth: int) -> tuple[int, int]:
    token = tokens[at]
    if isinstance(token, int):
        return token, at + 1
    if depth > 20:
        raise ValueError
    if token in {"-", "+"}:
        result, after = _factor(tokens, at + 1, depth + 1)
        return (-result if token == "-" else result), after  # noqa: S105 - a sign
    if token != "(":  # noqa: S105 - a bracket
        raise ValueError
    result, after = _sum(tokens, at + 1, depth + 1)
    if tokens[after] != ")":
        raise ValueError
    return result, after + 1
