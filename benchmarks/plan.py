"""Measures `moectl plan`: whole processes, and how a search grows with the number of GPUs.

    python3 benchmarks/plan.py [--python PY] [--runs N] [--plot FILE.svg]

Whole processes as in `startup.py`, measured in one run and in turns. The growth is of the search
alone, in one process, because a run file goes up to 16,384 GPUs only. The exit code is 0 whether
or not a target is met.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from processes import (
    ROOT,
    BrokenRunError,
    Subject,
    Target,
    imported,
    installed,
    machine,
    measure,
    table,
    tell,
)

PRESET, HARDWARE = "deepseek3-671b", "gb200-nvl72"
# One that is not bound to FSDP and expert axes, so that there are most meshes.
OPEN_PRESET = "qwen3-30b-a3b"
SMALL, LARGE = 128, 16_384
GROWTH = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536)


def grown(preset: str, runs: int) -> list[tuple[int, int, float]]:
    """Return GPUs, meshes and the fastest seconds of a search, for growing numbers of GPUs."""
    from moectl.actions.estimate import request_of  # noqa: PLC0415 - of this tree
    from moectl.actions.plan import Wishes, plan  # noqa: PLC0415
    from moectl.actions.planning import space_of  # noqa: PLC0415
    from moectl.estimate.assessment import prepare  # noqa: PLC0415
    from moectl.facts import maxtext  # noqa: PLC0415
    from moectl.facts.yaml_facts import read  # noqa: PLC0415
    from moectl.planner.meshes import meshes  # noqa: PLC0415
    from moectl.planner.search import Question, search, trials  # noqa: PLC0415

    job = plan(preset, Wishes(options={"hardware": (HARDWARE, "--hardware")}))
    values, facts = dict(job.effective), read("plan.yaml")
    prepared = prepare(values, maxtext.load(job.container.image.maxtext).release)
    found = []
    for gpus in GROWTH:
        seconds = []
        for _ in range(runs):
            start = time.perf_counter()
            layouts = list(meshes(space_of(job, gpus)[0]))
            tried = trials(values, gpus, facts["batches"]["values"], facts["remat"]["values"], None)
            asked = Question(
                prepared, values, request_of(job), layouts, list(tried), facts["widened"]
            )
            search(asked)
            seconds.append(time.perf_counter() - start)
        found.append((gpus, len(layouts), min(seconds)))
    return found


def growth_table(rows: dict[str, list[tuple[int, int, float]]]) -> str:
    """Return the growth as a Markdown table; times over that of the smallest number of GPUs."""
    lines = ["| preset | GPUs | meshes | search (s) | x the first |", "|---|---|---|---|---|"]
    for preset, found in rows.items():
        first = found[0][2]
        lines += [
            f"| {preset} | {gpus:,} | {count:,} | {seconds:.3f} | {seconds / first:.1f} |"
            for gpus, count, seconds in found
        ]
    return "\n".join(lines)


def drawn(rows: dict[str, list[tuple[int, int, float]]]) -> str:
    """Return the growth as an SVG picture: both axes logarithmic."""
    from math import log2, log10  # noqa: PLC0415

    wide, high, left, below = 640, 320, 60, 40
    most = max(seconds for found in rows.values() for _, _, seconds in found)
    least = min(seconds for found in rows.values() for _, _, seconds in found)
    low, top = log10(least) - 0.1, log10(most) + 0.1

    def place(gpus: int, seconds: float) -> tuple[float, float]:
        across = (log2(gpus) - log2(GROWTH[0])) / (log2(GROWTH[-1]) - log2(GROWTH[0]))
        up = (log10(seconds) - low) / (top - low)
        return left + across * (wide - left - 20), high - below - up * (high - below - 20)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img" '
        'font-family="sans-serif" font-size="11">',
        "<title>Seconds of a search over GPUs</title>",
        f'<rect width="{wide}" height="{high}" fill="white"/>',
    ]
    for gpus in GROWTH:
        across = place(gpus, most)[0]
        parts.append(f'<text x="{across:.0f}" y="{high - 22}" text-anchor="middle">{gpus:,}</text>')
    for number, (preset, found) in enumerate(rows.items()):
        colour = ("#1f5fa8", "#b4541a")[number % 2]
        points = " ".join(
            f"{across:.1f},{up:.1f}" for across, up in (place(g, s) for g, _, s in found)
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        across, up = place(found[-1][0], found[-1][2])
        parts.append(
            f'<text x="{across:.0f}" y="{up - 8:.0f}" text-anchor="end" fill="{colour}">'
            f"{preset}: {found[-1][2]:.2f} s</text>"
        )
        up = place(found[0][0], found[0][2])[1]
        parts.append(
            f'<text x="{left - 6}" y="{up:.0f}" text-anchor="end">{found[0][2]:.2f} s</text>'
        )
    parts.append(f'<text x="{wide / 2:.0f}" y="{high - 6}" text-anchor="middle">GPUs</text></svg>')
    return "\n".join(parts) + "\n"


def benchmark(options: argparse.Namespace, folder: Path) -> str:
    """Measure everything and return the tables."""
    python = Path(options.python) if options.python else installed(folder)
    script = python.parent / "moectl"
    moectl = [str(script)] if script.is_file() else [str(python), "-m", "moectl"]
    words = ["plan", PRESET, "--hardware", HARDWARE, "--gpus"]
    subjects = [
        Subject("python pass", [str(python), "-c", "pass"]),
        Subject(f"plan {SMALL} GPUs", [*moectl, *words, str(SMALL)]),
        Subject(f"plan {LARGE} GPUs", [*moectl, *words, str(LARGE)]),
        Subject(
            f"plan {OPEN_PRESET} {LARGE} GPUs",
            [*moectl, "plan", OPEN_PRESET, "--hardware", HARDWARE, "--gpus", str(LARGE)],
        ),
    ]
    heavy = imported(python, [*words, str(SMALL)], folder)
    measure([(subject, options.runs) for subject in subjects], folder, tell)
    small, large = subjects[1], max(subjects[2:], key=lambda subject: subject.least)
    found = [
        Target(f"plan over {SMALL} GPUs", "under 0.5 s", f"{small.least:.2f} s", small.least < 0.5),
        Target(f"plan over {LARGE} GPUs", "under 3 s", f"{large.least:.2f} s", large.least < 3),
        Target("peak memory", "under 300 MB", f"{large.peak_mb:.0f} MB", large.peak_mb < 300),
        Target("JAX imported", "no", "yes" if "jax" in heavy else "no", "jax" not in heavy),
    ]
    rows = {name: grown(name, 3) for name in (PRESET, OPEN_PRESET)}
    if options.plot:
        Path(options.plot).write_text(drawn(rows), "utf-8")
    return f"{table(subjects, found)}\n\n{growth_table(rows)}"


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description="Speed of moectl plan, in ratios.")
    parser.add_argument("--python", help="a Python that has moectl; by default a wheel is built")
    parser.add_argument("--runs", type=int, default=7, help="counted runs of each command")
    parser.add_argument("--plot", help="write the growth as a picture to this file")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    before = machine()
    with tempfile.TemporaryDirectory(prefix="plan-") as folder:
        try:
            text = benchmark(options, Path(folder))
        except (BrokenRunError, OSError) as error:
            tell(f"no figures: {type(error).__name__}: {error}")
            return
    sys.stdout.write(f"before: {before}\nafter:  {machine()}\n\n{text}\n")


if __name__ == "__main__":
    main()
