"""The verdicts of the rules on XLA flags are those of the real parsers of four jaxlib releases.

Accepted, refused (unknown, bad value, no value) and dropped are compared for every flag of
every catalogued release, and for whole texts drawn at random. The values that each parser
holds afterwards are read back, so that a flag which is dropped in silence shows.
"""

from __future__ import annotations

import math
import os
import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from moectl.evidence.xla_parser import judge_many
from moectl.evidence.xla_proto import Schema, debug_options, schema
from moectl.evidence.xla_session import Answer, ParserSession
from moectl.facts import xla
from moectl.facts.xla_flag import XlaFlag
from moectl.findings import Finding
from moectl.rules import xla_flags, xla_text
from moectl.rules.xla_reading import effective_flags
from moectl.values import Origin
from moectl.workload import Text, Workload
from tests.support import components

SEED = int(os.environ.get("MOECTL_XLA_SEED", "20261130"))
TEXTS = int(os.environ.get("MOECTL_XLA_TEXTS", "100"))  # for each release
HERE = version("jaxlib")
# The jaxlib beside moectl judges its own release; the others have environments of their own.
JUDGED = [r for r in xla.releases() if r == HERE or f"jaxlib-{r}" in components.COMPONENTS]
SECONDS = 20.0
# What a finding of these codes says: the process dies.
FATAL = {
    *("XLA103", "XLA105", "XLA106", "XLA107", "XLA108", "XLA109"),
    *("XLA201", "XLA202", "XLA203", "XLA204", "XLA205", "XLA206", "XLA207", "XLA211"),
}
UNKNOWN = {"XLA201", "XLA202", "XLA211"}
STOPS = "stops reading"
EVERY = "ALLCOLLECTIVES"  # one flag spells it out
SCALARS = (
    *("true", "TRUE", "tRuE", "True", "false", "FALSE", "1", "0", "2", "-1", "+5", "007", "00"),
    *("yes", "on", "off", "y", "1GiB", "8GB", "1e9", "1e3", "0x10", "4.5", ".5", "5.", "inf"),
    *("-inf", "nan", "0x1p3", "2147483647", "2147483648", "-2147483649", "+", "-", "--5", "5;"),
    *("9223372036854775807", "9223372036854775808", "1_000", "true,", "=1", "", "1\u00a0"),
    *("' 5'", "'5\t'", "'5\v'", "'+ 5'", "' true'", "'true '", "'0.5 '", '"1"', "''"),
)


@dataclass(frozen=True)
class Told:
    """What the rules say of a text.

    Attributes:
        findings: all of them.
        workload: the text as a workload.
    """

    findings: tuple[Finding, ...]
    workload: Workload

    @cached_property
    def fatal(self) -> tuple[Finding, ...]:
        """The findings that mean the process dies."""
        return tuple(f for f in self.findings if f.code in FATAL and STOPS not in f.message)

    @property
    def refused(self) -> set[str]:
        """Names of the flags for which the process dies."""
        return {finding.field for finding in self.fatal}

    @property
    def stops(self) -> tuple[Finding, ...]:
        """The findings that say where XLA stops reading."""
        return tuple(f for f in self.findings if STOPS in f.message)


def told(text: str, release: str) -> Told:
    """Return what the rules say of a text."""
    origin = Origin("flags", "flags.txt", 1, 1)
    workload = Workload(
        kind="flags", origin=origin, maxtext="0.2.5", jaxlib=release, flags=Text.of(text, origin)
    )
    found = [
        finding
        for module in (xla_text, xla_flags)
        for rule in module.RULES.all
        for finding in rule.findings(workload)
    ]
    assert all(f.severity == "error" for f in found if f.code in FATAL and STOPS not in f.message)
    return Told(tuple(found), workload)


