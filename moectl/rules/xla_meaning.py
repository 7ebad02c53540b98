"""XLA flags that parse and still mean something else: numbers, passes, aliases, compile options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moectl.errors import shown
from moectl.facts.xla_lore import meant_pass, sane_range
from moectl.findings import Severity
from moectl.rules.rule import Fault, rules
from moectl.rules.xla_reading import judges, reading
from moectl.rules.xla_refusals import parser_fault
from moectl.workload import MARK, Workload

RULES = rules()
_PARSERS: Final = "parsers of jaxlib 0.8.3, 0.10.2, 0.11.2 and 0.12.0.1 (flag catalogues)"


@RULES.rule(
    "XLA208",
    "number that cannot be meant",
    reason="XLA checks hardly any number: it takes a negative size or a percentage above 100, "
    "and does something else than was meant.",
    remedy="write a number in the range that the message names",
    source=f"{_PARSERS}; openxla/xla xla/xla.proto",
    severity="warning",
    stage="silent",
)
def absurd(w: Workload) -> Iterator[Fault]:
    """A number outside the range that makes sense."""
    read = reading(w)
    if read is None:
        return
    for token in read.kept:
        value = token.value or ""
        legal = sane_range(token.name)
        if legal is None or read.partial(token) or parser_fault(judges(w).first, token) is not None:
            continue
        if not legal.low <= int(value) <= legal.high:
            message = (
                f"--{token.name}={value} is outside {legal.low} to {legal.high}: {legal.meaning}"
            )
            yield Fault(token.name, message, read.text.at(token.offset))


@RULES.rule(
    "XLA209",
    "HLO pass that is probably misspelt",
    reason="Names of passes are compared letter by letter and never checked: a wrong one "
    "disables nothing.",
    remedy="write the name as XLA has it",
    source="tried with jaxlib 0.10.2 and 0.12.0.1; jax/_src/compiler.py of jax 0.12.0.1",
    severity="warning",
    stage="silent",
)
def misspelt_pass(w: Workload) -> Iterator[Fault]:
    """A pass name near a known one."""
    read = reading(w)
    if read is None:
        return
    for token in read.kept:
        flag = judges(w).first.flag(token.name)
        if flag is None or flag.list_of != "text" or read.partial(token):
            continue
        if not flag.name.endswith("hlo_passes") or token.value is None:
            continue
        for item in token.value.split(","):
            if meant := meant_pass(item.partition(":")[0].strip()):
                message = f"no pass is called {shown(item)}, so it disables nothing"
                yield Fault(flag.name, message, read.text.at(token.offset), f"write {meant}")


@RULES.rule(
    "XLA210",
    "switch that stands for a choice",
    reason="The old switch still parses, but writes another flag: true is on, and false is the "
    "default of that flag, not off.",
    remedy="use the flag it writes",
    source="effective values read back from jaxlib 0.11.2 and 0.12.0.1; openxla/xla "
    "docs/effort_levels.md",
    severity="note",
    stage="silent",
)
def alias(w: Workload) -> Iterator[Fault]:
    """A switch whose value lands in a flag with more than two choices."""
    read = reading(w)
    if read is None:
        return
    catalogue = judges(w).first
    for token in read.kept:
        flag = catalogue.flag(token.name)
        if flag is None or flag.parser_type != "bool" or read.partial(token):
            continue
        target = catalogue.flag(flag.writes) if flag.writes != flag.name else None
        if target is None or not {"on", "off"} <= set(target.accepts):
            continue
        off = token.value is not None and token.value.lower() in {"false", "0"}
        level = w.variable("JAX_OPTIMIZATION_LEVEL")
        raised = level is not None and level in {"O1", "O2", "O3"}
        state = "the default" if off else "on"
        message = f"--{flag.name} sets {target.name} to {state}"
        if off and raised:
            message += f", and JAX_OPTIMIZATION_LEVEL={level} then turns it on"
        hint = f"write --{target.name}={'off' if off else 'on'}"
        severity: Severity = "warning" if off and raised else "note"
        yield Fault(flag.name, message, read.text.at(token.offset), hint, severity)


@RULES.rule(
    "XLA212",
    "flag name that compile options do not have",
    reason="compile_xla_flags becomes compile options, which know the fields of DebugOptions and "
    "not the names that only the parser of XLA_FLAGS has: compiling stops with a message.",
    remedy="move the flag into XLA_FLAGS",
    source="MaxText 0.2.5 utils/max_utils.py:59 and trainers/pre_train/train.py:1256; tried with "
    "jax 0.10.2",
    severity="warning",
)
def compile_option(w: Workload) -> Iterator[Fault]:
    """A name in MaxText's compile_xla_flags that is no field."""
    text = w.value("compile_xla_flags") if w.is_maxtext else None
    if not isinstance(text, str) or not text.strip() or MARK in text:
        return
    catalogue = judges(w).first
    for word in text.replace("\\", " ").split():
        name = word.partition("=")[0].removeprefix("--")
        flag = catalogue.flag(name)
        if flag is not None and not flag.proto_type:
            message = f"--{name} is a name of the parser only; a compile option is refused"
            yield Fault("compile_xla_flags", message, w.where("compile_xla_flags"))
