"""Rules on values that meet the model's own file: lost to it, against it, or repeating it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moectl.errors import nearest, shown
from moectl.facts.maxtext import Catalogue
from moectl.facts.own_configs import is_own
from moectl.findings import Severity
from moectl.resolve.effective import (
    NO_MODEL,
    clashes,
    lost,
    model_file,
    model_name,
    overrides_model,
)
from moectl.rules.maxtext_words import catalogue, typed
from moectl.rules.rule import Fault, rules
from moectl.workload import UNKNOWN, Workload

RULES = rules()
_PREFIX = "M_"
# From when on an argument may repeat the model file (AI-Hypercomputer/maxtext PR 3933).
_SAME_VALUE = "2026-05-18"


@RULES.rule(
    "KEY104",
    "YAML value lost to the model file",
    reason="MaxText lays the model's own file over the YAML without a word, "
    "override_model_config or not, so the run is another one than the file says.",
    remedy="say it on the command line with override_model_config=true",
    source="MaxText 0.2.5 configs/pyconfig.py:491",
    stage="silent",
)
def lost_value(w: Workload) -> Iterator[Fault]:
    """Find keys of the YAML that the model file sets to something else."""
    keys = catalogue(w)
    if keys is None:
        return
    name = model_name(w.config, w.arguments)
    for row in lost(w.config, w.arguments, keys):
        if row.differs and not is_own(row.said.origin):
            sentence = (
                f"{row.key} is {shown(row.said.value)} here, but MaxText's file of {name} says "
                f"{shown(row.model)}, and that counts"
            )
            hint = (
                f"on the command line: {row.key}={typed(row.said.value)} "
                "override_model_config=true; or take it out"
            )
            yield Fault(row.key, sentence, row.said.origin, hint)


@RULES.rule(
    "KEY105",
    "command line against the model file",
    reason="MaxText refuses an argument that contradicts the model's own file.",
    remedy="add override_model_config=true, or take the argument out",
    source="MaxText 0.2.5 configs/pyconfig.py:129",
    stage="config",
)
def argument_against_model(w: Workload) -> Iterator[Fault]:
    """Find arguments that the model file sets to something else, without the override."""
    keys = catalogue(w)
    if keys is None:
        return
    name = model_name(w.config, w.arguments)
    for row in clashes(w.config, w.arguments, keys):
        if _by_variable(w, row.key):
            continue  # KEY106 says it
        sentence = (
            f"{row.key}={typed(row.said.value)} contradicts MaxText's file of {name}, which says "
            f"{shown(row.model)}"
        )
        yield Fault(row.key, sentence, row.said.origin)


@RULES.rule(
    "KEY113",
    "argument that repeats the model file",
    reason="MaxText lets an argument of the same value pass; releases before PR 3933 refused it, "
    "and a launcher with retries spent them all on it.",
    remedy="nothing to do for this release; leave it out for older ones",
    source="MaxText 0.2.5 configs/pyconfig.py:129; AI-Hypercomputer/maxtext PR 3933",
    severity="note",
    stage="advice",
)
def argument_repeats_model(w: Workload) -> Iterator[Fault]:
    """Find arguments that say what the model file says."""
    keys = catalogue(w)
    if keys is None or overrides_model(w.config, w.arguments) is not False:
        return
    model = model_file(w.config, w.arguments, keys)
    if model is UNKNOWN:
        return
    name = model_name(w.config, w.arguments)
    date = w.image.date if w.image is not None else None
    old = date is not None and date < _SAME_VALUE
    for key, said in w.arguments.items():
        if said.value is UNKNOWN or _by_variable(w, key):
            continue
        repeated = f"{key}={typed(said.value)}"
        if key in model and model[key] == said.value:
            sentence = f"{repeated} is what MaxText's file models/{name}.yml says already"
            if old:
                sentence += f"; the image of {date} is older than PR 3933, so it may stop there"
            severity: Severity = "warning" if old else "note"
            hint = "leave it out" if old else ""
            yield Fault(key, sentence, said.origin, hint, severity)
        elif key not in model and (others := _relatives(str(name), key, said.value, keys)):
            sentence = (
                f"{repeated} is what the files of {len(others)} models of the family say, "
                f"{others[0]} among them; models/{name}.yml of MaxText {keys.release} does not "
                f"set {key}, so the argument counts"
            )
            hint = "leave it out for an image before May 2026 whose model file sets it"
            yield Fault(key, sentence, said.origin, hint)


def _by_variable(w: Workload, key: str) -> bool:
    """Whether an M_ variable says what stands among the arguments."""
    variable = w.environment.get(_PREFIX + key.upper())
    said = w.arguments.get(key)
    return variable is not None and said is not None and said.origin == variable.origin


def _relatives(name: str, key: str, value: Any, keys: Catalogue) -> list[str]:
    """Return the models of a family whose files set a key to a value."""
    family = name.partition("-")[0]
    return [
        model
        for model in keys.models()
        if model.partition("-")[0] == family and (keys.model(model) or {}).get(key) == value
    ]


@RULES.rule(
    "KEY106",
    "M_ variable that MaxText refuses",
    reason="Every variable M_<KEY> overrides a key behind the file's back; beside the command "
    "line or the model file MaxText refuses it.",
    remedy="unset the variable",
    source="MaxText 0.2.5 configs/pyconfig.py:500-545",
    stage="config",
)
def variable_against_argument(w: Workload) -> Iterator[Fault]:
    """Find M_ variables that clash with an argument or the model file."""
    keys = catalogue(w)
    if keys is None:
        return
    for variable, text in w.environment.items():
        name = variable.removeprefix(_PREFIX).lower()
        if not variable.startswith(_PREFIX) or variable != _PREFIX + name.upper():
            continue
        if keys.key(name) is None:
            continue
        argument = w.arguments.get(name)
        model = keys.model(str(model_name(w.config, w.arguments))) or {}
        if argument is not None and argument.origin != text.origin:
            sentence = f"{variable} and the argument {name} both say it, and MaxText takes one"
            yield Fault(variable, sentence, text.origin)
        elif name in model and overrides_model(w.config, w.arguments) is False:
            same = argument is not None and argument.value == model[name]
            verb = "repeats" if same else "contradicts"
            sentence = (
                f"{variable} {verb} MaxText's file of the model, which sets {name} to "
                f"{shown(model[name])}; MaxText takes no variable for such a key, whatever it says"
            )
            hint = "add override_model_config=true, or unset the variable"
            yield Fault(variable, sentence, text.origin, hint)


@RULES.rule(
    "KEY109",
    "model without a file",
    reason="MaxText only warns and trains the default architecture under that name.",
    remedy="use a model that the release has a file for",
    source="MaxText 0.2.5 configs/pyconfig.py:493",
    stage="silent",
)
def model_without_file(w: Workload) -> Iterator[Fault]:
    """Find a legal model name for which the release ships no file."""
    keys = catalogue(w)
    if keys is None:
        return
    name = model_name(w.config, w.arguments)
    if not isinstance(name, str) or name == NO_MODEL or keys.check("model_name", name):
        return
    if keys.model(name) is None:
        near = nearest(name, keys.models())
        hint = f"did you mean {' or '.join(near)}?" if near else ""
        sentence = f"MaxText {keys.release} knows the name {name}, but has no file for it"
        yield Fault("model_name", sentence, w.where("model_name"), hint)
