"""What MaxText's own checks would say of a configuration: refused, and why, or accepted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from moectl.errors import SourceError, shown
from moectl.facts import maxtext
from moectl.findings import Finding
from moectl.resolve.derived import derived
from moectl.resolve.effective import BASE_CONFIG, effective
from moectl.resolve.own_configs import on_own
from moectl.rules.maxtext_trainer import PRE_TRAINING
from moectl.rules.rule import Rule, Rules
from moectl.settings.yaml_source import read_mapping, read_scalar
from moectl.values import Origin, Value
from moectl.workload import Text, Workload

MODULES = ("maxtext_keys", "requirements")
REFUSES = frozenset({"reads", "config"})
FLAGS = "XLA_FLAGS"
# How OmegaConf 2.4.0 splits a key of the command line (omegaconf/_utils.py split_key).
_HEAD = re.compile(r"\.*[^.\[]*")
_OTHER = re.compile(r"\.([^.\[]*)|\[(.*?)\]")
_FILE = "config.yml"


def all_rules() -> list[Rule]:
    """Return every rule about MaxText's keys."""
    found: list[Rule] = []
    for name in MODULES:
        module: Any = import_module(f"moectl.rules.{name}")
        declared: Rules = module.RULES
        found += declared.all
    return found


def workload(
    text: str,
    words: Sequence[str] = (),
    devices: int | None = None,
    slices: int | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    release: str = "0.2.5",
) -> Workload:
    """Return the workload of a MaxText file and command line.

    Raises:
        SourceError: MaxText cannot read them.
    """
    document = read_mapping(text, _FILE)
    config = {}
    for key, value in document.data.items():
        place = document.place(key)
        origin = Origin(
            _FILE, _FILE, place.line if place else None, place.column if place else None
        )
        config[key] = Value(value, origin)
    catalogue = maxtext.load(release)
    based = on_own(config, catalogue)
    if based is None:
        where = config[BASE_CONFIG].origin
        sentence = f"base_config is {shown(config[BASE_CONFIG].value)}, no file of MaxText's"
        raise SourceError(_FILE, where.line, sentence)
    said = arguments(words)
    here = Origin("environment")
    variables = {name: Text.of(value, here) for name, value in (environment or {}).items()}
    values = effective(based, said, catalogue)
    return Workload(
        kind=PRE_TRAINING,
        origin=Origin(_FILE, _FILE, 1, 1),
        maxtext=release,
        jaxlib="",
        is_maxtext=True,
        config=based,
        arguments=said,
        effective=values,
        derived=derived(values, devices, slices),
        environment=variables,
        flags=variables.get(FLAGS),
        devices=devices,
        slices=slices,
    )


def arguments(words: Sequence[str]) -> dict[str, Value]:
    """Read key=value words as MaxText's command line does; the last of a name counts.

    Raises:
        SourceError: a value is no YAML.
    """
    found: dict[str, Value] = {}
    for word in words:
        key, equals, raw = word.partition("=")
        value = read_scalar(raw, word) if equals and raw else None
        found[_path(key)] = Value(value, Origin(f"argument {word}"))
    return found


def _path(key: str) -> str:
    """Return a key as OmegaConf splits it: a bracket is a dot, and what does not close is left."""
    head = _HEAD.match(key)
    stop = head.end() if head else 0
    rest = [dotted or bracket for dotted, bracket in _OTHER.findall(key[stop:])]
    return ".".join([key[:stop], *rest])


def refused(
    text: str,
    arguments: Sequence[str] = (),
    devices: int | None = None,
    slices: int | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Return why MaxText 0.2.5 would refuse a configuration; empty if it would accept it.

    Args:
        text: the YAML as it stands in the file.
        arguments: key=value words of the command line.
        devices: devices of the job.
        slices: slices that the hardware makes of them; None: as the DCN degrees want it.
        environment: variables of the job.
    """
    try:
        found = workload(text, arguments, devices, slices, environment=environment)
    except SourceError as error:
        origin = Origin(_FILE, error.path, error.line)
        return [Finding("FILE102", "error", "", error.sentence, file=_FILE, line=origin.line)]
    return [
        finding
        for rule in all_rules()
        if rule.stage in REFUSES
        for finding in rule.findings(found)
        if finding.severity == "error"
    ]
