"""MaxText's own verdict on single keys: names, values, and whether a value counts."""

from __future__ import annotations

from dataclasses import replace
from time import process_time

import pytest

from moectl.facts.images import image
from moectl.facts.versions import key_verdict
from moectl.findings import Finding
from moectl.rules.maxtext_names import announced
from moectl.rules.maxtext_verdict import all_rules, refused, workload
from moectl.settings.sources.written import Written
from moectl.values import Origin, Value
from moectl.workload import UNKNOWN, Text, Workload

BASE = "base_config: base.yml\n"
BETWEEN = image("ghcr.io/nvidia/jax:maxtext-2026-09-09")
DEEPSEEK = f"{BASE}model_name: deepseek3-671b\n"


def judged(made: Workload, code: str) -> list[Finding]:
    rule = next(rule for rule in all_rules() if rule.code == code)
    return list(rule.findings(made))


def found(code: str, text: str, *words: str, **variables: str) -> list[Finding]:
    return judged(workload(text, words, 8, 1, environment=variables), code)


@pytest.mark.parametrize(
    ("line", "key", "hint"),
    [
        ("per_device_batchsize: 4", "per_device_batchsize", "per_device_batch_size"),
        ("ici_expert_paralelism: 8", "ici_expert_paralelism", "ici_expert_parallelism"),
        ("pgle: true", "pgle", "take it out"),
        ("zero_one: false", "zero_one", "take it out"),
        ("custom_remat_config: {mlpwi: device}", "custom_remat_config", "take it out"),
        ("nodes: 4", "nodes", "take it out"),
        ("expert_balance: true", "expert_balance", "take it out"),
        ("hidden_size: 7168", "hidden_size", "base_emb_dim"),
        ("pure_nnx: true", "pure_nnx", "--maxtext"),
        ("training: {steps: 5}", "training", "top level"),
        ("lora.lora_rank: 4", "lora.lora_rank", "nest it under lora"),
        ("'a\\nb': 1", "a\\nb", "take it out"),
    ],
)
def test_an_unknown_key_is_refused_at_its_line_with_what_stands_for_it(
    line: str, key: str, hint: str
) -> None:
    faults = found("KEY101", f"{BASE}steps: 5\n{line}\n")
    assert [(f.field, f.line, f.severity) for f in faults] == [(key, 3, "error")]
    assert hint in faults[0].hint
    assert "MaxText 0.2.5" in faults[0].message


def test_a_key_that_only_a_neighbouring_release_has_is_a_note_for_an_image_between() -> None:
    made = workload(f"{BASE}pure_nnx: true\nnope_x: 1\n", (), 8, 1)
    assert key_verdict("pure_nnx", BETWEEN) == "unsure"
    unsure = judged(replace(made, image=BETWEEN), "KEY101")
    assert [f.severity for f in unsure] == ["note", "error"]
    assert "between releases" in unsure[0].message
    later = replace(made, image=image("ghcr.io/nvidia/jax:maxtext-2026-10-30"))
    assert [f.severity for f in judged(later, "KEY101")] == ["error", "error"]


def test_all_unknown_keys_are_found_at_once_and_no_known_one() -> None:
    text = f"{BASE}stepps: 5\nsteps: 5\nremat: full\nnodes: 3\n"
    assert [f.line for f in found("KEY101", text)] == [2, 4, 5]


def test_a_renamed_key_can_be_mended_safely() -> None:
    faults = found("KEY101", f"{BASE}cosine_learning_rate_final_fraction: 0.1\n")
    new = "learning_rate_final_fraction"
    assert faults[0].fix == ("cosine_learning_rate_final_fraction", new)
    assert "it became learning_rate_final_fraction" in faults[0].message
    assert found("KEY101", f"{BASE}{new}: 0.1\n") == []


@pytest.mark.parametrize(
    ("name", "feature"),
    [
        ("te_nvfp4_grouped_gemm", "NVFP4"),
        ("te_gmm_quantization te_nvfp4", "NVFP4"),
        ("moe_a2a_overlap", "all-to-all"),
        ("te_ep_all_to_all_overlap", "all-to-all"),
        ("te_fuse_quant_gemm", "fused"),
    ],
)
def test_an_announced_feature_is_named_as_such(name: str, feature: str) -> None:
    row = announced(name)
    assert row is not None
    assert feature in row["feature"]
    if " " not in name:
        faults = found("KEY101", f"{BASE}{name}: true\n")
        assert "announced, and not in this release yet" in faults[0].message


