"""moectl plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from moectl.actions import planning
from moectl.cli.job_options import wishes
from moectl.cli.manner import remark
from moectl.cli.numbers import whole, wholes
from moectl.cli.text import say, say_json
from moectl.errors import UsageError
from moectl.estimate.memory import GIB
from moectl.reports.columns import columns
from moectl.reports.escape import printable

_HEAD = ("RANK", "MESH", "BATCH", "REMAT", "GIB", "FITS", "S/STEP", "TOKENS/S", "TFLOP/S", "WHY")
_RIGHT = frozenset({0, 2, 4, 6, 7, 8})
_LEGAL = "a whole number from 1"


def run(
    target: str,
    gpus: str | None,
    hardware: str | None,
    global_batch: str | None,
    seq: str | None,
    top: str | None,
    why_not: str | None,
    sweep: str | None,
    output: str | None,
    choose: str | None,
    force: bool,
    format: str,  # noqa: A002 - the option's name
    **values: Any,
) -> int:
    """Rank the meshes of a model."""
    ask = _ask(target, gpus, hardware, global_batch, seq, top, values)
    if sweep is not None:
        if gpus is not None or why_not is not None or output is not None:
            raise UsageError("--sweep stands alone: it says the GPUs itself and writes no file")
        counts = wholes("--sweep", sweep, "numbers of GPUs with commas, e.g. 8,64,128")
        return _sweep(ask, counts, format)
    count = whole("--gpus", gpus, _LEGAL) if gpus is not None else planning.own_gpus(ask)
    if count is None:
        raise UsageError("plan wants --gpus N, or --sweep N,N,...")
    found = planning.planned(ask, count)
    if why_not is not None:
        told = planning.why_not(ask, found, why_not)
        if format == "json":
            say_json(told)
        else:
            for line in told:
                say(printable(line))
        return 0
    if format == "json":
        say_json([row.as_dict() for row in found.rows])
    else:
        for line in _table(found):
            say(line)
    if output is not None:
        _write(ask, found, Path(output), choose, force=force)
    return 0


def _ask(
    target: str,
    gpus: str | None,
    hardware: str | None,
    global_batch: str | None,
    seq: str | None,
    top: str | None,
    values: dict[str, Any],
) -> planning.Ask:
    asked = wishes({**values, "gpus": gpus, "hardware": hardware, "global_batch": None})
    if seq is not None:
        length = whole("--seq", seq, _LEGAL)
        asked = replace(
            asked, options={**asked.options, "batch.sequence_length": (length, "--seq")}
        )
    return planning.Ask(
        target,
        asked,
        whole("--global-batch", global_batch, _LEGAL) if global_batch is not None else None,
        whole("--top", top, _LEGAL) if top is not None else 5,
    )


def _table(found: planning.Planned) -> Iterator[str]:
    job = found.job
    yield (
        f"{printable(found.target)} on {found.gpus} {job.hardware.name}: {len(found.ranked)} "
        f"meshes are estimated to fit or may, {len(found.refused)} do not or are dominated; the "
        "rules judged those shown"
    )
    rows = [
        (
            str(row.rank),
            str(row.candidate.layout),
            _batch(row),
            row.candidate.trial.remat,
            f"{row.candidate.peak_bytes / GIB:.0f}",
            row.candidate.assessment.verdict or "",
            *_rates(row),
            row.why,
        )
        for row in found.rows
    ]
    yield from columns(_HEAD, rows, _RIGHT)
    for note in found.notes:
        yield f"note: {note}"
    yield "rates are predictions, the middle of a range: `moectl estimate` tells it"


def _batch(row: planning.Row) -> str:
    trial = row.candidate.trial
    return str(trial.batch) if trial.accumulation == 1 else f"{trial.batch} x {trial.accumulation}"


def _rates(row: planning.Row) -> tuple[str, str, str]:
    time = row.candidate.assessment.time
    if time is None:
        return "", "", ""
    return (
        f"{time.seconds():.2f}",
        f"{time.tokens_per_second():,.0f}",
        f"{time.flops() / 1e12:,.0f}",
    )


def _sweep(ask: planning.Ask, counts: list[int], form: str) -> int:
    found = planning.sweep(ask, counts)
    if form == "json":
        say_json([one.rows[0].as_dict() for one in found])
        return 0
    base = found[0].rows[0].candidate.tokens_per_second
    rows = [
        (
            str(one.gpus),
            str(one.rows[0].candidate.layout),
            _batch(one.rows[0]),
            one.rows[0].candidate.trial.remat,
            *_rates(one.rows[0]),
            f"{one.rows[0].candidate.tokens_per_second / base:.1%}",
        )
        for one in found
    ]
    head = ("GPUS", "MESH", "BATCH", "REMAT", "S/STEP", "TOKENS/S", "TFLOP/S", "OF FIRST")
    for line in columns(head, rows, frozenset({0, 2, 4, 5, 6, 7})):
        say(line)
    return 0


def _write(
    ask: planning.Ask, found: planning.Planned, path: Path, choose: str | None, *, force: bool
) -> None:
    """Write the run file of a rank."""
    from moectl.launch.whole_file import write  # noqa: PLC0415

    most = len(found.rows)
    rank = 1
    if choose is not None:
        rank = whole("--choose", choose, f"a rank of the table, 1 to {most}", most=most)
    write(path, planning.run_file(ask, found, found.rows[rank - 1]), force=force)
    remark(f"wrote {path}; `moectl render {path}`")
