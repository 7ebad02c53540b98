"""M_<KEY> variables: what MaxText takes from the environment (configs/pyconfig.py:500-545).

A variable counts when MaxText has the key in base.yml, the YAML or the model file; its text is
read by the type of the value that stands there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from moectl.errors import shown
from moectl.facts.maxtext import Catalogue
from moectl.findings import Finding
from moectl.settings.sources.belongs import near_key
from moectl.settings.sources.source import finding
from moectl.values import Value
from moectl.workload import UNKNOWN, Text

PREFIX: Final = "M_"
_KINDS: Final[dict[type, str]] = {
    bool: "a boolean",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
}
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
        if not name.startswith(PREFIX):
            continue
        key = name[len(PREFIX) :].lower()
        known = catalogue.key(key)
        if known is None or known.parent or not name[len(PREFIX) :].isupper():
            findings += _ignored(name, key, text, catalogue)
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
            kind = "nothing" if below is None else f"{_KINDS[type(below)]}, {shown(below, 30)}"
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


def _ignored(name: str, key: str, text: Text, catalogue: Catalogue) -> Iterator[Finding]:
    """Find a variable that means a key and that MaxText never looks for."""
    known = catalogue.key(key)
    meant = key if known is not None and not known.parent else near_key(key)
    if meant is None or catalogue.key(meant) is None:
        return
    right = f"{PREFIX}{meant.upper()}"
    yield finding(
        "ARG110",
        "warning",
        name,
        f"MaxText does not read {shown(name, 60)}, and says nothing: it looks for {PREFIX} and a "
        "key in capital letters.",
        f"write {right}",
        text.origin,
    )


def judge_alone(
    values: Mapping[str, Value], environment: Mapping[str, Text], catalogue: Catalogue
) -> list[Finding]:
    """Find values that their keys cannot have, in a file of variables only.

    Args:
        values: what the variables say, see `read_variables`.
        environment: the variables.
        catalogue: keys of the MaxText release.
    """
    found = []
    for key, value in values.items():
        why = None if value.value is UNKNOWN else catalogue.check(key, value.value)
        known = catalogue.key(key)
        if why is not None and known is not None:
            name = f"{PREFIX}{key.upper()}"
            message = (
                f"{name} is {shown(environment[name].text, 40)}, which {key} cannot be: {why}."
            )
            hint = f"{key} is {known.legal_near(value.value)}"
            found.append(finding("ARG111", "error", name, message, hint, value.origin))
    return found


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
