"""The page of the tally."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutation.faults import ROOMS, Fault

REASONS = Path(__file__).parent / "survivors.yaml"
CAUGHT, WANTED = ("caught", "slow"), 0.85


def reasons() -> Mapping[str, str]:
    """Return why a survivor changes nothing that a test could see, by the fault's name."""
    import yaml  # noqa: PLC0415

    rows = yaml.safe_load(REASONS.read_text("utf-8")) or []
    return {f"{row['module']}: {row['before']} => {row['after']}": row["reason"] for row in rows}


def page(
    done: Sequence[tuple[Fault, str]], sample: int, seed: int, known: Mapping[str, str]
) -> tuple[str, bool]:
    """Return the page, and whether enough was caught and every survivor has a reason.

    Args:
        done: the faults that were tried, each with its verdict.
        sample: how many were wanted.
        seed: what they were drawn with.
        known: reasons of survivors.
    """
    caught = sum(verdict in CAUGHT for _, verdict in done)
    left = [fault for fault, verdict in done if verdict not in CAUGHT]
    lines = [
        "# Deliberate faults",
        "",
        "Faults of one line, drawn from the operators of cosmic-ray and spread over all modules "
        "of four rooms, are put into a copy of the tree one after another. For each, the tests "
        "that run its line are run, 40 seconds of them at most, without those that need a real "
        "Slurm, MaxText, jaxlib or browser. A fault counts as caught when a test fails or the "
        "tests do not come to an end.",
        "",
        f"    python -m tests.mutation --sample {sample} --seed {seed} --tally docs/mutation.md",
        "",
        f"{time.strftime('%Y-%m-%d', time.gmtime())}: {caught} of {len(done)} faults were caught, "
        f"{caught / max(len(done), 1):.1%}; {WANTED:.0%} are wanted.",
        "",
        "| room | modules | faults | caught | |",
        "|---|--:|--:|--:|--:|",
    ]
    for room in ROOMS:
        here = [(fault, verdict) for fault, verdict in done if fault.room == room]
        good = sum(verdict in CAUGHT for _, verdict in here)
        modules = len({fault.module for fault, _ in here})
        rate = f"{good / len(here):.0%}" if here else ""
        lines.append(f"| {room} | {modules} | {len(here)} | {good} | {rate} |")
    lines += ["", "## Survivors", ""]
    for fault in sorted(left, key=lambda fault: fault.name):
        lines += [
            f"`{fault.module}`",
            "",
            "```diff",
            f"- {fault.before}",
            f"+ {fault.after}",
            "```",
            "",
            known.get(fault.name, "No reason is known."),
            "",
        ]
    good = caught >= WANTED * len(done) and all(fault.name in known for fault in left)
    return "\n".join(lines).rstrip() + "\n", good
