"""The program that says whether a job of a long run has anything left to do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.logs.fatal import cause, rows
from moectl.render.programs import go_on
from tests.support import training_logs as made

GO_ON, DONE, STOP, QUEUE = 0, 10, 11, 75
STEPS = 8
NETWORK = "jaxlib: NCCL operation ncclAllReduce failed: unhandled system error\n"
CONFIG = "E1130 MAXTEXT CONFIG ERROR: 'stepz' not in the fields\n"
ODD = "ValueError: odd\n"


@dataclass(frozen=True)
class Bundle:
    """A bundle with the folders of starts."""

    folder: Path

    def run(self, what: str, name: str, *words: str, job: str = "run-1") -> int:
        done = subprocess.run(
            [sys.executable, "-I", "go_on.py", what, f"--steps={STEPS}", *words, f"logs/{name}"],
            cwd=self.folder,
            env={"SLURM_JOB_NAME": job},
            capture_output=True,
            text=True,
            check=False,
        )
        (self.folder / "said").write_text(done.stdout)
        assert done.stderr == ""
        return done.returncode

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text()

    def begin(self, name: str, *, judge: bool = True, job: str = "run-1") -> int:
        (self.folder / "logs" / name).mkdir(parents=True)
        return self.run("begin", name, *(["--judge"] if judge else []), job=job)

    def write(self, name: str, *lines: str, rank: int = 0) -> None:
        path = self.folder / "logs" / name / f"rank-{rank}.log"
        path.write_text("".join(lines), encoding="utf-8", errors="surrogateescape")

    def failed(self, name: str, code: int, rank: int = 0) -> None:
        (self.folder / "logs" / name / "first-failure").write_text(f"{code} {rank} gpu000\n")

    def end(self, name: str, code: int, *more: str, again: int = 2, job: str = "run-1") -> int:
        return self.run("end", name, f"--code={code}", f"--again={again}", *more, job=job)

    def left(self, name: str) -> dict[str, Any]:
        found = json.loads((self.folder / "logs" / name / "end.json").read_text())
        assert isinstance(found, dict)
        return found

    def whole(self, name: str, code: int, *lines: str, more: tuple[str, ...] = ()) -> int:
        """Begin, write a log, end; return what becomes of the job."""
        assert self.begin(name, judge=False) == GO_ON
        self.write(name, *lines)
        if code:
            self.failed(name, code)
        return self.end(name, code, *more)


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    (tmp_path / "go_on.py").write_text(go_on())
    return Bundle(tmp_path)


def steps(*numbers: int) -> str:
    return "".join(f"{made.step(number).rstrip()}\n" for number in numbers)


@pytest.mark.parametrize(
    ("faults", "verdict", "says"),
    [
        ([{"nodes": ["gpu1"], "what": "a slow GPU"}], GO_ON, "the preflight found a slow GPU"),
        ([{"nodes": [], "what": "other flags"}], STOP, "in a way that stays: the preflight found"),
        ([], STOP, "ended by itself (exit code 79)"),
        ("odd", STOP, "ended by itself (exit code 79)"),
    ],
)
def test_what_a_preflight_refused_is_noted_and_judged_by_whether_other_nodes_may_do(
    bundle: Bundle, faults: object, verdict: int, says: str
) -> None:
    bundle.begin("10", judge=False)
    record = json.dumps({"passed": False, "faults": faults})
    (bundle.folder / "logs" / "10" / "preflight.json").write_text(record)
    bundle.failed("10", 79)
    assert bundle.end("10", 79, again=0) == GO_ON
    assert bundle.left("10")["code"] == 79
    assert bundle.begin("11") == verdict
    assert says in bundle.said


STOPPED = made.STOPPED.rstrip() + "\n"


def test_the_first_job_goes_on(bundle: Bundle) -> None:
    assert bundle.begin("10") == GO_ON
    assert bundle.said == ""


@pytest.mark.parametrize(
    ("code", "log", "verdict", "says"),
    [
        (0, steps(6, 7), DONE, "job 10 reached step 7, the last one"),
        (0, steps(3) + STOPPED, GO_ON, "job 10 reached step 3"),
        (0, STOPPED, GO_ON, "job 10 reached no step"),
        (1, steps(3) + NETWORK, GO_ON, "reached step 3; a collective operation failed"),
        (1, NETWORK, GO_ON, "reached no step"),
        (2, CONFIG, STOP, "failed in a way that stays: MaxText refuses its configuration"),
        (1, steps(3) + made.MEMORY.rstrip() + "\n", STOP, "a GPU ran out of memory"),
        (1, steps(3) + ODD, GO_ON, "reached step 3"),
        (1, ODD, STOP, "ended by itself (exit code 1) without a new step"),
        (0, "", STOP, "ended by itself (exit code 0) without a new step"),
        (1, steps(7), GO_ON, "reached step 7"),
    ],
)
def test_a_link_goes_on_by_how_the_one_before_ended(
    bundle: Bundle, code: int, log: str, verdict: int, says: str
) -> None:
    bundle.whole("10", code, log)
    assert bundle.begin("11") == verdict
    assert says in bundle.said
    if verdict == GO_ON:
        assert bundle.said.startswith("moectl: long run: ")
    else:
        assert bundle.left("11")["idle"] is True
        assert bundle.begin("12") == verdict  # an idle link says nothing against it
        assert says in bundle.said


def test_exit_code_2_is_a_config_error_only_with_maxtexts_own_line(bundle: Bundle) -> None:
    started = "E1130 MAXTEXT CONFIG ERROR: DEADLINE_EXCEEDED: Barrier timed out\n"
    assert bundle.whole("10", 2, started) == QUEUE
    assert bundle.begin("10.1") == GO_ON
    bundle.write("10.1", CONFIG, started)
    bundle.failed("10.1", 2)
    assert bundle.end("10.1", 2) == QUEUE
    bundle.whole("20", 2, steps(1), "exit code 2 alone\n")
    assert bundle.begin("21") == GO_ON


def test_what_stays_never_goes_back_into_the_queue(bundle: Bundle) -> None:
    for number, line in enumerate((CONFIG, made.MEMORY, made.NAN, ODD)):
        assert bundle.whole(str(10 + number), 1, steps(1), line.rstrip() + "\n") == GO_ON
    assert bundle.whole("20", 0, steps(1), STOPPED) == GO_ON


def test_what_may_pass_does_but_not_for_ever_without_a_new_step(bundle: Bundle) -> None:
    assert bundle.whole("10", 1, steps(1), NETWORK) == QUEUE
    assert bundle.left("10")["again"] == "failed"
    for restart, verdict in ((1, QUEUE), (2, GO_ON)):
        assert bundle.whole(f"10.{restart}", 1, NETWORK) == verdict
    assert bundle.whole("10.3", 1, steps(2), NETWORK) == QUEUE
    assert bundle.whole("11", 1, NETWORK, more=("--again=0",)) == GO_ON


def test_a_preempted_job_goes_back_unless_it_is_done_or_broken(bundle: Bundle) -> None:
    preempted = ("--preempted",)
    assert bundle.whole("10", 0, steps(3), STOPPED, more=preempted) == QUEUE
    assert bundle.whole("11", 143, steps(3), more=preempted) == QUEUE
    assert bundle.whole("12", 0, steps(7), more=preempted) == GO_ON
    assert bundle.whole("13", 2, CONFIG, more=preempted) == GO_ON
    assert bundle.whole("14", 0, steps(3), STOPPED, more=(*preempted, "--again=0")) == GO_ON


def test_a_start_that_slurm_ended_says_nothing_against_another(bundle: Bundle) -> None:
    assert bundle.begin("10", judge=False) == GO_ON
    bundle.write("10", steps(2))
    bundle.failed("10", 143)
    assert bundle.begin("10.1") == GO_ON
    # A harmless text of the allocator is no end; one that ends the process is.
    bundle.write("10.1", "ran out of memory trying to allocate 1.00GiB\n")
    assert bundle.begin("10.2") == GO_ON
    bundle.write("10.2", made.MEMORY.rstrip() + "\n")
    assert bundle.begin("10.3") == STOP


def test_jobs_of_another_name_and_later_ones_do_not_count(bundle: Bundle) -> None:
    assert bundle.begin("10", job="run-2") == GO_ON
    bundle.write("10", steps(7))
    bundle.end("10", 0, job="run-2")
    assert bundle.begin("11") == GO_ON
    assert bundle.said == ""
    bundle.whole("13", 0, steps(7))
    assert bundle.begin("12") == GO_ON
    assert bundle.said.startswith("moectl: long run: goes on where job 11")


def test_the_verdict_of_the_watchdog_counts(bundle: Bundle) -> None:
    def watched(name: str, **said: Any) -> None:
        assert bundle.begin(name, judge=False) == GO_ON
        bundle.write(name, steps(2))
        bundle.failed(name, 124)
        (bundle.folder / "logs" / name / "watchdog.json").write_text(json.dumps(said))

    watched("10", known=None, cause="no rank says why", retry=True)
    assert bundle.end("10", 124) == QUEUE
    watched("11", known="out-of-memory", cause="x", retry=False)
    assert bundle.end("11", 125) == GO_ON
    assert bundle.begin("12") == STOP


def test_another_ranks_own_failure_weighs_more_than_the_first_ones_complaint(
    bundle: Bundle,
) -> None:
    assert bundle.begin("10", judge=False) == GO_ON
    bundle.write("10", steps(1), made.VICTIM.rstrip() + "\n")
    bundle.write("10", made.MEMORY.rstrip() + "\n", rank=5)
    bundle.failed("10", 1, rank=0)
    assert bundle.end("10", 1) == GO_ON
    assert bundle.left("10")["why"][0] == "a GPU ran out of memory"


def test_what_the_batch_script_printed_of_an_earlier_start_does_not_count(bundle: Bundle) -> None:
    printed = bundle.folder / "moe-10.log"
    printed.write_text("slurmstepd: error: Detected 1 oom-kill event(s)\n")
    assert bundle.whole("10.1", 1, steps(1)) == GO_ON
    assert bundle.left("10.1")["why"][0] == ""
    assert bundle.begin("10.2", judge=False) == GO_ON
    with printed.open("a") as stream:
        stream.write("slurmstepd: error: Detected 1 oom-kill event(s)\n")
    assert bundle.end("10.2", 1) == GO_ON
    assert bundle.left("10.2")["why"] == ["a node ran out of host memory", False, True]


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"reached": "x", "why": [1]}', "[" * 9999])
def test_broken_files_are_as_none(bundle: Bundle, text: str) -> None:
    bundle.whole("10", 0, steps(3), STOPPED)
    (bundle.folder / "logs/10/end.json").write_text(text)
    (bundle.folder / "logs/10/watchdog.json").write_text(text if text != "{}" else "")
    (bundle.folder / "logs/11.x").mkdir()
    (bundle.folder / "logs/junk").write_text("")
    assert bundle.begin("11") == GO_ON
    assert "reached step 3" in bundle.said


def module() -> dict[str, Any]:
    found: dict[str, Any] = {"__name__": "go_on"}
    exec(compile(go_on(), "go_on.py", "exec"), found)  # noqa: S102 - the program is ours
    return found


PROGRAM = module()


@settings(deadline=None)
@given(st.lists(st.sampled_from([CONFIG, NETWORK, ODD, made.MEMORY, made.VICTIM, made.UNMET, ""])))
def test_a_log_means_to_it_what_it_means_to_moectl(lines: list[str]) -> None:
    ours, told = cause(lines), PROGRAM["cause"](lines)
    assert (told[0] if told else None) == (ours.known.id if ours else None)


@settings(deadline=None)
@given(st.text())
def test_no_line_is_too_odd(line: str) -> None:
    found = PROGRAM["cause"]([line, line])
    assert found is None or re.search(found[1], line)


def test_rows_that_a_further_job_is_started_after_are_no_sure_failures() -> None:
    again = {row.id for row in rows() if row.again}
    assert "time-limit" in again
    assert not {row.id for row in rows() if row.again and row.retry}
    assert again.isdisjoint({"config-error", "out-of-memory", "host-memory", "unknown-flag"})