@dataclass(frozen=True)
class Parser:
    """A real parser.

    Attributes:
        release: its jaxlib.
        python: the interpreter that has it.
        session: an open session.
        known: the fields of its DebugOptions.
        defaults: the values when nothing is set.
    """

    release: str
    python: str
    session: ParserSession
    known: Schema
    defaults: dict[str, Any]

    @property
    def catalogue(self) -> xla.XlaCatalogue:
        """The catalogue that stands for it."""
        return xla.load(self.release)

    def ask(self, texts: Iterable[str]) -> list[Answer]:
        """Return what it says of each text."""
        return self.session.ask(list(texts), SECONDS)

    def values(self, answer: Answer) -> dict[str, Any]:
        """Return the values it holds after a text that it took."""
        assert answer.accepted, answer.said[:400]
        return dict(debug_options(answer.options, self.known))

    def flag(self, name: str) -> XlaFlag:
        """Return a flag of its catalogue."""
        found = self.catalogue.flag(name)
        assert found is not None, name
        return found


@pytest.fixture(scope="module", params=JUDGED)
def parser(request: pytest.FixtureRequest) -> Iterator[Parser]:
    release: str = request.param
    python = Path(sys.executable) if release == HERE else components.require(f"jaxlib-{release}")
    with ParserSession(str(python)) as session:
        assert session.jaxlib == release
        known = schema(session.library)
        first = session.ask([""], SECONDS)[0]
        defaults = dict(debug_options(first.options, known))
        yield Parser(release, str(python), session, known, defaults)


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Iterator[Callable[[str], None]]:
    """Return what prints a line although the test passes: the seed must be seen."""
    plugins = request.config.pluginmanager
    terminal: Any = plugins.get_plugin("terminalreporter")
    capture: Any = plugins.get_plugin("capturemanager")
    lines: list[str] = []
    yield lines.append
    with capture.global_and_fixture_disabled():
        for line in lines:
            terminal.write_line(line)


def test_three_releases_are_judged_besides_the_one_that_is_installed() -> None:
    assert len(JUDGED) >= 3
    assert {"0.8.3", "0.11.2", "0.12.0.1"} <= set(JUDGED)


@pytest.mark.parametrize("text", [*SCALARS, None])
def test_every_scalar_flag_takes_and_refuses_what_its_parser_does(
    parser: Parser, text: str | None
) -> None:
    """All flags that the rules refuse in one text, all that they accept in another."""
    names = [n for n in parser.catalogue.names() if parser.flag(n).parser_type != "string"]
    names = [n for n in names if not parser.flag(n).depends_on_build]
    tokens = {name: f"--{name}" if text is None else f"--{name}={text}" for name in names}
    said = told(" ".join(tokens.values()), parser.release).refused
    refused = [name for name in names if name in said]
    accepted = [n for n in names if n not in refused]
    bad, good = (" ".join(tokens[n] for n in group) for group in (refused, accepted))
    answers = parser.ask([bad, good])
    assert told(bad, parser.release).refused == set(refused)
    assert _named(answers[0], text is None) == _spoken(parser, refused, answers[0])
    held = parser.values(answers[1])
    effective = effective_flags(told(good, parser.release).workload).values
    assert set(effective) == set(accepted)
    for name in accepted:
        _assert_holds(parser, held, name, str(effective[name]))


def _named(answer: Answer, unknown: bool) -> set[str]:
    """Return the flags that a parser names in its refusal."""
    if answer.accepted:
        return set()
    if unknown:
        return set(re.findall(r"--(\w+)", answer.said.partition("Unknown flag")[2]))
    return set(re.findall(r"for flag (\w+)\.", answer.said))


def _spoken(parser: Parser, refused: list[str], answer: Answer) -> set[str]:
    """Return the refused flags that the parser names; a setter of its own is silent."""
    silent = {n for n in refused if {"min", "max"} & set(parser.flag(n).rules)}
    return set(refused) - (silent - _named(answer, False) - _named(answer, True))


def _assert_holds(parser: Parser, held: dict[str, Any], name: str, text: str) -> None:
    """Assert that a parser holds the value that a text means."""
    flag = parser.flag(name)
    if not flag.writes:
        return
    value = held.get(flag.writes, parser.defaults.get(flag.writes))
    assert _means(flag, text, value, parser.defaults.get(flag.writes)), (name, text, value)


