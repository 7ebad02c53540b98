"""Real MaxText trains through the pod start program: two pods of two processes each, on CPU.

What Kubernetes adds to a container is set by hand, the names of the pods are loopback; nothing
else is a stand-in but the size of the model.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from moectl.job import Cluster, Job
from moectl.logs.maxtext import StepLine, read_log
from tests.support import jobs, pods
from tests.support.components import require
from tests.test_training_real import MODEL, STEPS

# On CPU the processes wait 30 s for each other at their first collective operation, which a busy
# machine may exceed; no setting of JAX makes that longer.
ATTEMPTS = 3


def tiny(**config: object) -> Job:
    hardware = replace(jobs.GB200, gpus_per_node=2, domain_gpus=2, usable_domain_gpus=2)
    environment = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1", "HF_HUB_OFFLINE": "1"}
    return replace(
        jobs.job(hardware, 2, slice_gpus=4, name="tiny"),
        launcher="kubernetes",
        config=jobs.said({**MODEL, **config}),
        environment=jobs.said(environment),
        cluster=Cluster(),
    )


def test_two_pods_of_two_processes_train_a_mixture_of_experts(tmp_path: Path) -> None:
    python = str(require("maxtext"))
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        with pods.pods(folder, python, tiny()) as found:
            codes = found.run()
        if codes == [0, 0]:
            break
    assert codes == [0, 0], pods.outputs(found)
    losses = []
    for index in range(2):
        assert pods.ranks(found.output(index)) == [2 * index, 2 * index + 1]
        for rank in (2 * index, 2 * index + 1):
            steps = [s for s in read_log(found.log(index, rank)) if isinstance(s, StepLine)]
            assert [step.step for step in steps] == list(range(STEPS))
            losses.append([step.loss for step in steps])
    assert all(row == losses[0] for row in losses)
    record = json.loads((found.log(0, 0).parent / "as-run.json").read_text("utf-8"))
    assert record["job"] == pods.JOBSET
    assert record["processes"] == 4
    assert [row["nodes"] for row in record["slices"]] == [["node-0", "node-1"]]
    assert record["environment"]["SLURM_PROCID"] == "0"
    assert {"config.yml", "pod.json", "pod_start.py"} <= set(record["files"])
    assert not (found.log(0, 0).parent / "watchdog.json").exists()


@pytest.mark.parametrize(
    ("config", "text"),
    [({"num_experts_per_tok": "many"}, "MaxText refuses its configuration")],
    ids=["config"],
)
def test_what_maxtext_refuses_has_an_exit_code_of_its_own(
    config: dict[str, object], text: str, tmp_path: Path
) -> None:
    with pods.pods(tmp_path, str(require("maxtext")), tiny(**config)) as found:
        codes = found.run()
    assert set(codes) == {78}, pods.outputs(found)
    assert text in found.output(0)
