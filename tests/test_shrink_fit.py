"""Every preset made small: it renders without a finding, and says what it keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from moectl.actions.parity import stage_both
from moectl.actions.plan import Wishes
from moectl.actions.rehearse import stage
from moectl.actions.render import render, write
from moectl.errors import MoectlError, UsageError
from moectl.facts.yaml_facts import read
from moectl.settings.files import preset, preset_names
from moectl.shrink import fit, rules
from moectl.shrink.rules import CannotShrinkError

PRESETS = [name for name in preset_names() if preset(name).estimate_only is None]
# What decides which code runs; none of it may change when a run is made small.
PATHS = (
    "decoder_block", "attention_type", "routed_score_func", "routed_bias", "norm_topk_prob",
    "mlp_activations", "rope_type", "remat_policy", "scan_layers", "dtype", "weight_dtype",
    "use_qk_norm", "attention_sink", "logits_via_embedding", "routed_scaling_factor",
    "opt_type", "use_indexer",
)  # fmt: skip


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_made_small_keeps_its_paths_and_its_axes(name: str) -> None:
    staged = stage(name, Wishes())
    before, after = staged.original, staged.rendered.job
    assert [f.code for f in after.findings if f.severity == "error"] == []
    for key in PATHS:
        assert before.effective.get(key) == after.effective.get(key), key
    for axis, degree in before.mesh.degrees.items():
        assert (degree.total > 1) == (after.mesh.total(axis) > 1), axis
    assert after.launcher == "local"
    assert after.on_cpu
    for key in ("num_experts", "num_experts_per_tok", "shared_experts", "first_num_dense_layers"):
        was, now = before.effective.get(key) or 0, after.effective.get(key) or 0
        assert (was > 1) == (now > 1) or key not in {"num_experts", "num_experts_per_tok"}
        assert (was > 0) == (now > 0)
        assert now <= was
    assert after.effective["base_emb_dim"] == 64
    assert staged.stands_in


def test_a_bundle_and_a_run_file_are_rehearsed_like_a_preset(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    write(render("deepseek3-671b", Wishes()), folder)
    file = tmp_path / "run.yaml"
    file.write_text("preset: deepseek3-671b\nbatch: {per_device: 4}\n")
    plain = stage("deepseek3-671b", Wishes())
    for target in (folder, file):
        staged = stage(str(target), Wishes())
        assert staged.small == plain.small
        assert staged.rendered.job.effective == plain.rendered.job.effective


def test_what_nothing_is_known_of_cannot_be_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MoectlError, match="can be estimated but not rendered"):
        stage("mimo-v2-flash-309b", Wishes())
    facts = {**read("shrink.yaml"), "largest_mb": 1}
    monkeypatch.setattr(fit, "read", lambda _: facts)
    with pytest.raises(CannotShrinkError, match=r"take \d+ MB, and 1 MB is the limit"):
        stage("deepseek3-671b", Wishes())
    few = {**facts, "mesh": {**facts["mesh"], "devices": 2}, "largest_mb": 400}
    monkeypatch.setattr(rules, "read", lambda _: few)
    with pytest.raises(CannotShrinkError, match="takes 4 devices when every axis is 2"):
        stage("deepseek3-671b", Wishes())


def test_the_two_sides_differ_in_the_path_and_in_nothing_else() -> None:
    sides = stage_both("deepseek3-671b", Wishes(), "sparse")
    one, other = sides.one.rendered.job.effective, sides.other.rendered.job.effective
    differ = {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}
    assert differ == {
        "sparse_matmul", "ici_expert_parallelism", "ici_fsdp_parallelism",
    }  # fmt: skip
    assert sides.one.rendered.job.gpus == sides.other.rendered.job.gpus
    assert one["dtype"] == "float32"
    assert one["init_weights_seed"] == other["init_weights_seed"]


def test_where_both_sides_would_be_the_same_another_path_is_taken_or_it_is_said() -> None:
    for name in ("deepseek3-671b", "mixtral-8x7b"):
        sides = stage_both(name, Wishes(), "native")
        assert "sparse dropless" in sides.about[1]
        assert "MaxText's own MoE layer itself" in " ".join(sides.notes)
    with pytest.raises(UsageError, match="nothing changes on this machine"):
        stage_both("deepseek3-671b", Wishes(), "te_moe_block=true")


def test_a_path_that_drops_tokens_says_that_nobody_counts_them() -> None:
    sides = stage_both("deepseek3-671b", Wishes(), "capacity")
    assert "MaxText 0.2.5 writes no count" in " ".join(sides.notes)
    assert sides.allowed.at(7) > 0.05


@pytest.mark.parametrize(
    ("against", "words"),
    [
        ("bogus", "'bogus' is no path: native, dense, sparse, capacity, or KEY=VALUE"),
        ("", "'' is no path"),
        ("num_expert=4", "--against: unknown key 'num_expert'"),
        ("num_experts=many", "num_experts cannot be 'many'"),
        ("a=1,b=2", "unknown key 'b'"),
    ],
)
def test_what_is_no_path_is_refused_with_what_is_legal(against: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        stage_both("deepseek3-671b", Wishes(), against)
    assert words in str(caught.value)


def test_several_keys_and_lists_can_be_compared() -> None:
    text = "routed_scaling_factor=1.0,mlp_activations=[gelu,linear]"
    said = stage_both("deepseek3-671b", Wishes(), text).other.rendered.job.effective
    assert said["routed_scaling_factor"] == 1.0
    assert said["mlp_activations"] == ["gelu", "linear"]
