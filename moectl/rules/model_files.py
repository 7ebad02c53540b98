"""Rules on MaxText's model files, which no run is started with and every run of a model merges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moectl.errors import MoectlError, shown
from moectl.facts import maxtext
from moectl.facts.maxtext_key import Key, split_type
from moectl.rules.rule import Fault, rules
from moectl.settings.sources.kinds import MODEL_FILE
from moectl.settings.sources.written import Written
from moectl.values import Value
from moectl.workload import UNKNOWN, Workload

RULES = rules()
_LOADER: Final = "MaxText 0.2.5 configs/pyconfig.py:478-520"
_SUGGESTED: Final = 50  # nearest names are looked for so often, which takes its time


def word_read_as_boolean(key: Key, value: Value) -> bool:
    """Whether a bare word became a boolean where the key takes a word, not a boolean."""
    kinds = set(split_type(key.type))
    return (
        isinstance(value, Written)
        and not value.style
        and isinstance(value.value, bool)
        and not kinds & {"bool", "any"}
        and bool(kinds & {"str", "enum", "list[str]"})
    )


@RULES.rule(
    "YAML131",
    "model file that MaxText refuses",
    reason="MaxText merges the file of a model into the config of every run of it, and judges its "
    "keys and values like those of the config.",
    remedy="use a key and a value of the release",
    source=_LOADER,
    stage="config",
)
def model_file(w: Workload) -> Iterator[Fault]:
    """Find keys that no release has, and values that a key cannot have, in a model file."""
    if w.kind != MODEL_FILE:
        return
    try:
        catalogue = maxtext.load(w.maxtext)
    except MoectlError:
        return
    named = 0
    for name, value in w.config.items():
        key = catalogue.key(name)
        if key is None:
            near = catalogue.unknown(name) if named < _SUGGESTED else []
            named += 1
            yield Fault(
                name,
                f"{shown(name, 60)} is no key of MaxText {catalogue.release}.",
                value.origin,
                f"did you mean {' or '.join(near)}?" if near else "delete it",
            )
        elif value.value is not UNKNOWN and not word_read_as_boolean(key, value):
            why = catalogue.check(name, value.value)
            if why is not None:
                yield Fault(
                    name,
                    f"{name} is {shown(value.value, 40)}: {why}.",
                    value.spot or value.origin if isinstance(value, Written) else value.origin,
                    f"{name} is {key.legal_near(value.value)}",
                )
