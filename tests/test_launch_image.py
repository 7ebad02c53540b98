"""Importing an image once for all. enroot is a double: a program of that name in the tests."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from moectl.actions import image as action
from moectl.cli import image as command
from moectl.errors import BackendError, LocalFilesError, MoectlError, UsageError
from moectl.image_names import squashfs_name
from moectl.launch import image

IMAGE = "ghcr.io/nvidia/jax:maxtext-2026-09-09"
DIGEST = "sha256:" + "ab" * 32
NAME = "ghcr.io+nvidia+jax=maxtext-2026-09-09+aarch64.sqsh"
# Notes its words; answers as enroot 4 does; makes the file that --output names.
ENROOT = """#!/bin/sh
printf '%s\\0' "$@" >>{notes}; printf '\\n' >>{notes}
case $1 in
  version) echo 4.1.2; exit 0 ;;
  digest) {digest} ;;
esac
while [ "$1" != --output ]; do shift; done
{import_}
"""
MAKES = 'echo squashed >"$2"'


@pytest.fixture
def enroot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put a double of enroot on PATH; returns the file of its words."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("MOECTL_CLUSTER", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)

    def install(import_: str = MAKES, digest: str = f"echo {DIGEST}; exit 0") -> Path:
        notes = tmp_path / "notes"
        tool = programs / "enroot"
        tool.write_text(ENROOT.format(notes=notes, import_=import_, digest=digest))
        tool.chmod(0o755)
        return notes

    return install


def calls(notes: Path) -> list[list[str]]:
    lines = notes.read_text().splitlines() if notes.exists() else []
    return [line.split("\0")[:-1] for line in lines]


def test_an_image_becomes_a_file_with_a_note_of_what_it_is(
    enroot: Callable[..., Path], tmp_path: Path
) -> None:
    notes = enroot()
    folder = tmp_path / "new" / "images"
    done = image.pull(IMAGE, "aarch64", folder)
    file = folder / NAME
    assert done.file == str(file)
    assert file.read_text() == "squashed\n"
    held = json.loads((folder / f"{NAME}.json").read_text())
    assert held == done.as_dict()
    assert held["digest"] == DIGEST
    assert held["architecture"] == "aarch64"
    assert held["image"] == IMAGE
    assert held["enroot"] == "4.1.2"
    assert held["bytes"] == 9
    uri = "docker://ghcr.io#nvidia/jax:maxtext-2026-09-09"
    digest, importing, _ = calls(notes)
    assert digest == ["digest", "--arch", "aarch64", uri]
    assert importing[:3] == ["import", "--arch", "aarch64"]
    assert importing[3] == "--output"
    assert importing[4] != str(file)
    assert importing[4].endswith(".sqsh")
    assert importing[5:] == [f"{uri}@{DIGEST}"]
    left = {path.name for path in folder.iterdir()}
    assert left == {NAME, f"{NAME}.json", f".{NAME}.lock"}


def test_a_file_that_is_there_is_not_imported_again(
    enroot: Callable[..., Path], tmp_path: Path
) -> None:
    notes = enroot()
    first = image.pull(IMAGE, "aarch64", tmp_path)
    count = len(calls(notes))
    again = image.pull(IMAGE, "aarch64", tmp_path)
    assert again.there
    assert again.as_dict() == first.as_dict()
    assert len(calls(notes)) == count
    (tmp_path / f"{NAME}.json").write_text("[")
    assert image.pull(IMAGE, "aarch64", tmp_path).digest == "unknown"


def test_a_digest_nobody_tells_is_unknown(enroot: Callable[..., Path], tmp_path: Path) -> None:
    notes = enroot(digest="echo 'enroot: invalid command' >&2; exit 1")
    assert image.pull(IMAGE, "aarch64", tmp_path).digest == "unknown"
    assert calls(notes)[1][-1] == "docker://ghcr.io#nvidia/jax:maxtext-2026-09-09"


def test_a_pinned_image_needs_no_asking_and_is_a_file_of_its_own(
    enroot: Callable[..., Path], tmp_path: Path
) -> None:
    notes = enroot()
    done = image.pull(f"{IMAGE}@{DIGEST}", "x86_64", tmp_path)
    assert done.digest == DIGEST
    assert Path(done.file).name == (
        "ghcr.io+nvidia+jax=maxtext-2026-09-09+abababababab+x86_64.sqsh"
    )
    assert [words[0] for words in calls(notes)] == ["import", "version"]
    assert calls(notes)[0][-1] == f"docker://ghcr.io#nvidia/jax:maxtext-2026-09-09@{DIGEST}"


@pytest.mark.parametrize(
    ("import_", "words"),
    [
        ("echo half >$2; echo '[ERROR] No space left on device' >&2; exit 1", "the disk is full"),
        ("echo '[ERROR] URL returned error code: 401' >&2; exit 1", "wants a credential"),
        ("echo '[ERROR] manifest unknown' >&2; exit 1", "has no such image"),
        ("echo 'curl: Could not resolve host' >&2; exit 1", "cannot be reached from here"),
        ("echo 'Command not found: mksquashfs' >&2; exit 1", "a program that it needs"),
        ("echo half >$2; kill -9 $$", "could not import the image; nothing was kept"),
        (": >$2", "made an empty file"),
        ("exit 0", "No such file"),
    ],
)
def test_an_import_that_fails_leaves_nothing(
    import_: str, words: str, enroot: Callable[..., Path], tmp_path: Path
) -> None:
    enroot(import_)
    folder = tmp_path / "images"
    with pytest.raises(MoectlError, match=words) as stopped:
        image.pull(IMAGE, "aarch64", folder)
    assert isinstance(stopped.value, BackendError | LocalFilesError)
    assert [path.name for path in folder.iterdir()] == [f".{NAME}.lock"]
    enroot()
    assert not image.pull(IMAGE, "aarch64", folder).there


def test_what_a_killed_pull_left_is_removed(enroot: Callable[..., Path], tmp_path: Path) -> None:
    enroot('echo half >"$2"; : >"$2.started"; sleep 30')
    program = (
        "import sys\nfrom pathlib import Path\nfrom moectl.launch import image\n"
        f"image.pull({IMAGE!r}, 'aarch64', Path(sys.argv[1]))\n"
    )
    folder = tmp_path / "images"
    pulling = subprocess.Popen([sys.executable, "-c", program, folder], start_new_session=True)
    deadline = time.monotonic() + 30
    while not list(folder.glob(".*.started")) and time.monotonic() < deadline:
        time.sleep(0.02)
    with pytest.raises(LocalFilesError, match=rf"pulled at this moment by process {pulling.pid}"):
        image.pull(IMAGE, "aarch64", folder)
    os.killpg(pulling.pid, signal.SIGKILL)
    pulling.wait()
    for mark in folder.glob(".*.started"):
        mark.unlink()
    assert not (folder / NAME).exists()
    assert list(folder.glob(".*.part-*"))
    enroot()
    assert not image.pull(IMAGE, "aarch64", folder).there
    assert {p.name for p in folder.iterdir()} == {NAME, f"{NAME}.json", f".{NAME}.lock"}


def test_two_images_are_pulled_at_once_but_one_is_not_pulled_twice(
    enroot: Callable[..., Path], tmp_path: Path
) -> None:
    notes = enroot()
    with (tmp_path / f".{NAME}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LocalFilesError, match="is being pulled at this moment; wait for it"):
            image.pull(IMAGE, "aarch64", tmp_path)
        assert calls(notes) == []
        assert not image.pull(IMAGE, "x86_64", tmp_path).there


def test_without_enroot_the_line_for_a_compute_node_is_said(
    enroot: Callable[..., Path], tmp_path: Path
) -> None:
    site = tmp_path / "site.yaml"
    folder = tmp_path / "it's images"
    site.write_text(
        f'partition: "gb 200"\naccount: team\nimage_folder: "{folder}"\n'
        "node_architecture: aarch64\n"
    )
    planned = action.plan([], None, None, str(site))
    with pytest.raises(BackendError) as stopped:
        list(action.pull(planned))
    first, line = str(stopped.value).splitlines()
    assert first == "enroot is not on this machine; this does it on a compute node:"
    words = shlex.split(line)
    assert words[:4] == ["srun", "--nodes=1", "--ntasks=1", "--time=02:00:00"]
    assert words[4:6] == ["--partition=gb 200", "--account=team"]
    assert words[6:8] == ["sh", "-c"]
    # and that line does it, wherever there is an enroot
    folder.mkdir()
    enroot()
    subprocess.run(words[6:], check=True)
    assert [path.name for path in folder.iterdir()] == [NAME]


def test_a_profile_says_image_folder_and_architecture_and_options_win(
    enroot: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / ".config" / "moectl" / "clusters"
    kept.mkdir(parents=True)
    (kept / "alpha.yaml").write_text(
        "image: nvcr.io/team/jax:1\nimage_folder: /images\nnode_architecture: aarch64\n"
    )
    planned = action.plan([], None, None, "alpha")
    assert (planned.images, planned.architecture, planned.told) == (
        ("nvcr.io/team/jax:1",),
        "aarch64",
        "the profile",
    )
    assert planned.folder == Path("/images")
    monkeypatch.setenv("MOECTL_CLUSTER", "alpha")
    planned = action.plan(["ubuntu"], "x86_64", "here", None)
    assert (planned.images, planned.architecture, planned.told) == (("ubuntu",), "x86_64", "--arch")
    assert planned.folder == Path("here").absolute()


@pytest.mark.parametrize(
    ("images", "arch", "to", "words"),
    [
        (["/x.sqsh"], None, None, "registry/path:tag"),
        (["a b"], None, None, "registry/path:tag"),
        (["-x"], None, None, "registry/path:tag"),
        ([IMAGE], "arm64", None, "aarch64 or x86_64"),
        ([IMAGE], None, "", "the path of a folder"),
        ([IMAGE], None, "a\0b", "the path of a folder"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    images: list[str],
    arch: str | None,
    to: str | None,
    words: str,
    enroot: Callable[..., Path],
) -> None:
    notes = enroot()
    with pytest.raises(UsageError, match=words):
        action.plan(images, arch, to, None)
    assert calls(notes) == []


def test_the_command_prints_what_it_pulled(
    enroot: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    enroot()
    assert command.pull([IMAGE], "aarch64", str(tmp_path), None, "text") == 0
    printed = capsys.readouterr().out
    assert f"pulled: {tmp_path / NAME}" in printed
    assert f"  digest  {DIGEST}" in printed
    assert command.pull([IMAGE], "aarch64", str(tmp_path), None, "json") == 0
    (row,) = json.loads(capsys.readouterr().out)["images"]
    assert row["there"] is True
    assert row["digest"] == DIGEST
    assert command.pull(["ubuntu"], None, str(tmp_path), None, "text") == 0
    assert "--arch takes another" in capsys.readouterr().out


def test_names_of_files_hold_nothing_odd_and_tell_images_apart() -> None:
    names = {
        squashfs_name(reference, digest, architecture)
        for reference in (IMAGE, "localhost:5000/a/b:1", "ubuntu", "a/b", "a:b")
        for digest in ("", DIGEST)
        for architecture in ("aarch64", "x86_64")
    }
    assert len(names) == 20
    for name in names:
        assert name.endswith(".sqsh")
        assert not set(name) & set("/:@ ,$\"'")
        assert not name.startswith((".", "-"))


def test_a_folder_that_cannot_be_made_is_told(enroot: Callable[..., Path], tmp_path: Path) -> None:
    enroot()
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalFilesError, match="file"):
        image.pull(IMAGE, "aarch64", tmp_path / "file" / "images")