@pytest.mark.parametrize("name", ["steps", "overlap", "te_moe_block", "quantization"])
def test_an_ordinary_name_is_no_announcement(name: str) -> None:
    assert announced(name) is None


@pytest.mark.parametrize(
    ("line", "legal"),
    [
        ("steps: abc", "a whole number"),
        ("steps: 5.5", "a whole number"),
        ("steps: -2", "at least -1"),
        ("te_gmm_quantization: te_nvfp4", "announced"),
        ("remat_policy: off", "quotes"),
        ("profiler: no", "xplane"),
        ("quantization: yes", "te_mxfp8"),
        ("model_name: 5", "names"),
        ("model_name: null", "names"),
        ("num_experts: 0", "above 0"),
        ("mesh_axes: fsdp", "a list"),
        ("lora: {lora_rnk: 3}", "no key"),
        ("steps: ???", "still to come"),
    ],
)
def test_a_value_maxtext_does_not_take_is_refused_at_its_line(line: str, legal: str) -> None:
    text = f"hardware: gpu\n{line}\n"
    faults = found("KEY102", text)
    assert [(f.line, f.severity) for f in faults] == [(2, "error")]
    assert legal in faults[0].message + faults[0].hint
    assert refused(text, (), 8, 1)


@pytest.mark.parametrize(
    "line",
    [
        "steps: '6'", "steps: 15.0", "steps: true", "learning_rate: 3e-4", "scan_layers: yes",
        "scan_layers: 'off'", "enable_checkpointing: 'false'", "quantization: none",
        "te_gmm_quantization: null", "train_data_columns: text", "lora: {lora_rank: 4}",
        "attention: flash3", "steps: ${learning_rate_schedule_steps}", "base_output_directory: 0",
        "compress_ratios: [4, 0]", "image_size_for_vit: [1, 2]",
    ],
)  # fmt: skip
def test_a_value_that_pydantic_takes_is_not_refused(line: str) -> None:
    assert found("KEY102", f"{BASE}hardware: gpu\n{line}\n") == []


def test_a_bad_value_that_does_not_count_is_not_refused() -> None:
    assert found("KEY102", f"{BASE}steps: abc\n", "steps=5") == []
    assert found("KEY102", f"{DEEPSEEK}num_experts: abc\n") == []
    assert found("KEY102", f"{DEEPSEEK}tokenizer_type: bogus\n") == []
    assert len(found("KEY102", f"{BASE}model_name: llama2-7b\ntokenizer_type: bogus\n")) == 1
    assert found("KEY102", f"{BASE}steps: ???\n") == []
    bare = "model_name: deepseek3-671b\ntokenizer_type: bogus\n"
    assert len(found("KEY102", bare)) == 1  # nobody names the key that MaxText would look at


def test_a_bad_value_behind_an_interpolation_is_refused() -> None:
    assert len(found("KEY102", f"{BASE}run_name: ${{steps}}\nsteps: 5\n")) == 1
    assert found("KEY102", f"{BASE}run_name: x-${{steps}}\n") == []


def test_a_secret_is_not_repeated() -> None:
    faults = found("KEY102", f"{BASE}hf_access_token: [hunter2]\n")
    assert len(faults) == 1
    assert "hunter2" not in faults[0].message + faults[0].hint


def test_an_unknown_value_is_not_judged() -> None:
    here = Origin("script", "run.sh", 3, 1)
    made = workload(f"{BASE}steps: 5\n")
    made = Workload(
        kind="MaxText command", origin=here, maxtext="0.2.5", jaxlib="", is_maxtext=True,
        config=made.config, arguments={"steps": Value(UNKNOWN, here)},
    )  # fmt: skip
    assert judged(made, "KEY102") == []
    assert judged(made, "KEY105") == []


def test_what_does_not_start_maxtext_is_not_judged() -> None:
    here = Origin("script", "run.sh", 3, 1)
    made = Workload(
        kind="script", origin=here, maxtext="0.2.5", jaxlib="", config={"nope": Value(1, here)}
    )
    assert [f for rule in all_rules() for f in rule.findings(made)] == []


