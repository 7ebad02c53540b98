"""Launches that die, at a real Slurm: never two jobs for one intent, never a job without a record.

MOECTL_FAULTS says how many points launches are killed at; every tally is printed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moectl.actions.runs import Table, table
from moectl.launch.store import Store
from tests.support.components import require
from tests.support.launch_faults import child, children
from tests.support.launching import ROOT, SECRET, Site, eventually, person, run_command

POINTS = int(os.environ.get("MOECTL_FAULTS", "40"))
SEED = 20261130


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with person(tmp_path / "person") as found:
        yield found


def settled(root: Path) -> Table:
    """Return what the next `moectl runs` finds; what still submits has its time to end."""
    found = [table(Store(root))]

    def at_rest() -> bool:
        found[0] = table(Store(root))
        return not any(row.state == "being submitted" for row in found[0].rows)

    eventually(at_rest, f"the intents of {root} are settled")
    return found[0]


def sound(site: Site, root: Path, name: str, *, full: bool = False) -> str:
    """Check a folder of records against Slurm after a launch of a name; return what it came to.

    On a full disk what was found cannot be written down.
    """
    seen = settled(root)
    assert seen.broken == ()
    assert seen.unreachable == ""
    jobs = {run: held for run, held in site.queue().items() if run.startswith(f"{name}-2")}
    recorded = {row.record.id: list(row.record.job_ids) for row in seen.rows}
    assert {run: held for run, held in recorded.items() if held} == jobs
    assert all(len(held) == 1 for held in jobs.values())
    on_disk = [json.loads(path.read_text()) for path in root.glob("*/record.json")]
    written = {record["id"]: [job["job"] for job in record["jobs"]] for record in on_disk}
    assert written == recorded or (full and written.keys() == recorded.keys())
    if not seen.rows:
        return "nothing" if not seen.bare else "a folder without a record"
    return seen.rows[0].state


def test_a_launch_that_is_killed_at_any_step_loses_and_doubles_nothing(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--points", str(POINTS), "--seed", str(SEED), *site.words()]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.launch_faults", *words],
        cwd=ROOT,
        env=site.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    ends: list[dict[str, Any]] = found["ends"]
    assert found["whole"] == 0
    assert len(ends) == POINTS
    assert {end["code"] for end in ends} <= {-signal.SIGKILL, 0}
    assert sum(end["code"] == -signal.SIGKILL for end in ends) > 0.8 * POINTS
    came_to = {
        end["name"]: sound(site, site.runs / end["name"], end["name"])
        for end in ends
        if (site.runs / end["name"]).is_dir()
    }
    tally = Counter(came_to.values())
    with capsys.disabled():
        sys.stdout.write(
            f"\n{POINTS} launches of {found['steps']} steps to be killed: {dict(tally)}, "
            f"{POINTS - len(came_to)} before they wrote anything\n"
        )
    assert tally["pending"] > 0
    assert tally["lost"] > 0
    # What was lost can be launched again, and what was not is live.
    for state in ("lost", "pending", "a folder without a record"):
        again = [name for name, at in came_to.items() if at == state][-2:]
        for name in again:
            os.environ["MOECTL_RUNS"] = str(site.runs / name)
            code = run_command(site.words("moe", "held", "--name", name))
            assert code == (2 if state == "pending" else 0)
            held = [run for run in site.queue() if run.startswith(f"{name}-2")]
            assert len(held) == 1
            sound(site, site.runs / name, name)


# How sbatch and the launch around it die: what the wrapper does, and whether there is a job.
DEATHS = {
    "the launch, before sbatch asks": ('kill -9 $PPID; sleep 0.2; exec $REAL "$@"', True),
    "the launch, before sbatch answers": (
        'said=$($REAL "$@"); kill -9 $PPID; echo "$said"',
        True,
    ),
    "both, before anything was asked": ("kill -9 $PPID $$", False),
    "both, after Slurm took it": ('$REAL "$@" >/dev/null; kill -9 $PPID $$', True),
    "sbatch, after Slurm took it": ('$REAL "$@" >/dev/null; kill -9 $$', True),
    "sbatch, before anything was asked": ("kill -9 $$", False),
    "the answer is lost": ('$REAL "$@" >/dev/null; echo nonsense', True),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_submission_that_dies_midway_is_found_or_lost(site: Site, death: str) -> None:
    script, has_job = DEATHS[death]
    site.program("sbatch", script)
    code, said = child(lambda: run_command(site.words()))
    survives = not death.startswith(("the launch", "both"))
    assert code == ((0 if has_job else 3) if survives else -signal.SIGKILL), said
    state = sound(site, site.runs, "moe")
    assert state == ("pending" if has_job else "nothing" if survives else "lost")
    (site.folder / "bin" / "sbatch").unlink()
    assert run_command(site.words()) == (2 if has_job else 0)
    assert len([run for run in site.queue() if run.startswith("moe-2")]) >= 1
    assert len([row for row in settled(site.runs).rows if row.live]) == 1


def test_while_a_dead_launch_still_submits_nobody_takes_its_run_for_lost(site: Site) -> None:
    site.program("sbatch", 'kill -9 $PPID; sleep 2; exec $REAL "$@"')
    assert child(lambda: run_command(site.words()))[0] == -signal.SIGKILL
    (seen,) = table(Store(site.runs)).rows
    assert seen.state == "being submitted"
    assert run_command(site.words()) == 2
    assert sound(site, site.runs, "moe") == "pending"


def test_launches_at_the_same_moment_make_one_job(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    words = site.words()
    ended = children([lambda: run_command(words)] * 6)
    codes = Counter(code for code, _ in ended)
    with capsys.disabled():
        sys.stdout.write(f"\n6 launches at once: exit codes {dict(codes)}\n")
    assert codes == {0: 1, 2: 5}, ended
    told = ("is live already", "is being submitted at this moment")
    assert sum(any(text in said for text in told) for _, said in ended) == 5
    assert sound(site, site.runs, "moe") == "pending"
    assert len(settled(site.runs).rows) == 1

    (run,) = site.records()
    run_command(["cancel", run])
    ended = children([lambda: run_command(["resume", run])] * 4)
    assert Counter(code for code, _ in ended) == {0: 1, 2: 3}, ended
    assert len(site.queue()[run]) == 2


def test_a_controller_that_stops_answering_leaves_an_intent_that_is_found_later(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that was only slow takes the job after sbatch gave up."""
    controller = int((site.slurm.root / "run" / "slurmctld.pid").read_text())
    impatient = site.folder / "slurm.conf"
    text = (site.slurm.root / "slurm.conf").read_text()
    impatient.write_text(re.sub("MessageTimeout=.*", "MessageTimeout=1", text))
    monkeypatch.setenv("SLURM_CONF", str(impatient))
    site.program("sbatch", f'kill -STOP {controller}; exec $REAL "$@"')
    try:
        assert run_command(site.words()) == 3
        said = capsys.readouterr().err
        assert "moectl: Slurm's controller does not answer" in said
        assert "was submitted is not known; `moectl runs` finds out" in said
        assert [record["state"] for record in site.records().values()] == ["intent"]
        assert run_command(["runs"]) == 3
    finally:
        os.kill(controller, signal.SIGCONT)
    monkeypatch.setenv("SLURM_CONF", str(site.slurm.root / "slurm.conf"))
    (site.folder / "bin" / "sbatch").unlink()
    eventually(
        lambda: any(run.startswith("moe-2") for run in site.queue()), "the job comes late", 20
    )
    assert sound(site, site.runs, "moe") == "pending"
    assert run_command(site.words()) == 2


