"""Tells whose a YAML file is: by what its keys are, never by its name alone.

A folder holds files of many programs. One is judged only when most of its keys belong to one
of the kinds that are read, and at least one of them to no other program.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from moectl.errors import UnknownNameError
from moectl.facts.maxtext import Catalogue, load, releases
from moectl.facts.yaml_facts import read as read_fact
from moectl.settings.sources.kinds import CONFIG, MODEL_FILE, PROFILE, RUN_FILE, UNKNOWN_KIND
from moectl.spec.table import table

BASE_KEY: Final = "base_config"
FACTS: Final = "maxtext_configs.yaml"
_FORMATS: Final = "formats.yaml"
_LINES: Final = 2_000
_WIDTH: Final = 400
_KEY: Final = r"(\"?)([A-Za-z_][\w.-]*)\1[ \t]*:(?:[ \t\r]|$)"
_PAIR: Final = (
    r"(?:^|[\s{,\[-])\"?([A-Za-z_][\w]*)\"?[ \t]*:(?=[\s]|$|[\"\[{])"
    r"[ \t]*[\"']?([\w./-]*)"
)
_WORD: Final = r"\"(?:[^\"\\]|\\.)*\"(?:\s{0,9}:)?|[{}\[\]]|[^\s{}\[\],\":]+(?:\s{0,9}:)?"
# Fields of a run file that other programs' files have as well.
_COMMON: Final = frozenset(
    {"name", "title", "debug", "form", "launcher", "accept", "output_directory", "environment"}
    | {"model", "data", "optimizer", "training", "container", "profile", "evaluation", "batch"}
    | {"cluster", "secrets", "attention", "hardware", "compilation_cache"}
)
# Fields of a cluster profile that other programs' files have as well.
_COMMON_SITE: Final = frozenset(
    {"name", "time", "environment", "image", "launcher", "memory", "python", "account"}
    | {"mounts", "runtime"}
)
_ANCHOR: Final = r"&(\S{1,80})[ \t]*"
_ALIAS: Final = r"\*(\S{1,80})"
_MODELS: Final = "models"
_PLATFORM: Final = "hardware"
_FEW: Final = 20
_MOST_OTHERS: Final = 1  # keys of a run that a model file of another release may say
_SLIP_LENGTH: Final = 5  # shorter names are near to anything


@dataclass(slots=True)
class _Weight:
    """What speaks for a kind: keys of it in all, and those that no other program has."""

    own: int = 0
    telling: int = 0

    def majority(self, count: int) -> bool:
        return self.telling > 0 and self.own * 2 >= count


@dataclass(frozen=True, slots=True)
class _Entry:
    """A top-level key: its value when that is a word in its line, and what stands below."""

    key: str
    value: str
    inner: tuple[tuple[str, str], ...]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.inner]


def belongs(text: str, path: str = "") -> str:
    """Return the kind of a YAML file, "unknown" when nothing shows that it is one of ours.

    Args:
        text: its content without comments; it may be broken.
        path: its name; a config may lie among MaxText's models.
    """
    entries = list(_entries(text))
    if any(entry.key == BASE_KEY for entry in entries):
        among = posixpath.basename(posixpath.dirname(path)) == _MODELS and _is_model(entries)
        return MODEL_FILE if among or _stands_on_model(entries) else CONFIG
    if not entries:
        return CONFIG if _is_list_of_configs(text) else UNKNOWN_KIND
    count = len(entries)
    config, exact = _config_weight(entries)
    run, profile = _run_weight(entries), _profile_weight(entries)
    found = []
    if config.majority(count) or (exact == count and (count > 1 or _tells(entries[0]))):
        found.append((config.own, MODEL_FILE if _is_model(entries) else CONFIG))
    if run.majority(count):
        found.append((run.own, RUN_FILE))
    if profile.majority(count) and profile.own > 1:
        found.append((profile.own, PROFILE))
    # The first of equals: a key that MaxText and a run file have is MaxText's by its value.
    return max(found, key=lambda pair: pair[0])[1] if found else UNKNOWN_KIND


def other_format(text: str) -> str:
    """Return which known format of another program a YAML file has, e.g. "a compose file".

    Args:
        text: its content without comments; it may be broken.

    Returns:
        Empty when it is none that is known.
    """
    below = {entry.key: set(entry.names) for entry in _entries(text)}
    inside = set().union(*below.values())
    for row in read_fact(_FORMATS)["formats"]:
        if below.keys() >= set(row["keys"]) and inside & set(row["inside"]):
            return str(row["name"])
    return ""


def _tells(entry: _Entry) -> bool:
    """Whether a key that stands alone, with a word behind it, is no everyday word."""
    everyday = read_fact(FACTS)["everyday_names"]
    return entry.key not in everyday and entry.value[:1] not in {"", "|", ">", "[", "&", "*"}


def _config_weight(entries: Iterable[_Entry]) -> tuple[_Weight, int]:
    """Weigh what speaks for MaxText; and count the keys that are exactly its own."""
    catalogue = load(releases()[-1])
    shared = frozenset(read_fact(FACTS)["shared_names"])
    weight, exact = _Weight(), 0
    for entry in entries:
        if _fits(entry, catalogue):
            weight.own += 1
            exact += 1
            weight.telling += entry.key not in shared or _is_platform_of_maxtext(entry, catalogue)
        elif entry.inner:
            known = [name for name in entry.names if catalogue.key(name) is not None]
            if known and len(known) * 2 >= len(entry.inner):
                weight.own += 1
                weight.telling += any(name not in shared for name in known)
        elif catalogue.key(entry.key) is None and (near := near_key(entry.key)):
            weight.own += 1
            # Other programs write such names with dashes, MaxText nobody's.
            weight.telling += near not in shared and "-" not in entry.key
    return weight, exact


def _fits(entry: _Entry, catalogue: Catalogue) -> bool:
    """Whether a key is MaxText's, and stands for what MaxText means by it."""
    key = catalogue.key(entry.key)
    if key is None or key.parent:
        return False
    takes_mapping = bool(key.nested) or "dict" in key.type or key.type == "any"
    if entry.inner and not takes_mapping:
        return False
    ours = table()
    if entry.key not in ours.fields and not ours.is_section(entry.key):
        return True
    return bool(entry.value) and (
        ours.is_section(entry.key) or catalogue.check(entry.key, entry.value) is None
    )


