"""moectl validate."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from moectl.actions.validate import UNREADABLE
from moectl.cli.manner import NOW, agreed, colourful, remark
from moectl.cli.numbers import whole
from moectl.errors import LocalFilesError, UnknownNameError, UsageError, ValueUsageError
from moectl.given import Given
from moectl.reports import Look, rendered
from moectl.reports import writer as stream
from moectl.reports.tally import Tally, summary, tally_of

if TYPE_CHECKING:
    from moectl.actions.validate import Outcome
    from moectl.checked import Report
    from moectl.fixes import Fixes
    from moectl.reports import Writer

_COUNTS = {"gpus": "GPUs, e.g. 128", "gpus_per_node": "GPUs a node, e.g. 8"}
_TEXTS = {
    "hardware": "the name of a platform",
    "image": "the reference of an image",
    "maxtext": "a MaxText release",
    "jaxlib": "a jaxlib release",
    "probe": "the path of a file",
    "output": "the path of a file",
}
_STANDARD_INPUT = "-"


def run(
    paths: Sequence[str],
    strict: bool,
    fix: bool,
    diff: bool,
    yes: bool,
    format: str,  # noqa: A002 - the option's name
    output: str | None,
    **values: Any,
) -> int:
    """Check, and say what was found; with --fix make what is safe."""
    from moectl.actions.validate import outcomes_of, validate  # noqa: PLC0415

    given = _given(paths, {**values, "output": output})
    _refuse_contradictions(fix=fix, diff=diff, yes=yes, form=format, output=output)
    look = Look(
        colour=output is None and colourful(sys.stdout),
        quiet=NOW.quiet,
        strict=strict,
        root=os.getcwd() if format == "sarif" else "",  # noqa: PTH109 - pathlib is slower to load
        when=_now() if format == "junit" else "",
    )
    if diff:
        report = validate(list(paths), given)
        fixes = _fixes(report)
        sys.stdout.write(_for_stream(fixes.diff(), sys.stdout))
        _say_left(fixes)
        return _exit_code(tally_of(report), strict=strict)
    if not fix and (writer := stream(format, look)) is not None:
        tally = writer.tally
        pieces = _pieces(writer, outcomes_of(list(paths), given))
    else:
        report = validate(list(paths), given)
        if fix:
            report = _fixed(report, paths, given, form=format, yes=yes)
        tally = tally_of(report)
        rules = _rules(report) if format == "sarif" else None
        pieces = iter([rendered(report, format, look, rules)])
    if output is None:
        for piece in pieces:
            sys.stdout.write(piece)
    else:
        from moectl.fixes import write_file  # noqa: PLC0415

        write_file(output, "".join(pieces).encode("utf-8"))
        remark(summary(tally))
    return _exit_code(tally, strict=strict)


def _pieces(writer: Writer, outcomes: Iterable[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        yield from writer.add(outcome.report)
    yield from writer.end()


def _exit_code(tally: Tally, *, strict: bool) -> int:
    """Return 4 when a file could not be read, 1 when something was found, else 0."""
    if UNREADABLE in tally.kinds:
        return LocalFilesError.exit_code
    return int(tally.failed(strict=strict))


def _given(paths: Sequence[str], values: dict[str, Any]) -> Given:
    """Return what was said beside the files.

    Raises:
        UsageError: nothing to check, or a value that cannot be meant.
    """
    if not paths and values["xla_flags"] is None:
        raise UsageError("validate wants a path, - for standard input, or --xla-flags")
    if "" in paths:
        raise ValueUsageError("a path", "", "the path of a file or folder")
    gpus, per_node = _count("gpus", values), _count("gpus_per_node", values)
    if gpus is not None and per_node is not None and gpus % per_node and gpus > per_node:
        legal = f"a multiple of --gpus-per-node {per_node}"
        raise ValueUsageError("--gpus", gpus, legal)
    if list(paths).count(_STANDARD_INPUT) > 1:
        raise UsageError("standard input (-) can be read once only")
    for name, legal in _TEXTS.items():
        if values[name] == "":
            raise ValueUsageError(f"--{name}", "", legal)
    select, ignore = (
        _codes(values[name], f"--{name}") if values[name] else () for name in ("select", "ignore")
    )
    flags = values["xla_flags"]
    return Given(
        gpus=gpus,
        gpus_per_node=per_node,
        hardware=values["hardware"],
        image=values["image"],
        maxtext=values["maxtext"],
        jaxlib=values["jaxlib"],
        probe=values["probe"],
        xla_flags=() if flags is None else (flags,),
        select=select,
        ignore=ignore,
    )


def _refuse_contradictions(
    *, fix: bool, diff: bool, yes: bool, form: str, output: str | None
) -> None:
    if diff and (form != "text" or output is not None):
        raise UsageError("--diff prints a diff; leave --format and --output out")
    if diff and yes:
        raise UsageError("--diff changes nothing; leave --yes out, or write --fix --yes")
    if yes and not fix:
        raise UsageError("--yes answers the question of --fix; add --fix")


def _count(name: str, values: dict[str, Any]) -> int | None:
    text = values[name]
    if text is None:
        return None
    return whole(f"--{name.replace('_', '-')}", text, f"a whole number of {_COUNTS[name]}")


def _codes(texts: Sequence[str], flag: str) -> tuple[str, ...]:
    """Return the codes and families of comma-separated lists.

    Raises:
        UnknownNameError: one that no rule has; the nearest are named.
    """
    from moectl.suppress import known_codes, unknown  # noqa: PLC0415

    known = known_codes()
    said = [code.strip() for text in texts for code in text.split(",")]
    for code in said:
        if unknown(code, known) is not None:
            families = dict.fromkeys(one.rstrip("0123456789") for one in known)
            raise UnknownNameError("code or family", code, [*known, *families], where=flag)
    return tuple(code.upper() for code in said)


def _rules(report: Report) -> dict[str, Any]:
    from moectl.rules.registry import all_rules  # noqa: PLC0415
    from moectl.suppress import RULES  # noqa: PLC0415

    if not report.findings:
        return {}
    return {**all_rules(), **{rule.code: rule for rule in RULES.all}}


def _fixes(report: Report) -> Fixes:
    from moectl.fixes import planned  # noqa: PLC0415

    names = {one.name for one in report.checked if not one.name.startswith("-")}
    return planned(report.findings, names)


def _fixed(report: Report, paths: Sequence[str], given: Given, *, form: str, yes: bool) -> Report:
    """Show what would change, ask, write it, and return what is found afterwards.

    Without --yes, and without a terminal to ask at, nothing is written.
    """
    from moectl.fixes import write  # noqa: PLC0415

    fixes = _fixes(report)
    # Standard output is the report's when a program reads it.
    stream = sys.stdout if form == "text" else sys.stderr
    stream.write(_for_stream(fixes.diff(), stream))
    stream.flush()
    if not fixes.files:
        remark("nothing that can be fixed safely")
    elif yes or agreed(f"write {fixes.made} in {_files(fixes)}?"):
        write(fixes)
        remark(f"fixed {fixes.made} in {_files(fixes)}")
        report = _after(report, fixes, paths, given)
    else:
        remark("nothing was changed; --fix --yes changes it without a question")
    _say_left(fixes)
    return report


def _after(report: Report, fixes: Fixes, paths: Sequence[str], given: Given) -> Report:
    """Return what is found after a write.

    Standard input cannot be read again, so with it among the paths what was fixed is left out.
    """
    if _STANDARD_INPUT not in paths:
        from moectl.actions.validate import validate  # noqa: PLC0415

        return validate(list(paths), given)
    from dataclasses import replace  # noqa: PLC0415

    made = {finding for change in fixes.files for finding in change.made}
    left = tuple(finding for finding in report.findings if finding not in made)
    return replace(report, findings=left)


def _say_left(fixes: Fixes) -> None:
    if fixes.left:
        remark(
            f"{len(fixes.left)} could not be fixed in this pass (in another one's place, or in "
            "a file that was not named); run it again"
        )


def _files(fixes: Fixes) -> str:
    return f"{len(fixes.files)} file{'' if len(fixes.files) == 1 else 's'}"


def _for_stream(text: str, stream: Any) -> str:
    """Return a diff as it is, or with escapes where a terminal would act on it."""
    if not stream.isatty():
        return text
    from moectl.reports.escape import printable  # noqa: PLC0415

    return "".join(f"{printable(line.replace(chr(9), '    '))}\n" for line in text.split("\n")[:-1])


def _now() -> str:
    import time  # noqa: PLC0415

    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
