"""moectl show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moectl.actions.plan import plan
from moectl.cli.job_options import wishes
from moectl.cli.text import say, say_findings, say_json
from moectl.job import Job
from moectl.settings.emit import flow
from moectl.settings.flatten import place
from moectl.values import Value


def run(
    target: str,
    sources: bool,
    format: str,  # noqa: A002 - the option's name
    **values: Any,
) -> int:
    """Print every effective value of a job."""
    job = plan(target, wishes(values))
    if format == "json":
        say_json(
            {
                "name": job.name,
                "values": {
                    section: {name: _row(value) for name, value in pairs.items()}
                    for section, pairs in _sections(job)
                },
                "findings": [finding.as_dict() for finding in job.findings],
            }
        )
    else:
        say_findings(job.findings)
        for section, pairs in _sections(job):
            if pairs:
                say(f"{section}:")
                _say_rows(pairs.items(), sources=sources)
    return 1 if any(finding.stops for finding in job.findings) else 0


def _sections(job: Job) -> list[tuple[str, dict[str, Value]]]:
    owned = (
        "model.",
        "batch.",
        "training.",
        "precision.",
        "moe.",
        "attention.",
        "remat.",
        "optimizer.",
        "data.",
        "checkpoints.",
        "evaluation.",
        "profile.",
        "maxtext.",
        "xla_flags.",
        "environment.",
        "parallelism.",
    )
    run = {path: v for path, v in job.settings.items() if not path.startswith(owned)}
    return [
        ("run", run),
        ("config.yml", dict(job.config)),
        ("command line", dict(job.arguments)),
        ("XLA flags", dict(job.xla_flags)),
        ("environment", dict(job.environment)),
    ]


def _row(value: Value) -> dict[str, Any]:
    return {
        "value": value.value,
        "source": place(value.origin),
        "overrode": [{"value": v, "source": place(o)} for v, o in value.overrode],
    }


def _say_rows(pairs: Iterable[tuple[str, Value]], *, sources: bool) -> None:
    for name, value in pairs:
        say(f"  {name} = {flow(value.value, omegaconf=False)}")
        if sources:
            say(f"      from {_place(value)}")
            for weaker, origin in value.overrode:
                say(f"      over {flow(weaker, omegaconf=False)}, {origin.layer}")


def _place(value: Value) -> str:
    origin = value.origin
    return f"{origin.layer} {place(origin)}" if origin.file else origin.layer
