"""Writes values so that MaxText's YAML reader gives back exactly the same values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def flow(value: Any, *, omegaconf: bool = True) -> str:
    """Return `value` on one line: text is always quoted, so nothing is taken for a number.

    Args:
        value: None, bool, int, float, str, or lists and mappings of those.
        omegaconf: whether OmegaConf reads it, which expands `${...}` in text unless a backslash
            stands before it; moectl's own files have no such thing.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, str):
        return quoted(value, omegaconf=omegaconf)
    if isinstance(value, Mapping):
        inner = ", ".join(
            f"{quoted(str(k), omegaconf=omegaconf)}: {flow(v, omegaconf=omegaconf)}"
            for k, v in value.items()
        )
        return f"{{{inner}}}"
    return "[" + ", ".join(flow(item, omegaconf=omegaconf) for item in value) + "]"


def quoted(text: str, *, omegaconf: bool = True) -> str:
    """Return `text` as a double-quoted YAML scalar on one line."""
    if omegaconf and "${" in text:
        import re  # noqa: PLC0415 - rare

        # Backslashes before an interpolation are escapes of their own, so they are doubled.
        text = re.sub(r"(\\*)\$\{", lambda found: found[1] * 2 + "\\${", text)
    plain = json.dumps(text, ensure_ascii=False)
    return "".join(map(_escaped, plain)) if any(map(_unprintable, plain)) else plain


def _unprintable(char: str) -> bool:
    """Whether JSON leaves `char` bare although YAML takes it for a break or forbids it."""
    return (
        "\x7f" <= char <= "\x9f"
        or "\ud800" <= char <= "\udfff"
        or char in "\u2028\u2029\ufeff"
        or char in "\ufffe\uffff"
    )


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if _unprintable(char) else char


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    if "e" in text and "." not in text:
        # 1e-05 is text to plain YAML readers; 1.0e-05 is a number to all of them.
        text = text.replace("e", ".0e")
    return text
