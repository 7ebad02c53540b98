"""Compiles the cases one by one and writes the tables.

python -m tests.proofs                every case; what is known is not compiled again
python -m tests.proofs --case ID      one of them
python -m tests.proofs --shallow      only those that are compiled in two depths
python -m tests.proofs --page         docs/proofs.md anew, nothing is compiled
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from moectl.errors import MoectlError
from tests.proofs.case import (
    DEPTH_COLUMNS,
    DEPTHS,
    PEAKS,
    Case,
    Compared,
    cases,
    compared,
    kept,
    row_of,
    shallow,
    shallow_row,
    summary,
    text_of,
)

PAGE = Path(__file__).parent.parent.parent / "docs" / "proofs.md"
GIB = 1 << 30
HEAD = """\
# Compiled peaks and estimates

Every row is a training step of MaxText that the real compiler compiled for the real GPU on a
machine without one (`moectl prove`), and the estimate beside it. Sizes are GiB of one GPU.
The raw figures with the releases stand in `tests/proofs/peaks.tsv`, the steps in
`tests/proofs/cases.yaml`; `python -m tests.proofs` renews both.

All steps are on MaxText's own MoE path. *sparse* is its grouped matmul with expert
parallelism: `jax.lax.ragged_dot`, which XLA's defaults turn into one dense product over the
local experts, so that a buffer of experts x received tokens x width stands in memory several
times. *dense* lets every expert multiply every token. *dot* is attention that writes its scores
down; in the other steps cuDNN's attention is an opaque call of the same operands and results.
The peak is XLA's own, from its buffer assignment: the compiler chooses schedules, and
recomputes, so that a step stays within the GPU where it can, so peaks near the GPU's memory
are pressed down."""


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs", description=__doc__)
    parser.add_argument("--case", help="id of one case")
    parser.add_argument("--shallow", action="store_true", help="two depths only")
    parser.add_argument("--page", action="store_true", help="write the page only")
    said = parser.parse_args(words)
    failed = 0
    if not said.page:
        whole = [] if said.shallow else cases()
        failed += sum(not compiled(case) for case in whole if said.case in {None, case.id})
        failed += sum(not compiled_shallow(c) for c in shallow() if said.case in {None, c.id})
    PAGE.write_text(page(compared()), "utf-8")
    say(f"wrote {PAGE}")
    return 1 if failed else 0


def compiled(case: Case) -> bool:
    """Compile one case and put it in the table."""
    say(f"{case.id}: {case.preset}, {case.gpus} x {case.hardware}")
    try:
        proof = case.proof()
    except MoectlError as error:
        say(f"  {error}")
        return False
    table = {**kept(), case.id: row_of(case, proof)}
    PEAKS.write_text(text_of([table[one.id] for one in cases() if one.id in table]), "utf-8")
    say(f"  peak {proof.peak / GIB:.2f} GiB, {proof.compiled.seconds:.0f} s")
    return True


def compiled_shallow(case: Case) -> bool:
    """Compile one case in two depths and put what they say of the whole in its table."""
    say(f"{case.id}: two depths")
    try:
        proof = case.proof(layers=2)
    except MoectlError as error:
        say(f"  {error}")
        return False
    table = {**kept(DEPTHS), case.id: shallow_row(case, proof)}
    rows = [table[one.id] for one in shallow() if one.id in table]
    DEPTHS.write_text(text_of(rows, DEPTH_COLUMNS), "utf-8")
    say(f"  peak {proof.peak / GIB:.2f} GiB at the whole depth")
    return True


def page(rows: Sequence[Compared]) -> str:
    middle, worst = summary(rows)
    lines = [
        *HEAD.splitlines(),
        "",
        f"Median error {middle:.0%}, worst {worst:.0%}, over {len(rows)} steps.",
        "",
        "| step | GPUs | mesh | arguments | temporary | peak | estimate | error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        made = "none" if row.estimate is None else f"{row.estimate.total() / GIB:.2f}"
        error = "" if row.error is None else f"{row.error:+.0%}"
        sizes = " | ".join(f"{int(row.row[k]) / GIB:.2f}" for k in ("argument", "temp", "peak"))
        lines.append(
            f"| {row.case.id} | {row.case.gpus} x {row.case.hardware} | {row.row['mesh']} | "
            f"{sizes} | {made} | {error} |"
        )
    return "\n".join([*lines, "", *_depths(), *_detail(rows)])


def _depths() -> list[str]:
    whole, rows = kept(), kept(DEPTHS)
    if not rows:
        return []
    lines = [
        "## Two depths in place of the whole",
        "",
        "`--layers 2` compiles two shallow models and draws a line through both.",
        "",
        "| step | depths | whole | peak said | peak compiled | error |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        said, real = int(row["peak"]), int(whole[name]["peak"])
        lines.append(
            f"| {name} | {row['low']} and {row['high']} | {row['whole']} | {said / GIB:.2f} | "
            f"{real / GIB:.2f} | {said / real - 1:+.1%} |"
        )
    return [*lines, ""]


def _detail(rows: Sequence[Compared]) -> list[str]:
    lines = [
        "## What the steps hold",
        "",
        "XLA's largest buffers beside the parts of the estimate, for those who mend it.",
        "",
    ]
    for row in rows:
        terms = row.estimate.terms if row.estimate else ()
        parts = ", ".join(f"{term.name} {term.bytes / GIB:.2f}" for term in terms)
        sets = " ".join(row.case.sets) or "as the preset says"
        lines += [
            f"**{row.case.id}** ({sets})",
            "",
            f"* compiled: {row.row['largest']}",
            f"* estimated: {parts or 'nothing'}",
            "",
        ]
    return lines


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
