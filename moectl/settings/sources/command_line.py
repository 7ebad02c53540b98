"""Reads the words of a MaxText command as MaxText does: a config, then key=value words.

MaxText 0.2.5 takes the first word for its config when it ends in `.yml`, and gives all others
to OmegaConf's `from_cli` (configs/pyconfig.py:97-110, 417): the text after the first `=` is
YAML, a dotted key is a nested one, the last of equal keys wins, and a word without `=` is a
key without a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from moectl.errors import SourceError, shown
from moectl.facts.maxtext import Catalogue
from moectl.findings import Finding
from moectl.settings.sources.source import finding
from moectl.settings.text_file import foreign_byte
from moectl.settings.yaml_source import read_scalar
from moectl.values import Origin, Value
from moectl.workload import MARK, UNKNOWN, Text

LAYER: Final = "command line"
SUFFIX: Final = ".yml"
_CONFIG_NAME: Final = re.compile(r"\S*\.(?:yml|yaml)")
_SPLIT: Final = re.compile(r"(?<!\\)\.|\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one MaxText command.

    Attributes:
        config: the config it names; None when it names none, so that MaxText takes its own.
        values: MaxText key to value; a nested key as `parent.name`.
        findings: words that MaxText refuses, or reads otherwise than they look.
        open: whether a word is not known, so that it may say any key.
    """

    config: Text | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    open: bool = False


def read_arguments(words: Sequence[Text], catalogue: Catalogue) -> Arguments:
    """Read the words after the program, quoting already taken off by the shell.

    Args:
        words: the words; `MARK` stands for what is not known.
        catalogue: keys of the MaxText release.
    """
    reader = _Reader(catalogue)
    rest = list(words)
    config = None
    if rest and (rest[0].text.endswith(SUFFIX) or _may_be_config(rest[0])):
        config = rest.pop(0)
    while rest:
        word = rest.pop(0)
        following = rest[0] if rest else None
        if reader.word(word, following):
            rest.pop(0)
    return Arguments(config, reader.values, tuple(reader.findings), reader.open)


def _may_be_config(word: Text) -> bool:
    """Whether an unknown first word stands where a config does: `$CONFIG`."""
    return not word.known and "=" not in word.text


class _Reader:
    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.values: dict[str, Value] = {}
        self.findings: list[Finding] = []
        self.open = False

    def word(self, word: Text, following: Text | None) -> bool:
        """Read one word; True when the following word belongs to it."""
        text = word.text
        if not text.strip():
            return False
        key, sign, value = text.partition("=")
        if MARK in key:
            self.open = True
            return False
        if key.startswith("-"):
            return self._dashed(word, key, value if sign else None, following)
        if not sign:
            self._bare(word, key)
            return False
        self._say(key, value, word.origin)
        return False

    def _dashed(self, word: Text, key: str, value: str | None, following: Text | None) -> bool:
        name = key.lstrip("-").replace("-", "_")
        known = self.catalogue.key(name) is not None
        takes = value is None and following is not None and "=" not in following.text
        takes = takes and known and following is not None and not following.text.startswith("-")
        said = value if value is not None else following.text if takes and following else ""
        if MARK in said:
            wanted, fix = f"{name}=...", None
        else:
            wanted = f"{name}={said}"
            fix = (word.text, wanted) if value is not None and known and word.known else None
        self._found(
            "ARG101",
            "error",
            key,
            f"MaxText has no options: it takes {shown(key)} for the name of a key, which no "
            "release has, and stops.",
            f"write {wanted}" if known else "write key=value",
            word.origin,
            fix,
        )
        if known and said:
            self._say(name, said, word.at(len(key) - len(key.lstrip("-"))))
        return takes

    def _bare(self, word: Text, key: str) -> None:
        if _CONFIG_NAME.fullmatch(key):
            why = (
                f"a config is known by its ending {SUFFIX}"
                if not key.endswith(SUFFIX)
                else "a config is the first word"
            )
            hint = f"rename it to {key.removesuffix('.yaml')}{SUFFIX}, as the first word"
            self._found(
                "ARG103",
                "error",
                key,
                f"{shown(key)} is taken for the name of a key: {why}.",
                hint if not key.endswith(SUFFIX) else f"write {key} before every key=value",
                word.origin,
            )
            return
        known = self.catalogue.key(key)
        if known is None:
            near = self.catalogue.unknown(key)
            hint = f"write {near[0]}=..." if near else "delete it, or write key=value"
            what = "MaxText takes it for a key, which the release has not, and stops"
        else:
            hint, what = f"write {key}=...", "its value is null"
            if self.catalogue.check(key, None) is not None:
                what += ", which this key refuses"
        refused = known is None or self.catalogue.check(key, None) is not None
        self._found(
            "ARG102",
            "error" if refused else "warning",
            key,
            f"the word {shown(key)} has no =: {what}.",
            hint,
            word.origin,
        )

    def _say(self, key: str, text: str, origin: Origin) -> None:
        origin = replace(origin, layer=LAYER)
        value: Any = UNKNOWN
        if MARK not in text:
            try:
                value = read_scalar(text, "the command line") if text else None
            except SourceError as error:
                self._found(
                    "ARG104",
                    "error",
                    key,
                    f"the value {shown(text)} cannot be read: {error.sentence}.",
                    f"quote it for YAML too: '{key}=\"...\"'"
                    if foreign_byte(text) is None
                    else "write it as UTF-8 text",
                    origin,
                )
                return
        path = [part for part in _path(key) if part]
        if not path:
            return
        self._put(path, value, origin)

    def _put(self, path: list[str], value: Any, origin: Origin) -> None:
        key = ".".join(path)
        before = self.values.get(key)
        if before is not None and before.value != value:
            self._found(
                "ARG106",
                "warning",
                key,
                f"{key} is said again as {_say(value)}; the earlier {_say(before.value)} is lost "
                "without a word.",
                "say it once",
                origin,
            )
        overrode = () if before is None else ((before.value, before.origin), *before.overrode)
        self.values[key] = Value(value, origin, overrode)

    def _found(self, code: str, severity: Any, *rest: Any) -> None:
        self.findings.append(finding(code, severity, *rest))


def _say(value: Any) -> str:
    return "something unknown" if value is UNKNOWN else shown(value, 40)


def _path(key: str) -> list[str]:
    """Split a dotted key as OmegaConf does: `a.b`, `a[b]`."""
    parts, start = [], 0
    for found in _SPLIT.finditer(key):
        parts.append(key[start : found.start()])
        if found[1] is not None:
            parts.append(found[1])
        start = found.end()
    return [part.replace("\\.", ".") for part in [*parts, key[start:]]]
