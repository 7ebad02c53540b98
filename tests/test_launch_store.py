"""The folder of run records: whole or not at all, and never a crash over what lies in it."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from moectl.errors import LocalFilesError, UnknownNameError, UsageError
from moectl.launch.record import JobEntry, RunRecord
from moectl.launch.store import LARGEST, LOCK, RECORD, Store, default_root, run_id
from tests.support.components import require


def record(identity: str, **changes: object) -> RunRecord:
    plain = RunRecord(
        id=identity,
        name=identity.split("-", maxsplit=1)[0],
        created="2026-11-30T12:00:00Z",
        launcher="slurm",
        target="run.yaml",
        bundle="/nowhere",
        gpus=8,
        nodes=2,
        hardware="gb200-nvl72",
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "a" / "b")


def test_what_is_saved_is_read(store: Store) -> None:
    first = record("x-1", options={"steps": 5}, jobs=(JobEntry("7", "now"),))
    store.create(first)
    assert store.read("x-1") == first
    assert store.list().records == (first,)
    store.save(replace(first, state="cancelled"))
    assert store.read("x-1").state == "cancelled"
    assert sorted(path.name for path in store.folder("x-1").iterdir()) == [RECORD]


def test_a_run_is_created_once(store: Store) -> None:
    store.create(record("x-1"))
    with pytest.raises(LocalFilesError, match="exists already"):
        store.create(record("x-1"))


def test_records_come_newest_first(store: Store) -> None:
    for identity, day in (("b-1", "10"), ("a-1", "30"), ("c-1", "20")):
        store.create(record(identity, created=f"2026-11-{day}T12:00:00Z"))
    assert [found.id for found in store.list().records] == ["a-1", "c-1", "b-1"]


def test_a_run_is_found_by_what_a_person_types(store: Store) -> None:
    store.create(record("moe-1", created="2026-11-01T00:00:00Z"))
    store.create(record("moe-2", jobs=(JobEntry("4711", "now"),)))
    store.create(record("moeller-3"))
    assert store.find("moe").id == "moe-2"
    assert store.find("moe-1").id == "moe-1"
    assert store.find("4711").id == "moe-2"
    assert store.find("moell").id == "moeller-3"
    with pytest.raises(UsageError, match="type more of it"):
        store.find("mo")
    with pytest.raises(UnknownNameError, match="did you mean"):
        store.find("moe-9")
    with pytest.raises(UnknownNameError):
        store.find("")


def foreign(store: Store) -> dict[str, str]:
    """Put what is no record among the records; return folder to what is said of it."""
    store.create(record("good-1"))
    said = {
        "half-1": ("{", "no JSON"),
        "list-1": ("[]", "no mapping"),
        "deep-1": ("[" * 100_000, "no JSON"),
        "newer-1": (json.dumps({**record("newer-1").as_dict(), "format": 99}), "newer moectl"),
        "copy-1": (json.dumps(record("good-1").as_dict()), "a copy in another folder"),
        "large-1": ("x" * (LARGEST + 1), "too large"),
        "bytes-1": ("", "no JSON"),
    }
    for name, (text, _) in said.items():
        (store.root / name).mkdir()
        (store.root / name / RECORD).write_text(text)
    (store.root / "bytes-1" / RECORD).write_bytes(b"\xff\xfe\x00")
    (store.root / "folder-1" / RECORD).mkdir(parents=True)
    (store.root / "bare-1" / "bundle").mkdir(parents=True)
    (store.root / "-w eird $(touch CANARY)\n").mkdir()
    (store.root / "a file").write_text("x")
    (store.root / "loop").symlink_to(store.root / "loop")
    (store.root / "dangling").symlink_to(store.root / "nowhere")
    return {name: why for name, (_, why) in said.items()} | {"folder-1": "cannot be read"}


def test_foreign_folders_are_told_and_never_an_end(store: Store) -> None:
    said = foreign(store)
    found = store.list()
    assert [each.id for each in found.records] == ["good-1"]
    assert {each.folder.name for each in found.broken} == set(said)
    for each in found.broken:
        assert said[each.folder.name] in each.why
        assert "\n" not in each.why
    assert {path.name for path in found.bare} == {"bare-1", "-w eird $(touch CANARY)\n"}
    with pytest.raises(LocalFilesError, match="no JSON"):
        store.read("half-1")
    assert store.find("good").id == "good-1"


def test_no_folder_is_no_runs(tmp_path: Path) -> None:
    store = Store(tmp_path / "none")
    assert store.list().records == ()
    assert not store.root.exists()
    with pytest.raises(UnknownNameError):
        store.find("x")


def test_a_root_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for store in (Store(tmp_path / "file"), Store(tmp_path / "file" / "deeper")):
        with pytest.raises(LocalFilesError):
            store.create(record("x-1"))
        with pytest.raises(LocalFilesError), store.whole():
            pass


def test_what_a_dead_writer_left_goes_with_the_next_write(store: Store) -> None:
    store.create(record("x-1"))
    (store.folder("x-1") / f"{RECORD}.part-dead").write_text("{")
    assert store.read("x-1") == record("x-1")
    store.save(record("x-1", state="lost"))
    assert sorted(path.name for path in store.folder("x-1").iterdir()) == [RECORD]


def test_a_record_that_cannot_be_written_leaves_the_old_one(store: Store) -> None:
    require("root")
    store.create(record("x-1"))
    size = record("x-1", options={"long": "x" * 70_000})
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", store.root], check=True)
    try:
        store.create(record("y-1"))
        with pytest.raises(LocalFilesError, match="No space left"):
            store.save(replace(size, id="y-1"))
        assert store.read("y-1") == record("y-1")
        assert [path.name for path in store.folder("y-1").iterdir()] == [RECORD]
    finally:
        subprocess.run(["umount", store.root], check=True)


def test_changes_at_the_same_moment_are_all_kept(store: Store) -> None:
    store.create(record("x-1"))

    def add(number: int) -> None:
        for each in range(5):
            store.update("x-1", partial(RunRecord.submitted, job=f"{number}{each}", when="now"))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.read("x-1").job_ids) == 20


def test_a_lock_is_held_by_one(store: Store) -> None:
    store.create(record("x-1"))
    with store.locked("x-1") as held:
        assert held is not None
        with store.locked("x-1", wait=False) as second:
            assert second is None
    with store.locked("x-1", wait=False) as free:
        assert free is not None


def test_a_file_system_without_locks_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")  # Lustre without -o flock

    store.create(record("x-1"))
    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(LocalFilesError, match="keeps no locks; set MOECTL_RUNS"), store.whole():
        pass
    with pytest.raises(LocalFilesError, match="Function not implemented"), store.locked("x-1"):
        pass


def test_a_dead_process_holds_no_lock_but_a_program_it_started_does(store: Store) -> None:
    store.create(record("x-1"))
    script = f"""
