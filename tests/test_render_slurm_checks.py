"""What a launch script cannot say is refused, all of it at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from moectl.errors import SeveralUsageErrors, ValueUsageError
from moectl.job import Checkout, Container, Job, Mount
from moectl.render import slurm_checks
from moectl.render.programs import programs
from moectl.render.slurm import launch_script
from tests.support import jobs


def cluster(**changes: Any) -> Job:
    job = jobs.deepseek()
    return replace(job, cluster=replace(job.cluster, **changes))


def mounted(source: str, target: str = "/data") -> Job:
    container = Container(jobs.IMAGE, (Mount(source, target),))
    return replace(jobs.deepseek(), container=container)


def imaged(reference: str) -> Job:
    image = replace(jobs.IMAGE, reference=reference)
    return replace(jobs.deepseek(), container=Container(image))


def variable(name: str, value: str) -> Job:
    return replace(jobs.deepseek(), environment=jobs.said({name: value}))


FAULTY = {
    "a percent sign in the name": replace(jobs.deepseek(), name="run-%j"),
    "an empty name": replace(jobs.deepseek(), name=""),
    "a line break in the name": replace(jobs.deepseek(), name="a\n#SBATCH --wrap=x"),
    "a line break in the partition": cluster(partition="a\nb"),
    "a line break in the account": cluster(account="a\r\nb"),
    "a line break in the time": cluster(time="1\n2"),
    "a line break in a directive": cluster(directives=("--comment=a\n#SBATCH --nodes=1",)),
    "a directive without dashes": cluster(directives=("comment=a",)),
    "a directive with one dash": cluster(directives=("-p x",)),
    "a directive that is two": cluster(directives=("--comment a --nodes",)),
    "a directive the script writes": cluster(directives=("--nodes=4",)),
    "an export directive": cluster(directives=("--export=ALL",)),
    "a log directive": cluster(directives=("--output=%x.log",)),
    "a variable in a directive": cluster(directives=("--chdir=$HOME",)),
    "a comma in a mount": mounted("/data,1"),
    "a colon in a mount": mounted("/data:1"),
    "a colon in a target": mounted("/data", "/a:b"),
    "a line break in a mount": mounted("/data\n/x"),
    "a command in a mount": mounted("/data/$(touch x)"),
    "backquotes in a mount": mounted("/data/`id`"),
    "a double quote in a mount": mounted('/data/"x'),
    "a backslash in a mount": mounted("/data\\x"),
    "a relative mount": mounted("data"),
    "a mount over the bundle": mounted("/data", "/moectl"),
    "a comma in the output folder": replace(jobs.deepseek(), output_directory="/out,1"),
    "a line break in the output folder": replace(jobs.deepseek(), output_directory="a\nb"),
    "a colon in a checkout": replace(
        jobs.deepseek(), container=Container(jobs.IMAGE, (), (Checkout("maxtext", "/a:b"),))
    ),
    "an image with a blank": imaged("ghcr.io/nvidia/jax tag"),
    "an image with a command": imaged("ghcr.io/$(id)/jax"),
    "an image with a leading dash": imaged("-x"),
    "a squashfs file without a path": imaged("jax.sqsh"),
    "a relative squashfs file": imaged("images/jax.sqsh"),
    "no image": imaged(""),
    "a variable with a blank in its name": variable("A B", "1"),
    "a variable that is a command": variable("A=$(id)", "1"),
    "a variable with a NUL": variable("A", "a\0b"),
    "a variable of two lines under pyxis": variable("A", "1\nM_STEPS=2"),
    "a secret that is no name": replace(jobs.deepseek(), secrets=("A-B",)),
    "a secret that is a variable": replace(
        jobs.deepseek(), environment=jobs.said({"A": "1"}), secrets=("A",)
    ),
    "an argument that is no key": replace(jobs.deepseek(), arguments=jobs.said({"a b": 1})),
    "an interpreter of two lines": cluster(runtime="none", python="python3\nrm"),
    "no interpreter": cluster(runtime="none", python=" "),
}


@pytest.mark.parametrize("job", FAULTY.values(), ids=FAULTY)
def test_what_no_quoting_can_carry_is_refused(job: Job) -> None:
    for write in (slurm_checks.require, launch_script, programs):
        refuse: Callable[[Job], object] = write
        with pytest.raises(ValueUsageError) as refused:
            refuse(job)
        assert refused.value.legal
        assert "\n" not in str(refused.value)


def test_everything_is_refused_in_one_pass() -> None:
    job = replace(cluster(partition="a\nb", directives=("--nodes=1", "--x=$y")), name="a%b")
    with pytest.raises(SeveralUsageErrors) as refused:
        slurm_checks.require(job)
    assert len(refused.value.errors) == 4


@pytest.mark.parametrize(
    "job",
    [
        jobs.deepseek(),
        jobs.hgx(),
        jobs.one_node(),
        replace(jobs.deepseek(), name="-a 'b' \"c\" $(d) `e` #f é\\"),
        mounted("/data/with blank/é", "/it's"),
        cluster(directives=("--comment=a 'b' \"c\" #d", "--requeue", "--nice=0")),
        imaged("registry.local:5000/a_b/c-d.e:f_g"),
        imaged("/images/with blank.sqsh"),
        variable("A", "$(id) `id` \"'\\ é"),
        replace(jobs.one_node(), environment=jobs.said({"A": "1\n2"})),
        replace(jobs.one_node(), output_directory="/out,1:2 $(x)"),
    ],
    ids=lambda job: job.name[:20],
)
def test_what_quoting_carries_is_legal(job: Job) -> None:
    assert slurm_checks.check(job) == []
