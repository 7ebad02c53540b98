"""Copies what pods printed into the bundle, one log a rank, as if the nodes shared its folder.

Everything that reads logs then does what it does for other launchers. What was copied before is
not copied again: the moment of the last line of each pod is kept beside the logs.
"""

from __future__ import annotations

import calendar
import contextlib
import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from moectl.errors import LocalFilesError
from moectl.launch import whole_file
from moectl.launch.kubernetes_states import CONTAINER, PodState, first_failure
from moectl.logs.folders import FIRST_FAILURE, LOGS

STATE = "pods.json"
# The clocks of nodes may go before or after this machine's, in s.
CLOCKS_DIFFER = 600
_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?)Z (.*)", re.ASCII | re.DOTALL)
_RANK = re.compile(r"(\d{1,7}): (.*)", re.ASCII | re.DOTALL)
# A record of the pod, printed on one line by pod_start.py.
_RECORD = re.compile(r"moectl: (as-run\.json|watchdog\.json): (\{.*\})", re.DOTALL)
_FAILED = re.compile(r"rank (\d{1,7}) on (\S{1,253}) failed first, with exit code (\d{1,3})")
# log(pod, container, seconds back from now or None for all of it) -> text
Log = Callable[[str, str, int | None], str]


def bring(bundle: Path, name: str, job: str, pods: Sequence[PodState], log: Log) -> None:
    """Copy what the pods of a job printed since the last time.

    Args:
        bundle: the run's bundle.
        name: the run's name, which the log of the pods themselves begins with.
        job: the job's id.
        pods: its pods, those of earlier starts among them.
        log: asks the API server for a pod's log.

    Raises:
        BackendError: the API server cannot be asked.
        LocalFilesError: the file system refuses.
    """
    starts: dict[int, list[PodState]] = defaultdict(list)
    for pod in pods:
        starts[pod.restart].append(pod)
    for restart, held in sorted(starts.items()):
        folder = bundle / LOGS / (f"{job}.{restart}" if restart else job)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _start(folder, bundle / f"{name}-{job}.log", held, log)
            _failure(folder, held)
        except OSError as error:
            raise LocalFilesError(
                f"{error.filename or folder}: {error.strerror or error}"
            ) from None


def _start(folder: Path, own: Path, pods: Iterable[PodState], log: Log) -> None:
    state = _state(folder / STATE)
    before = json.dumps(state, sort_keys=True)
    for pod in sorted(pods, key=lambda pod: pod.index):
        last, same = state.get(pod.name, ("", 0))
        text = log(pod.name, CONTAINER, _seconds_since(last))
        lines, mark = fresh(text.split("\n"), last, same)
        texts: dict[Path, list[str]] = defaultdict(list)
        for line in lines:
            if (record := _RECORD.fullmatch(line)) and not (folder / record[1]).exists():
                whole_file.write(folder / record[1], f"{record[2]}\n")
                continue
            match = _RANK.match(line)
            path = folder / f"rank-{match[1]}.log" if match else own
            texts[path].append(match[2] if match else line)
        for path, said in texts.items():
            with path.open("a", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write("".join(f"{one}\n" for one in said))
        state[pod.name] = mark
    if json.dumps(state, sort_keys=True) != before:
        whole_file.write(folder / STATE, json.dumps(state, indent=1) + "\n")


def fresh(lines: Iterable[str], last: str, same: int) -> tuple[list[str], tuple[str, int]]:
    """Return the lines that came after a mark, and the mark after them.

    Args:
        lines: each with its moment; the last one may be cut off, which counts the next time.
        last: the moment of the last line that is known; empty for none.
        same: how many known lines have that moment.
    """
    found: list[str] = []
    known = same
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        moment = _padded(match[1])
        if moment < last:
            continue
        if moment == last:
            if known:
                known -= 1
                continue
            same += 1
        else:
            last, same, known = moment, 1, 0
        found.append(match[2])
    return found, (last, same)


def _padded(moment: str) -> str:
    """Return a moment with nine digits after the point, so that moments sort as texts."""
    whole, _, fraction = moment.partition(".")
    return f"{whole}.{fraction.ljust(9, '0')}"


def _seconds_since(last: str) -> int | None:
    if not last:
        return None
    moment = calendar.timegm(time.strptime(last.partition(".")[0], "%Y-%m-%dT%H:%M:%S"))
    return max(1, int(time.time() - moment)) + CLOCKS_DIFFER


def _state(path: Path) -> dict[str, tuple[str, int]]:
    """Return the mark of every pod; none where the file is not there or was not written whole."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        held: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
        return {str(pod): (str(last), int(same)) for pod, (last, same) in held.items()}
    return {}


def _failure(folder: Path, pods: Sequence[PodState]) -> None:
    """Leave who failed first, where a batch script would have."""
    pod = first_failure(pods)
    if pod is None or (folder / FIRST_FAILURE).exists():
        return
    match = _FAILED.search(pod.message)
    rank, node = (match[1], match[2]) if match else ("-", pod.node or "-")
    code = match[3] if match else str(pod.code)
    (folder / FIRST_FAILURE).write_text(f"{code} {rank} {node}\n", "utf-8")
