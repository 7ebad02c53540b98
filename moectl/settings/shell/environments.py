"""The variables that a launcher hands on otherwise than a shell does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from moectl.facts.launchers import Launcher
from moectl.settings.shell.options import tail
from moectl.settings.shell.source import Source, cut
from moectl.workload import MARK, Option, Text, last

EXPORT = "--export"
_ALL, _NOTHING = "ALL", frozenset({"NONE", "NIL"})
_LINE = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")

Environment = Mapping[str, Text]


def exported(options: Sequence[Option], environment: Environment) -> Environment:
    """Return the variables that tasks get with the `--export` of srun or sbatch.

    sbatch(1), --export: ALL adds to what there is, NONE leaves nothing of it, names without
    ALL are all there is; NAME=value sets one. Quotes keep a comma in a value.
    """
    option = last(options, [EXPORT])
    if option is None or option.value is None or not option.value.text:
        return environment
    items = list(_listed(option.value))
    words = [item.text.strip().upper() for item in items]
    if any(MARK in word.partition("=")[0] for word in words):
        return environment
    found = dict(environment) if _ALL in words else {}
    for item in items:
        name, equals, _ = item.text.partition("=")
        if equals:
            found[name.strip()] = _unquoted(tail(item, len(name) + 1))
        elif name in environment:
            found[name] = environment[name]
    return found


def given(
    launcher: Launcher, options: Sequence[Option], environment: Environment, files: Environment
) -> Environment:
    """Return the variables that options like `-e NAME=value` give to what is started.

    Args:
        launcher: whose options they are.
        options: the options.
        environment: the variables there are, of which `-e NAME` hands one on.
        files: what files of variables say, which `-e` overrides.
    """
    found = dict(files)
    for option in options:
        if option.name not in launcher.variables or option.value is None:
            continue
        for item in _listed(option.value) if launcher.lists else (option.value,):
            name, equals, _ = item.text.partition("=")
            if equals:
                found[name] = tail(item, len(name) + 1)
            elif name in environment:
                found[name] = environment[name]
    return found


def of_file(text: str, path: str) -> dict[str, Text]:
    """Return the variables of a file of NAME=value lines, as docker's --env-file reads one.

    Quotes are part of a value there (Docker CLI 28, opts/file.go).
    """
    source, found = Source.of_file(text, path), dict[str, Text]()
    start = 0
    for line in source.text.split("\n"):
        if match := _LINE.fullmatch(line):
            found[match[1]] = Text(source.pieces(start + match.start(2), start + match.end(2)))
        start += len(line) + 1
    return found


def _listed(text: Text) -> Iterator[Text]:
    """Yield the items of a list with commas; a comma in quotes is part of an item."""
    start, quote = 0, ""
    whole = text.text
    for at, char in enumerate(whole):
        if char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
        elif not quote and char == ",":
            yield Text(cut(text.pieces, start, at))
            start = at + 1
    yield Text(cut(text.pieces, start, len(whole)))


def _unquoted(text: Text) -> Text:
    whole = text.text
    if len(whole) > 1 and whole[0] == whole[-1] and whole[0] in "'\"":
        return Text(cut(text.pieces, 1, len(whole) - 1))
    return text


def env_files(options: Iterable[Option]) -> list[Text]:
    """Return the files of variables that options name."""
    return [o.value for o in options if o.name == "--env-file" and o.value is not None]
