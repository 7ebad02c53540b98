"""The judge of the other tests: it accepts, refuses and crashes as real MaxText does."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.judge.client import Judge, JudgeError, Verdict, Worker
from tests.judge.samples import DEEPSEEK, UNKNOWN_IN_RECIPE, model


def test_a_known_good_configuration_is_accepted_with_its_mesh_and_batch(maxtext: Judge) -> None:
    verdict = maxtext.one(config=DEEPSEEK, devices=128, slices=2)
    assert verdict.accepted, verdict
    assert verdict.mesh == {"fsdp": 16, "expert": 8}
    assert verdict.derived["global_batch_size_to_load"] == 768
    assert verdict.derived["micro_batch_size_to_train_on"] == 768
    assert verdict.derived["num_experts"] == 256
    assert verdict.derived["decoder_block"] == "deepseek"


def test_the_keys_of_the_published_recipe_that_maxtext_lacks_are_all_named(maxtext: Judge) -> None:
    verdict = maxtext.one(config=DEEPSEEK | UNKNOWN_IN_RECIPE, devices=128, slices=2)
    assert verdict.verdict == "refused"
    assert "'pgle'" in verdict.error
    assert sorted(verdict.unknown_keys) == sorted(UNKNOWN_IN_RECIPE)


def test_the_slices_are_what_the_hardware_says(maxtext: Judge) -> None:
    two, one, many, uneven, implied = maxtext(
        [
            {"config": DEEPSEEK, "devices": 128, "slices": 2},
            {"config": DEEPSEEK, "devices": 128, "slices": 1},
            {"config": DEEPSEEK, "devices": 128, "slices": 32},
            {"config": DEEPSEEK, "devices": 128, "slices": [72, 56]},
            {"config": DEEPSEEK, "devices": 128},
        ]
    )
    assert two.accepted
    assert implied.accepted
    assert (one.verdict, one.stage) == ("refused", "config")
    assert "only one slice available" in one.error
    assert one.where[-1].startswith("maxtext/configs/types.py:"), one.where
    assert (many.verdict, many.stage) == ("refused", "mesh")
    assert "devices per slice 4 does not match" in many.error
    assert many.where[-1].startswith("maxtext/utils/max_utils.py:")
    assert (uneven.verdict, uneven.stage) == ("refused", "mesh")


def test_a_file_is_judged_as_it_is_written(maxtext: Judge) -> None:
    # YAML 1.1 has no float like this one; MaxText's own loader does.
    text = "base_config: base.yml\nsteps: 7\nrun_name: r\nbase_output_directory: o\n"
    good, bad = maxtext(
        [
            {"text": text + "learning_rate: 3e-05\n", "devices": 1, "keys": ["learning_rate"]},
            {"text": text + "learning_rate: fast\n", "devices": 1},
        ]
    )
    assert good.accepted, good
    assert good.derived == {"learning_rate": 3e-05}
    assert bad.verdict == "refused"
    assert "learning_rate" in bad.error


def test_the_command_line_and_the_environment_of_a_job_reach_maxtext(maxtext: Judge) -> None:
    job = {"config": DEEPSEEK, "devices": 128, "slices": 2, "keys": ["steps", "learning_rate"]}
    both, twice = maxtext(
        [
            {**job, "arguments": ["steps=3"], "env": {"M_LEARNING_RATE": "0.5"}},
            {**job, "arguments": ["steps=3"], "env": {"M_STEPS": "4"}},
        ]
    )
    assert both.derived == {"steps": 3, "learning_rate": 0.5}
    assert twice.verdict == "refused"
    assert "M_STEPS" in twice.error


def test_xla_flags_are_those_of_the_job_and_no_others(maxtext: Judge) -> None:
    config = DEEPSEEK | {"dump_hlo_xla_flags": "--xla_dump_to=here"}
    job = {"config": config, "devices": 128, "slices": 2}
    unset, both, unknown = maxtext(
        [
            job,
            {**job, "env": {"XLA_FLAGS": "--xla_gpu_enable_latency_hiding_scheduler=true"}},
            {**job, "config": DEEPSEEK, "env": {"XLA_FLAGS": "--xla_gpu_no_such_flag=true"}},
        ]
    )
    assert unset.accepted, unset
    assert "either XLA_FLAGS or dump_hlo_xla_flags" in both.error
    # XLA ends the process at a flag that it does not know.
    assert unknown.verdict == "crashed"
    assert "xla_gpu_no_such_flag" in unknown.log


def test_what_the_shell_of_the_tests_exports_does_not_reach_maxtext(
    maxtext: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("M_STEPS", "99")
    worker = Worker(maxtext.workers[0].python)
    try:
        verdict = worker.ask({"config": DEEPSEEK, "devices": 128, "slices": 2, "keys": ["steps"]})
    finally:
        worker.close()
    assert verdict.derived == {"steps": 15}


def test_a_judgement_that_takes_too_long_is_a_crash(maxtext: Judge) -> None:
    verdict = maxtext.one(config=DEEPSEEK, devices=128, slices=2, seconds=0.01)
    assert (verdict.verdict, verdict.accepted) == ("crashed", False)
    assert verdict.error == f"signal {signal.SIGALRM.value}"


def test_a_killed_judgement_is_a_crash_and_the_next_job_is_judged(maxtext: Judge) -> None:
    worker = maxtext.workers[0]
    said: list[Verdict] = []
    worker.ask(job := {"config": DEEPSEEK, "devices": 128, "slices": 2})
    asking = threading.Thread(target=lambda: said.append(worker.ask(job | {"mode": "state"})))
    asking.start()
    os.kill(_child_of(worker), signal.SIGKILL)
    asking.join()
    assert said[0].verdict == "crashed"
    assert said[0].error == f"signal {signal.SIGKILL.value}"
    assert worker.ask(job).accepted


def _child_of(worker: Worker) -> int:
    """Wait for the fork of a judge and return its process id."""
    assert worker.pid
    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if found := children.read_text().split():
            return int(found[0])
        time.sleep(0.005)
    raise AssertionError("the judge did not fork")


def test_more_devices_than_can_be_pretended_are_not_tried(maxtext: Judge) -> None:
    verdict = maxtext.one(config=DEEPSEEK, devices=4097)
    assert (verdict.verdict, verdict.accepted) == ("too-large", False)


@pytest.mark.parametrize(
    "job",
    [
        {"devices": 8},
        {"config": DEEPSEEK, "devices": 0},
        {"config": DEEPSEEK, "devices": "8"},
        {"config": DEEPSEEK},
        {"config": DEEPSEEK, "devices": 8, "slices": 3},
        {"config": DEEPSEEK, "devices": 8, "slices": [5, 5]},
    ],
)
def test_a_job_that_cannot_be_judged_is_an_error_of_the_test(
    maxtext: Judge, job: dict[str, object]
) -> None:
    with pytest.raises(JudgeError):
        maxtext([job])


def test_a_judge_that_cannot_start_is_an_error_and_no_verdict() -> None:
    # The Python of the tests has no MaxText.
    with (
        Judge(Path(sys.executable), workers=1) as judge,
        pytest.raises(JudgeError, match="maxtext"),
    ):
        judge.one(config=DEEPSEEK, devices=8)


def test_verdicts_come_in_the_order_of_the_jobs(maxtext: Judge) -> None:
    jobs = [
        {"id": steps, "config": DEEPSEEK | {"steps": steps}, "devices": 128, "keys": ["steps"]}
        for steps in range(1, 9)
    ]
    found = maxtext(jobs)
    assert [(verdict.id, verdict.derived["steps"]) for verdict in found] == [
        (steps, steps) for steps in range(1, 9)
    ]


def test_the_state_is_told_to_the_byte_and_without_transformer_engine(maxtext: Judge) -> None:
    verdict = maxtext.one(mode="state", config=DEEPSEEK, devices=128, slices=2)
    assert verdict.accepted, verdict
    assert verdict.parameters == 671_026_419_200
    # weights, then mu and nu, all bfloat16; step counters and keys are "other"
    assert verdict.bytes["parameters"] == 10_498_455_552
    assert verdict.bytes["optimizer"] == 20_996_851_712
    assert verdict.bytes["total"] == 31_495_310_996
    assert verdict.derived["quantization"] == "te_fp8_currentscaling"


def test_a_state_that_the_mesh_does_not_divide_is_refused_by_jax(maxtext: Judge) -> None:
    verdict = maxtext.one(**model("deepseek3-671b", 128, 8))
    assert (verdict.verdict, verdict.stage) == ("refused", "state")
    assert verdict.error_type == "IndivisibleError"
    assert {(size, shards) for _, _, size, shards in verdict.indivisible} == {
        (512, 1024),
        (1536, 1024),
    }


def test_a_state_with_too_little_sharded_is_refused_by_maxtext(maxtext: Judge) -> None:
    # Every weight is cut by fsdp, and none by the tensor axis.
    rules = "[[mlp,[]],[mlp_moe,[]],[vocab,[]],[heads,[]],[q_heads,[]],[kv_heads,[]]]"
    job = model("mixtral-8x7b", 4, 1, ici_tensor_parallelism=2)
    verdict = maxtext.one(**job | {"devices": 8, "arguments": [f"logical_axis_rules={rules}"]})
    assert (verdict.verdict, verdict.stage) == ("refused", "state")
    assert verdict.error_type == "AssertionError"
    assert "exceeds tolerance" in verdict.error
    assert verdict.unsharded == 0.5
