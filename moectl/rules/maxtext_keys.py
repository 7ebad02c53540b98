"""Rules on the values of single MaxText keys: whether MaxText takes them, whether they count."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from moectl.errors import nearest, shown
from moectl.facts.maxtext import Catalogue
from moectl.facts.yaml_facts import read
from moectl.job import Origin
from moectl.resolve.effective import (
    BASE_CONFIG,
    MISSING,
    NO_MODEL,
    based_on,
    clashes,
    looked_up,
    lost,
    model_file,
    model_name,
    overrides_model,
)
from moectl.resolve.interpolation import InterpolationError, resolved
from moectl.rules import maxtext_names
from moectl.rules.maxtext_names import announced
from moectl.rules.maxtext_words import (
    RUN_FILE,
    all_said,
    catalogue,
    exists,
    typed,
)
from moectl.rules.rule import Fault, rules
from moectl.workload import UNKNOWN, Workload

RULES = rules()
RULES.all.extend(maxtext_names.RULES.all)
_PREFIX = "M_"
_OUTPUT = "base_output_directory"


@RULES.rule(
    "KEY102",
    "value that MaxText does not take",
    reason="pydantic refuses it when the job starts, on every rank.",
    remedy="use a value that the message calls legal",
    source="MaxText 0.2.5 configs/types.py (the key's field)",
    stage="config",
)
def wrong_value(w: Workload) -> Iterator[Fault]:
    """Find values of the wrong type, outside bounds, or not among the names of an enum."""
    keys = catalogue(w)
    if keys is None:
        return
    overruled = model_file(w.config, w.arguments, keys)
    if overruled is UNKNOWN:
        overruled = {}
    for name, value, argument in all_said(w):
        key = keys.key(name) if exists(keys, name, argument=argument) else None
        if key is None or (key.parent and "." not in name) or value.value is UNKNOWN:
            continue
        if not argument and (name in w.arguments or name in overruled):
            continue  # it does not count, so MaxText never looks at it
        if value.value == MISSING:
            if based_on(w.config) is not None and name in keys.base:
                continue  # OmegaConf's word for a value that somebody else gives
            sentence = f"{name} is ???, OmegaConf's word for a value that is still to come"
            yield Fault(name, sentence, value.origin, "write the value")
            continue
        if name == _OUTPUT and not value.value:
            continue  # MaxText writes beside the program then
        if name == "tokenizer_type" and _chosen_tokenizer(w):
            continue
        taken = _resolved(w, keys, value.value, argument=argument)
        if key.nested and not key.closed and isinstance(taken, Mapping):
            taken = {inner: v for inner, v in taken.items() if keys.key(f"{name}.{inner}")}
        clause = None if taken is UNKNOWN else keys.check(name, taken)
        if clause is None:
            continue
        hint = ""
        if isinstance(value.value, bool) and not {"bool", "any"} & set(key.type.split("|")):
            word = "a bare on, off, yes or no is a boolean in YAML"
            hint = f"{word}; put a word in quotes, or leave the key out"
        elif isinstance(value.value, str) and (feature := announced(f"{name} {value.value}")):
            clause += f"; {feature['feature']} is announced, and not in this release yet"
            hint = feature["instead"]
        raw = "that" if name in _secrets() else shown(value.value)
        sentence = f"{name} cannot be {raw}: MaxText {keys.release} takes {clause}"
        yield Fault(name, sentence, value.origin, hint)


def _secrets() -> Collection[str]:
    """Return the keys whose value is nobody's business."""
    names: Mapping[str, str] = read("launch.yaml")["secret_keys"]
    return names


def _resolved(w: Workload, keys: Catalogue, value: Any, *, argument: bool) -> Any:
    """Return a value with its interpolations resolved; UNKNOWN where that cannot be told."""
    look = looked_up({} if argument else w.config, w.arguments, keys, {})
    try:
        return resolved(value, look)
    except InterpolationError:
        return UNKNOWN


def _first(w: Workload) -> Origin:
    """Return where the first key of the file stands."""
    origins = [value.origin for value in w.config.values() if value.origin.line is not None]
    return min(origins, key=lambda o: (o.file, o.line or 0), default=w.origin)


