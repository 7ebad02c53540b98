"""How long a job may take for what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moectl.job import Job
from moectl.render import limits
from moectl.render.slurm import directives
from tests.support import jobs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30", 1800),
        ("30:15", 1815),
        ("04:00:00", 14400),
        ("1-0", 86400),
        ("2-12", 216000),
        ("1-02:30", 95400),
        ("1-00:00:01", 86401),
        ("90:30", 5430),
        ("01:30:00", 5400),
        ("2-12:30", 217800),
        ("1-00:00:36", 86436),
        ("0", None),
        ("UNLIMITED", None),
    ],
)
def test_time_limits_are_read_as_slurm_reads_them(text: str, expected: int | None) -> None:
    assert limits.seconds(text) == expected


def saving(time_limit: str = "04:00:00", **changes: Any) -> Job:
    config = {"enable_checkpointing": True, "enable_autocheckpoint": True, "steps": 500}
    job = replace(jobs.hgx(), config=jobs.said(config | changes))
    return replace(job, cluster=replace(job.cluster, time=time_limit))


def signals(job: Job) -> list[str]:
    return [each.text for each in directives(job) if each.text.startswith("--signal")]


def test_a_job_that_saves_on_a_signal_is_sent_one() -> None:
    assert signals(saving()) == ["--signal=TERM@600"]
    assert signals(saving("01:00:00")) == ["--signal=TERM@360"]


@pytest.mark.parametrize("key", ["enable_checkpointing", "enable_autocheckpoint"])
def test_a_job_that_would_not_save_is_sent_none(key: str) -> None:
    changes: dict[str, Any] = {key: False}
    assert signals(saving(**changes)) == []


def test_neither_is_a_short_job_nor_one_that_names_its_own() -> None:
    assert signals(saving("00:10:00")) == []
    own = saving()
    own = replace(own, cluster=replace(own.cluster, directives=("--signal=USR1@60",)))
    assert signals(own) == ["--signal=USR1@60"]


def test_the_limits_come_from_the_site_and_else_from_the_table() -> None:
    words = limits.watchdog(saving())
    assert {"--ranks=32", "--per-node=8", "--steps=500", "--start=3600", "--step=900"} <= {*words}
    site = replace(saving().cluster, compile_limit=120, step_limit=45)
    assert {"--start=120", "--step=45"} <= {*limits.watchdog(replace(saving(), cluster=site))}
    none = replace(site, compile_limit=0)
    assert "--start=0" in limits.watchdog(replace(saving(), cluster=none))


def test_the_site_says_how_patient_the_watchdog_is_and_when_the_signal_comes() -> None:
    site = replace(saving().cluster, watchdog_factor=4.5, watchdog_grace=30, signal_seconds=90)
    own = replace(saving(), cluster=site)
    assert {"--factor=4.5", "--grace=30"} <= {*limits.watchdog(own)}
    assert signals(own) == ["--signal=TERM@90"]
    assert signals(replace(own, cluster=replace(site, time="00:10:00"))) == ["--signal=TERM@90"]
    assert signals(replace(own, cluster=replace(site, signal_seconds=0))) == []


def requeue(job: Job) -> list[str]:
    held = ("--requeue", "--no-requeue", "--open-mode=append")
    return [each.text for each in directives(job) if each.text in held]


def test_a_job_that_can_go_on_is_requeued_unless_the_site_says_otherwise() -> None:
    assert requeue(saving()) == ["--requeue", "--open-mode=append"]
    assert requeue(saving(enable_checkpointing=False)) == ["--no-requeue"]
    never = replace(saving().cluster, requeue=0)
    assert requeue(replace(saving(), cluster=never)) == ["--no-requeue", "--open-mode=append"]
    own = replace(never, directives=("--requeue", "--open-mode=truncate"))
    assert requeue(replace(saving(), cluster=own)) == ["--requeue"]
    assert (limits.requeues(saving()), limits.requeues(replace(saving(), cluster=never))) == (2, 0)


def test_the_steps_are_those_of_the_run_or_else_of_its_schedule() -> None:
    assert limits.steps(saving()) == 500
    assert limits.steps(saving(steps=-1, learning_rate_schedule_steps=70)) == 70
    assert limits.steps(saving(steps=True)) == 0


def test_profile_guided_runs_are_given_time_for_their_second_compilation() -> None:
    environment = jobs.said({"JAX_ENABLE_PGLE": "true", "JAX_PGLE_PROFILING_RUNS": "4"})
    assert "--settle=6" in limits.watchdog(replace(saving(), environment=environment))
    assert not [word for word in limits.watchdog(saving()) if word.startswith("--settle")]


def test_the_logs_of_very_many_ranks_are_read_less_often() -> None:
    assert "--every=10" in limits.watchdog(jobs.deepseek())
    assert "--every=40" in limits.watchdog(replace(jobs.deepseek(), gpus=4096))