def test_a_nested_key_at_the_top_is_refused() -> None:
    faults = found("KEY103", f"{BASE}steps: 5\nlora_rank: 4\n")
    assert [(f.line, f.hint) for f in faults] == [(3, "write lora: {lora_rank: …}")]
    assert found("KEY103", BASE, "lora_rank=4")[0].hint == "write lora.lora_rank=4"
    assert found("KEY103", f"{BASE}lora: {{lora_rank: 4}}\n", "lora.lora_rank=4") == []


def test_a_yaml_value_that_the_model_file_overrules_is_lost() -> None:
    faults = found("KEY104", f"{DEEPSEEK}num_experts: 64\n")
    assert [(f.line, f.severity) for f in faults] == [(3, "error")]
    assert "64 here, but MaxText's file of deepseek3-671b says 256" in faults[0].message
    assert "num_experts=64 override_model_config=true" in faults[0].hint
    assert refused(f"{DEEPSEEK}num_experts: 64\n", (), 8, 1) == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("num_experts: 256", ()),
        ("num_experts: '256'", ()),
        ("num_experts: 256.0", ()),
        ("steps: 5", ()),
        ("num_experts: 64", ("num_experts=64", "override_model_config=true")),
    ],
)
def test_a_value_that_counts_or_agrees_is_not_lost(line: str, words: tuple[str, ...]) -> None:
    assert found("KEY104", f"{DEEPSEEK}{line}\n", *words) == []


def test_override_model_config_does_not_save_a_yaml_value() -> None:
    text = f"{DEEPSEEK}override_model_config: true\nnum_experts: 64\n"
    assert len(found("KEY104", text)) == 1


@pytest.mark.parametrize(
    ("words", "clashes"),
    [
        (("num_experts=64",), True),
        (("num_experts='256'",), True),
        (("num_experts=256",), False),
        (("num_experts=256.0",), False),
        (("num_experts=64", "override_model_config=true"), False),
        (("num_experts=64", "override_model_config='false'"), False),
        (("num_experts=64", "override_model_config=0"), True),
        (("steps=5",), False),
    ],
)
def test_an_argument_against_the_model_file_is_refused(
    words: tuple[str, ...], clashes: bool
) -> None:
    assert bool(found("KEY105", DEEPSEEK, *words)) is clashes
    assert bool(refused(DEEPSEEK, words, 8, 1)) is clashes


def test_an_argument_that_repeats_the_model_file_is_noted_only() -> None:
    assert [f.severity for f in found("KEY113", DEEPSEEK, "num_experts=256")] == ["note"]
    assert found("KEY113", DEEPSEEK, "num_experts=64") == []
    assert found("KEY113", DEEPSEEK, "num_experts=256", "override_model_config=true") == []
    assert refused(DEEPSEEK, ["num_experts=256"], 8, 1) == []


def test_a_variable_beside_an_argument_or_the_model_file_is_refused() -> None:
    faults = found("KEY106", BASE, "steps=5", M_STEPS="7")
    assert [f.field for f in faults] == ["M_STEPS"]
    assert len(found("KEY106", DEEPSEEK, M_NUM_EXPERTS="4")) == 1
    assert found("KEY106", DEEPSEEK, "override_model_config=true", M_NUM_EXPERTS="4") == []
    assert found("KEY106", BASE, M_STEPS="7", M_NOPE="1", M_steps="2") == []


def test_a_variable_read_as_an_argument_is_no_clash_with_itself() -> None:
    here = Origin("environment", "run.sh", 2, 8)
    made = Workload(
        kind="script", origin=here, maxtext="0.2.5", jaxlib="", is_maxtext=True,
        arguments={"steps": Value(7, here)}, environment={"M_STEPS": Text.of("7", here)},
    )  # fmt: skip
    assert judged(made, "KEY106") == []


def test_a_file_without_base_config_is_told_so_and_one_with_it_is_not() -> None:
    faults = found("KEY107", "# a comment\nsteps: 5\n")
    assert [(f.line, f.severity) for f in faults] == [(2, "note")]
    assert found("KEY107", f"{BASE}steps: 5\n") == []
    assert found("KEY107", "", "steps=5") == []


