"""The weight tables say what real MaxText says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.errors import UnknownNameError
from moectl.facts import weights
from moectl.facts.weights import Leaf
from tests.judge.client import Judge, Verdict
from tests.judge.samples import model

TABLE = weights.load("0.2.5")
DEEPSEEK = "deepseek3-671b"
# One override of every kind of size, for a model of each kind of attention.
OVERRIDES: dict[str, dict[str, int]] = {
    DEEPSEEK: {
        "base_emb_dim": 1088,
        "base_num_query_heads": 24,
        "base_num_kv_heads": 24,
        "base_mlp_dim": 1824,
        "base_moe_mlp_dim": 352,
        "base_num_decoder_layers": 9,
        "first_num_dense_layers": 2,
        "num_experts": 72,
        "shared_experts": 2,
        "q_lora_rank": 208,
        "kv_lora_rank": 104,
        "qk_nope_head_dim": 36,
        "qk_rope_head_dim": 22,
        "v_head_dim": 38,
        "vocab_size": 3008,
    },
    "qwen3-next-80b-a3b": {
        "base_emb_dim": 832,
        "base_num_query_heads": 12,
        "base_num_kv_heads": 4,
        "head_dim": 72,
        "base_num_decoder_layers": 20,
        "num_experts": 40,
        "gdn_num_key_heads": 6,
        "gdn_num_value_heads": 18,
        "gdn_key_head_dim": 44,
        "gdn_value_head_dim": 52,
        "gdn_conv_kernel_dim": 5,
    },
    "gpt-oss-120b": {"base_emb_dim": 960, "num_experts": 48, "base_num_decoder_layers": 10},
    "llama4-17b-128e": {"base_mlp_dim": 2080, "base_moe_mlp_dim": 1056, "shared_experts": 3},
}


def _told(verdict: Verdict) -> dict[str, tuple[list[str | None], list[int], str]]:
    """Return what MaxText said of each weight, under the paths of the tables."""
    assert verdict.accepted, verdict
    found = {}
    for leaf in verdict.leaves:
        path = leaf["path"].removeprefix("['model']").removesuffix(".value")
        name = path.replace("']['", ".").strip("[']")
        axes = leaf["axes"][: len(leaf["shape"])]
        axes += [None] * (len(leaf["shape"]) - len(axes))
        found[name] = (axes, leaf["shape"], leaf["dtype"])
    return found


def _known(leaves: tuple[Leaf, ...] | None, dtype: str = "bfloat16") -> dict[str, Any]:
    assert leaves is not None
    return {leaf.path: (list(leaf.axes), list(leaf.shape), leaf.dtype or dtype) for leaf in leaves}


def test_every_weight_of_every_model_is_as_maxtext_has_it(maxtext: Judge) -> None:
    jobs = [{**model(name, 1, 1), "leaves": True} for name in TABLE.models]
    for name, verdict in zip(TABLE.models, maxtext(jobs), strict=True):
        assert _known(TABLE.leaves(name)) == _told(verdict), name


def test_an_overridden_architecture_is_followed(maxtext: Judge) -> None:
    jobs = [
        {
            **model(name, 1, 1, weight_dtype="float32"),
            "leaves": True,
            "arguments": [
                "override_model_config=true",
                *(f"{key}={value}" for key, value in keys.items()),
            ],
        }
        for name, keys in OVERRIDES.items()
    ]
    for (name, keys), verdict in zip(OVERRIDES.items(), maxtext(jobs), strict=True):
        assert _known(TABLE.leaves(name, keys), "float32") == _told(verdict), name
        assert _known(TABLE.leaves(name, keys)) != _known(TABLE.leaves(name))


@pytest.mark.parametrize(
    "switches",
    [
        {"prefuse_moe_weights": True},
        {"shard_exp_on_fsdp": True},
        {"use_2d_fsdp_sharding": True, "prefuse_moe_weights": True},
    ],
)
def test_the_switches_that_change_weights_are_followed(
    maxtext: Judge, switches: dict[str, bool]
) -> None:
    verdict = maxtext.one(**{**model(DEEPSEEK, 1, 1, **switches), "leaves": True})
    assert _known(TABLE.leaves(DEEPSEEK, switches)) == _told(verdict)
    assert _known(TABLE.leaves(DEEPSEEK, switches)) != _known(TABLE.leaves(DEEPSEEK))


@pytest.mark.parametrize(
    ("settings", "good_for"),
    [
        ({"scan_layers": False}, {"scan_layers": True}),
        ({"mtp_num_layers": 1}, {"mtp_num_layers": 0}),
        ({"q_lora_rank": 0}, {"q_lora_rank": 1536}),
        ({"base_emb_dim": "wide"}, {"base_emb_dim": 7168}),
        ({"num_experts": True}, {"num_experts": 256}),
        (
            {"shard_exp_on_fsdp": True, "use_2d_fsdp_sharding": True},
            {"shard_exp_on_fsdp": False, "use_2d_fsdp_sharding": False},
        ),
    ],
)
def test_settings_that_bring_other_weights_are_named_and_not_guessed(
    settings: dict[str, object], good_for: dict[str, object]
) -> None:
    assert TABLE.unfollowed(DEEPSEEK, settings) == good_for
    assert TABLE.leaves(DEEPSEEK, settings) is None


def test_settings_that_no_weight_hangs_on_do_not_matter() -> None:
    settings = {"steps": 3, "scan_layers": True, "base_emb_dim": 7168, "remat_policy": "full"}
    assert TABLE.leaves(DEEPSEEK, settings) == TABLE.leaves(DEEPSEEK)


def test_the_parameters_add_up_to_the_published_size() -> None:
    leaves = TABLE.leaves(DEEPSEEK)
    assert leaves is not None
    assert sum(leaf.elements for leaf in leaves) == 671_026_419_200
    # The routing bias of 58 layers is moved by its own rule, not by the optimizer.
    assert sum(leaf.elements for leaf in leaves if not leaf.trained) == 58 * 256


def test_the_sizes_of_each_logical_axis_are_listed() -> None:
    sizes = TABLE.axis_sizes(DEEPSEEK)
    assert sizes["kv_lora"] == (512,)
    assert sizes["q_lora"] == (1536,)
    assert sizes["embed"] == sizes["embed_moe"] == (7168,)
    assert sizes["mlp"] == (2048, 18432)


def test_an_unknown_model_or_release_is_named_with_its_neighbours() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'deepseek3-671b'"):
        TABLE.leaves("deepseek3-617b")
    with pytest.raises(UnknownNameError, match=r"'0\.2\.5'"):
        weights.load("0.2.6")


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 64))
def test_an_expression_means_what_it_says(first: int, second: int, layers: int) -> None:
    sizes = {"a_b": first, "c": second, "layers": 4 * layers}
    assert weights.evaluated(first, {}) == first
    assert weights.evaluated("a_b", sizes) == first
    assert weights.evaluated("a_b*c*2+c", sizes) == first * second * 2 + second
    assert weights.evaluated("a_b-c", sizes) == first - second
    assert weights.evaluated("layers/4", sizes) == layers