def _chosen_tokenizer(w: Workload) -> bool:
    """Whether MaxText takes the model's tokenizer from Hugging Face, whatever its type says."""
    models = read("maxtext_code.yaml")["hugging_face"]
    if based_on(w.config) is None and w.said("tokenizer_path") is None:
        return False  # the key is not there, so MaxText does not look
    return w.effective.get("tokenizer_path") is None and w.effective.get("model_name") in models


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
        if row.differs:
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
    for key, said in w.arguments.items():
        if key in model and said.value is not UNKNOWN and model[key] == said.value:
            sentence = f"{key}={typed(said.value)} is what MaxText's file of {name} says already"
            yield Fault(key, sentence, said.origin)


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
            sentence = f"{variable} contradicts MaxText's file of the model, which sets {name}"
            hint = "add override_model_config=true, or unset the variable"
            yield Fault(variable, sentence, text.origin, hint)


@RULES.rule(
    "KEY107",
    "file without base_config",
    reason="MaxText then starts from the defaults of its source, not from base.yml: hundreds of "
    "values differ, and the run is not what its documentation says.",
    remedy="add base_config: base.yml",
    source="MaxText 0.2.5 configs/pyconfig.py:182",
    severity="note",
    stage="silent",
)
def without_base(w: Workload) -> Iterator[Fault]:
    """Find a MaxText file that builds on nothing."""
    keys = catalogue(w)
    if keys is None or w.kind == RUN_FILE or not w.config:
        return
    said = w.config.get(BASE_CONFIG)
    if said is None or said.value is None:
        sentence = "it names no base_config, so base.yml does not count: only defaults of the code"
        yield Fault(BASE_CONFIG, sentence, _first(w))


@RULES.rule(
    "KEY108",
    "computed value given as input",
    reason="MaxText takes the name, and computes the value anew whatever is said.",
    remedy="take it out; set what it is computed from",
    source="MaxText 0.2.5 configs/types.py:3450 (DerivedValues)",
    severity="warning",
    stage="silent",
)
def computed_value(w: Workload) -> Iterator[Fault]:
    """Find values that MaxText computes."""
    keys = catalogue(w)
    if keys is None:
        return
    for name, value, _ in all_said(w):
        key = keys.key(name)
        if key is not None and key.derived and not key.parent and value.value is not None:
            base = f"base_{name}"
            hint = f"set {base}" if keys.key(base) else ""
            sentence = f"{name} is computed by MaxText; {shown(value.value)} here is ignored"
            yield Fault(name, sentence, value.origin, hint)


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


@RULES.rule(
    "KEY111",
    "interpolation that leads nowhere",
    reason="${key} stands for another key of the file, and MaxText resolves it when it starts.",
    remedy="name a key of the file or of base.yml, or write the value itself",
    source="MaxText 0.2.5 configs/pyconfig.py:493, OmegaConf",
    stage="config",
)
def dangling_interpolation(w: Workload) -> Iterator[Fault]:
    """Find ${key} where nobody says the key."""
    keys = catalogue(w)
    if keys is None:
        return
    for name, value, argument in all_said(w):
        if (not argument and name in w.arguments) or value.value is UNKNOWN:
            continue
        # The command line is resolved by itself first, then with the file.
        look = looked_up({} if argument else w.config, w.arguments, keys, {})
        try:
            resolved(value.value, look)
        except InterpolationError as error:
            yield Fault(name, f"{name} {error}", value.origin)


@RULES.rule(
    "KEY112",
    "nested key that MaxText drops",
    reason="Under this key MaxText takes the names it knows and drops the rest without a word.",
    remedy="use one of the names that the message gives",
    source="MaxText 0.2.5 configs/types.py:2131",
    stage="silent",
)
def dropped_key(w: Workload) -> Iterator[Fault]:
    """Find names under a key that takes any and knows few."""
    keys = catalogue(w)
    if keys is None:
        return
    for name, value, argument in all_said(w):
        parent, dot, inner = name.partition(".")
        key = keys.key(parent)
        if key is None or not key.nested or key.closed or (dot and not argument):
            continue
        inside = [inner] if dot else value.value if isinstance(value.value, Mapping) else []
        for word in inside:
            if keys.key(f"{parent}.{word}") is None:
                sentence = f"{parent} has no key {shown(word)}, only {', '.join(key.nested)}"
                yield Fault(name, sentence, value.origin)
