"""Faults of reading: what stops a file from being judged, as findings like any other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from moectl.errors import (
    LocalFilesError,
    MoectlError,
    SeveralUsageErrors,
    SourceError,
    UnknownNameError,
    ValueUsageError,
)
from moectl.findings import Finding
from moectl.rules.rule import Fault, Rule, rules
from moectl.values import Origin

RULES = rules()
# What to do about a file as a whole, by what its refusal says; a line is mended otherwise.
_WHOLE_FILE = (
    ("it is larger than", "name the file that starts the job; configs and scripts are far smaller"),
    ("it is not UTF-8 text", "save it as UTF-8 text; a binary file starts nothing"),
    ("it is nested too deeply", "write it with fewer levels"),
)
_PLACE = re.compile(r"^(?P<file>.+?):(?P<line>\d+)(?::(?P<column>\d+))?: ", re.DOTALL)


def _reading(code: str, title: str, reason: str, remedy: str) -> Rule:
    rule = Rule(code, title, reason, remedy, "moectl", "error", "reads")
    RULES.all.append(rule)
    return rule


UNREADABLE = _reading(
    "FILE101",
    "the file cannot be opened or is no text",
    "What cannot be read cannot be judged, and would not start either.",
    "check the path, its permissions and its encoding (UTF-8)",
)
MALFORMED = _reading(
    "FILE102",
    "the file is not what it is meant to be",
    "A syntax error, a key given twice, or a form nobody reads stops the run at its start.",
    "mend the line",
)
UNKNOWN_NAME = _reading(
    "FILE103",
    "a name that does not exist",
    "The run file names a key, preset, flag or platform that is in no catalogue.",
    "use one of the names that the message gives",
)
BAD_VALUE = _reading(
    "FILE104",
    "a value that cannot be meant",
    "The run file gives a key a value that it cannot have.",
    "use a value that the message calls legal",
)
CONTRADICTION = _reading(
    "FILE105",
    "the run file cannot become a job",
    "What it says cannot be made into one mesh, batch and process layout.",
    "follow the message",
)
UNRECOGNISED = replace(
    _reading(
        "FILE106",
        "nothing here that moectl reads",
        "The file is neither a run file, a MaxText config, a script, a manifest, flags nor "
        "variables, so nothing in it was judged.",
        "name only files that start training",
    ),
    severity="warning",
)
RULES.all[-1] = UNRECOGNISED


def nothing_read(name: str, text: str) -> Finding:
    """Return the finding of a file of which nothing was judged.

    Args:
        name: the file.
        text: its content.
    """
    from moectl.settings.sources.detect import other_format  # noqa: PLC0415 - few files pay

    sentence, hint = "it holds nothing that starts training", ""
    if not text.strip():
        sentence = "it is empty"
    elif known := other_format(name, text):
        sentence = f"it is {known}, which moectl does not read: nothing in it was judged"
        hint = "name the script, config or manifest that it starts"
    return UNRECOGNISED.finding(Fault("", sentence, Origin(name, name, 1, 1), hint))


def refusals(error: MoectlError, name: str) -> Iterator[Finding]:
    """Yield a finding for every fault that an error carries.

    Args:
        error: what reading or resolving a file raised.
        name: the file, for faults that know no place.
    """
    if isinstance(error, SeveralUsageErrors):
        for single in error.errors:
            yield from refusals(single, name)
        return
    message, hint = str(error), ""
    origin = Origin(name, name)
    if isinstance(error, SourceError):
        message = error.sentence
        hint = next((remedy for says, remedy in _WHOLE_FILE if message.startswith(says)), "")
        origin = Origin(name, error.path, error.line, None if error.line is None else 1)
    elif found := _PLACE.match(message):
        message = message[found.end() :]
        column = found["column"]
        origin = Origin(name, found["file"], int(found["line"]), int(column) if column else None)
    yield _rule(error).finding(Fault("", message, origin, hint))


def _rule(error: MoectlError) -> Rule:
    match error:
        case LocalFilesError():
            return UNREADABLE
        case SourceError():
            return MALFORMED
        case UnknownNameError():
            return UNKNOWN_NAME
        case ValueUsageError():
            return BAD_VALUE
        case _:
            return CONTRADICTION
