"""What an environment says of the allocation that a shell stands in."""

from __future__ import annotations

import pytest

from moectl.launch.allocation import Allocation, allocation

SHELL = {"SLURM_JOB_ID": "17", "SLURM_JOB_NUM_NODES": "4", "SLURM_JOB_CPUS_PER_NODE": "72(x4)"}


def test_a_shell_of_salloc_tells_job_nodes_and_cpus() -> None:
    assert allocation(SHELL) == Allocation("17", 4, False, 72)


def test_a_shell_inside_a_step_is_told_apart() -> None:
    found = allocation({**SHELL, "SLURM_STEP_ID": "0"})
    assert found is not None
    assert "is a step of job 17" in found.unfit(4)


@pytest.mark.parametrize("job", ["", "x", "1" * 20])
def test_without_a_job_there_is_none(job: str) -> None:
    assert allocation({**SHELL, "SLURM_JOB_ID": job}) is None


def test_an_allocation_fits_a_run_of_as_many_nodes_only() -> None:
    found = Allocation("17", 4, False, 72)
    assert found.unfit(4) == ""
    assert "with 4 nodes, but the run takes 8" in found.unfit(8)
    assert "with 1 node, but" in Allocation("17", 1, False, 72).unfit(2)
    assert "no known nodes" in Allocation("17", 0, False, 72).unfit(2)
