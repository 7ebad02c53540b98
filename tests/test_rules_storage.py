"""Rules on where checkpoints go."""
# ruff: noqa: S108 - the folders are texts here; nothing is written

from __future__ import annotations

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
