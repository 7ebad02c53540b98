"""Which steps tell how fast a run is, by a stated rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from moectl.facts.yaml_facts import read
from moectl.logs.columns import ABSENT
from moectl.logs.maxtext import log_format
from moectl.report.gather import Material
from moectl.report.series import Series

START, PROFILE, RAMP, UNTIMED = "start", "profile", "ramp-up", "no time"


@dataclass(frozen=True, slots=True)
class Steady:
    """The steps that count, and those that do not.

    Attributes:
        rows: rows of the series that count.
        dropped: row to the reason it does not count.
        rule: the rule, a sentence.
        count: how many steps are dropped for each reason, those outside the stride included.
    """

    rows: tuple[int, ...]
    dropped: Mapping[int, str]
    rule: str
    count: Mapping[str, int]


def steady(series: Series, material: Material, config: Mapping[str, str]) -> Steady:
    """Return the steps that tell how fast a run is.

    The first steps of every start hold compiling and the filling of the pipeline; a profile
    slows its steps and most of all those where it begins and ends; in a ramp-up the batch is
    another one. A time that is not positive is none.
    """
    warm = log_format(material.release).unsteady_steps
    profiled = _profiled(config)
    boundaries = {step for log in material.logs for step in log.parser.boundaries}
    rampup = {step for log in material.logs for step in log.parser.rampup}
    seconds = series.column("seconds")
    rows: list[int] = []
    dropped: dict[int, str] = {}
    for row, step in enumerate(series.steps):
        first = series.runs[series.starts[row]].lead.attempt.first
        if step < first + warm:
            dropped[row] = START
        elif step in boundaries or step in profiled or step - first in profiled:
            dropped[row] = PROFILE
        elif step in rampup:
            dropped[row] = RAMP
        elif seconds[row] == ABSENT or not 0 < seconds[row] < float("inf"):
            dropped[row] = UNTIMED
        else:
            rows.append(row)
    count = Counter(dropped.values())
    if series.stride > 1:  # most of them are not among the rows
        count[START] = sum(min(warm, run.lead.attempt.steps) for run in series.runs)
    rule = (
        f"steady are all steps but the first {warm} of every start, those of a profile with its "
        "boundaries, those of a batch ramp-up, and those whose line has no time"
    )
    return Steady(tuple(rows), dropped, rule, dict(count))


def _profiled(config: Mapping[str, str]) -> range:
    """Return the steps of a profile, by the configuration; the two after its end as well."""
    keys = read("report.yaml")["profile"]
    skip, steps = config.get(keys["skip"], ""), config.get(keys["steps"], "")
    on = config.get(keys["key"], "") not in {"", "None"}
    if not (on and skip.isascii() and skip.isdecimal() and steps.isascii() and steps.isdecimal()):
        return range(0)
    begin = int(skip[:12])
    return range(begin, begin + int(steps[:12]) + 2)
