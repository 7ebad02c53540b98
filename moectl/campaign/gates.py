"""The files of a gate: its program, what it asks, and the script that the scheduler runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moectl.campaign.ladder import Climb, bundle_of, gate_of, verdict_file
from moectl.facts.yaml_facts import read
from moectl.job import Job
from moectl.render import templates
from moectl.settings.bundle_names import LAUNCH

_FACTS = "climb.yaml"


def thresholds(said: Mapping[str, float]) -> dict[str, float]:
    """Return what a rung must show: what was said, the rest from the facts."""
    return {name: said.get(name, row["value"]) for name, row in read(_FACTS)["gates"].items()}


def step_lines(release: str) -> dict[str, Any]:
    """Return how a MaxText release writes the lines of steps."""
    known = read("log_formats.yaml")
    row = known["releases"].get(release) or known["releases"][known["default"]]
    return {key: row[key] for key in ("step", "boundary", "fields")}


def overflow() -> str:
    """Return a pattern of the lines that tell of a receive buffer that was too small."""
    lines = read("report.yaml")["lines"]
    return "|".join(re.escape(lines[name]["needle"]) for name in read(_FACTS)["overflow"])


def files(folder: Path, climb: Climb, index: int, job: Job) -> dict[str, str]:
    """Return the files of the gate of a rung.

    Args:
        folder: the climb's folder.
        climb: the climb.
        index: which rung.
        job: the job of the rung.
    """
    rung = climb.rungs[index]
    facts = read(_FACTS)
    steps = job.effective.get("steps")
    asked: dict[str, Any] = {
        "rung": rung.gpus,
        "bundle": str(bundle_of(folder, rung)),
        "steps": steps if isinstance(steps, int) else None,
        "overflow": overflow(),
        "lines": step_lines(job.container.image.maxtext),
        **climb.thresholds,
    }
    directives = [
        ("job-name", rung.gate),
        ("time", str(facts["minutes"])),
        ("output", str(gate_of(folder, rung) / "gate-%j.log")),
        ("partition", job.cluster.partition),
        ("account", job.cluster.account),
        ("qos", job.cluster.qos),
        ("reservation", job.cluster.reservation),
    ]
    script = templates.render(
        "gate.sbatch.j2",
        {
            "directives": [(name, value) for name, value in directives if value],
            "further": list(job.cluster.directives),
            "folder": str(gate_of(folder, rung)),
            "verdict": str(verdict_file(folder, rung)),
            "below": [str(verdict_file(folder, lower)) for lower in climb.rungs[:index]],
        },
    )
    return {
        LAUNCH: script,
        "gate.py": templates.source("gate.py"),
        "asked.json": json.dumps(asked, indent=1) + "\n",
    }