def test_a_computed_value_is_named_as_ignored() -> None:
    faults = found("KEY108", f"{BASE}emb_dim: 5\nnum_target_devices: 7\nrampup_end_step: null\n")
    assert [(f.line, f.hint) for f in faults] == [
        (2, "set base_emb_dim"),
        (3, "take it out; set what it is computed from"),
    ]
    assert {f.severity for f in faults} == {"warning"}
    assert found("KEY108", f"{BASE}base_emb_dim: 5\n") == []


def test_a_model_name_without_a_file_is_named() -> None:
    names = [f.line for f in found("KEY109", f"{BASE}model_name: llama3-405b\n")]
    assert names == []  # no legal name: that is refused by its value
    assert found("KEY109", DEEPSEEK) == []
    assert found("KEY109", BASE) == []


def test_a_short_heartbeat_of_a_fork_is_warned_of() -> None:
    key = "jax_distributed_heartbeat_timeout_seconds"
    faults = found("KEY110", f"{BASE}{key}: 100\n")
    assert [(f.line, f.severity) for f in faults] == [(2, "warning")]
    assert found("KEY110", f"{BASE}{key}: 3600\n") == []
    assert found("KEY110", f"{BASE}{key}: soon\n") == []
    assert "a fork has it" in found("KEY101", f"{BASE}{key}: 100\n")[0].message


@pytest.mark.parametrize(
    ("text", "words", "dangling"),
    [
        (f"{BASE}run_name: x-${{nope}}\n", (), True),
        (f"{BASE}run_name: x-${{model_name}}\n", (), False),
        ("run_name: x-${model_name}\n", (), True),
        ("model_name: default\nrun_name: x-${model_name}\n", (), False),
        (BASE, ("run_name=x-${model_name}",), True),
        (BASE, ("run_name=x-${model_name}", "model_name=default"), False),
        (f"{BASE}run_name: ${{nope}}\n", ("run_name=a",), False),
        (f"{BASE}hf_train_files: '\\${{nope}}'\n", (), False),
        (f"{BASE}compress_ratios: [4, '${{nope}}']\n", (), True),
        (f"{BASE}lora: {{lora_module_path: '${{nope}}'}}\n", (), True),
    ],
)
def test_an_interpolation_that_leads_nowhere_is_refused(
    text: str, words: tuple[str, ...], dangling: bool
) -> None:
    assert bool(found("KEY111", text, *words)) is dangling


def test_a_nested_key_that_maxtext_drops_is_named_and_not_refused() -> None:
    faults = found("KEY112", f"{BASE}steps: 5\ndpo: {{bogus: 1, algo: dpo}}\n")
    assert [(f.line, f.severity) for f in faults] == [(3, "error")]
    assert "'bogus'" in faults[0].message
    assert refused(f"{BASE}dpo: {{bogus: 1}}\n", (), 8, 1) == []
    assert refused(BASE, ["dpo.bogus=7"], 8, 1) == []
    assert len(found("KEY112", BASE, "dpo.bogus=7")) == 1
    assert found("KEY112", f"{BASE}dpo: {{algo: dpo}}\n", "dpo.dpo_beta=0.2") == []
    assert refused(f"{BASE}lora: {{bogus: 1}}\n", (), 8, 1)


def test_a_model_with_a_legal_name_and_no_file_is_named() -> None:
    text = f"{BASE}model_name: qwen3.5-35b-fp8\n"
    assert [f.line for f in found("KEY109", text)] == [2]


