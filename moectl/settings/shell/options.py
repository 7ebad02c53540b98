"""Splits a command's words into its own options and what it starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from moectl.facts.launchers import Launcher
from moectl.facts.launchers import load as launchers
from moectl.facts.slurm_options import SlurmOption
from moectl.facts.slurm_options import load as slurm
from moectl.settings.shell.source import cut
from moectl.workload import MARK, Option, Text

_ONE_DASH = re.compile(r"-([A-Za-z][A-Za-z-]+)(?==|$)")


@dataclass(frozen=True, slots=True)
class Split:
    """The options of a command, and the words after them.

    An option that is not known at all, such as `$OPTIONS` from outside, has the name MARK.
    """

    options: tuple[Option, ...]
    rest: tuple[Text, ...]


def tail(text: Text, start: int) -> Text:
    """Return a text from the character `start` on."""
    return Text(cut(text.pieces, start, len(text.text)))


def split_slurm(program: str, words: Sequence[Text], *, directive: bool = False) -> Split:
    """Split the words of sbatch, srun or salloc as getopt_long does.

    Args:
        program: whose options they are.
        words: the words after the program.
        directive: whether they stand in an #SBATCH line; there nothing is started, and a word
            that is no option is kept as one, named as it stands.
    """
    options: list[Option] = []
    at = 0
    while at < len(words):
        word = words[at]
        text = word.text
        following = words[at + 1] if at + 1 < len(words) else None
        at += 1
        if text == MARK and not directive:
            if not _goes_on(program, words[at:]):
                at -= 1
                break
            options.append(Option(MARK, None, word.origin, _raw(word)))
        elif text == "--" and not directive:
            break
        elif text.startswith("--"):
            taken = _long(program, word, following, options, directive=directive)
            at += taken
        elif text.startswith("-") and text != "-":
            at += _short(program, word, following, options)
        elif directive:
            options.append(Option(text, None, word.origin, text))
        else:
            at -= 1
            break
    return Split(tuple(options), tuple(words[at:]))


def _goes_on(program: str, words: Sequence[Text]) -> bool:
    """Whether an unknown word before `words` can only have been options."""
    if not words:
        return False
    text = words[0].text
    if text.startswith("--"):
        return slurm().long(program, text.partition("=")[0]) is not None
    if text.startswith("-") and len(text) > 1:
        return slurm().short(program, text[1]) is not None
    return launchers().program(text) is not None or text == MARK


def _long(
    program: str,
    word: Text,
    following: Text | None,
    options: list[Option],
    *,
    directive: bool,
) -> int:
    name, equals, _ = word.text.partition("=")
    value = tail(word, len(name) + 1) if equals else None
    found = slurm().long(program, name)
    taken = 0
    if value is None and following is not None:
        stray = directive and found is None and not following.text.startswith("-")
        if stray or (found is not None and found.argument == "yes"):
            value, taken = following, 1
    raw = _raw(word) if not taken or value is None else f"{_raw(word)} {_raw(value)}"
    options.append(Option(found.means if found else name, value, word.origin, raw))
    return taken


def _short(program: str, word: Text, following: Text | None, options: list[Option]) -> int:
    text = word.text
    malformed = _ONE_DASH.match(text)
    meant = slurm().option(f"-{malformed.group()}") if malformed else None
    if malformed and meant is not None:
        name = malformed.group()
        value = tail(word, len(name) + 1) if text[len(name) :] else None
        taken = value is None and meant.argument == "yes" and following is not None
        value = following if taken else value
        raw = f"{_raw(word)} {_raw(value)}" if taken and value else _raw(word)
        options.append(Option(name, value, word.origin, raw))
        return int(taken)
    for place in range(1, len(text)):
        found: SlurmOption | None = slurm().short(program, text[place])
        origin = word.at(place) if place > 1 else word.origin
        if found is None:
            options.append(Option(f"-{text[place:]}", None, origin, _raw(word)))
            return 0
        if found.argument == "no":
            options.append(Option(found.means, None, origin, _raw(word)))
            continue
        attached = place + 1 < len(text)
        if attached or found.argument == "optional":
            value = tail(word, place + 1) if attached else None
            options.append(Option(found.means, value, origin, _raw(word)))
            return 0
        raw = _raw(word) if following is None else f"{_raw(word)} {_raw(following)}"
        options.append(Option(found.means, following, origin, raw))
        return 1
    return 0


def split(launcher: Launcher, words: Sequence[Text]) -> Split:
    """Split the words of any other program: its options, then operands and a command."""
    options: list[Option] = []
    at = 0
    while at < len(words):
        word = words[at]
        text = word.text
        if text == "--":
            at += 1
            break
        if text == MARK:
            following = words[at + 1].text if at + 1 < len(words) else ""
            if not following.startswith("-") and launchers().program(following) is None:
                break
            options.append(Option(MARK, None, word.origin, _raw(word)))
            at += 1
            continue
        if not text.startswith("-") or text == "-":
            break
        at += _take(launcher, words, at, options)
    return Split(tuple(options), tuple(words[at:]))


def _take(launcher: Launcher, words: Sequence[Text], at: int, options: list[Option]) -> int:
    """Read one option at `at`; return the words it is made of."""
    word = words[at]
    text = word.text
    name, equals, _ = text.partition("=")
    long = text.startswith("--") or launcher.long_style
    if equals and long:
        options.append(Option(name, tail(word, len(name) + 1), word.origin, _raw(word)))
        return 1
    count = launcher.options.get(text)
    if count is None and not long:
        for place in range(1, len(text)):
            if launcher.options.get(f"-{text[place]}"):
                if place + 1 < len(text):
                    value = tail(word, place + 1)
                    options.append(Option(f"-{text[place]}", value, word.origin, _raw(word)))
                    return 1
                name, count = f"-{text[place]}", 1
                break
    taken = words[at + 1 : at + 1 + (count or 0)]
    raw = " ".join(map(_raw, (word, *taken)))
    options.append(Option(name, taken[-1] if taken else None, word.origin, raw))
    return 1 + len(taken)


def _raw(word: Text) -> str:
    return "".join(piece.raw or piece.text for piece in word.pieces)
