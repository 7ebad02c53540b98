"""Rules on where checkpoints go."""
# ruff: noqa: S108 - the folders are texts here; nothing is written

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.facts.node_local import local_folder
from moectl.rules import storage
from moectl.workload import UNKNOWN
from tests.support.scripts import TRAIN, config, found, script, seen

RULES = storage.RULES


@pytest.mark.parametrize(
    ("path", "nodes", "severity"),
    [
        ("/tmp/out", 8, "error"),
        ("/tmp", 2, "error"),
        ("//tmp/./out", 2, "error"),
        ("/dev/shm/ckpt", 2, "error"),
        ("/local/out", 2, "error"),
        ("/scratch/local/me", 2, "error"),
        ("/mnt/localssd/x", 2, "error"),
        ("/raid/x", 2, "warning"),
        ("/tmp/out", None, "warning"),
        ("/tmp/out", 1, None),
        ("/tmpfiles/out", 8, None),
        ("/scratch/team/out", 8, None),
        ("/localhome/me", 8, None),
        ("/lustre/tmp/out", 8, None),
        ("gs://bucket/tmp", 8, None),
        ("", 8, None),
        (UNKNOWN, 8, None),
    ],
)
def test_output_on_a_nodes_own_disk(path: Any, nodes: int | None, severity: str | None) -> None:
    w = config(nodes, base_output_directory=path)
    assert seen(RULES, w) == ([("CKPT201", severity, 3)] if severity else [])


@pytest.mark.parametrize("checkpoints", [False, UNKNOWN])
def test_without_checkpoints_the_folder_does_not_matter(checkpoints: Any) -> None:
    said: dict[str, Any] = {
        "base_output_directory": "/tmp/out",
        "enable_checkpointing": checkpoints,
    }
    assert found(RULES, config(8, **said)) == []
    said["base_output_directory"] = "out"
    assert found(RULES, config(8, **said)) == []


def test_a_folder_nobody_names_is_not_judged() -> None:
    assert found(RULES, config(8)) == []


@pytest.mark.parametrize("path", ["out", "./out", "~/out", "../x"])
def test_a_relative_output_directory_is_an_error(path: str) -> None:
    assert seen(RULES, config(base_output_directory=path)) == [("CKPT202", "error", 3)]
    assert seen(RULES, config(base_output_directory=f"/shared/{path}")) == []


def test_local_checkpoints_stay_on_the_node() -> None:
    said: dict[str, Any] = {
        "enable_emergency_checkpoint": True,
        "base_output_directory": "gs://b/o",
    }
    assert seen(RULES, config(4, local_checkpoint_directory="gs://b/l", **said)) == [
        ("CKPT203", "error", 3)
    ]
    assert seen(RULES, config(4, local_checkpoint_directory="/local/x", **said)) == []
    assert seen(RULES, config(4, local_checkpoint_directory="gs://b/l")) == []


def _job(options: str, path: str) -> str:
    return (
        f"#!/bin/bash\n#SBATCH -N 2\nsrun {options} {TRAIN} b.yml "
        f"hardware=gpu_multiprocess base_output_directory={path}\n"
    )


IN = "--container-image=/i.sqsh"


@pytest.mark.parametrize(
    ("options", "path", "expected"),
    [
        ("", "/tmp/out", [("CKPT201", "error", 3)]),
        ("", "$OUT", []),
        (f"{IN} --container-mounts=/lustre/me:/tmp", "/tmp/out", []),
        (f"{IN} --container-mounts=$D:/tmp", "/tmp/out", []),
        (f"{IN} --container-mounts=$D:$T", "/tmp/out", []),
        (f"{IN} --container-mounts=/tmp/x:/out", "/out/y", [("CKPT201", "error", 3)]),
        (f"{IN} --container-mounts=/lustre:/data", "/tmp/out", [("CKPT201", "error", 3)]),
    ],
)
def test_mounts_tell_where_a_folder_lies(
    options: str, path: str, expected: list[tuple[str, str, int]]
) -> None:
    assert seen(RULES, script(_job(options, path))) == expected