def test_every_rule_has_its_words_and_a_code_of_its_own() -> None:
    codes = [rule.code for rule in all_rules()]
    assert len(codes) == len(set(codes))
    for rule in all_rules():
        assert rule.title
        assert rule.reason
        assert rule.remedy
        assert rule.source
        if rule.stage == "config":
            assert "MaxText 0.2.5" in rule.source or rule.source.startswith("jax 0.12.0.1")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("dtype: bf16", "write dtype: bfloat16"),
        ("dtype: float8", "write dtype: float8_e4m3fn"),
        ("quantization: fp8x", "write quantization: fp8"),
        ("te_gmm_quantization: mxfp8", "write te_gmm_quantization: te_mxfp8"),
        ("lr_schedule_type: cos", "write lr_schedule_type: cosine"),
        ("steps: -7", "write steps: -1"),
        ("num_experts: 2.5", "write num_experts: 2"),
        ("run_name: 5", 'write run_name: "5"'),
        ("scan_layers: maybe", "write scan_layers: true, as MaxText has it, or leave it out"),
        ("base_emb_dim: .nan", "write base_emb_dim: 2048, as MaxText has it, or leave it out"),
        ("mesh_axes: 5", "leave it out"),
    ],
)
def test_the_hint_of_a_value_is_what_one_types(line: str, hint: str) -> None:
    (fault,) = found("KEY102", f"{BASE}{line}\n")
    assert fault.hint == hint
    key, _, typed = hint.removeprefix("write ").partition(":")
    if typed:
        assert found("KEY102", f"{BASE}{key}:{typed.partition(',')[0]}\n") == []


def test_the_hint_of_a_secret_does_not_repeat_it() -> None:
    (fault,) = found("KEY102", f"{BASE}hf_access_token: 51423\n")
    assert "51423" not in fault.message + fault.hint


def test_a_bare_word_that_became_a_boolean_is_said_once() -> None:
    text = f"{BASE}attention: off\n"
    made = workload(text, (), 8, 1)
    spot = Origin("MaxText config", "config.yml", 2, 12)
    said = made.config["attention"]
    written = Written(False, said.origin, raw="off", style="", spot=spot)
    (fault,) = judged(made, "KEY102")
    assert "boolean in YAML" in fault.hint
    made = replace(made, config={**made.config, "attention": written})
    assert judged(made, "KEY102") == []
    quoted = replace(written, raw="False", style="'")
    assert judged(replace(made, config={**made.config, "attention": quoted}), "KEY102")


QWEN = f"{BASE}model_name: qwen3-30b-a3b\n"
OLD, NEW = (image(f"ghcr.io/nvidia/jax:maxtext-{day}") for day in ("2026-03-01", "2026-10-30"))


def test_an_argument_that_repeats_the_model_file_stops_images_before_the_mend() -> None:
    made = workload(QWEN, ("num_experts=128",), 8, 1)
    (fault,) = judged(made, "KEY113")
    assert fault.severity == "note"
    assert "models/qwen3-30b-a3b.yml" in fault.message
    assert [f.severity for f in judged(replace(made, image=NEW), "KEY113")] == ["note"]
    (old,) = judged(replace(made, image=OLD), "KEY113")
    assert (old.severity, old.hint) == ("warning", "leave it out")
    assert judged(workload(QWEN, ("steps=5",), 8, 1), "KEY113") == []


def test_an_argument_that_only_relatives_of_the_model_set_is_told_apart() -> None:
    (fault,) = found("KEY113", QWEN, "tokenizer_type=huggingface")
    assert fault.severity == "note"
    assert "models/qwen3-30b-a3b.yml of MaxText 0.2.5 does not set tokenizer_type" in fault.message
    assert found("KEY113", QWEN, "tokenizer_type=tiktoken") == []


def test_a_variable_for_a_key_of_the_model_file_is_said_once_whatever_its_value() -> None:
    here = Origin("environment")
    for value, verb in ((128, "repeats"), (64, "contradicts")):
        made = workload(QWEN, (), 8, 1, environment={"M_NUM_EXPERTS": str(value)})
        made = replace(made, arguments={"num_experts": Value(value, here)})
        (fault,) = judged(made, "KEY106")
        assert f"M_NUM_EXPERTS {verb} MaxText's file of the model" in fault.message
        assert judged(made, "KEY113") == []
        assert judged(made, "KEY105") == []


def test_thousands_of_unknown_keys_are_told_in_a_second_and_the_first_get_names() -> None:
    lines = "".join(f"num_slice{index}: 1\n" for index in range(4000))
    made = workload(BASE + lines, (), 8, 1)
    start = process_time()
    faults = judged(made, "KEY101")
    assert process_time() - start < 1
    assert len(faults) == 4000
    assert "num_slices" in faults[49].hint
    assert faults[50].hint == "take it out"