import subprocess, sys
from pathlib import Path
from moectl.launch.store import Store
with Store(Path({str(store.root)!r})).locked("x-1") as lock:
    started = subprocess.Popen(["sleep", "30"], pass_fds=[lock], stdout=subprocess.DEVNULL)
    print(started.pid, flush=True)
    sys.stdin.readline()
    import os
    os.kill(os.getpid(), 9)
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    started = int(holder.stdout.readline())
    holder.communicate("die\n")
    assert holder.returncode == -9
    with store.locked("x-1", wait=False) as while_it_runs:
        assert while_it_runs is None
    os.kill(started, 9)
    with store.locked("x-1") as after:
        assert after is not None


def test_ids_name_the_run_and_the_moment_and_are_no_two_alike() -> None:
    made = {run_id("moe", "2026-11-30T12:00:59Z") for _ in range(50)}
    assert len(made) > 45
    for identity in made:
        assert re.fullmatch("moe-20261130-120059-[0-9a-f]{4}", identity)


def test_records_lie_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MOECTL_RUNS", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_root() == tmp_path / ".local" / "state" / "moectl" / "runs"
    monkeypatch.setenv("XDG_STATE_HOME", "relative is ignored")
    assert default_root() == tmp_path / ".local" / "state" / "moectl" / "runs"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_root() == Path("/state/moectl/runs")
    monkeypatch.setenv("MOECTL_RUNS", "~/my runs")
    assert default_root() == tmp_path / "my runs"
    monkeypatch.setenv("MOECTL_RUNS", "~nobody-of-that-name/x")
    with pytest.raises(UsageError, match="MOECTL_RUNS"):
        default_root()


def test_a_lock_file_is_no_record(store: Store) -> None:
    with store.whole():
        pass
    assert (store.root / LOCK).is_file()
    assert store.list().records == ()
