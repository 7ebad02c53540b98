"""Reads the table of XLA flags out of any installed jaxlib, by asking its parser.

Method: every text between two NULs in the library that looks like a flag name is a candidate;
the parser itself says which are flags. Types and enum values come from the descriptor of
DebugOptions inside the library, then from trying values; spellings, ranges and the rules of
lists from trying values and reading back what arrived; defaults from the values of a process
without flags. Some 2,000 to 4,000 texts are parsed, about 5 ms each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from moectl.errors import BackendError, LocalFilesError
from moectl.evidence.xla_probe import Probe, Row
from moectl.evidence.xla_proto import Field, Value
from moectl.evidence.xla_session import ParserSession
from moectl.facts.xla import COLUMNS
from moectl.facts.xla_flag import UNKNOWN_DEFAULT, shapes

_SCALARS = {"bool": "bool", "int32": "int32", "int64": "int64", "float": "float"}
_NO_VALUE = "moectl_probe"
# A string flag that takes both takes any text.
_ODD_TEXTS = (_NO_VALUE, "moectl:probe:text")
_NO_KIND = "none"
_LARGEST_INT32 = (1 << 31) - 1
_LARGEST_INT64 = (1 << 63) - 1


def write_catalogue(python: str, out: Path, names: Iterable[str] | None = None) -> int:
    """Write the catalogue of the jaxlib of `python`; it is whole or not there.

    Args:
        python: an interpreter that has jaxlib.
        out: the file to write.
        names: the candidates to ask about; by default everything in the library that looks
            like a flag.

    Returns:
        The number of flags.

    Raises:
        BackendError: the interpreter has no jaxlib, or its library cannot be read.
        LocalFilesError: the file cannot be written.
    """
    release, rows = extract(python, names)
    text = catalogue_text(release, rows)
    part = out.with_name(f".{out.name}.part")
    try:
        part.write_text(text, "utf-8")
        part.replace(out)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise LocalFilesError(f"cannot write {out}: {error.strerror}") from error
    return len(rows)


def catalogue_text(release: str, rows: Iterable[Row]) -> str:
    """Return the table of a release as `moectl.facts.xla` reads it."""
    source = "answers of the parser inside its CPU wheel (moectl facts xla)"
    lines = [f"# jaxlib {release}: {source}", "\t".join(COLUMNS)]
    lines += ["\t".join(row) for row in sorted(rows)]
    return "\n".join(lines) + "\n"


def extract(python: str, names: Iterable[str] | None) -> tuple[str, list[Row]]:
    """Return the release of the jaxlib of `python`, and one row for each flag it knows.

    Args:
        python: an interpreter that has jaxlib.
        names: the candidates to ask about; None for everything that looks like a flag.

    Raises:
        BackendError: the interpreter has no jaxlib, or its library cannot be read.
    """
    with ParserSession(python) as session:
        probe = Probe(session)
        found = candidates(session.library) if names is None else set(names)
        wanted = sorted(found | (set(probe.options) if names is None else set()))
        flags = probe.known(wanted)
        return session.jaxlib, [_row(probe, name) for name in flags]


def candidates(library: Path) -> set[str]:
    """Return the texts of a library that could be flag names.

    Raises:
        BackendError: the file cannot be read.
    """
    import mmap  # noqa: PLC0415 - only evidence pays for it
    import re  # noqa: PLC0415

    # The NUL after one name is the NUL before the next, so it is looked at and not consumed.
    pattern = re.compile(rb"\0(xla_[a-z0-9_]{2,120})(?=\0)")
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as m:
            return {match[1].decode("ascii") for match in pattern.finditer(m)}
    except (OSError, ValueError) as error:
        raise BackendError(f"cannot read {library}: {error}") from error


def _row(probe: Probe, name: str) -> Row:
    option = probe.options.get(name)
    parser_type = _SCALARS.get(option.kind, "string") if option else _type_by_probe(probe, name)
    values = probe.schema.enum_values(option) if option else ()
    rules: dict[str, str] = {}
    spelled: Mapping[str, str] = {}
    if parser_type == "bool":
        rules |= _bool_rules(probe, name)
    elif parser_type in {"int32", "int64"}:
        rules |= _int_rules(probe, name, parser_type)
    elif values and option:
        spelled, more = _enum_rules(probe, option, values)
        rules |= more
    elif parser_type == "string":
        rules |= _string_rules(probe, name, option)
    written = name
    if parser_type != "string":
        written = probe.writes(name, parser_type)
        if not written:
            rules["effect"] = "unseen"
        elif written != name:
            rules["field"] = written
    default, unset = _default(probe, name, written, parser_type)
    if unset and default != UNKNOWN_DEFAULT:
        rules["unset"] = "yes"
    return Row(
        name,
        parser_type,
        _json(spelled.get(default, default) if isinstance(default, str) else default),
        option.shown if option else "",
        ",".join(values),
        ",".join(spelled.values()),
        " ".join(f"{key}={value}" for key, value in rules.items()),
    )


def _type_by_probe(probe: Probe, name: str) -> str:
    """Tell the parser's type of a flag that has no field of its name."""
    takes_false, takes_seven, takes_half, takes_large, takes_text = probe.accepts_all(
        f"--{name}={value}" for value in ("false", "7", "1.5", _LARGEST_INT32 + 1, _NO_VALUE)
    )
    if takes_text:
        return "string"
    if takes_false and not takes_seven:
        return "bool"
    if takes_half:
        return "float"
    # Only a scalar is called by this message; a string that checks its text is not.
    if takes_seven and probe.cannot_interpret(f"--{name}={_NO_VALUE}"):
        return "int64" if takes_large else "int32"
    return "string"