def _means(flag: XlaFlag, text: str, value: Any, default: Any) -> bool:
    """Whether a parser that was given `text` may hold `value`."""
    if flag.writes != flag.name:
        # A switch that writes another flag: on and off are told apart, and both are choices.
        return value is not None or default is None
    if flag.parser_type == "bool":
        return bool(value) == (text.lower() in {"true", "1"})
    if flag.parser_type in {"int32", "int64"}:
        return int(value or 0) == int(text)
    if flag.parser_type == "float":
        wanted = float.fromhex(text) if "x" in text.lower() else float(text)
        held = float(value or 0)
        return (math.isnan(wanted) and math.isnan(held)) or math.isclose(held, wanted, rel_tol=1e-6)
    return _text_means(flag, text, value, default)


def _text_means(flag: XlaFlag, text: str, value: Any, default: Any) -> bool:
    if flag.list_of == "map":
        pairs = (item.partition("=") for item in text.split(",") if item)
        options = value or {}
        return all(options.get(key) == end for key, _, end in pairs)
    if flag.list_of == "kinds":
        kinds = (item.strip() for item in text.split(","))
        wanted = [flag.kind(item) or item for item in kinds if item]
        if EVERY in wanted and EVERY not in (value or []):
            return len(value or []) > len(wanted)
        return len(value or []) == len(set(wanted)) and all(
            _is_kind(kind, item) for kind, item in zip(wanted, value or [], strict=False)
        )
    if flag.list_of == "text":
        # One keeps empty items, another leaves them out.
        items = [item.strip() for item in text.split(",")]
        held = [str(item).strip() for item in value or []]
        return held in (items, [item for item in items if item])
    if flag.accepts:
        return not text or _is_kind(flag.kind(text) or text, str(value))
    if "shape" in flag.rules:
        return value is not None or default is None
    if isinstance(value, list):
        # Some lists are split at blanks, some only grow by repeats.
        return text in {",".join(map(str, value)), " ".join(map(str, value))}
    # Some setters change the case of what they keep.
    return str(value or "").casefold() == text.casefold()


def _is_kind(text: str, value: str) -> bool:
    """Whether an enum value is the one that a text stands for, as far as its name tells."""
    upper = text.upper().replace("-", "_")
    plain = value.upper()
    if upper == "NONE" and plain.startswith("UNSPECIFIED"):
        return True
    return plain == upper or plain.endswith(f"_{upper}") or upper in plain.split("_")


def test_every_text_flag_holds_each_legal_text(parser: Parser) -> None:
    """One round for each legal text; all flags of a round stand in one text."""
    names = [n for n in parser.catalogue.names() if parser.flag(n).parser_type == "string"]
    choices = {name: _good(parser.flag(name)) for name in names}
    rounds = max(map(len, choices.values()))
    texts = [
        " ".join(
            f"--{name}={texts[number % len(texts)]}"
            for name, texts in choices.items()
            if number < len(texts) or number < 3
        )
        for number in range(rounds)
    ]
    for text, answer in zip(texts, parser.ask(texts), strict=True):
        verdict = told(text, parser.release)
        assert not verdict.fatal, verdict.fatal[0]
        held = parser.values(answer)
        for name, effective in effective_flags(verdict.workload).values.items():
            _assert_holds(parser, held, name, str(effective))


def _good(flag: XlaFlag) -> list[str]:
    """Return legal texts of a text flag, each another one."""
    if flag.list_of == "kinds":
        kinds = list(flag.accepts)
        lists = [",".join(kinds[:count]) for count in range(1, min(4, len(kinds)) + 1)]
        edits = [f"+{kind}" for kind in kinds] if flag.edits else []
        minus = [f"-{kinds[-1]},-{kinds[1 % len(kinds)]}"] if flag.edits else []
        lower = [kind.lower() for kind in kinds[:2]] if flag.any_case else []
        return [*kinds, *lists, *edits, *minus, *lower]
    if flag.accepts:
        cases = [t for kind in flag.accepts for t in (kind, kind.lower()) if flag.kind(t)]
        return list(dict.fromkeys(cases))
    shapes = {shape.name: list(shape.good) for shape in _shapes()}
    if good := shapes.get(flag.rules.get("shape", "")):
        return good
    return {"map": ["a=b", "a=b,c=d"], "text": ["a", "a,b", "b,,a"]}.get(
        flag.list_of, ["x", "'x y'", '"x,y"', "/data/x=y"]
    )


