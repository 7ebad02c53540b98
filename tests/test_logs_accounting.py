"""Slurm's accounts, as sacct prints them."""

from __future__ import annotations

from pathlib import Path

from moectl.logs.accounting import looks_like, moment, read_accounts

TEXT = """\
JobID|JobName|State|Start|End|ExitCode
12|dsv3|NODE_FAIL|2026-11-30T08:00:00|2026-11-30T09:00:00|0:0
12.batch|batch|CANCELLED|2026-11-30T08:00:00|2026-11-30T09:00:00|0:15
12|dsv3|RUNNING|2026-11-30T09:10:00|Unknown|0:0
13|x|COMPLETED|2026-11-30T10:00:00|2026-11-30T09:00:00|0:0
14_3|y|COMPLETED|2026-02-30T10:00:00|soon|0:0
broken
"""


def test_every_start_of_a_job_is_an_allocation_and_its_steps_are_none(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(TEXT)
    assert looks_like(TEXT)
    found = read_accounts(path)
    assert [(each.job, each.state, each.seconds) for each in found] == [
        ("12", "NODE_FAIL", 3600.0),
        ("12", "RUNNING", None),
        ("13", "COMPLETED", None),
        ("14_3", "COMPLETED", None),
    ]
    assert found[1].place == f"{path}:4"


def test_columns_may_stand_in_any_order_and_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("State|JobIDRaw\nFAILED|7\n")
    (found,) = read_accounts(path)
    assert (found.job, found.start, found.end) == ("7", None, None)


def test_another_file_holds_no_accounts(tmp_path: Path) -> None:
    path = tmp_path / "b"
    path.write_text("completed step: 0\n")
    assert read_accounts(path) == ()
    assert read_accounts(tmp_path / "none") == ()
    assert not looks_like("")


def test_a_time_is_read_only_as_slurm_writes_it() -> None:
    assert moment("2026-11-30T08:00:00") == 1796025600.0
    assert moment("Unknown") is None
    assert moment("2026-13-30T08:00:00") is None
