"""Asks the parser of one session small questions, and remembers the answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from moectl.evidence.xla_proto import Field, Value, debug_options, schema
from moectl.evidence.xla_session import Answer, ParserSession

_IMPOSSIBLE = "moectl?impossible"


class Row(NamedTuple):
    """One flag as a row of a catalogue; the columns are those of `moectl.facts.xla`."""

    name: str
    parser_type: str
    default: str
    proto_type: str
    enum_values: str
    accepts: str
    rules: str


class Probe:
    """What one jaxlib's parser says.

    Attributes:
        schema: the messages and enums in its library.
        options: the fields of DebugOptions by name.
        defaults: their values in a process without flags.
    """

    def __init__(self, session: ParserSession) -> None:
        self._session = session
        self._answers: dict[str, Answer] = {}
        self.schema = schema(session.library)
        self.options: Mapping[str, Field] = self.schema.options()
        self.defaults: Mapping[str, Value] = self.values("")

    def known(self, names: Sequence[str]) -> list[str]:
        """Return the names the parser knows as flags.

        Each is given alone an impossible value: one bad value hides the list of unknown names.
        """
        texts = {name: f"--{name}={_IMPOSSIBLE}" for name in names}
        self._fetch(texts.values())
        return [name for name, text in texts.items() if "Unknown flag" not in self._said(text)]

    def takes(self, name: str, value: object) -> bool:
        """Return whether the parser takes one value of one flag."""
        return self.takes_text(f"--{name}={value}")

    def takes_text(self, text: str) -> bool:
        """Return whether the parser takes one text."""
        return self.accepts_all([text])[0]

    def accepts_all(self, texts: Iterable[str]) -> list[bool]:
        """Return for each text whether the parser takes it."""
        wanted = list(texts)
        self._fetch(wanted)
        return [self._answers[text].accepted for text in wanted]

    def cannot_interpret(self, text: str) -> bool:
        """Return whether the parser refuses the text of a scalar as such."""
        return "Couldn't interpret value" in self._said(text)

    def values(self, text: str) -> Mapping[str, Value]:
        """Return the effective value of every flag after `text`; empty when it is refused."""
        self._fetch([text])
        answer = self._answers[text]
        return debug_options(answer.options, self.schema) if answer.accepted else {}

    def is_default(self, text: str) -> bool:
        """Return whether the parser takes a text that changes no value."""
        return self.takes_text(text) and self.values(text) == self.defaults

    def arrives(self, option: Field, text: str, value: str) -> bool:
        """Return whether a text sets an enum field to `value`."""
        held = self.values(f"--{option.name}={text}").get(option.name)
        return held in ([value], value)

    def writes(self, name: str, parser_type: str) -> str:
        """Return the field that a scalar flag changes: its own, another one, or "" for none."""
        changed: set[str] = set()
        for text in ("true", "false") if parser_type == "bool" else ("17", "19"):
            values = self.values(f"--{name}={text}")
            changed |= {key for key, value in values.items() if self.defaults.get(key) != value}
        return name if name in changed else min(changed, default="")

    def _said(self, text: str) -> str:
        self._fetch([text])
        return self._answers[text].said

    def _fetch(self, texts: Iterable[str]) -> None:
        missing = [text for text in dict.fromkeys(texts) if text not in self._answers]
        if missing:
            self._answers.update(zip(missing, self._session.ask(missing), strict=True))