def _shapes() -> tuple[Any, ...]:
    from moectl.facts.xla_flag import shapes  # noqa: PLC0415 - beside its one use

    return shapes()


def test_every_choice_list_and_shape_is_judged_as_its_parser_judges_it(parser: Parser) -> None:
    """The one fault a parser does not name, so each text stands alone."""
    texts = [
        f"--{name}={text}"
        for name in parser.catalogue.names()
        if parser.flag(name).parser_type == "string"
        for text in _doubtful(parser.flag(name))
    ]
    assert len(texts) > 40
    wrong = [
        (text, answer.accepted)
        for text, answer in zip(texts, parser.ask(texts), strict=True)
        if answer.accepted == bool(told(text, parser.release).fatal)
    ]
    assert wrong == []


def _doubtful(flag: XlaFlag) -> list[str]:
    """Return texts that a choice, a list or a shape may not take: commas and blanks astray."""
    if flag.accepts:
        other = flag.accepts[0].swapcase()
        first, last = flag.accepts[0], flag.accepts[-1]
        lists = [
            *(f"+{first},{last}", f"'{first}, {last}'", f"{first},,{last}", f"'+{first} '"),
            *(f",{first}", f"+{first},", f"'{first}, ,{last}'", f"'+ {first}'", ","),
        ]
        blanks = [f"' {first}'", f"'{first} '"]
        return ["moectl_probe", f"{other},", *blanks, *(lists if flag.list_of == "kinds" else [])]
    shapes = {
        shape.name: [*shape.bad[:2], *(f"' {text} '" for text in shape.good[:3])]
        for shape in _shapes()
    }
    return shapes.get(flag.rules.get("shape", ""), [])


def test_every_flag_of_another_release_is_known_to_be_unknown(parser: Parser) -> None:
    others = {n for release in xla.releases() for n in xla.load(release).names()}
    lore = ["xla_gpu_enable_async_all_gather", "xla_gpu_graph_level", "xla_tpu_a", "xla_no_such"]
    names = sorted({*others, *lore} - set(parser.catalogue.names()))
    text = " ".join(f"--{name}=1" for name in names)
    verdict = told(text, parser.release)
    assert {finding.code for finding in verdict.fatal} <= UNKNOWN
    assert verdict.refused == set(names)
    answer = parser.ask([text])[0]
    assert not answer.accepted
    assert _named(answer, True) == set(names)


@dataclass
class Writer:
    """Writes whole texts of flags as people do, right and wrong.

    Attributes:
        catalogue: the flags to draw from.
        random: where chance comes from.
    """

    catalogue: xla.XlaCatalogue
    random: random.Random

    def text(self) -> str:
        """Return a text of a few words."""
        draw = self.random
        words = [self.word() for _ in range(draw.randint(1, 6))]
        if draw.random() < 0.15:
            words.insert(draw.randint(0, len(words)), draw.choice(STRAYS))
        if draw.random() < 0.15:
            again = draw.choice(words)
            name = again.partition("=")[0]
            words.append(again if draw.random() < 0.3 else f"{name}={self.value(name[2:])}")
        if draw.random() < 0.04:
            words = [draw.choice((":", ",", ";")).join(words)]
        text = words[0]
        for word in words[1:]:
            text += draw.choice((" ", " ", " ", "  ", "\n", "\t", "\r\n")) + word
        return draw.choice(("", "", "", "", " ", "\n")) + text + draw.choice(("", "", " ", "\n"))

    def word(self) -> str:
        """Return one flag."""
        draw = self.random
        name = draw.choice(self.catalogue.names())
        if draw.random() < 0.3:
            name = draw.choice(FAVOURITES)
        chance = draw.random()
        if chance < 0.04:
            return f"--{draw.choice(SLIPS)(name)}={self.value(name)}"
        if chance < 0.06:
            return f"-{name}={self.value(name)}"
        if chance < 0.10:
            return f"--{name}"
        value = self.value(name)
        if chance < 0.16:
            return f"--{name}='{value}'"
        if chance < 0.22:
            return f'--{name}="{value}"'
        if chance < 0.24:
            return f"--{name}='{value}"
        return f"--{name}={value}"

    def value(self, name: str) -> str:
        """Return a value: mostly a legal one."""
        draw = self.random
        flag = self.catalogue.flag(name)
        if flag is None or draw.random() < 0.06:
            return draw.choice(("1GiB", "on", "4.5", "FUSION, CUBLAS", "moectl_probe", ""))
        if flag.parser_type == "bool":
            return draw.choice(("true", "false", "1", "0", "True"))
        if flag.parser_type == "float":
            return draw.choice(("0.5", "1e-3", "2"))
        if flag.parser_type != "string":
            return str(draw.choice((1, 2, 3, 128, 1 << 30)))
        return draw.choice(_good(flag)).strip("'\"")


