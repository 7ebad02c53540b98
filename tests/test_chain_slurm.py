"""Runs of several jobs at a real Slurm: links, their ends, requeues, and the time limit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from moectl.launch.store import Store
from tests.support import chains
from tests.support.chains import (
    TRAINING,
    begin_now,
    end,
    ended,
    ids,
    last_start,
    logs,
    printed,
    record,
    words,
)
from tests.support.components import require
from tests.support.launching import Site, eventually, run_command
from tests.support.slurm import Slurm


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    require("slurm-cluster")
    with chains.site_without_accounts() as found:
        yield found


@pytest.fixture
def site(slurm: Slurm, tmp_path: Path) -> Iterator[Site]:
    with chains.at(slurm, tmp_path / "person") as found:
        yield found


def test_a_chain_ends_with_the_link_that_reaches_the_last_step(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.behave(TRAINING + "if [ $start = 1 ]; then step 0; stopped; fi\nstep 1; step 2; exit 0\n")
    assert run_command(words(site, "--chain", "3", "--wait")) == 0
    said = capsys.readouterr().out
    first, second, third = ids(site)
    assert f"jobs {first}, {second}, {third}, 8 GPUs" in said
    assert "4 GPU-hours at most (8 x 00:10:00 x 3 jobs)" in said
    assert "is done: its last step was reached" in said
    assert [entry["why"] for entry in record(site)["jobs"]] == ["first", "chain", "chain"]

    assert ended(site, first, second, third) == ["COMPLETED"] * 3
    assert (end(site, first)["stopped"], end(site, first)["done"]) == (True, False)
    assert f"goes on where job {first} reached step 0" in printed(site, second)
    assert (end(site, second)["reached"], end(site, second)["done"]) == (2, True)
    assert f"nothing is left to do here: job {second} reached step 2" in printed(site, third)
    assert end(site, third)["idle"] is True
    assert list(logs(site, third).glob("rank-*")) == []

    assert run_command(["runs"]) == 0
    assert re.search(r"moe-\S+ +done, link 2 of 3 ", capsys.readouterr().out)
    assert run_command(["status", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert (row["state"], row["link"], row["links"], row["step"]) == ("done", 2, 3, 2)
    assert row["logs"].endswith(f"/{second}")
    assert run_command(["logs", "moe"]) == 0
    assert "completed step: 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (
            "echo 'MAXTEXT CONFIG ERROR: steps must be positive'; exit 2",
            "failed in a way that stays: MaxText refuses its configuration",
        ),
        ("echo 'ValueError: odd'; exit 1", "ended by itself (exit code 1) without a new step"),
    ],
)
def test_a_failure_that_stays_ends_the_chain(
    site: Site, behaviour: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    site.behave(TRAINING + behaviour)
    assert run_command(words(site, "--chain", "3")) == 0
    first, second, third = ids(site)
    assert ended(site, first, second, third) == ["FAILED"] * 3
    assert f"nothing is left to do here: job {first} {why}" in printed(site, second)
    assert f"nothing is left to do here: job {first} {why}" in printed(site, third)
    assert sorted(path.name for path in logs(site, first).parent.glob("*/rank-0.log")) == [
        "rank-0.log"
    ]
    capsys.readouterr()
    assert run_command(["status", "moe"]) == 0
    said = capsys.readouterr().out
    assert ": failed, link 1 of 3\n" in said
    if "CONFIG" in behaviour:
        assert "MaxText refuses its configuration" in said
        assert "again   would fail the same way" in said
    assert run_command(["status", "moe", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"][1]["exit_code"] == 78


def test_exit_code_2_of_a_failed_start_is_no_config_error(site: Site) -> None:
    site.behave(
        TRAINING + "if [ $start = 1 ]; then\n"
        "  echo 'MAXTEXT CONFIG ERROR: DEADLINE_EXCEEDED: Barrier timed out'; exit 2\n"
        "fi\nstep 0; step 1; step 2\n"
    )
    assert run_command(words(site, "--chain", "2", profile="requeue: 0\n")) == 0
    first, second = ids(site)
    assert ended(site, first, second) == ["FAILED", "COMPLETED"]
    assert "the processes did not find each other" in printed(site, second)
    assert end(site, second)["done"] is True


def test_the_signal_before_the_limit_reaches_every_process(site: Site) -> None:
    """Slurm may send it up to a minute early, which is at once here."""
    site.behave(
        TRAINING
        + """