def test_a_full_disk_leaves_nothing_or_a_run(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    require("root")
    site.runs.mkdir()
    tally: Counter[str] = Counter()
    words = site.words()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", site.runs], check=True)
    try:
        page = os.sysconf("SC_PAGESIZE")
        whole = 0
        for free in [0, 1, 2, 4, 6, 9, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40]:
            for path in [*site.runs.iterdir()]:
                subprocess.run(["rm", "-rf", path], check=True)
            size = max(1, free) * page
            subprocess.run(["mount", "-o", f"remount,size={size}", site.runs], check=True)
            if not free:
                (site.runs / "fill").write_bytes(b"x" * page)
            code = run_command([*words, "--name", f"full-{free}"])
            said = capsys.readouterr().err
            came_to = sound(site, site.runs, f"full-{free}", full=True)
            assert code in {0, 4}
            assert code == 0 or "No space left on device" in said
            there = code == 0 or "was submitted, but its id could not be written" in said
            assert came_to == ("pending" if there else "nothing"), (free, said)
            tally[came_to] += 1
            whole += code == 0
            if whole == 2:
                break
    finally:
        subprocess.run(["umount", site.runs], check=True)
    with capsys.disabled():
        text = f"{sum(tally.values())} launches on disks of growing size: {dict(tally)}"
        sys.stdout.write(f"\n{text}\n")
    assert tally["nothing"] >= 5
    assert tally["pending"] >= 2


def test_a_disk_that_fills_up_between_intent_and_answer_hides_no_job(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    require("root")
    site.runs.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", site.runs], check=True)
    try:
        site.program(
            "sbatch", f'dd if=/dev/zero of={site.runs}/fill bs=4k 2>/dev/null; exec $REAL "$@"'
        )
        assert run_command(site.words()) == 4
        said = capsys.readouterr().err
        job = re.search(r"job (\d+) of (moe-\S+) was submitted", said)
        assert job, said
        assert "`moectl runs` finds it by its name" in said
        (row,) = table(Store(site.runs)).rows
        assert (row.record.job_ids, row.state) == ((job[1],), "pending")
        assert site.records()[job[2]]["state"] == "intent"
        assert run_command(site.words()) == 2
        (site.runs / "fill").unlink()
        assert sound(site, site.runs, "moe") == "pending"
        assert site.records()[job[2]]["jobs"][0]["job"] == job[1]
    finally:
        subprocess.run(["umount", site.runs], check=True)


def test_no_error_tells_a_secret(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.program("sbatch", "exit 1")
    assert run_command(site.words()) == 3
    site.program("sbatch", 'echo "sbatch: error: odd" >&2; exit 1')
    assert run_command(site.words()) == 3
    said = capsys.readouterr()
    assert "sbatch failed without a word" in said.err
    assert "sbatch refused" in said.err
    assert SECRET not in said.out + said.err
    files = [path for path in site.folder.rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET in path.read_text("utf-8", "replace")]