def _is_platform_of_maxtext(entry: _Entry, catalogue: Catalogue) -> bool:
    key = catalogue.key(entry.key)
    return key is not None and bool(key.choices) and entry.value in key.choices


def _stands_on_model(entries: Iterable[_Entry]) -> bool:
    base = next(entry.value for entry in entries if entry.key == BASE_KEY)
    stem, ending = posixpath.splitext(posixpath.basename(base))
    if posixpath.normpath(base) in read_fact(FACTS)["configs"] or _others(entries) > _MOST_OTHERS:
        return False  # gpu/models/ holds whole configs; and what says how to run is one as well
    of_models = posixpath.basename(posixpath.dirname(base)) == _MODELS
    return of_models or (ending == ".yml" and stem in load(releases()[-1]).models())


def _others(entries: Iterable[_Entry]) -> int:
    """Count the keys of MaxText that no model file has."""
    keys = {entry.key for entry in entries} - {BASE_KEY}
    catalogue = load(releases()[-1])
    return sum(catalogue.key(key) is not None and key not in _model_keys() for key in keys)


def _is_model(entries: Iterable[_Entry]) -> bool:
    """Whether a config says nothing but what a model is."""
    marks = frozenset(read_fact(FACTS)["model_marks"])
    of_models = _model_keys()
    keys = [entry.key for entry in entries]
    found = sum(key in marks for key in keys)
    known = [key for key in keys if load(releases()[-1]).key(key) is not None]
    # A model file of another release may say one thing more.
    others = sum(key not in of_models for key in known)
    return found > 1 and others * _FEW <= len(known)


@cache
def _model_keys() -> frozenset[str]:
    catalogue = load(releases()[-1])
    return frozenset(key for name in catalogue.models() for key in catalogue.model(name) or ())


def _run_weight(entries: Iterable[_Entry]) -> _Weight:
    ours = table()
    top = frozenset(path.partition(".")[0] for path in ours.fields)
    models = frozenset(load(releases()[-1]).models())
    weight = _Weight()
    for entry in entries:
        if ours.is_section(entry.key):
            known = sum(ours.field(f"{entry.key}.{name}") is not None for name in entry.names)
            below = sum(ours.is_section(f"{entry.key}.{name}") for name in entry.names)
            weight.own += known + below > 0
            named = dict(entry.inner).get("name") in models and entry.key == "model"
            weight.telling += (known + below > 0 and entry.key not in _COMMON) or named
        elif entry.key in ours.fields and not entry.inner:
            platform = entry.key == _PLATFORM and _is_platform(entry.value)
            weight.own += platform or entry.key != _PLATFORM
            weight.telling += platform or (entry.key not in _COMMON and bool(entry.value))
        elif not entry.inner and entry.value and _slip_of(entry.key, top - _COMMON):
            weight.own += 1
            weight.telling += 1
    return weight


def _is_platform(name: str) -> bool:
    from moectl.facts.hardware import platform  # noqa: PLC0415

    try:
        return bool(platform(name))
    except UnknownNameError:
        return False