def test_output_that_no_mount_covers_is_noted() -> None:
    def codes(options: str, path: str = "/out/x") -> list[str]:
        return [f.code for f in found(RULES, script(_job(options, path)))]

    assert codes(IN) == ["CKPT205"]
    assert codes(f"{IN} --container-mounts=/lustre:/data") == ["CKPT205"]
    assert codes(f"{IN} --container-mounts=/lustre:/out") == []
    assert codes(f"{IN} --container-mounts=/out") == []
    assert codes(f"{IN} --container-mounts=$M") == []
    assert codes(f"$OPTIONS {IN}") == []
    assert codes(f"{IN} --container-mount-home", "/home/me/out") == []
    assert codes("") == []


def test_a_bucket_without_credentials_is_noted() -> None:
    (note,) = found(RULES, script(_job("", "gs://b/o")))
    assert (note.code, note.severity) == ("CKPT204", "note")
    told = _job("", "gs://b/o").replace("srun", "export GOOGLE_APPLICATION_CREDENTIALS=/k\nsrun")
    assert found(RULES, script(told)) == []


@given(st.text("/.abtmp", max_size=12))
def test_a_folder_is_local_only_below_one_that_is(path: str) -> None:
    row = local_folder(path)
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if row is None:
        assert parts[:1] != ["tmp"]
    else:
        assert "/" + "/".join(parts) in path.replace("/./", "/") or parts
        assert row.folder.strip("/").split("/") == parts[: row.folder.count("/")]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/tmp/$USER/out", [("CKPT201", "error")]),
        ("/tmp/out-$SLURM_JOB_ID", [("CKPT201", "error")]),
        ("/tmp/${USER}", [("CKPT201", "error")]),
        ("/raid/$USER", [("CKPT201", "warning")]),
        ("$TMPDIR/out", [("CKPT201", "warning")]),
        ("${TMPDIR}/out", [("CKPT201", "warning")]),
        ("$SLURM_TMPDIR/out", [("CKPT201", "error")]),
        ("/tmp$USER/out", []),
        ("/lustre/$USER/tmp", []),
        ("$HOME/out", []),
        ("$OUT/tmp", []),
        ("gs://$BUCKET/tmp", []),
        ("out/$USER", [("CKPT202", "error")]),
        ("./out-$SLURM_JOB_ID", [("CKPT202", "error")]),
    ],
)
@pytest.mark.parametrize("way", ["word", "variable", "inside"])
def test_a_folder_is_judged_by_the_part_of_it_that_is_known(
    path: str, expected: list[tuple[str, str]], way: str
) -> None:
    lines = {
        "word": f"srun -N 4 {TRAIN} b.yml base_output_directory={path}",
        "variable": f"OUT={path}; srun -N 4 {TRAIN} b.yml base_output_directory=$OUT",
        "inside": f"srun -N 4 bash -c '{TRAIN} b.yml base_output_directory={path}'",
    }
    if way == "variable" and path == "$OUT/tmp":
        return
    rows = seen(RULES, script(f"#!/bin/bash\n{lines[way]}\n"))
    assert rows == [(code, severity, 2) for code, severity in expected]


@pytest.mark.parametrize(
    ("mounts", "path", "expected"),
    [
        ("/tmp:/out", "/out/$USER", [("CKPT201", "error", 1)]),
        ("/lustre:/tmp", "/tmp/$USER", []),
        ("/lustre:/tmp/shared", "/tmp/$USER/x", []),
        ("$WHERE:/tmp", "/tmp/$USER", []),
    ],
)
def test_mounts_count_for_a_partly_known_folder(
    mounts: str, path: str, expected: list[tuple[str, str, int]]
) -> None:
    command = f"srun -N 4 --container-mounts={mounts} {TRAIN} b.yml base_output_directory={path}"
    assert seen(RULES, script(command + "\n")) == expected


@pytest.mark.parametrize("value", ["", None])
def test_an_empty_folder_is_maxtexts_own_default(value: str | None) -> None:
    w = config(8, base_output_directory=value)
    resolved = replace(w, effective={**w.effective, "base_output_directory": "maxtext_output"})
    assert found(RULES, resolved) == []
    named = config(8, base_output_directory="maxtext_output")
    assert seen(RULES, named) == [("CKPT202", "error", 3)]
