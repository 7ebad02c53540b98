"""Rules on how values are written: what YAML and a command line make of them.

The faults of reading (YAML101 to YAML111, ARG101 to ARG109, SRC101 to SRC104) are found by
`moectl.settings.sources` while it reads, under the codes declared here; the others are found in
the values, which still know what their scalars look like (`Written`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, get_args

from moectl.errors import MoectlError, shown
from moectl.facts import maxtext
from moectl.facts.maxtext import Catalogue
from moectl.facts.maxtext_key import Key, split_type
from moectl.findings import Severity
from moectl.rules import model_files
from moectl.rules.maxtext_checks import finite_batch
from moectl.rules.model_files import word_read_as_boolean
from moectl.rules.rule import Fault, Rule, Stage, rules
from moectl.settings.sources.kinds import MODEL_FILE
from moectl.settings.sources.written import Written
from moectl.workload import Workload

__all__ = ["RULES", "word_read_as_boolean"]
RULES = rules()
_OMEGACONF: Final = "OmegaConf 2.4.0 omegaconf/_utils.py get_yaml_loader, as MaxText 0.2.5 loads it"
_LOADER: Final = "MaxText 0.2.5 configs/pyconfig.py:182-197"
_CLI: Final = "MaxText 0.2.5 configs/pyconfig.py:97-110, OmegaConf.from_cli"
_TRUTHS: Final = frozenset({"true", "false"})
_QUOTES: Final = frozenset({"'", '"'})
_WORDS_OF_BOOL: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "t", "f"})
_SIXTY: Final = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_OCTAL: Final = re.compile(r"[-+]?0[0-7_]*[1-7][0-7_]*")
_INFINITE: Final = re.compile(r"[-+]?\.?(?:inf(?:inity)?|nan)", re.IGNORECASE)
_DOTLESS: Final = re.compile(r"[-+]?[0-9_]+[eE][-+]?[0-9]+")
_NUMBERS: Final = frozenset({"int", "float"})

# Code, severity, stage, title, reason, remedy, source of what the readers find.
_READ: Final[tuple[tuple[str, Severity, Stage, str, str, str, str], ...]] = (
    ("YAML101", "error", "reads", "no YAML", "The loader stops at the line.", "mend the line",
     _OMEGACONF),
    ("YAML102", "error", "config", "key that stands twice",
     "OmegaConf's loader refuses a mapping with two equal keys, where other loaders take the "
     "later one.", "keep one of the two", _OMEGACONF),
    ("YAML103", "error", "reads", "tab in the indentation", "YAML indents with spaces only.",
     "replace the tab by spaces", "YAML 1.1 section 5.5"),
    ("YAML104", "error", "config", "several documents", "MaxText loads a single document.",
     "split the file", _LOADER),
    ("YAML105", "error", "config", "no mapping", "A config is one mapping of keys to values.",
     "write key: value lines", _LOADER),
    ("YAML106", "warning", "silent", "file that says nothing",
     "MaxText starts from its defaults, and the run is another than meant.",
     "write key: value lines", _LOADER),
    ("YAML107", "note", "advice", "base_config that is not here",
     "What the base says is not known, so that a fault can hide there.",
     "keep the base beside the file", _LOADER),
    ("YAML108", "error", "config", "chain of bases without an end",
     "MaxText follows base_config until Python's recursion ends it.",
     "let the last file say base_config: base.yml", _LOADER),
    ("YAML109", "error", "config", "keys in a section",
     "Forks and wrappers group keys; MaxText's keys are flat, and it stops at the section's name.",
     "move the keys to the left margin", "MaxText 0.2.5 configs/pyconfig.py:226-271"),
    ("YAML110", "error", "reads", "form that is not read",
     "Tags, keys that are no words, and aliases of themselves have no meaning in a config.",
     "write the value out as plain YAML", _OMEGACONF),
    ("YAML111", "error", "config", "base_config that is no path",
     "MaxText opens it as a file.", "base_config: base.yml", _LOADER),
    ("YAML112", "note", "advice", "config that is a template",
     "What a template fills in is not known before it is rendered.",
     "render it and check the result", "moectl"),
    ("ARG101", "error", "config", "option with dashes",
     "MaxText knows key=value words only, and takes --key for an unknown key.", "write key=value",
     _CLI),
    ("ARG102", "error", "config", "word without =", "It is a key without a value.",
     "write key=value", _CLI),
    ("ARG103", "error", "config", "config that is not taken as one",
     "Only the first word, and only with the ending .yml, is the config.",
     "give it first, with the ending .yml", _CLI),
    ("ARG104", "error", "config", "argument that is no YAML",
     "The text after = is YAML of its own, whatever the shell's quotes were.",
     "quote it for YAML inside the shell's quotes", _CLI),
    ("ARG106", "warning", "silent", "argument that is said twice",
     "The last one counts, without a word.", "say it once", _CLI),
    ("ARG109", "error", "config", "M_ variable that cannot be read",
     "It is read by the type of the value it replaces.", "give it on the command line",
     "MaxText 0.2.5 configs/pyconfig.py:500-545"),
    ("ARG110", "warning", "silent", "M_ variable that MaxText does not read",
     "It looks for the variables M_<KEY> of its keys, in capital letters, and for no others.",
     "write M_ and the key in capital letters", "MaxText 0.2.5 configs/pyconfig.py:500-545"),
    ("ARG111", "error", "config", "M_ variable with a value that its key cannot have",
     "A variable replaces the value of the config, and is judged like it.",
     "use a value that the message calls legal", "MaxText 0.2.5 configs/pyconfig.py:500-545"),
    ("SRC101", "error", "reads", "no text file", "Binary files and the like are no settings.",
     "give a text file", "moectl"),
    ("SRC102", "error", "reads", "Windows line ends",
     "sbatch refuses DOS line breaks, and a shell takes the CR for a part of every last word.",
     "convert the file with dos2unix", "sbatch of Slurm 22.05 src/sbatch/opt.c; bash(1)"),
    ("SRC103", "error", "reads", "script that a shell cannot read",
     "A shell reads a script as it runs it, and stops at the first fault of its grammar.",
     "mend the line", "bash(1), POSIX shell grammar"),
    ("SRC104", "error", "reads", "file that cannot be read as its kind",
     "A fault of form hides all others.", "mend the line", "moectl"),
    ("SRC105", "warning", "reads", "file that is not judged to its end",
     "What stands after the place was not looked at, so that a fault can be there.",
     "split the file", "moectl"),
    ("SRC106", "note", "silent", "script that is not UTF-8 text",
     "A shell and sbatch take any bytes, and hand them on as they are.",
     "save it as UTF-8 text", "bash(1); MaxText 0.2.5 configs/pyconfig.py reads UTF-8"),
)  # fmt: skip
assert set(get_args(Severity)) >= {row[1] for row in _READ}  # noqa: S101 - a table of ours
RULES.all.extend(
    Rule(code, title, reason, remedy, source, severity, stage)
    for code, severity, stage, title, reason, remedy, source in _READ
)


def _written(w: Workload) -> Iterator[tuple[Key, Written, Catalogue]]:
    """Yield every known key of the YAML whose value is a scalar, as it is written."""
    if not w.is_maxtext and w.kind != MODEL_FILE:
        return
    try:
        catalogue = maxtext.load(w.maxtext)
    except MoectlError:
        return
    for name, value in w.config.items():
        key = catalogue.key(name)
        if key is not None and not key.parent and isinstance(value, Written) and value.spot:
            yield key, value, catalogue


@RULES.rule(
    "YAML121",
    "boolean where a word is meant",
    reason="A bare on, off, yes, no, true or false is a boolean in YAML 1.1, whatever the key "
    "means; MaxText then refuses it, or shows False where a name was typed.",
    remedy="put the word in quotes, or use a legal one",
    source=_OMEGACONF,
    stage="config",
)
def boolean_word(w: Workload) -> Iterator[Fault]:
    """Find e.g. `attention: off`."""
    for key, value, catalogue in _written(w):
        if not word_read_as_boolean(key, value):
            continue
        quoted = f'"{value.raw}"'
        legal = catalogue.check(key.name, value.raw) is None
        hint = f"{key.name} is {key.legal_near(value.raw)}"
        fix = None
        if legal and value.raw in key.choices:
            hint, fix = f"write {key.name}: {quoted}", (value.raw, quoted)
        elif "" in key.choices:
            hint = f'{hint}; for none write {key.name}: ""'
        yield Fault(
            key.name,
            f"{value.raw} is the boolean {str(value.value).lower()} in YAML, and {key.name} takes "
            "a word.",
            value.spot or value.origin,
            hint,
            fix=fix,
        )


@RULES.rule(
    "YAML122",
    "boolean in quotes",
    reason="In quotes it is text. MaxText's keys that are declared boolean read such text all the "
    'same; a program that only asks whether it is set takes "false" for true.',
    remedy="leave the quotes out",
    source="pydantic 2.14 lax mode, as MaxText 0.2.5 configs/types.py uses it",
    severity="warning",
    stage="advice",
)
def quoted_boolean(w: Workload) -> Iterator[Fault]:
    """Find e.g. `scan_layers: "no"`."""
    for key, value, _ in _written(w):
        text = value.value
        if key.type != "bool" or value.style not in _QUOTES or not isinstance(text, str):
            continue
        meant = text.strip().lower()
        if meant not in _WORDS_OF_BOOL | {"0", "1"}:
            continue
        plain = "true" if meant in {"true", "yes", "on", "y", "t", "1"} else "false"
        written = f"{value.style}{value.raw}{value.style}"
        yield Fault(
            key.name,
            f"{written} is text, not a boolean; MaxText reads it as {plain}, other readers as "
            "true whatever it says.",
            value.spot or value.origin,
            f"write {key.name}: {plain}",
            fix=(written, plain) if text == meant else None,
        )


@RULES.rule(
    "YAML123",
    "number in base sixty",
    reason="YAML 1.1 reads digits with colons in base sixty: 1:30 is 90.",
    remedy="write the number out, or put text in quotes",
    source="YAML 1.1 int and float types; " + _OMEGACONF,
    severity="warning",
    stage="silent",
)
def base_sixty(w: Workload) -> Iterator[Fault]:
    """Find e.g. `steps: 1:30`."""
    for key, value, _ in _written(w):
        if value.style or not _SIXTY.fullmatch(value.raw) or isinstance(value.value, str):
            continue
        yield Fault(
            key.name,
            f"{value.raw} is the number {value.value} in YAML (base sixty).",
            value.spot or value.origin,
            f"write {key.name}: {value.value}"
            if _takes_number(key)
            else f'write {key.name}: "{value.raw}"',
        )


@RULES.rule(
    "YAML124",
    "number in base eight",
    reason="YAML 1.1 reads a number with a leading zero in base eight: 010 is 8.",
    remedy="leave the zero out",
    source="YAML 1.1 int type; " + _OMEGACONF,
    severity="warning",
    stage="silent",
)
def base_eight(w: Workload) -> Iterator[Fault]:
    """Find e.g. `steps: 0100`, which is 64."""
    for key, value, _ in _written(w):
        if value.style or not _OCTAL.fullmatch(value.raw) or not isinstance(value.value, int):
            continue
        decimal = value.raw.replace("_", "").lstrip("+-").lstrip("0")
        if str(abs(value.value)) == decimal:
            continue
        yield Fault(
            key.name,
            f"{value.raw} is the number {value.value} in YAML (base eight).",
            value.spot or value.origin,
            f"write {key.name}: {decimal} or {key.name}: {value.value}",
        )


@RULES.rule(
    "YAML125",
    "infinite number",
    reason="It is a float to YAML and to MaxText, and no range check stops it.",
    remedy="write a finite number",
    source="pydantic 2.14 lax mode, as MaxText 0.2.5 configs/types.py uses it",
    severity="warning",
    stage="silent",
)
def infinite(w: Workload) -> Iterator[Fault]:
    """Find e.g. `learning_rate: inf`; a batch size of this kind BAT101 refuses."""
    refused = {fault.field for fault in finite_batch(w)}
    for key, value, catalogue in _written(w):
        if not _takes_number(key) or not _INFINITE.fullmatch(value.raw) or key.name in refused:
            continue
        if (
            catalogue.check(key.name, value.value) is None
            and catalogue.base.get(key.name) != value.value
        ):
            yield Fault(
                key.name,
                f"{value.raw} is no finite number, and MaxText takes it all the same.",
                value.spot or value.origin,
            )


@RULES.rule(
    "YAML126",
    "number without a dot",
    reason="MaxText's loader reads 3e-4 as a number; plain PyYAML, and tools built on it, read "
    "text.",
    remedy="nothing to do for MaxText; write 3.0e-4 where other tools read the file",
    source=_OMEGACONF,
    severity="note",
    stage="advice",
)
def dotless(w: Workload) -> Iterator[Fault]:
    """Find e.g. `learning_rate: 3e-4`."""
    for key, value, _ in _written(w):
        if value.style or not _DOTLESS.fullmatch(value.raw) or isinstance(value.value, str):
            continue
        yield Fault(
            key.name,
            f"{value.raw} is the number {value.value} to MaxText, and text to plain PyYAML.",
            value.spot or value.origin,
            f"nothing to do for MaxText; write {_with_dot(value.raw)} where other tools read the "
            "file",
        )


def _with_dot(raw: str) -> str:
    """Return a number as every reader takes it: `1e-8` as `1.0e-8`, `3e5` as `3.0e+5`."""
    digits, _, exponent = raw.lower().partition("e")
    sign = "" if exponent.startswith(("+", "-")) else "+"
    return f"{digits}.0e{sign}{exponent}"


@RULES.rule(
    "YAML127",
    "value from outside the file",
    reason="OmegaConf fills it in when MaxText starts; what it becomes is not known here, and an "
    "unset variable without a default stops the run.",
    remedy="give it a default: ${oc.env:NAME,default}",
    source="OmegaConf 2.4.0 resolvers",
    severity="note",
    stage="advice",
)
def interpolation(w: Workload) -> Iterator[Fault]:
    """Find e.g. `run_name: ${oc.env:RUN}`."""
    for key, value, _ in _written(w):
        if "${oc.env:" in value.raw and "," not in value.raw.partition("${oc.env:")[2]:
            yield Fault(
                key.name,
                f"{shown(value.raw, 60)} is filled in from the environment when MaxText starts.",
                value.spot or value.origin,
            )


RULES.all.extend(model_files.RULES.all)


def _takes_number(key: Key) -> bool:
    return bool(set(split_type(key.type)) & _NUMBERS)