def _profile_weight(entries: Iterable[_Entry]) -> _Weight:
    ours = table()
    weight = _Weight()
    for entry in entries:
        path = f"cluster.{entry.key}"
        if path in ours.fields or ours.is_section(path):
            weight.own += 1
            weight.telling += entry.key not in _COMMON_SITE
    return weight


def _is_list_of_configs(text: str) -> bool:
    """Whether a list holds mappings of MaxText's keys, as a sweep does."""
    lines = text.splitlines()[:_LINES]
    if not any(line.startswith("- ") for line in lines):
        return False
    catalogue = load(releases()[-1])
    shared = frozenset(read_fact(FACTS)["shared_names"])
    names = [name for line in lines for name, _ in re.findall(_PAIR, line[:_WIDTH])]
    known = [name for name in names if catalogue.key(name) is not None]
    return len(known) * 2 > len(names) and any(name not in shared for name in known)


def _entries(text: str) -> Iterator[_Entry]:
    """Yield the top-level keys; an alias has the value of its anchor, as if it were written out."""
    anchors: dict[str, _Entry] = {}
    for entry in _as_written(text):
        if found := re.match(_ANCHOR, entry.value):
            entry = replace(entry, value=entry.value[found.end() :].strip("'\" "))  # noqa: PLW2901
            anchors[found[1]] = entry
        elif (found := re.fullmatch(_ALIAS, entry.value)) and found[1] in anchors:
            entry = replace(anchors[found[1]], key=entry.key)  # noqa: PLW2901
        yield entry


def _as_written(text: str) -> Iterator[_Entry]:
    """Yield the top-level keys; of a flow mapping over the whole file, those inside it."""
    if text.startswith("{"):
        yield from _flow_entries(text[: _LINES * 40])
        return
    key, value = "", ""
    inside: list[tuple[str, str]] = []
    for line in text.splitlines()[:_LINES]:
        if found := re.match(_KEY, line):
            if key:
                yield _Entry(key, value, tuple(inside))
            key = found[2]
            rest = line[found.end() :].strip()
            anchor = re.match(_ANCHOR, rest)
            flow = rest.startswith("{", anchor.end() if anchor else 0)
            value = rest.partition(" #")[0].strip("'\" ")
            value = anchor[0] if flow and anchor else "" if flow else value
            inside = re.findall(_PAIR, rest) if flow else []
        elif key and (not value or re.fullmatch(_ANCHOR, value)):
            inside += re.findall(_PAIR, line[:_WIDTH])
    if key:
        yield _Entry(key, value, tuple(inside))


def _flow_entries(text: str) -> Iterator[_Entry]:
    """Yield the keys of a flow mapping, JSON too."""
    key, value, depth, wanted = "", "", 0, False
    inside: list[tuple[str, str]] = []
    for found in re.finditer(_WORD, text):
        word = found[0]
        if word in "{}[]":
            depth += 1 if word in "{[" else -1
            wanted = False
        elif word.endswith(":"):
            name = word[:-1].strip().strip("\"'")
            if depth > 1:
                inside.append((name, ""))
                continue
            if key:
                yield _Entry(key, value, tuple(inside))
            key, value, inside, wanted = name, "", [], True
        elif wanted:
            value, wanted = word.strip("\"'"), False
    if key:
        yield _Entry(key, value, tuple(inside))


def near_key(name: str) -> str | None:
    """Return the MaxText key that a name is one or two slips away from, or None."""
    plain = _plain(name)
    if len(plain) < _SLIP_LENGTH:
        return None
    index = _index()
    return next((index[cut] for cut in (plain, *_shorter(plain)) if cut in index), None)


@cache
def _index() -> dict[str, str]:
    """Return MaxText's keys by their letters, and by them with one letter left out.

    Two names that agree when each may lose one letter are one insertion, deletion, change or
    exchange apart, or two insertions and deletions.
    """
    found: dict[str, str] = {}
    names = load(releases()[-1]).keys()
    keys = [key for key in names if len(key) >= _SLIP_LENGTH]
    for key in keys:
        found.update((cut, key) for cut in _shorter(_plain(key)) if len(cut) >= _SLIP_LENGTH)
    found.update((_plain(key), key) for key in keys)
    return found


def _slip_of(name: str, names: Iterable[str]) -> bool:
    plain = _plain(name)
    mine = {plain, *_shorter(plain)}
    return len(plain) >= _SLIP_LENGTH and any(
        not mine.isdisjoint((other, *_shorter(other))) for other in names
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name[:80].lower())


def _shorter(plain: str) -> list[str]:
    return [plain[:at] + plain[at + 1 :] for at in range(len(plain))]
