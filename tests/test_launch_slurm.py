"""Slurm as a backend: what it says is understood, and it is asked as seldom as can be."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moectl.actions.runs import LAST_LOOK, UNANSWERED, Row, follow
from moectl.errors import BackendError
from moectl.facts.yaml_facts import read
from moectl.launch.allocation import Allocation, allocation
from moectl.launch.backend import JobState, UnansweredError, Wanted
from moectl.launch.slurm import Slurm
from moectl.launch.slurm_call import blocked, refused
from moectl.launch.store import Store
from tests.support.launching import Site, eventually, person, run_command

SAID = {
    "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect "
    "failure)": "Slurm's controller does not answer",
    "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation": (
        "Slurm's controller does not answer"
    ),
    "sbatch: fatal: Could not establish a configuration source": (
        "this machine has Slurm's programs but belongs to no cluster"
    ),
    "sbatch: error: invalid partition specified: nope": "there is no such partition",
    "Invalid account or account/partition combination specified": "the account does not exist",
    "Batch job submission failed: Invalid qos specification": "the quality of service does not",
    "Requested reservation is invalid": "the reservation does not exist",
    "Requested time limit is invalid (missing or exceeds some limit)": "the time limit is longer",
    "Invalid generic resource (gres) specification": "the nodes have no such GPUs",
    "Requested node configuration is not available": "the partition cannot give so many",
    "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)": (
        "the partition cannot give so many"
    ),
    "sbatch: error: AssocMaxSubmitJobLimit": "you have as many jobs in the queue",
    "sbatch: error: QOSMaxSubmitJobPerUserLimit": "you have as many jobs in the queue",
    "sbatch: error: Memory specification can not be satisfied": "the nodes have not so much memory",
    "sbatch: unrecognized option '--segment=4'": "this Slurm does not know an option",
    "slurmstepd: error: write: No space left on device": "the disk of the bundle is full",
    "Batch job submission failed: Access/permission denied": "Slurm may not do this for you",
    "Batch job submission failed: Job dependency problem": "the job it is to follow",
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with person(tmp_path / "person") as found:
        yield found


def submitted(site: Site, name: str, *options: str, script: str = "sleep 60") -> str:
    path = site.folder / "j.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    return str(site.slurm.submit(path, options=[f"--job-name={name}", *options], cwd=site.folder))


@pytest.mark.parametrize("said", SAID)
def test_a_refusal_is_one_sentence_above_slurms_own_words(said: str) -> None:
    error = refused("sbatch", f"{said}\nand more\n")
    first, *below = str(error).splitlines()
    assert first.startswith(f"{SAID[said]}")
    assert below == [f"  {said}", "  and more"]
    assert isinstance(error, UnansweredError) == (
        "does not answer" in first or "no cluster" in first
    )


def test_every_row_of_refusals_was_tried() -> None:
    causes = [row["cause"] for row in read("slurm_refusals.yaml")["rows"]]
    assert not [cause for cause in causes if not any(map(cause.startswith, SAID.values()))]


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("PartitionTimeLimit", "the time limit is longer"),
        ("PartitionNodeLimit", "has not so many nodes"),
        ("QOSMaxGRESPerJob", "no job of this size"),
        ("AssocMaxNodePerJobLimit", "no job of this size"),
        ("DependencyNeverSatisfied", "ended in another way"),
        ("BadConstraints", "no node fits"),
        ("JobHeldAdmin", "the job is held"),
    ],
)
def test_a_wait_that_never_ends_is_told(reason: str, says: str) -> None:
    assert says in blocked(reason)
    assert f"(Slurm: {reason})" in blocked(reason)


@pytest.mark.parametrize(
    "reason", ["", "None", "Resources", "Priority", "BeginTime", "Dependency", "QOSGrpNodeLimit"]
)
def test_an_ordinary_wait_is_not_told(reason: str) -> None:
    assert blocked(reason) == ""


def test_an_unknown_refusal_and_a_silent_one_are_told_as_they_are() -> None:
    assert str(refused("sbatch", "odd: \x1b[31m")).splitlines()[0] == "sbatch refused"
    assert str(refused("sbatch", " \n")) == "sbatch failed without a word"


def test_jobs_are_told_by_what_they_do(site: Site) -> None:
    running = submitted(site, "a-1")
    pending = submitted(site, "a-2", "--partition=held")
    failed = submitted(site, "a-3", script="exit 5")
    killed = submitted(site, "a-4", script="kill -9 $$")
    cancelled = submitted(site, "a-5", "--partition=held")
    site.until(running, "RUNNING")
    site.until(failed, "FAILED")
    site.until(killed, "FAILED")
    backend = Slurm()
    backend.cancel([cancelled, cancelled], "a-5")
    backend.cancel([cancelled, "999999"], "a-5")
    backend.cancel([], "a-5")
    odd = ["999999", "-x", "1;2", "²", ""]
    states = backend.states([running, pending, failed, killed, cancelled, *odd])
    assert {job: state.phase for job, state in states.items()} == {
        running: "running",
        pending: "pending",
        failed: "failed",
        killed: "failed",
        cancelled: "cancelled",
        **dict.fromkeys(odd, "unknown"),
    }
    assert states[running].nodes.startswith("gpu")
    assert (states[running].exit_code, states[running].end) == (None, "")
    assert states[running].start.startswith("20")
    assert (states[pending].start, states[pending].nodes) == ("", "")
    assert (states[failed].exit_code, states[failed].signal) == (5, 0)
    assert states[killed].signal == 9
    assert [state.live for state in states.values()][:5] == [True, True, False, False, False]


def test_what_a_person_set_for_their_own_tables_changes_no_answer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submitted(site, "b-1")
    site.until(job, "RUNNING")
    for name, value in {
        "SQUEUE_FORMAT": "%i",
        "SQUEUE_FORMAT2": "JobID",
        "SQUEUE_SORT": "nonsense",
        "SQUEUE_STATES": "PD",
        "SQUEUE_PARTITION": "held",
        "SQUEUE_USERS": "nobody",
        "SACCT_FORMAT": "JobName",
        "SCANCEL_INTERACTIVE": "1",
        "SCANCEL_STATE": "PENDING",
        "SINFO_FORMAT": "%P",
        "SLURM_TIME_FORMAT": "relative",
        "SLURM_BITSTR_LEN": "1",
    }.items():
        monkeypatch.setenv(name, value)
    backend = Slurm()
    state = backend.states([job])[job]
    assert (state.phase, state.name, state.start[:2]) == ("running", "b-1", "20")
    backend.cancel([job], "b-1")
    eventually(lambda: backend.states([job])[job].phase == "cancelled", "cancelled")


@pytest.mark.parametrize("name", ["a%jb", "c%%d"])
def test_a_folder_that_slurm_would_read_as_a_pattern_is_refused_before_sbatch(
    site: Site, name: str
) -> None:
    script = site.folder / name / "j.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n#SBATCH --output=x-%j.log\necho started\n")
    with pytest.raises(BackendError, match="put the runs into a folder without one"):
        Slurm().submit(script, "p-1")
    # What is refused fails in the real Slurm, and leaves no log.
    job = str(site.slurm.submit(script, cwd=script.parent))
    site.until(job, "FAILED")
    assert not list(site.folder.rglob("x-*.log"))


def test_jobs_are_found_by_name_also_ended_ones(site: Site) -> None:
    first = submitted(site, "found-1", script="exit 0")
    site.until(first, "COMPLETED")
    second = submitted(site, "found-1", "--partition=held")
    submitted(site, "found-12", "--partition=held")
    assert Slurm().find("found-1") == [first, second]
    with pytest.raises(RuntimeError):
        submitted(site, "turned-away", "--account=nope")
    assert Slurm().find("turned-away") == []
    assert Slurm().find("nobody") == []


def test_a_name_is_cancelled_and_no_other(site: Site) -> None:
    mine = submitted(site, "mine", "--partition=held")
    theirs = submitted(site, "theirs", "--partition=held")
    Slurm().cancel([mine, theirs], "mine")
    assert (site.state(mine), site.state(theirs)) == ("CANCELLED", "PENDING")


def test_what_is_asked_of_the_accounts_fits_a_command_line(site: Site) -> None:
    site.program("squeue", "exit 0")
    site.program(
        "sacct",
        f'printf "%s " "$@" >>{site.folder}/words; echo "x|COMPLETED|||||0:0|bad|name"; '
        'echo "7|COMPLETED|None|gpu000|Unknown|None|3:0|run-7"',
    )
    few = [Wanted("run-7", ("7",)), Wanted("run-8", ("8", "; rm"))]
    found = Slurm().survey(few)
    assert [(s.job, s.phase, s.exit_code) for s in found["run-7"]] == [("7", "completed", 3)]
    assert {s.phase for s in found["run-8"]} == {"unknown"}
    assert "--jobs=7,8 " in (site.folder / "words").read_text()

    many = [Wanted(f"many-{number}", (str(10**9 + number),)) for number in range(20_000)]
    assert len(Slurm().survey([*few, *many])) == 20_002
    searched = [Wanted(one.name, (), time.time() - 7200) for one in many]
    assert len(Slurm().survey(searched)) == 20_000
    words = (site.folder / "words").read_text()
    assert "--starttime=1970-01-02" in words
    assert "--starttime=now-10800seconds" in words
    assert max(map(len, words.split())) < 100_000


@pytest.mark.parametrize(
    ("said", "code", "signal"),
    [("0", 0, 0), ("1792", 7, 0), ("9", 0, 9), ("0:0", 0, 0), ("7:0", 7, 0), ("0:9", 0, 9)],
)
def test_exit_codes_of_old_and_new_releases_are_read(
    site: Site, said: str, code: int, signal: int
) -> None:
    row = f"12|FAILED|NonZeroExitCode|gpu000|Unknown|Unknown|{said}|1|x|y|"
    site.program("squeue", f"echo '{row}'")
    (state,) = Slurm().survey([Wanted("x|y", ("12",))])["x|y"]
    assert (state.exit_code, state.signal, state.restarts) == (code, signal, 1)


def test_nothing_is_asked_for_nothing(site: Site) -> None:
    for name in ("squeue", "sacct"):
        site.program(name, f"touch {site.folder}/asked; exit 1")
    assert Slurm().survey([]) == {}
    assert Slurm().states([]) == {}
    assert Slurm().states(["x"])["x"] == JobState("x", "unknown")
    assert not (site.folder / "asked").exists()


def test_an_answer_that_is_no_job_id_is_refused(site: Site) -> None:
    script = site.folder / "launch.sbatch"
    script.write_text("#!/bin/sh\n")
    site.program("sbatch", "echo '12;moectl'")
    assert Slurm().submit(script, "x") == "12"
    site.program("sbatch", "echo 'Submitted batch job'")
    with pytest.raises(BackendError, match="no job id"):
        Slurm().submit(script, "x")
    with pytest.raises(BackendError, match=r"gone/launch\.sbatch"):
        Slurm().submit(site.folder / "gone" / "launch.sbatch", "x")


def test_following_asks_ever_more_seldom_and_gives_up_in_the_end(site: Site) -> None:
    run_command(site.words())
    (run,) = site.records()
    told: list[Row] = []
    delays: list[float] = []

    def sleep(seconds: float) -> None:
        delays.append(seconds)
        if len(delays) == 5:
            site.program("squeue", "echo 'Connection refused' >&2; exit 1")
        if len(delays) == 8:
            (site.folder / "bin" / "squeue").unlink()
        if len(delays) == 10:
            run_command(["cancel", run])

    seen = follow(Store(site.runs), Slurm(), run, told.append, sleep)
    assert [row.state for row in told] == ["pending", "cancelled"]
    assert seen.state == "cancelled"
    assert delays == sorted(delays)
    assert (delays[0], delays[-1]) == (1.0, LAST_LOOK)

    site.program("squeue", "echo 'Connection refused' >&2; exit 1")
    delays = []
    with pytest.raises(BackendError, match="does not answer"):
        follow(Store(site.runs), Slurm(), run, told.append, delays.append)
    assert len(delays) == UNANSWERED - 1


def test_a_run_that_failed_to_start_is_followed_to_its_end(site: Site) -> None:
    site.behave("exit 4")
    run_command(site.words("moe", "batch"))
    (run,) = site.records()
    job = site.records()[run]["jobs"][0]["job"]
    site.until(job, "FAILED")
    eventually(lambda: bool(Slurm().states([job])[job].exit_code), "it has an exit code")
    seen = follow(Store(site.runs), Slurm(), run, lambda _: None)
    assert (seen.state, seen.jobs[0].exit_code) == ("failed", 4)


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": ""}, None),
        ({"SLURM_JOB_ID": "$(x)"}, None),
        ({"SLURM_JOB_ID": "7"}, Allocation("7", 0)),
        (
            {
                "SLURM_JOB_ID": "7",
                "SLURM_JOB_NUM_NODES": "2",
                "SLURM_JOB_CPUS_PER_NODE": "64(x2),32",
                "SLURM_STEP_ID": "4294967290",
            },
            Allocation("7", 2, step=False, cpus=64),
        ),
        (
            {"SLURM_JOBID": "7", "SLURM_NNODES": "2", "SLURM_STEP_ID": "0"},
            Allocation("7", 2, step=True),
        ),
    ],
)
def test_an_allocation_is_told_by_the_environment(
    environment: dict[str, str], found: Allocation | None
) -> None:
    assert allocation(environment) == found


def test_an_allocation_that_does_not_fit_says_why() -> None:
    assert Allocation("7", 2).unfit(2) == ""
    assert "takes 4" in Allocation("7", 2).unfit(4)
    assert "takes 1" in Allocation("7", 2).unfit(1)
    assert "a step of job 7" in Allocation("7", 2, step=True).unfit(2)
    assert os.environ.get("SLURM_JOB_ID") is None