def _bool_rules(probe: Probe, name: str) -> Mapping[str, str]:
    """Note a switch that this build cannot turn on: the wheel of a CPU is no CUDA build."""
    states = probe.accepts_all(f"--{name}={value}" for value in ("true", "false"))
    refused = [text for text, taken in zip(("true", "false"), states, strict=True) if not taken]
    return {"build": ",".join(refused)} if refused else {}


def _int_rules(probe: Probe, name: str, parser_type: str) -> Mapping[str, str]:
    """Find the bounds of a flag whose setter refuses a part of its type's range."""
    high = _LARGEST_INT32 if parser_type == "int32" else _LARGEST_INT64
    low = -high - 1
    takes_low, takes_high = probe.accepts_all(f"--{name}={value}" for value in (low, high))
    if takes_low and takes_high:
        return {}
    middle = next((value for value in (1, 2, 64, 0) if probe.takes(name, value)), None)
    if middle is None:
        return {"shape": "unknown"}
    rules = {}
    if not takes_low:
        rules["min"] = str(_edge(probe, name, low, middle))
    if not takes_high:
        rules["max"] = str(_edge(probe, name, high, middle))
    return rules


def _edge(probe: Probe, name: str, refused: int, taken: int) -> int:
    """Return the number nearest to `refused` that the flag takes."""
    while abs(refused - taken) > 1:
        middle = (refused + taken) // 2
        if probe.takes(name, middle):
            taken = middle
        else:
            refused = middle
    return taken


