"""Model FLOPs and parameters, against published figures and by their own laws."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from moectl.estimate import architecture, flops
from moectl.estimate.architecture import Architecture
from moectl.facts import maxtext
from moectl.settings.files import preset
from moectl.workload import UNKNOWN

RELEASE = "0.2.5"
MODELS = (
    "deepseek3-671b", "deepseek3.2-671b", "deepseek2-16b", "kimi-k2-1t", "mixtral-8x7b",
    "qwen3-30b-a3b", "qwen3-next-80b-a3b", "qwen3.5-397b-a17b", "gpt-oss-120b", "llama4-17b-16e",
    "llama2-7b", "gemma3-27b",
)  # fmt: skip


def values(name: str, **changes: Any) -> dict[str, Any]:
    catalogue = maxtext.load(RELEASE)
    file = catalogue.model(name)
    assert file is not None
    return {**catalogue.base, **file, "model_name": name, **changes}


def made(name: str, **changes: Any) -> Architecture:
    found = architecture.of_values(values(name, **changes))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "gflop"),
    [
        ("deepseek3-671b", 250.449887),
        ("kimi-k2-1t", 205.467550),
        ("qwen3-235b-a22b", 148.330512),
        ("gpt-oss-120b", 32.710017),
        ("llama4-17b-128e", 102.938051),
        ("qwen3-next-80b-a3b", 22.437691),
    ],
)
def test_flops_a_token_of_4096_are_those_that_maxtext_counted(name: str, gflop: float) -> None:
    assert flops.per_token(made(name), 4096).training / 1e9 == pytest.approx(gflop, rel=1e-6)


def test_the_step_of_the_maxtext_documentation_is_counted_as_there() -> None:
    """deepseek2-16b, 24 sequences of 2048: 764.67 TFLOP, of which 94.54 % are weights."""
    found = flops.per_token(made("deepseek2-16b"), 2048)
    tokens = flops.tokens_per_step(24, 2048)
    assert found.training * tokens / 1e12 == pytest.approx(764.67, abs=0.005)
    assert 3 * found.weights / found.training == pytest.approx(0.9454, abs=5e-5)


def test_megatron_counts_3_8_percent_more_for_deepseek_v3_and_the_same_for_others() -> None:
    model = made("deepseek3-671b")
    layers = flops.megatron_prediction_layers("deepseek3-671b")
    more = flops.megatron(model, 4096, layers)
    assert more / 1e9 == pytest.approx(260.02, abs=0.02)
    assert more / flops.per_token(model, 4096).training == pytest.approx(1.038, abs=5e-4)
    kimi = made("kimi-k2-1t")
    assert flops.megatron_prediction_layers("kimi-k2-1t") == 0
    assert flops.megatron(kimi, 4096) == flops.per_token(kimi, 4096).training


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("deepseek3-671b", 671.03, 36.62),
        ("mixtral-8x7b", 46.70, 12.75),
        ("qwen3-30b-a3b", 30.53, 3.04),
    ],
)
def test_matrix_weights_are_counted_from_dimensions_alone(
    name: str, total: float, active: float
) -> None:
    found = flops.parameters(made(name))
    assert [round(number / 1e9, 2) for number in found] == [total, active]


def test_an_estimate_only_preset_has_its_published_size() -> None:
    shown = preset("mimo-v2-flash-309b").estimate_only
    assert shown is not None
    model = architecture.of_published(shown["architecture"])
    total, active = flops.parameters(model)
    assert total == pytest.approx(309e9, rel=2e-3)
    assert active == pytest.approx(15e9, rel=4e-2)
    assert flops.per_token(model, 4096).training == pytest.approx(90.57e9, rel=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_decoder_is_counted(name: str) -> None:
    found = flops.per_token(made(name), 4096)
    assert found.weights > 0
    assert found.scores > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"decoder_block": "deepseek4"},
        {"decoder_block": UNKNOWN},
        {"use_multimodal": True},
        {"use_multimodal": UNKNOWN},
        {"use_dpo": True},
        {"engram_layers": [1]},
        {"global_parameter_scale": 2},
        {"base_emb_dim": 0},
        {"base_emb_dim": True},
        {"base_emb_dim": 1 << 50},
        {"vocab_size": "129280"},
        {"num_experts": UNKNOWN},
        {"mlp_activations": []},
        {"attention_type": ["mla"], "head_dim": None},
    ],
    ids=str,
)
def test_what_is_not_known_or_counted_otherwise_has_no_architecture(
    changes: dict[str, Any],
) -> None:
    assert architecture.of_values({**values("deepseek3-671b"), **changes}) is None


@given(st.sampled_from(MODELS), st.integers(1, 65536), st.integers(2, 4))
def test_a_longer_sequence_never_costs_a_token_less(name: str, length: int, times: int) -> None:
    model = made(name)
    # An indexer skips most keys of a long sequence; until then it reads all of them.
    assume(model.indexer is None)
    short, long = flops.per_token(model, length), flops.per_token(model, length * times)
    assert long.weights == short.weights
    assert long.scores >= short.scores * (1 - 1e-12)


@given(st.sampled_from(MODELS), st.integers(1, 3))
def test_a_prediction_layer_adds_the_same_each_time(name: str, layers: int) -> None:
    model = made(name)
    none = flops.per_token(model, 4096)
    one = flops.per_token(replace(model, prediction=1), 4096)
    many = flops.per_token(replace(model, prediction=layers), 4096)
    added = one.training - none.training
    assert added > 0
    assert many.training - none.training == pytest.approx(layers * added)


@given(st.floats(0.25, 64), st.integers(1, 65536), st.integers(1, 8))
def test_tokens_grow_with_batch_sequence_and_micro_steps(
    batch: float, sequence: int, steps: int
) -> None:
    assert flops.tokens_per_step(batch, sequence, steps) == pytest.approx(batch * sequence * steps)
