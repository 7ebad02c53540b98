"""The container as pyxis is told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moectl.job import Checkout, Container, Job, Mount
from moectl.render import container
from tests.support import jobs

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("reference", "digest", "pyxis"),
    [
        ("ghcr.io/nvidia/jax:maxtext-2026-09-09", "", "ghcr.io#nvidia/jax:maxtext-2026-09-09"),
        ("ghcr.io/nvidia/jax:t", DIGEST, f"ghcr.io#nvidia/jax:t@{DIGEST}"),
        ("ghcr.io/nvidia/jax", DIGEST, f"ghcr.io#nvidia/jax@{DIGEST}"),
        ("registry.local:5000/team/jax:1", "", "registry.local:5000#team/jax:1"),
        ("localhost/jax:1", "", "localhost#jax:1"),
        ("nvidia/cuda:13.0", "", "nvidia/cuda:13.0"),
        ("ubuntu", "", "ubuntu"),
        ("docker.io/nvidia/cuda:13.0", "", "nvidia/cuda:13.0"),
        ("/lustre/images/jax.sqsh", "", "/lustre/images/jax.sqsh"),
    ],
)
def test_images_are_written_in_the_grammar_of_pyxis(
    reference: str, digest: str, pyxis: str
) -> None:
    image = replace(jobs.IMAGE, reference=reference, digest=digest)
    assert container.pyxis_image(image) == pyxis


def with_container(**changes: object) -> Job:
    return replace(jobs.deepseek(), container=replace(Container(jobs.IMAGE), **changes))  # type: ignore[arg-type]


def test_the_bundle_is_mounted_by_a_name_that_holds_nothing_of_its_path() -> None:
    assert container.mount_option(jobs.deepseek()) == "./:/moectl"


def test_mounts_say_where_and_whether_they_are_read_only() -> None:
    job = with_container(mounts=(Mount("/data/c4", "/data", read_only=True), Mount("/a b", "/b")))
    assert container.mount_option(job) == "./:/moectl,/data/c4:/data:ro,/a b:/b"


def test_folders_the_job_writes_to_are_mounted_unless_a_mount_covers_them() -> None:
    job = replace(
        with_container(mounts=(Mount("/scratch", "/runs"),)),
        output_directory="/runs/out",
        cache_directory="/lustre/cache",
    )
    assert container.own_folders(job) == ["/lustre/cache"]
    assert "/lustre/cache:/lustre/cache" in container.mount_option(job)
    beside = replace(job, output_directory="/runs-other")
    assert container.own_folders(beside) == ["/runs-other", "/lustre/cache"]


def test_relative_folders_and_buckets_are_not_mounted() -> None:
    job = replace(jobs.deepseek(), output_directory="gs://bucket/run", cache_directory="cache")
    assert container.own_folders(job) == []


def test_a_job_without_container_mounts_nothing() -> None:
    assert container.own_folders(replace(jobs.one_node(), output_directory="/out")) == []


def test_checkouts_come_first_on_the_path_where_their_packages_lie() -> None:
    checkouts = (
        Checkout("maxtext", "/home/me/maxtext", "0123abc"),
        Checkout("transformer-engine", "/home/me/te"),
    )
    job = with_container(checkouts=checkouts)
    assert container.python_path(job) == [
        "/moectl-source/maxtext/src",
        "/moectl-source/transformer-engine",
    ]
    assert "/home/me/maxtext:/moectl-source/maxtext:ro" in container.mount_option(job)
    bare = replace(job, cluster=replace(job.cluster, runtime="none"))
    assert container.python_path(bare) == ["/home/me/maxtext/src", "/home/me/te"]