if [ $start = 1 ]; then
  trap 'touch "$MOECTL_LOGS/told-$SLURM_PROCID"; stopped' TERM
  step 0
  for count in $(seq 600); do sleep 0.2; done
fi
step 1; step 2
"""
    )
    profile = "signal_seconds: 30\n"
    site.cluster_file("batch", profile)
    more = ["--chain", "2", "--set", "cluster.time=00:01:00"]
    assert run_command(words(site, *more, profile=profile)) == 0
    first, second = ids(site)
    assert ended(site, first, second) == ["COMPLETED", "COMPLETED"]
    assert len(list(logs(site, first).glob("told-*"))) == 8
    assert (end(site, first)["code"], end(site, first)["stopped"]) == (0, True)
    assert end(site, second)["done"] is True


def test_a_job_whose_node_fails_goes_on_after_it_was_requeued(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.behave(
        TRAINING
        + 'if [ $start = 1 ]; then step 0; touch "$MOECTL_LOGS/ready"; sleep 120; exit 1; fi\n'
        "step 1; step 2\n"
    )
    assert run_command(words(site)) == 0
    (job,) = ids(site)
    eventually((logs(site, job) / "ready").exists, "the first step", 120)
    node = "gpu000"
    try:
        site.slurm.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
        begin_now(site, job)
        assert ended(site, job) == ["COMPLETED"]
    finally:
        site.slurm.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
    assert f"goes on where job {job} reached step 0" in printed(site, job)
    assert end(site, last_start(site, job))["done"] is True
    capsys.readouterr()
    assert run_command(["status", "moe", "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["state"], said["link"]) == ("done", None)
    assert said["jobs"][0]["restarts"] >= 1


def test_a_fault_that_may_pass_puts_a_job_back_into_the_queue_and_others_do_not(site: Site) -> None:
    site.behave(
        TRAINING + "case $start in\n"
        "  1) step 0; echo 'jaxlib: NCCL operation ncclAllReduce failed: unhandled system error'\n"
        "     exit 1 ;;\n"
        "esac\n"
        "echo 'jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory'; exit 1\n"
    )
    assert run_command(words(site)) == 0
    (job,) = ids(site)
    eventually((logs(site, job) / "end.json").exists, "the first end", 120)
    begin_now(site, job)
    assert ended(site, job) == ["FAILED"]
    assert "back into the queue, for what ended it may pass: a collective operation failed" in (
        printed(site, job)
    )
    last = end(site, last_start(site, job))
    assert (end(site, job)["again"], last["again"]) == ("failed", "")
    assert last["why"][0] == "a GPU ran out of memory"


def test_a_preempted_job_that_saves_in_its_grace_time_goes_back_into_the_queue(site: Site) -> None:
    """For Slurm it is over: it ended by itself with exit code 0."""
    site.behave(
        TRAINING + 'if [ $start = 1 ]; then trap stopped TERM; step 0; touch "$MOECTL_LOGS/ready"\n'
        "  for count in $(seq 600); do sleep 0.2; done\nfi\nstep 1; step 2\n"
    )
    assert run_command(words(site, partition="low")) == 0
    (job,) = ids(site)
    eventually((logs(site, job) / "ready").exists, "the first step", 120)
    script = site.folder / "urgent"
    script.write_text("#!/bin/sh\nsleep 1\n")
    options = ["--nodes=4", "--exclusive", "--partition=urgent", "--output=/dev/null"]
    site.slurm.submit(script, options=options, cwd=site.folder)
    eventually((logs(site, job) / "end.json").exists, "the end of the first", 120)
    assert (end(site, job)["code"], end(site, job)["again"]) == (0, "preempted")
    begin_now(site, job)
    assert ended(site, job) == ["COMPLETED"]
    assert end(site, last_start(site, job))["done"] is True


def test_an_ended_run_stays_what_it_was_when_slurm_has_forgotten_it(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.behave(TRAINING + "exit 3\n")
    assert run_command(words(site)) == 0
    (job,) = ids(site)
    assert ended(site, job) == ["FAILED"]
    assert run_command(["runs"]) == 0
    assert record(site)["ended"][job]["phase"] == "failed"
    configuration = site.slurm.root / "slurm.conf"
    whole = configuration.read_text()
    try:
        configuration.write_text(re.sub("MinJobAge=.*", "MinJobAge=2", whole))
        site.slurm.run("scontrol", "reconfigure")
        eventually(lambda: job not in site.queue().get(record(site)["id"], []), "forgotten", 180)
        capsys.readouterr()
        assert run_command(["runs", "--format", "json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)["runs"]
        assert (row["state"], row["jobs"][0]["exit_code"]) == ("failed", 3)
        assert row["jobs"][0]["nodes"]
    finally:
        configuration.write_text(whole)
        site.slurm.run("scontrol", "reconfigure")


def test_resume_goes_on_with_the_links_that_never_trained(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.behave(TRAINING + "if [ $start = 1 ]; then step 0; stopped; fi\nsleep 120\n")
    assert run_command(words(site, "--chain", "3")) == 0
    first, second, third = ids(site)
    site.until(second, "RUNNING", limit=120)
    eventually((logs(site, second) / "rank-0.log").exists, "its logs", 120)
    assert run_command(["resume", "moe"]) == 2
    assert run_command(["cancel", "moe"]) == 0
    assert f"cancelled job {second}, {third}" in capsys.readouterr().out
    assert ended(site, first, second, third) == ["COMPLETED", "CANCELLED", "CANCELLED"]
    site.behave(TRAINING + "step 1; step 2\n")
    assert run_command(["resume", "moe"]) == 0
    assert len(ids(site)) == 4
    assert run_command(["resume", "moe", "--chain", "2"]) == 2
    assert ended(site, ids(site)[3]) == ["COMPLETED"]
    assert end(site, ids(site)[3])["done"] is True
    assert run_command(["resume", "moe", "--chain", "2"]) == 0
    assert [entry["why"] for entry in record(site)["jobs"]][3:] == ["resume", "resume", "chain"]
    assert record(site)["options"]["chain"] == 2


@pytest.mark.parametrize("there", [False, True])
def test_where_no_cluster_answers_nothing_is_written(
    site: Site, there: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The programs are there; the configuration is not, or names a controller that is not."""
    configuration = site.folder / "slurm.conf"
    if there:
        text = (site.slurm.root / "slurm.conf").read_text()
        text = re.sub("SlurmctldPort=.*", "SlurmctldPort=1", text)
        configuration.write_text(re.sub("MessageTimeout=.*", "MessageTimeout=1", text))
    monkeypatch.setenv("SLURM_CONF", str(configuration))
    assert run_command(words(site)) == 3
    said = capsys.readouterr().err
    assert ("controller does not answer" if there else "belongs to no cluster") in said
    assert Store(site.runs).list().records == ()
    assert list(site.runs.glob("moe-*")) == []


def test_a_chain_is_refused_where_it_cannot_go_on(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    for more, says in (
        (["--chain", "2", "--form", "benchmark"], "set form: pretrain (--form pretrain)"),
        (["--chain", "1"], "a whole number from 2 to 100"),
        (["--until-step", "5"], "leaves no time to train beside the start"),
        (["--chain", "2", "--set", "checkpoints.on_preemption=false"], "on_preemption: true"),
        (["--chain", "2", "--set", "checkpoints.enabled=false"], "set checkpoints.enabled: true"),
    ):
        assert run_command(words(site, *more)) == 2
        assert says in capsys.readouterr().err
    assert site.queue() == {}