def _enum_rules(
    probe: Probe, option: Field, values: tuple[str, ...]
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Find the text for each value of an enum, and what lists of them may hold."""
    spelled = {value: text for value in values if (text := _spelling(probe, option, value))}
    accepts = tuple(spelled.values())
    if not accepts:
        return {}, {"shape": "unknown"}
    rules: dict[str, str] = {}
    name = option.name
    if all(probe.accepts_all(f"--{name}={text.swapcase()}" for text in accepts)):
        rules["case"] = "any"
    takes_none, takes_empty = probe.accepts_all(f"--{name}={text}" for text in (_NO_KIND, ""))
    if takes_none and _NO_KIND not in map(str.lower, accepts):
        spelled[_NO_KIND] = _NO_KIND
    if takes_empty != option.repeated:
        rules["empty"] = "yes" if takes_empty else "no"
    prefix = _common_prefix(accepts)
    if prefix and all(
        probe.arrives(option, text.removeprefix(prefix), value) for value, text in spelled.items()
    ):
        rules["prefix"] = prefix
    if not option.repeated:
        return spelled, rules
    rules["list"] = "kinds"
    first, second = accepts[0], accepts[-1]
    if probe.takes(name, f"+{first}"):
        rules["edits"] = "yes"
    both = probe.values(f"--{name}={first} --{name}={second}")
    if both.get(name) != probe.values(f"--{name}={second}").get(name):
        rules["repeat"] = "append"
    return spelled, rules


def _spelling(probe: Probe, option: Field, value: str) -> str | None:
    """Return the text that sets `value`: its full name, or the longest run of its words."""
    # A kind of a list may stand for several: ALLCOLLECTIVES is read back as what it covers.
    if probe.arrives(option, value, value) or (option.repeated and probe.takes(option.name, value)):
        return value
    words = value.lower().split("_")
    runs = {
        "_".join(words[start:stop])
        for start in range(len(words))
        for stop in range(start + 1, len(words) + 1)
    }
    for run in sorted(runs, key=lambda text: (-len(text), text)):
        if probe.arrives(option, run, value):
            return run
    return None


def _common_prefix(texts: tuple[str, ...]) -> str:
    """Return the whole words, with their underscore, with which all texts begin."""
    words = [text.split("_") for text in texts]
    shared = 0
    while len(texts) > 1 and all(
        len(parts) > shared + 1 and parts[shared] == words[0][shared] for parts in words
    ):
        shared += 1
    return "".join(f"{word}_" for word in words[0][:shared])


def _string_rules(probe: Probe, name: str, option: Field | None) -> Mapping[str, str]:
    """Find whether commas, repeats or the form of a text mean something to a string flag."""
    rules: dict[str, str] = {}
    if not all(probe.accepts_all(f"--{name}={text}" for text in _ODD_TEXTS)):
        rules["shape"] = _shape(probe, name)
    if option is not None and option.repeated and option.kind == "string":
        once = probe.values(f"--{name}=a,b").get(name)
        twice = probe.values(f"--{name}=a --{name}=b").get(name)
        if isinstance(once, list) and len(once) > 1:
            rules["list"] = "text"
        if isinstance(twice, list) and len(twice) > 1:
            rules["repeat"] = "append"
    elif option is not None and option.repeated and option.kind == "message":
        held = probe.values(f"--{name}=k=v").get(name)
        if isinstance(held, dict) and held.get("k") == "v":
            rules |= {"list": "map", "repeat": "append"}
    return rules


def _shape(probe: Probe, name: str) -> str:
    for shape in shapes():
        good = all(probe.accepts_all(f"--{name}={text}" for text in shape.good))
        if good and not any(probe.accepts_all(f"--{name}={text}" for text in shape.bad)):
            return shape.name
    return "unknown"


def _default(probe: Probe, name: str, written: str, parser_type: str) -> tuple[Value, bool]:
    """Return the effective value without any flag, and whether the release leaves it unset.

    An unset field reads as zero, false, empty or the first value of its enum (protobuf). A
    switch that writes somebody else's field has the value that changes nothing as its default.
    """
    field = written or name
    if parser_type == "bool" and field != name:
        idle = [text for text in ("true", "false") if probe.is_default(f"--{name}={text}")]
        return (idle == ["true"] if len(idle) == 1 else UNKNOWN_DEFAULT), False
    option = probe.options.get(field)
    if option is None or (option.kind != parser_type and parser_type in _SCALARS):
        return UNKNOWN_DEFAULT, True
    if field in probe.defaults:
        value = probe.defaults[field]
        # A float of the parser has 24 bits: 0.1 is read back as 0.100000001.
        return (float(f"{value:.7g}") if isinstance(value, float) else value), False
    zeros: dict[str, Value] = {"bool": False, "float": 0.0, "string": "", "enum": ""}
    zero = zeros.get(option.kind, 0)
    return next(iter(probe.schema.enum_values(option)), zero), True


def _json(value: Value) -> str:
    import json  # noqa: PLC0415

    if value == UNKNOWN_DEFAULT:
        return UNKNOWN_DEFAULT
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
