"""M_<KEY> variables: what MaxText takes from the environment (configs/pyconfig.py:500-545).

A variable counts when MaxText has the key in base.yml, the YAML or the model file; its text is
read by the type of the value that stands there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moectl.errors import shown
from moectl.facts.maxtext import Catalogue
from moectl.findings import Finding
from moectl.job import Value
from moectl.settings.sources.source import finding
from moectl.workload import UNKNOWN, Text

PREFIX: Final = "M_"
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "1", "y", "t"), True),
    **dict.fromkeys(("false", "no", "0", "n", "f"), False),
}


def read_variables(
    environment: Mapping[str, Text],
    config: Mapping[str, Value],
    arguments: Mapping[str, Value],
    catalogue: Catalogue,
) -> tuple[dict[str, Value], list[Finding]]:
    """Return what M_* variables say, and the ones that MaxText refuses or ignores.

    Args:
        environment: variables of the process.
        config: what its YAML says.
        arguments: what its command line says.
        catalogue: keys of the MaxText release.
    """
    values: dict[str, Value] = {}
    findings: list[Finding] = []
    for name, text in environment.items():
        key = name[len(PREFIX) :].lower()
        if not name.startswith(PREFIX) or not name[len(PREFIX) :].isupper():
            continue
        known = catalogue.key(key)
        if known is None or known.parent:
            continue
        origin = text.origin
        if key in arguments:
            continue  # MaxText refuses that, which is a rule of its own
        below = _below(key, config, catalogue)
        if not text.known or below is UNKNOWN:
            values[key] = Value(UNKNOWN, origin)
            continue
        value = _parsed(text.text, below)
        if value is UNKNOWN:
            kind = (
                "nothing" if below is None else f"a {type(below).__name__}, as {shown(below, 30)}"
            )
            findings.append(
                finding(
                    "ARG109",
                    "error",
                    name,
                    f"{name} is {shown(text.text, 40)}, which cannot be read: MaxText reads it by "
                    f"the value it replaces, which is {kind}.",
                    f"give {key}=... on the command line",
                    origin,
                )
            )
            continue
        values[key] = Value(value, origin)
    return values, findings


def _below(key: str, config: Mapping[str, Value], catalogue: Catalogue) -> Any:
    """Return the value that a variable replaces; UNKNOWN where that cannot be told."""
    if key in config:
        return config[key].value
    if key not in catalogue.base:
        return UNKNOWN  # only a model file could have it
    return catalogue.base[key]


def _parsed(text: str, below: Any) -> Any:
    """Read a variable by the type of what it replaces; UNKNOWN when MaxText cannot."""
    try:
        if isinstance(below, bool):
            return _BOOLEANS[text.lower()]
        if isinstance(below, int):
            return int(text)
        if isinstance(below, float):
            return float(text)
    except (ValueError, KeyError):
        return UNKNOWN
    return text if isinstance(below, str) else UNKNOWN
