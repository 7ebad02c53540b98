"""Calibrations lie among the records, and are no runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from moectl.actions.calibrations import file_of, known
from moectl.actions.plan import Wishes, plan
from moectl.campaign.ladder import root
from moectl.errors import SourceError
from moectl.launch.store import Listing, Store

SOUND = '{"format": 1, "efficiencies": {"matmul": 0.5}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 1}',
        SOUND.replace("0.5", '"x"'),
        SOUND[:-1] + " " * 70_000,
    ],
)
def test_a_file_that_is_no_calibration_is_refused_by_name(text: str, tmp_path: Path) -> None:
    store, job = Store(tmp_path / "x"), plan("gpt-oss-20b", Wishes())
    path = file_of(store, job)
    path.parent.mkdir(parents=True)
    path.write_text(SOUND, "utf-8")
    assert known(job, store) == {"matmul": 0.5}
    path.write_text(text, "utf-8")
    with pytest.raises(SourceError, match="remove it, or let `moectl calibrate RUN`") as refused:
        known(job, store)
    assert refused.value.path == str(path)


def test_where_nothing_was_measured_nothing_is_known(tmp_path: Path) -> None:
    assert known(plan("gpt-oss-20b", Wishes()), Store(tmp_path / "x")) is None


def test_calibrations_and_climbs_lie_in_the_store_and_are_no_runs(tmp_path: Path) -> None:
    store = Store(tmp_path / "x")
    folders = (file_of(store, plan("gpt-oss-20b", Wishes())).parent, root(store.root))
    for folder in folders:
        folder.mkdir(parents=True)
        assert folder.parent == store.root
    assert store.list() == Listing(())
