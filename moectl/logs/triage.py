"""A failed run explained: who failed first, why, what to change to, and how many followed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from moectl.facts.yaml_facts import read
from moectl.logs.fatal import Said, cause, known
from moectl.logs.folders import rank_logs, rank_of
from moectl.logs.maxtext import number
from moectl.logs.prefixes import strip
from moectl.logs.tail import last_lines
from moectl.logs.verdict import OF_FIRST, OF_OTHERS, Verdict, verdict

FACTS = "triage.yaml"
_STEP = "completed step: "


@dataclass(frozen=True, slots=True)
class Change:
    """What to change.

    Attributes:
        key: a key of MaxText, or a path of the run file.
        value: the proposal.
        why: what it does.
    """

    key: str
    value: str
    why: str


@dataclass(frozen=True, slots=True)
class Triage:
    """A failed run.

    Attributes:
        verdict: the first process that failed, and the cause.
        change: what to change; None where a change of the job would not help.
        followed: processes that ended only because another one did.
    """

    verdict: Verdict
    change: Change | None
    followed: int

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        why = self.verdict
        return {
            "cause": why.cause,
            "known": why.known or None,
            "rank": why.rank,
            "node": why.node or None,
            "exit_code": why.exit_code,
            "text": why.text,
            "remedy": why.remedy,
            "retry": why.retry,
            "change": asdict(self.change) if self.change else None,
            "followed": self.followed,
        }

    def lines(self) -> list[str]:
        """Return what is to be said of it, a fact a line."""
        why = self.verdict
        words = [f"rank {why.rank}" if why.rank is not None else "", why.cause]
        if why.node:
            words[0] = f"{words[0]} on {why.node}" if words[0] else f"node {why.node}"
        found = [": ".join(filter(None, words))]
        if why.text:
            found.append(f"text: {why.text[:500]}")
        if self.change is not None:
            found.append(f"set {self.change.key}: {self.change.value} ({self.change.why})")
        if why.remedy:
            found.append(f"try: {why.remedy}")
        if self.followed:
            found.append(f"{self.followed} other processes ended only because of it")
        return found


def of_folder(folder: Path | None, batch: Path | None, config: Mapping[str, str]) -> Triage | None:
    """Return why a job ended, by its folder of logs; None when nothing tells.

    Args:
        folder: the folder; None when it has none.
        batch: what its batch script printed, if that is known.
        config: MaxText's keys as the run had them.
    """
    why = verdict(folder, batch)
    if why is None:
        return None
    ranks = rank_logs(folder) if folder is not None else {}
    others = (last_lines(path, OF_OTHERS) for rank, path in ranks.items() if rank != why.rank)
    printed = last_lines(batch, OF_OTHERS) if batch is not None else []
    return _made(_placed(why, printed), config, sum(map(_followed, others)))


def of_files(paths: Sequence[Path], config: Mapping[str, str]) -> Triage | None:
    """Return why a run ended, by logs in which the lines of many processes may be mixed.

    A text after which the same process went on to a further step does not count.

    Args:
        paths: the logs.
        config: as of `of_folder`.
    """
    by_process: dict[tuple[Path, int | None], list[str]] = {}
    everything: list[str] = []
    for path in paths:
        named = rank_of(path)
        for line in last_lines(path, OF_FIRST):
            rank = strip(line).rank
            # A continued message has no mark of its own; what a launcher says is of no rank.
            held = by_process.setdefault((path, named if rank is None else rank), [])
            if _STEP in line:
                held.clear()
            elif known(line) is not None:
                held.append(line)
                everything.append(line)
            elif "srun: error: " in line:
                everything.append(line)
    judged = {key: said for key, held in by_process.items() if (said := cause(held))}
    if not judged:
        return None

    def order(item: tuple[tuple[Path, int | None], Said]) -> tuple[bool, bool, bool, int]:
        said = item[1]
        follower = said.known.id in read(FACTS)["followers"]
        return said.known.victim, follower, said.task is None, everything.index(said.line)

    (key, said) = min(judged.items(), key=order)
    why = Verdict(
        said.known.cause,
        said.known.remedy,
        said.known.retry,
        said.known.id,
        said.task if said.task is not None else key[1],
        text=strip(said.line).text,
    )
    followed = sum(
        _follows(other)
        for process, other in judged.items()
        if process != key and process[1] != why.rank
    )
    return _made(_placed(why, everything), config, followed)


def _made(why: Verdict, config: Mapping[str, str], followed: int) -> Triage:
    return Triage(why, proposal(why, config), followed)


def _followed(lines: Iterable[str]) -> bool:
    said = cause(lines)
    return said is not None and _follows(said)


def _follows(said: Said) -> bool:
    return said.known.victim or said.known.id in read(FACTS)["followers"]


def _placed(why: Verdict, lines: Iterable[str]) -> Verdict:
    """Return a verdict with rank and node, where a line of the launcher names them."""
    for line in (why.text, *lines):
        for pattern in read(FACTS)["where"]:
            match = re.search(pattern, line[:2000])
            if match is None or why.node:
                continue
            rank = match.groupdict().get("rank")
            if rank is None or why.rank in {None, int(rank)}:
                why = replace(
                    why, node=match["node"], rank=int(rank) if rank is not None else why.rank
                )
    return why


def proposal(why: Verdict, config: Mapping[str, str]) -> Change | None:
    """Return what to change after a failure, None where the table proposes nothing.

    Args:
        why: the failure.
        config: MaxText's keys as the run had them.
    """
    for row in read(FACTS)["changes"].get(why.known, ()):
        groups: dict[str, str] = {"node": why.node} if why.node else {}
        if "line" in row:
            match = re.search(row["line"], why.text)
            if match is None:
                continue
            groups |= match.groupdict()
        try:
            key = row["key"].format(**groups)
            value = (
                row["value"].format(**groups) if "value" in row else _scaled(row, groups, config)
            )
        except KeyError:  # the text does not name what the proposal needs
            continue
        if value is not None:
            return Change(key, value, row["why"])
    return None


def _scaled(
    row: Mapping[str, Any], groups: Mapping[str, str], config: Mapping[str, str]
) -> str | None:
    said = config.get(row["key"], "") if row["scale"] == "present" else groups[row["scale"]]
    value = number(str(said or row.get("default", "")))
    if value is None or not math.isfinite(value):
        return None
    if "over" in row:
        over = number(groups[row["over"]])
        demand = number(groups[row["demand"]])
        if not over or demand is None:
            return None
        value *= demand / over
    value *= row["times"]
    if "up" in row:
        value = math.ceil(value / row["up"] - 1e-9) * row["up"]
    if value < row.get("least", -math.inf):
        return None
    return f"{value:.6g}"