FAVOURITES = (
    *("xla_gpu_enable_command_buffer", "xla_gpu_enable_latency_hiding_scheduler"),
    *("xla_disable_hlo_passes", "xla_dump_to", "xla_gpu_autotune_level"),
    *("xla_gpu_all_gather_combine_threshold_bytes", "xla_gpu_enable_async_all_gather"),
)
STRAYS = (
    *("true", "\\", "# note", "CUBLAS", "intra_op_parallelism_threads=1", "--", "0"),
    *("'--xla_gpu_autotune_level=1'", "xla_gpu_autotune_level=1", "\u2013-xla_a=1", ",FUSION"),
)
SLIPS = (
    lambda name: name + "s",
    lambda name: name.replace("_", "-", 3),
    lambda name: name.upper(),
    lambda name: "xla_tpu_" + name[4:],
)


def test_whole_texts_drawn_at_random_get_the_verdict_of_the_parser(
    parser: Parser, report: Callable[[str], None]
) -> None:
    writer = Writer(parser.catalogue, random.Random(f"{SEED} {parser.release}"))  # noqa: S311
    texts = list(dict.fromkeys(writer.text() for _ in range(TEXTS)))
    texts = [text for text in texts if not _depends_on_build(parser, text)]
    counts = {"accepted": 0, "refused": 0, "stopped": 0}
    for text, real in zip(texts, judge_many(texts, parser.python), strict=True):
        said = told(text, parser.release)
        place = f"MOECTL_XLA_SEED={SEED}, jaxlib {parser.release}: {text!r}"
        assert real.outcome in {"accepted", "refused"}, place
        assert bool(said.fatal) == (real.outcome == "refused"), (place, said.fatal, real.sentence)
        counts[real.outcome] += 1
        counts["stopped"] += bool(said.stops)
        if real.accepted:
            _assert_effective(parser, said, dict(real.values), place)
        elif not {"XLA103", "XLA107", "XLA109"} & {f.code for f in said.fatal}:
            names = {fault.flag.strip("-") for fault in real.faults}
            assert said.refused - {"XLA_FLAGS"} == names - {""}, place
    report(f"MOECTL_XLA_SEED={SEED}, jaxlib {parser.release}: {counts}")
    assert min(counts.values()) > 0


def _depends_on_build(parser: Parser, text: str) -> bool:
    names = re.findall(r"xla_\w+", text)
    return any(f.depends_on_build for n in names if (f := parser.catalogue.flag(n)))


def _assert_effective(parser: Parser, said: Told, held: dict[str, Any], place: str) -> None:
    """Assert that the parser holds what the rules say counts, and nothing else."""
    effective = effective_flags(said.workload).values
    written: set[str] = set()
    for name, text in effective.items():
        flag = parser.flag(name)
        written |= {flag.writes}
        others = [n for n in effective if n != name and parser.flag(n).writes == flag.writes]
        if not others:
            _assert_holds(parser, held, name, str(text))
    # A flag without a field of its name may write into a message that has others.
    parts = tuple(name for name in effective if not parser.flag(name).writes)
    changed = {name for name, value in held.items() if parser.defaults.get(name) != value}
    changed = {name for name in changed if not any(part.startswith(name) for part in parts)}
    assert changed <= written, (place, changed - written)
