"""moectl logs, as a person sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from moectl.cli import logs as command
from moectl.errors import LocalFilesError, UsageError
from moectl.launch.store import Store
from tests.support import training_logs as made
from tests.support.run_records import process, record

WORDS = {"follow": False, "failed": False, "rank": None, "job": None, "lines": None}
HOSTILE = b"tab\there \xff\xfe \x1b]0;title\x07 \xe2\x80\xae\r\n"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    monkeypatch.setenv("MOECTL_RUNS", str(tmp_path / "runs"))
    return Store(tmp_path / "runs")


def run(said: str, **options: str | bool | None) -> int:
    return command.run(said, **{**WORDS, **options})  # type: ignore[arg-type]


def trained(store: Store, count: int = 80) -> Path:
    """Write a run of one job with two ranks; return its folder of logs."""
    bundle = Path(record(store, 7).bundle)
    return made.folder(bundle, "7", {0: made.steps(count), 1: "rank one\n"})


def test_the_end_of_rank_0_is_printed_and_its_place_is_told_beside(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trained(store)
    assert run("moe") == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == made.steps(80).splitlines()[-50:]
    assert err == f"moectl: job 7, rank 0: {folder}/rank-0.log\n"
    run("moe", lines="3")
    assert len(capsys.readouterr().out.splitlines()) == 3
    run("moe", rank="1", job="7")
    assert capsys.readouterr().out == "rank one\n"


def test_bytes_of_strangers_reach_no_terminal(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trained(store)
    (folder / "rank-0.log").write_bytes(HOSTILE)
    run("moe")
    out = capsys.readouterr().out
    assert out == "tab    here \\xff\\xfe \\x1b]0;title\\x07 \\u202e\n"


def test_what_cannot_be_meant_is_refused(store: Store) -> None:
    trained(store)
    for options in (
        {"failed": True, "rank": "1"},
        {"rank": "-1"},
        {"rank": "x"},
        {"lines": "١"},
        {"lines": ""},
        {"job": ""},
        {"job": "9"},
        {"rank": "7"},
        {"failed": True},
    ):
        with pytest.raises(UsageError):
            run("moe", **options)
    record(store, 8, name="quiet")
    with pytest.raises(LocalFilesError, match="has no log in"):
        run("quiet")


def test_a_reader_who_leaves_is_no_fault(store: Store) -> None:
    trained(store, 20_000)
    reader = process("logs", {**WORDS, "run": "moe", "lines": "20000"})
    assert reader.stdout is not None
    assert reader.stderr is not None
    with reader:
        assert b"completed step: 0," in reader.stdout.readline()
        reader.stdout.close()
        told = reader.stderr.read()
    assert reader.returncode == 0
    assert b"Traceback" not in told


def test_following_begins_with_the_end_and_ends_with_the_run(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = trained(store)
    monkeypatch.setattr("moectl.actions.logs.is_live", lambda *_: False)
    monkeypatch.setattr("moectl.actions.logs.FIRST_ASK", 0.0)
    monkeypatch.setattr("moectl.actions.logs.LOOK", 0.0)
    assert run("moe", follow=True, lines="2") == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == made.steps(80).splitlines()[-2:]
    assert str(folder) in err
