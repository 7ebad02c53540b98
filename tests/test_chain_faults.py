"""Launches of several jobs that die between two of them, at a real Slurm: no link twice, none lost.

MOECTL_FAULTS says how many points launches are killed at; every tally is printed.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from moectl.actions.runs import Row, table
from moectl.launch.store import Store
from tests.support.chains import record, words
from tests.support.launch_faults import child
from tests.support.launching import ROOT, Site, eventually, person, run_command

POINTS = int(os.environ.get("MOECTL_FAULTS", "40"))
SEED = 20261201
LINKS = 3


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with person(tmp_path / "person") as found:
        yield found


def settled(root: Path) -> tuple[Row, ...]:
    """Return what the next `moectl runs` finds; what still submits has its time to end."""
    found = [table(Store(root))]

    def at_rest() -> bool:
        found[0] = table(Store(root))
        return not any(row.state == "being submitted" for row in found[0].rows)

    eventually(at_rest, f"the intents of {root} are settled")
    assert found[0].broken == ()
    assert found[0].unreachable == ""
    return found[0].rows


def sound(site: Site, root: Path, name: str) -> int:
    """Check a folder of records against Slurm; return how many links its only run has."""
    rows = settled(root)
    jobs = {run: held for run, held in site.queue().items() if run.startswith(f"{name}-2")}
    jobs = {run: sorted(held, key=int) for run, held in jobs.items()}
    assert {row.record.id: list(row.record.job_ids) for row in rows if row.jobs} == jobs
    on_disk = [json.loads(path.read_text()) for path in root.glob("*/record.json")]
    assert {
        one["id"]: [job["job"] for job in one["jobs"]] for one in on_disk if one["jobs"]
    } == jobs
    for one in on_disk:
        ids = [job["job"] for job in one["jobs"]]
        assert [job["why"] for job in one["jobs"]] == ["first", "chain", "chain"][: len(ids)]
        for before, after in itertools.pairwise(ids):
            assert re.search(rf"Dependency=.*afterany:{before}\b", shown(site, after))
    assert len(rows) <= 1
    return len(rows[0].jobs) if rows else 0


def shown(site: Site, job: str) -> str:
    return site.slurm.run("scontrol", "show", "job", job).stdout


def test_a_chain_whose_launch_is_killed_anywhere_is_whole_after_it_is_resumed(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    launch = words(site, "--chain", str(LINKS), partition="held")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.support.launch_faults",
            *("--points", str(POINTS), "--seed", str(SEED), *launch),
        ],
        cwd=ROOT,
        env=site.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    ends = found["ends"]
    assert found["whole"] == 0
    assert sound(site, site.runs / "whole", "whole") == LINKS
    assert sum(end["code"] == -signal.SIGKILL for end in ends) > 0.8 * POINTS
    there = [end["name"] for end in ends if (site.runs / end["name"]).is_dir()]
    came_to = {name: sound(site, site.runs / name, name) for name in there}
    tally = Counter(came_to.values())
    with capsys.disabled():
        sys.stdout.write(
            f"\n{POINTS} launches of {LINKS} jobs and {found['steps']} steps to be killed, links "
            f"afterwards: {dict(sorted(tally.items()))}, {POINTS - len(there)} before they wrote "
            "anything\n"
        )
    assert set(tally) == {0, 1, 2, 3}
    for name, links in came_to.items():
        if links:
            os.environ["MOECTL_RUNS"] = str(site.runs / name)
            assert run_command(["resume", name]) == (2 if links == LINKS else 0)
            assert sound(site, site.runs / name, name) == LINKS


# What happens at the second sbatch, and how many links there are afterwards.
DEATHS = {
    "launch and sbatch die, before anything was asked": ("kill -9 $PPID $$", 1, -9),
    "launch and sbatch die, after Slurm took it": (
        '$REAL "$@" >/dev/null; kill -9 $PPID $$',
        2,
        -9,
    ),
    "the launch dies, before sbatch asks": ('kill -9 $PPID; sleep 0.2; exec $REAL "$@"', 2, -9),
    "its answer is lost": ('$REAL "$@" >/dev/null; echo nonsense', 3, 0),
    "Slurm refuses it": ('echo "sbatch: error: QOSMaxSubmitJobPerUserLimit" >&2; exit 1', 1, 3),
}


@pytest.mark.parametrize("death", DEATHS)
def test_a_link_whose_submission_dies_is_found_or_submitted_later(
    site: Site, death: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script, links, code = DEATHS[death]
    count = site.folder / "count"
    at_second = f'echo >>{count}; [ "$(wc -l <{count})" = 2 ] || exec $REAL "$@"\n'
    site.program("sbatch", at_second + script)
    launch = words(site, "--chain", str(LINKS), partition="held")
    ended, said = child(lambda: run_command(launch))
    assert ended == code, said
    assert sound(site, site.runs, "moe") == links
    (site.folder / "bin" / "sbatch").unlink()
    capsys.readouterr()
    assert run_command(["runs"]) == 0
    told = capsys.readouterr().err
    assert ("submits the rest" in told) == (links < LINKS)
    if "refuses" in death:
        assert "1 of 3 jobs of moe-" in said
        assert "QOSMaxSubmitJobPerUserLimit" in said
    assert run_command(["resume", "moe"]) == (2 if links == LINKS else 0)
    assert sound(site, site.runs, "moe") == LINKS
    assert run_command(["resume", "moe"]) == 2
    assert record(site)["options"]["chain"] == LINKS


def test_cancel_ends_all_links(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(words(site, "--chain", str(LINKS), partition="held")) == 0
    jobs = [entry["job"] for entry in record(site)["jobs"]]
    capsys.readouterr()
    assert run_command(["cancel", "moe"]) == 0
    assert f"cancelled job {', '.join(jobs)}" in capsys.readouterr().out
    eventually(lambda: {site.state(job) for job in jobs} == {"CANCELLED"}, "all are cancelled")
    (row,) = settled(site.runs)
    assert (row.state, row.live, row.lacks) == ("cancelled", False, 0)
