"""The tables of docs/estimates.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moectl.estimate.published import Prediction, predict, runs, summary
from tests.estimates.points import Compared


def replaced(text: str, sections: Mapping[str, str]) -> str:
    """Return a page with what stands between its marks replaced.

    A section NAME stands between `<!-- NAME -->` and `<!-- end of NAME -->`.

    Raises:
        ValueError: the page lacks a mark.
    """
    for name, body in sections.items():
        before, start, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        if not start or not end:
            raise ValueError(f"no marks of {name!r}")
        text = f"{before}{start}{body.rstrip()}\n{end}{after}"
    return text


def points_table(rows: Sequence[Compared]) -> str:
    """Return the table of estimates beside real MaxText."""
    equal = sum(row.equal for row in rows)
    lines = [
        f"{equal} of {len(rows)} points are equal: parameters and bytes exactly, FLOPs within "
        f"1e-6 (largest difference {max(abs(row.flops_error) for row in rows):.1e}).",
        "",
        "| preset and mesh | parameters | weights, bytes a GPU | moments, bytes a GPU "
        "| FLOPs a step and GPU | equal |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for row in rows:
        parameters, weights, moments = row.theirs
        lines.append(
            f"| {row.point.name} | {parameters} | {weights} | {moments} "
            f"| {row.verdict.flops:.6e} | {_equal(row)} |"
        )
    return "\n".join(lines)


def _equal(row: Compared) -> str:
    return "yes" if row.equal else f"no: {row.ours}, FLOPs {row.flops_error:+.2e}"


def predictions() -> list[Prediction]:
    """Return every published run that a MaxText mesh can express, with its prediction."""
    return [found for run in runs() if not run.earlier and (found := predict(run))]


def newest(rows: Sequence[Prediction]) -> list[Prediction]:
    """Return the rows of the newest release of each model, platform, size and precision."""
    best: dict[tuple[object, ...], Prediction] = {}
    for row in rows:
        run = row.run
        key = (run.framework, run.model, run.hardware, run.gpus, run.precision)
        if key not in best or best[key].run.release < run.release:
            best[key] = row
    return list(best.values())


def published_table(rows: Sequence[Prediction]) -> str:
    """Return the table of predictions beside published figures."""
    kinds = {
        "all rows": list(rows),
        "without a pipeline": [row for row in rows if row.run.pipeline == 1],
        "newest release of each model, platform, size and precision": newest(rows),
    }
    lines = [
        "| rows | number | median error | worst error | rank correlation | inside the range |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, chosen in kinds.items():
        found = summary(chosen)
        lines.append(
            f"| {name} | {found['rows']:.0f} | {found['median_error']:.0%} "
            f"| {found['worst_error']:.0%} | {found['rank_correlation']:.2f} "
            f"| {found['inside']:.0%} |"
        )
    lines += [
        "",
        "| model | framework, release | platform | GPUs | degrees | precision "
        "| tokens/s/GPU published | predicted (slow to fast) | error |",
        "|---|---|---|--:|---|---|--:|--:|--:|",
    ]
    lines += [_published(row) for row in rows]
    return "\n".join(lines)


def _published(row: Prediction) -> str:
    run, time = row.run, row.time
    names = ("tensor", "pipeline", "repeats", "context", "expert", "fsdp")
    degrees = ", ".join(f"{name} {getattr(run, name)}" for name in names if getattr(run, name) > 1)
    slow, fast = time.tokens_per_second("slow"), time.tokens_per_second("fast")
    return (
        f"| {run.model} | {run.framework} {run.release} | {run.hardware} | {run.gpus} "
        f"| {degrees}, batch {run.micro_batch} of {run.global_batch} | {run.precision} "
        f"| {run.tokens:,.0f} | {time.tokens_per_second():,.0f} ({slow:,.0f} to {fast:,.0f}) "
        f"| {row.error:+.0%} |"
    )
