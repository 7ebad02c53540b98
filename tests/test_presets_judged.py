"""Every preset in both forms, judged by real MaxText at its smallest size and up to 2,048 GPUs.

Larger meshes than 4,096 virtual devices abort the judge, so they are checked by arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import pytest

from moectl.actions.render import plan_job
from moectl.facts import hardware as platforms
from moectl.job import Job
from moectl.render.config import arguments, plain
from moectl.settings.files import Preset, preset, preset_names
from tests.judge.client import Judge, Verdict

FORMS = ("benchmark", "pretrain")
SIZES = (64, 128, 512, 2048)
HGX, HGX_GPUS = "h100-hgx", 64
LARGEST = 16_384
# Transformer Engine is not in the judge's environment, and no size or layout of a weight hangs
# on these; MaxText imports it as soon as it traces the state.
WITHOUT_TE = {"quantization": "", "attention": "dot_product"}


def runnable() -> list[Preset]:
    return [shown for name in preset_names() if (shown := preset(name)).estimate_only is None]


def question(job: Job, mode: str = "config", **changes: Any) -> dict[str, Any]:
    """Return what the processes of `job` would tell MaxText, as a question for the judge."""
    return {
        "id": f"{job.preset} {job.form} {job.gpus} {job.hardware.name}",
        "mode": mode,
        "config": {**plain(job.config), **changes},
        "arguments": arguments(job),
        "devices": job.gpus,
        "slices": job.mesh.slices,
    }


def sizes(shown: Preset) -> list[int]:
    node = platforms.platform(shown.hardware).gpus_per_node
    return sorted({node, shown.gpus, *SIZES})


def refusals(verdicts: Sequence[Verdict]) -> list[str]:
    """Return what was not accepted, one line each."""
    return [
        f"{v.id}: {v.verdict} at {v.stage}: {v.error_type} {v.error[:300]} {v.where[-1:]}"
        for v in verdicts
        if not v.accepted
    ]


@pytest.mark.parametrize("form", FORMS)
def test_real_maxtext_accepts_every_preset_at_every_size(form: str, maxtext: Judge) -> None:
    jobs = [
        plan_job(shown.name, gpus=gpus, form=form) for shown in runnable() for gpus in sizes(shown)
    ]
    jobs += [plan_job(shown.name, gpus=HGX_GPUS, hardware=HGX, form=form) for shown in runnable()]
    verdicts = maxtext([question(job) for job in jobs])
    assert refusals(verdicts) == []
    for job, verdict in zip(jobs, verdicts, strict=True):
        wanted = {axis: d.total for axis, d in job.mesh.degrees.items() if d.total > 1}
        assert verdict.mesh == wanted
        assert verdict.derived["global_batch_size_to_train_on"] == job.batch.global_batch


def test_jax_lays_out_every_weight_of_every_preset_at_its_own_size(maxtext: Judge) -> None:
    jobs = [plan_job(shown.name, form=form) for shown in runnable() for form in FORMS]
    verdicts = maxtext([question(job, "state", **WITHOUT_TE) for job in jobs])
    assert refusals(verdicts) == []
    for job, verdict in zip(jobs, verdicts, strict=True):
        memory = job.hardware.figures["hbm_visible_bytes"]
        held = verdict.bytes["total"] + verdict.bytes["parameters"]  # and gradients like weights
        assert held < 0.5 * memory, f"{job.preset} leaves no room for activations"


def test_jax_lays_out_every_weight_of_every_preset_at_two_thousand_gpus(maxtext: Judge) -> None:
    jobs = [plan_job(shown.name, gpus=2048) for shown in runnable()]
    verdicts = maxtext([question(job, "state", **WITHOUT_TE) for job in jobs])
    assert refusals(verdicts) == []


def test_real_maxtext_counts_the_parameters_of_the_overridden_model(maxtext: Judge) -> None:
    """Published: 744B, huggingface.co/docs/transformers/model_doc/glm_moe_dsa."""
    job = plan_job("glm-5-744b")
    told = maxtext.one(**question(job, "state", **WITHOUT_TE))
    assert told.accepted, told.error
    assert round(told.parameters / 1e9) == 744


@pytest.mark.parametrize("shown", runnable(), ids=lambda shown: shown.name)
def test_the_largest_job_of_a_preset_adds_up(shown: Preset) -> None:
    job = plan_job(shown.name, gpus=LARGEST)
    degrees: Mapping[str, Any] = job.mesh.degrees
    assert prod(d.total for d in degrees.values()) == LARGEST
    assert prod(d.dcn for d in degrees.values()) == job.mesh.slices
    assert prod(d.ici for d in degrees.values()) == job.mesh.gpus_per_slice
    assert job.batch.micro_batch % (job.mesh.total("fsdp") * job.mesh.total("expert")) == 0
    if job.config["te_moe_block"].value:
        assert degrees["expert"].dcn == 1
        assert job.mesh.total("data") == 1
