"""Rules on the names in a MaxText file: what exists, what stands for it, what nests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from moectl.errors import nearest, shown
from moectl.facts import maxtext
from moectl.facts.maxtext import Catalogue
from moectl.facts.own_configs import is_own
from moectl.facts.own_configs import release as own_release
from moectl.facts.yaml_facts import read
from moectl.resolve.effective import based_on
from moectl.rules.maxtext_trainer import Trainer, elsewhere, trainer
from moectl.rules.maxtext_words import (
    all_said,
    catalogue,
    exists,
)
from moectl.rules.rule import Fault, rules
from moectl.values import Image, Value
from moectl.workload import UNKNOWN, Workload

RULES = rules()
# Names of one file that get a suggestion: with more of them the file is no MaxText file.
_SUGGESTED = 50


@RULES.rule(
    "KEY101",
    "unknown MaxText key",
    reason="MaxText stops at the first name it does not know and prints all it knows; a launcher "
    "with retries does so again and again.",
    remedy="use a key of the release, or leave it out",
    source="MaxText 0.2.5 configs/pyconfig.py:245",
    stage="config",
)
def unknown_key(w: Workload) -> Iterator[Fault]:
    """Find names that the release does not have, all at once."""
    keys = catalogue(w)
    if keys is None:
        return
    whose, left = trainer(w), _SUGGESTED
    for name, value, argument in all_said(w):
        if exists(keys, name, argument=argument):
            continue
        if is_own(value.origin) and own_release() != keys.release:
            continue  # the config of the release that is judged may lack it as well
        if whose is not None:
            yield from _unknown_of(whose, name, value, keys, argument=argument)
            continue
        if based_on(w.config) is UNKNOWN and not argument and elsewhere(name) is not None:
            continue  # the base that nobody could read may be of that program
        left -= 1
        fault = _unknown(name, value, keys, suggest=left >= 0)
        if w.image is not None and _unsure(name, w.image, argument=argument):
            message = (
                f"{fault.message}; the image of {w.image.date} lies between releases, and one of "
                "them has it"
            )
            fault = replace(fault, message=message, severity="note", fix=None)
        yield fault


def _unknown_of(
    whose: Trainer, name: str, value: Value, keys: Catalogue, *, argument: bool
) -> Iterator[Fault]:
    """Yield the fault of a name in the config of another program than pre-training."""
    if whose.has(name, argument=argument):
        return
    if whose.open or whose.release != keys.release:
        sentence = (
            f"{shown(name)} is no key of pre-training; those of {whose.program} are not "
            f"catalogued for MaxText {keys.release}"
        )
        hint = f"see whether {whose.program} knows it"
        yield Fault(name, sentence, value.origin, hint, severity="note")
        return
    near = nearest(name.rpartition(".")[2], [*whose.names, *keys.keys()])
    hint = f"did you mean {' or '.join(near)}?" if near else "take it out"
    sentence = (
        f"{shown(name)} is no key of {whose.program} ({whose.name} of MaxText {keys.release})"
    )
    yield Fault(name, sentence, value.origin, hint)


def _unsure(name: str, image: Image, *, argument: bool) -> bool:
    """Whether the releases around an image's date differ over a name."""
    from moectl.facts.versions import key_verdict  # noqa: PLC0415 - a fault pays for it

    return key_verdict(name, image, argument=argument) == "unsure"


def _unknown(name: str, value: Value, keys: Catalogue, *, suggest: bool) -> Fault:
    names = read("maxtext_names.yaml")
    subject = f"{shown(name)} is no key of MaxText {keys.release}"
    if (new := names["renamed"].get(name)) and keys.key(new):
        sentence = f"{subject}; it became {new}"
        return Fault(name, sentence, value.origin, f"write {new}", fix=(name, new))
    if (new := names["elsewhere"].get(name)) and keys.key(new):
        return Fault(name, f"{subject}, but another tool's name", value.origin, f"write {new}")
    if sentence := names["instead"].get(name):
        return Fault(name, f"{subject}: {sentence}", value.origin, "take it out of this file")
    if feature := announced(name):
        sentence = f"{subject}: {feature['feature']} is announced, and not in this release yet"
        return Fault(name, sentence, value.origin, feature["instead"])
    if "." in name and keys.key(name) is not None:
        parent = name.partition(".")[0]
        hint = f"nest it under {parent}: in YAML a dot does not nest"
        return Fault(name, subject, value.origin, hint)
    if others := [r for r in maxtext.releases() if maxtext.load(r).key(name) is not None]:
        sentence = f"{subject}; MaxText {', '.join(others)} has it"
        return Fault(name, sentence, value.origin, "take it out, or judge with --maxtext")
    if isinstance(value.value, Mapping) and any(keys.key(str(k)) for k in value.value):
        sentence = f"{subject}, and it nests keys, but MaxText's file is flat"
        return Fault(name, sentence, value.origin, "move what stands under it to the top level")
    if (whose := elsewhere(name)) is not None:
        sentence = f"{subject}'s pre-training; {whose.program} has it"
        return Fault(name, sentence, value.origin, f"start {whose.program}, or take it out")
    near = keys.unknown(name) if suggest else []
    hint = f"did you mean {' or '.join(near)}?" if near else "take it out"
    return Fault(name, subject, value.origin, hint)


def announced(name: str) -> Mapping[str, Any] | None:
    """Return the announced feature that a name or value speaks of, or None."""
    words = set(re.split(r"[^a-z0-9]+", name.lower().replace("all_to_all", "alltoall")))
    for feature in read("maxtext_names.yaml")["announced"]:
        if all(words & set(some) for some in feature["words"]):
            found: Mapping[str, Any] = feature
            return found
    return None


@RULES.rule(
    "KEY103",
    "nested key at the top level",
    reason="MaxText's own name check knows nested names, and pydantic refuses them at the top.",
    remedy="nest it under its parent",
    source="MaxText 0.2.5 configs/pyconfig.py:226, configs/types.py:3777 (extra=forbid)",
    stage="config",
)
def nested_key(w: Workload) -> Iterator[Fault]:
    """Find e.g. `lora_rank: 4`, which is `lora: {lora_rank: 4}`."""
    keys = catalogue(w)
    if keys is None:
        return
    for name, value, argument in all_said(w):
        key = keys.key(name)
        if key is not None and key.parent and "." not in name:
            typed = f"{key.path}={value.value}" if argument else f"{key.parent}: {{{name}: …}}"
            sentence = f"{name} stands under {key.parent} in MaxText {keys.release}"
            yield Fault(name, sentence, value.origin, f"write {typed}")


@RULES.rule(
    "KEY110",
    "heartbeat timeout shorter than a compilation",
    reason="The heartbeat shares a channel that blocks while a rank compiles or writes its first "
    "checkpoint; ranks that are alive are then declared dead and the job ends.",
    remedy="600 seconds or more",
    source="amd-agi/maxtext-slurm docs/jax-heartbeat-false-positive-postmortem.md",
    severity="warning",
    stage="later",
)
def small_heartbeat(w: Workload) -> Iterator[Fault]:
    """Find a heartbeat timeout of some fork that is too short."""
    if not w.is_maxtext:
        return
    row = read("maxtext_names.yaml")["heartbeat"]
    said = w.said(row["key"])
    if said is None or isinstance(said.value, bool) or not isinstance(said.value, int | float):
        return
    if said.value < row["seconds"]:
        sentence = f"a heartbeat timeout of {said.value} s is shorter than a first compilation"
        yield Fault(row["key"], sentence, said.origin)
