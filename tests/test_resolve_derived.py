"""What MaxText computes from its settings, and that nothing is guessed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.facts import maxtext
from moectl.resolve.derived import degree, derived, scales, times
from moectl.resolve.effective import effective
from moectl.values import Origin, Value
from moectl.workload import UNKNOWN

CATALOGUE = maxtext.load("0.2.5")


def made(devices: int | None = 8, slices: int | None = 1, **said: Any) -> dict[str, Any]:
    config = {key: Value(value, Origin("a")) for key, value in said.items()}
    config["base_config"] = Value("base.yml", Origin("a"))
    return derived(effective(config, {}, CATALOGUE), devices, slices)


def test_dimensions_follow_the_parameter_scale() -> None:
    own = made(model_name="llama2-7b")
    assert (own["emb_dim"], own["num_decoder_layers"]) == (4096, 32)
    wide = made(model_name="llama2-7b", global_parameter_scale=8)
    assert (wide["emb_dim"], wide["num_query_heads"], wide["num_decoder_layers"]) == (8192, 64, 64)
    assert made(global_parameter_scale=3)["emb_dim"] is UNKNOWN


@pytest.mark.parametrize(
    ("scale", "powers"),
    [
        (1, (0, 0, 0, 0)), (2, (0, 1, 1, 0)), (4, (1, 1, 1, 0)), (8, (1, 1, 1, 1)),
        (16, (1, 2, 2, 1)), (0, None), (-2, None), (3, None), (True, None), ("2", None),
    ],
)  # fmt: skip
def test_a_scale_is_split_into_powers_of_two(scale: Any, powers: Any) -> None:
    assert scales(scale) == powers


def test_an_open_degree_takes_what_is_left_of_a_slice() -> None:
    found = made(16, 2, ici_expert_parallelism=4)
    assert found["devices_per_slice"] == 8
    assert found["axis_sizes"]["fsdp"] == 2
    assert found["axis_sizes"]["data"] == 2  # across the slices
    assert found["expert_parallel_size"] == 4
    assert found["fsdp_size"] == 2
    assert made(6, 1, ici_expert_parallelism=4)["ici_mesh"] is UNKNOWN


def test_a_degree_that_is_said_is_known_without_devices() -> None:
    found = made(None, None, ici_expert_parallelism=6)
    assert found["expert_parallel_size"] == 6
    assert found["axis_sizes"]["fsdp"] is UNKNOWN
    assert found["devices_per_slice"] is UNKNOWN
    assert found["micro_batch_size_to_train_on"] is UNKNOWN


@pytest.mark.parametrize(
    ("said", "slices", "count"),
    [
        ({}, None, UNKNOWN),
        ({"dcn_fsdp_parallelism": 2, "dcn_data_parallelism": 3}, None, 6),
        ({"dcn_fsdp_parallelism": 2}, 4, 4),
        ({"num_slices": 3}, 4, 3),
        ({"compile_topology_num_slices": 2}, 4, 2),
        ({"dcn_fsdp_parallelism": -1}, None, UNKNOWN),
    ],
)
def test_slices_are_said_or_the_hardwares_or_follow_the_degrees(
    said: dict[str, Any], slices: int | None, count: Any
) -> None:
    assert made(24, slices, **said)["num_slices"] == count


def test_one_slice_has_no_dcn_mesh() -> None:
    assert made(8, 1, dcn_data_parallelism=1)["axis_sizes"]["data"] == 1
    assert made(8, 1)["axis_sizes"]["data"] == 1


@pytest.mark.parametrize(
    ("said", "load", "train", "micro"),
    [
        ({"per_device_batch_size": 2}, 16, 16, 16),
        ({"per_device_batch_size": 2, "gradient_accumulation_steps": 3}, 48, 48, 16),
        ({"per_device_batch_size": 0.5}, 8, 4, 4),
        ({"per_device_batch_size": 0.3}, 8, 2, 2),
        ({"per_device_batch_size": 2, "expansion_factor_real_data": 2}, 32, 16, 16),
        ({"per_device_batch_size": float("inf")}, UNKNOWN, UNKNOWN, UNKNOWN),
        ({"per_device_batch_size": "x"}, UNKNOWN, UNKNOWN, UNKNOWN),
    ],
)
def test_batches_in_sequences(said: dict[str, Any], load: Any, train: Any, micro: Any) -> None:
    found = made(8, 1, **said)
    assert found["global_batch_size_to_load"] == load
    assert found["global_batch_size_to_train_on"] == train
    assert found["micro_batch_size_to_train_on"] == micro


def test_evaluation_takes_the_batch_of_training_unless_it_says_one() -> None:
    assert made(8, 1, per_device_batch_size=3)["micro_batch_size_to_eval_on"] == 24
    own = made(8, 1, per_device_batch_size=3, eval_per_device_batch_size=1)
    assert own["micro_batch_size_to_eval_on"] == 8


def test_the_pipeline_of_deepseek_leaves_its_dense_layers_out() -> None:
    found = made(8, 1, model_name="deepseek3-671b", ici_pipeline_parallelism=2)
    assert found["pipeline_parallel_layers"] == 58
    assert (found["num_stages"], found["num_pipeline_repeats"]) == (2, 29)
    assert found["num_pipeline_microbatches"] == 2
    delayed = made(8, 1, ici_pipeline_parallelism=2, pipeline_delay_activation_forwarding=True)
    assert delayed["num_pipeline_microbatches"] == 4
    assert made(8, 1)["using_pipeline_parallelism"] is False
    odd = made(8, 1, ici_pipeline_parallelism=2, num_layers_per_pipeline_stage=3)
    assert odd["num_pipeline_repeats"] is UNKNOWN


def test_steps_and_schedule_stand_for_each_other() -> None:
    assert made(steps=7)["learning_rate_schedule_steps"] == 7
    assert made(steps=-1, learning_rate_schedule_steps=9)["steps"] == 9


def test_a_mesh_of_maxtexts_own_replaces_axes_and_rules() -> None:
    found = made(8, 1, custom_mesh_and_rule="cp-as-ep", ici_context_parallelism=2)
    assert found["mesh_axes"] == ["data", "stage", "fsdp", "context", "expert"]
    assert found["ep_rank"] == 2
    assert found["context_sharding"] == "context"
    turned = made(8, 1, custom_mesh_and_rule="ep-as-cp", ici_expert_parallelism=2)
    assert turned["context_parallel_size"] == 2


def test_the_expert_rank_is_open_while_a_degree_is() -> None:
    assert made()["ep_rank"] == 1
    assert made(ici_expert_parallelism=-1)["ep_rank"] == -1
    assert made(ici_expert_parallelism=2, dcn_expert_parallelism=2)["ep_rank"] == 4
    assert made(dcn_expert_parallelism=0)["ep_rank"] == 1


def test_axes_of_somebodys_own_take_the_degrees_as_listed() -> None:
    found = made(8, 1, mesh_axes=["rows", "fsdp"], ici_parallelism=[2, -1])
    assert found["ici_mesh"] == [2, 4]
    listed = made(8, 1, ici_parallelism=[2, 4])
    assert listed["ici_mesh"] == made(8, 1)["ici_mesh"]


def test_replicas_take_what_the_other_degrees_leave() -> None:
    found = made(16, 4, dcn_diloco_parallelism=-1, dcn_data_parallelism=2)
    assert found["num_diloco_replicas"] == 2
    assert made(16, 4, dcn_diloco_parallelism=-1)["num_diloco_replicas"] == 4 // 1


def test_degrees_by_axis_have_maxtexts_key_names() -> None:
    values = {"ici_pipeline_parallelism": 4, "dcn_tensor_parallelism": 2}
    assert degree(values, "ici", "stage") == 4
    assert degree(values, "dcn", "model") == 2
    assert degree(values, "dcn", "fsdp") == 1


def test_unknown_in_is_unknown_out() -> None:
    dark = dict.fromkeys(CATALOGUE.keys(), UNKNOWN)
    found = derived(dark, 8, 1)
    assert found["devices_per_slice"] is UNKNOWN
    assert found["num_target_devices"] in {8, UNKNOWN}
    known = {key for key, value in found.items() if value is not UNKNOWN}
    assert known <= {"num_target_devices", "hardware_slices"}


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "ici_fsdp_parallelism", "ici_expert_parallelism", "dcn_data_parallelism",
                "num_slices", "per_device_batch_size", "gradient_accumulation_steps",
                "ici_pipeline_parallelism", "num_layers_per_pipeline_stage", "num_experts",
                "global_parameter_scale", "mesh_axes", "custom_mesh_and_rule", "compress_ratios",
                "context_sharding", "logical_axis_rules", "ici_parallelism", "decoder_block",
            ]
        ),
        st.one_of(
            st.none(), st.just(UNKNOWN), st.integers(-4, 16), st.floats(), st.text(max_size=4),
            st.lists(st.one_of(st.integers(-2, 4), st.text(max_size=3)), max_size=3), st.booleans(),
        ),
    ),
    st.sampled_from([None, 1, 8, 24]),
    st.sampled_from([None, 1, 2]),
)  # fmt: skip
def test_whatever_is_said_nothing_is_raised(
    said: dict[str, Any], devices: int | None, slices: int | None
) -> None:
    found = made(devices, slices, **said)
    assert found["hardware_slices"] == (UNKNOWN if slices is None else slices)


@given(st.lists(st.one_of(st.integers(-9, 9), st.just(UNKNOWN), st.none()), max_size=4))
def test_a_product_is_unknown_as_soon_as_a_factor_is(numbers: list[Any]) -> None:
    known = all(isinstance(number, int) for number in numbers)
    assert (times(*numbers) is UNKNOWN) is not known
