"""The catalogues of MaxText's keys, and the judgement of a value, as real MaxText judges it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from moectl.errors import UnknownNameError
from moectl.facts import maxtext
from moectl.facts.maxtext import MeshAxis
from moectl.facts.maxtext_key import split_type
from moectl.settings.yaml_source import read_mapping
from tests.judge.client import Judge

RELEASE = "0.2.5"
SIZES = {"0.2.4": (774, 78), "0.2.5": (865, 82)}
KINDS = {"bool", "int", "float", "str", "enum", "dict", "dict[str]", "any", "list"}


def test_the_catalogued_releases_come_oldest_first() -> None:
    assert maxtext.releases() == ["0.2.4", "0.2.5"]


def test_a_release_without_a_catalogue_names_those_that_have_one() -> None:
    for release in ("0.2.6", "", "..", "0.2.5/../0.2.4"):
        with pytest.raises(UnknownNameError, match="unknown MaxText release"):
            maxtext.load(release)
    with pytest.raises(UnknownNameError, match=r"0\.2\.5"):
        maxtext.load("0.2.6")


@pytest.mark.parametrize(("release", "sizes"), SIZES.items())
def test_a_catalogue_holds_every_key_of_its_release(release: str, sizes: tuple[int, int]) -> None:
    catalogue = maxtext.load(release)
    assert catalogue.release == release
    assert catalogue.source.startswith(f"maxtext {release} ")
    keys = [catalogue.key(name) for name in catalogue.keys()]  # noqa: SIM118 - no mapping
    assert None not in keys
    known = [key for key in keys if key is not None]
    assert (len(known), len(catalogue.models())) == sizes
    assert sum(key.derived for key in known) == 27
    assert sum(len(key.nested) for key in known) == 12
    assert {key.name for key in known if key.opaque} == {"constant_bound_config"}
    assert all(key.where.startswith("configs/types.py:") and key.group for key in known)
    for key in known:
        inner = key.type.replace("list[", "").replace("]", "") if "[" in key.type else key.type
        assert set(split_type(inner.replace("dict[str", "dict"))) <= KINDS, key


@pytest.mark.parametrize("release", SIZES)
def test_every_default_is_a_value_that_the_release_takes(release: str) -> None:
    catalogue = maxtext.load(release)
    faults = {
        name: clause
        for name in catalogue.keys()  # noqa: SIM118 - no mapping
        if (key := catalogue.key(name)) is not None
        and not (key.computed or key.required)
        and (clause := catalogue.check(name, catalogue.default(name)))
    }
    # Its default is the text "none", of which the loader makes None when a file says it.
    assert set(faults) == {"vision_encoder_block"}


@pytest.mark.parametrize("release", SIZES)
def test_every_value_of_every_model_file_is_taken(release: str) -> None:
    catalogue = maxtext.load(release)
    values = 0
    for model in catalogue.models():
        for name, value in (catalogue.model(model) or {}).items():
            assert catalogue.check(name, value) is None, (model, name, value)
            values += 1
    assert values > 1500


def test_a_key_says_what_the_source_says() -> None:
    catalogue = maxtext.load(RELEASE)
    steps, quantization = catalogue.key("steps"), catalogue.key("te_gmm_quantization")
    assert steps is not None
    assert (steps.type, steps.nullable, steps.derived) == ("int", False, False)
    assert quantization is not None
    assert quantization.choices == ("", "te_no_quant", "te_mxfp8")
    assert quantization.nullable
    dropout, rank = catalogue.key("dropout_rate"), catalogue.key("lora.lora_rank")
    assert dropout is not None
    assert dropout.bounds == {"ge": 0.0, "le": 1.0}
    assert rank is not None
    assert rank == catalogue.key("lora_rank")
    assert (rank.path, rank.parent, rank.ge) == ("lora.lora_rank", "lora", 0)
    assert catalogue.key("num_expert") is None
    assert catalogue.key("lora.steps") is None
    assert catalogue.key("steps.lora_rank") is None
    assert catalogue.key("") is None


def test_defaults_come_from_base_yml_before_the_source() -> None:
    catalogue = maxtext.load(RELEASE)
    assert catalogue.base["max_num_checkpoints_to_keep"] is None
    assert catalogue.default("steps") == catalogue.base["steps"]
    assert catalogue.default("dcn_data_parallelism") == -1
    # num_target_devices is no line of base.yml, lora.lora_rank stands under another key.
    assert "num_target_devices" not in catalogue.base
    assert catalogue.default("num_target_devices") is None
    assert catalogue.default("lora.lora_rank") == 0
    with pytest.raises(UnknownNameError, match="did you mean 'num_experts'"):
        catalogue.default("num_expert")


def test_model_files_are_read_as_omegaconf_reads_them() -> None:
    catalogue = maxtext.load(RELEASE)
    deepseek = catalogue.model("deepseek3-671b")
    assert deepseek is not None
    assert deepseek["num_experts"] == 256
    assert deepseek["normalization_layer_epsilon"] == 1e-06
    assert deepseek["rope_max_timescale"] == 10000
    assert catalogue.model("deepseek3-671") is None
    llama = catalogue.model("llama3.1-8b")
    assert llama is not None
    assert catalogue.model("llama3.1-8b-Instruct") == llama
    assert list(catalogue.models()) == sorted(catalogue.models())


def test_the_mesh_is_told_with_the_keys_that_size_it() -> None:
    catalogue = maxtext.load(RELEASE)
    assert catalogue.mesh_axes[:4] == ("diloco", "data", "stage", "fsdp")
    assert set(catalogue.mesh_axes) <= set(catalogue.axes)
    assert catalogue.axes["stage"] == MeshAxis(
        "stage", "ici_pipeline_parallelism", "dcn_pipeline_parallelism"
    )
    assert catalogue.axes["attn_dp"] == MeshAxis("attn_dp")
    sizing = {axis.ici for axis in catalogue.axes.values()} - {""}
    sizing |= {axis.dcn for axis in catalogue.axes.values()} - {""}
    named = {n for n in catalogue.keys() if n.endswith("_parallelism")}  # noqa: SIM118
    assert sizing == {n for n in named if n.startswith(("ici_", "dcn_"))} - {
        "ici_parallelism",
        "dcn_parallelism",
    }


def test_logical_axis_rules_come_in_order_and_in_one_form() -> None:
    rules = maxtext.load(RELEASE).logical_axis_rules
    assert ("exp", ("expert",)) in rules
    assert ("qkv", ()) in rules
    vocabulary = [axes for logical, axes in rules if logical == "activation_vocab"]
    assert vocabulary == [("tensor", "tensor_sequence"), ("tensor",), ("tensor_sequence",)]


def test_an_unknown_name_gets_the_nearest_ones() -> None:
    catalogue = maxtext.load(RELEASE)
    assert catalogue.unknown("num_expert")[0] == "num_experts"
    assert "lora.lora_rank" in catalogue.unknown("lora_rnk")
    assert "lora.lora_rank" in catalogue.unknown("lora.lora_rnk")
    assert catalogue.unknown("zq" * 5000) == []
    assert catalogue.unknown("") == []


def test_values_cannot_be_assigned_through_the_views() -> None:
    catalogue = maxtext.load(RELEASE)
    for view in (catalogue.base, catalogue.model("gpt3-52k"), catalogue.axes):
        with pytest.raises(TypeError):
            view["steps"] = 1  # type: ignore[index]


# What real MaxText 0.2.5 answers to `key=text` on its command line.
TAKEN = [
    ("steps", "6"), ("steps", "'6'"), ("steps", "15.0"), ("steps", "'6.0'"), ("steps", "1e3"),
    ("steps", "10_000"), ("steps", "true"), ("steps", "017"), ("steps", "1:30"),
    ("learning_rate", "3e-4"), ("learning_rate", "'3e-4'"), ("learning_rate", "1"),
    ("log_config", "yes"), ("log_config", "0"), ("log_config", "'off'"), ("log_config", "t"),
    ("max_num_checkpoints_to_keep", "none"), ("max_num_checkpoints_to_keep", "null"),
    ("max_num_checkpoints_to_keep", ""), ("run_name", "none"), ("run_name", "null"),
    ("run_name", "'123'"), ("run_name", "2024-01-01"), ("attention", "flash3"),
    ("attention_type", "mla"), ("quantization", "null"), ("quantization", "none"),
    ("quantization", "''"), ("mlpwi", "offload"), ("shard_mode", "auto"),
    ("remat_policy", "no_such_policy"), ("train_data_columns", "messages"),
    ("train_data_columns", "[a,b]"), ("constant_bound_config", "'0.5,0.5'"),
    ("constant_bound_config", "''"), ("num_target_devices", "7"), ("lora.lora_rank", "4"),
    ("dpo.algo", "orpo"), ("dropout_rate", "0.5"), ("xprof_tpu_power_trace_level", "2"),
    ("vllm_hf_overrides", "{a: 1}"), ("per_device_batch_size", "0.5"),
]  # fmt: skip
REFUSED = [
    ("steps", "15.5"), ("steps", "abc"), ("steps", "none"), ("steps", "null"), ("steps", "''"),
    ("steps", "[1]"), ("steps", ".inf"), ("learning_rate", "none"), ("learning_rate", "x"),
    ("log_config", "maybe"), ("log_config", "2"), ("log_config", "none"), ("run_name", "123"),
    ("run_name", "yes"), ("attention", "5"), ("attention", "none"), ("quantization", "fp9"),
    ("quantization", "FP8"), ("te_gmm_quantization", "te_mxfp9"), ("mlpwi", "host"),
    ("mlpwi", "none"), ("model_name", "deepseek"), ("decoder_block", "DeepSeek"),
    ("hardware", "gpus"), ("mesh_axes", "data"), ("mesh_axes", "[1]"), ("lora_rank", "4"),
    ("lora.lora_rank", "-1"), ("lora.lora_rank", "none"), ("lora.no_such", "1"),
    ("lora", "none"), ("dropout_rate", "1.5"), ("dropout_rate", "-0.1"),
    ("xprof_tpu_power_trace_level", "3"), ("vllm_hf_overrides", "[]"), ("num_expert", "8"),
    ("mlp_activations", "silu"), ("vision_encoder_block", "none"),
    ("max_num_checkpoints_to_keep", "2.5"),
]  # fmt: skip


def scalar(text: str) -> object:
    """Read a command line value as OmegaConf does."""
    return read_mapping(f"k: {text}\n", "table").data["k"]


@pytest.mark.parametrize(("key", "text"), TAKEN)
def test_a_value_that_maxtext_takes_is_not_complained_about(key: str, text: str) -> None:
    assert maxtext.load(RELEASE).check(key, scalar(text)) is None


@pytest.mark.parametrize(("key", "text"), REFUSED)
def test_a_value_that_maxtext_refuses_gets_a_clause(key: str, text: str) -> None:
    clause = maxtext.load(RELEASE).check(key, scalar(text))
    assert clause
    assert "\n" not in clause


def test_the_clause_says_what_is_legal_or_what_to_write() -> None:
    check = maxtext.load(RELEASE).check
    assert check("steps", 15.5) == "a whole number, at least -1"
    assert check("run_name", 123) == "text, so put it in quotes"
    assert check("te_gmm_quantization", "x") == ("one of '', 'te_no_quant', 'te_mxfp8', or none")
    assert check("lora_rank", 4) == "it stands under lora: write lora.lora_rank"
    assert check("lora", {"lora_rank": -1}) == "lora.lora_rank is a whole number, at least 0"
    assert str(check("lora", {"rank": 1})).startswith("it has no key 'rank', only enable_lora")
    assert "drops it without a word" in str(check("dpo", {"rank": 1}))
    assert check("lora", {"lora_rank": 4}) is None
    assert str(check("lora", [])).startswith("a mapping of enable_lora")
    assert str(check("num_expert", 8)).startswith(
        f"MaxText {RELEASE} has no such key; near it: num_experts"
    )
    assert "near it deepseek3-671b" in str(check("model_name", "deepseek3-671B"))


def test_what_omegaconf_resolves_at_start_is_not_judged() -> None:
    assert maxtext.load(RELEASE).check("steps", "${oc.env:STEPS}") is None


def test_real_maxtext_judges_the_same_values_the_same_way(maxtext: Judge) -> None:
    base = {
        "base_config": "base.yml",
        "hardware": "cpu",
        "dataset_type": "synthetic",
        "base_output_directory": "out",
        "run_name": "judged",
        "enable_checkpointing": False,
    }
    cases = [*TAKEN, *REFUSED]
    jobs = [
        {
            "config": {k: v for k, v in base.items() if k != key},
            "arguments": [f"{key}={text}"],
            "devices": 1,
        }
        for key, text in cases
    ]
    verdicts = maxtext(jobs)
    found = {
        case: "refused"
        if verdict.error_type in {"ValidationError", "ValueError"}
        and case[0].split(".")[0] in verdict.error.split("[type=")[0]
        else verdict.verdict
        for case, verdict in zip(cases, verdicts, strict=True)
    }
    assert [case for case in TAKEN if found[case] == "refused"] == []
    assert [case for case in REFUSED if found[case] != "refused"] == []


def test_reading_a_catalogue_is_fast_and_imports_no_yaml_or_pydantic() -> None:
    program = """
import sys, time
from moectl.facts import maxtext
started = time.perf_counter()
catalogue = maxtext.load(maxtext.releases()[-1])
for name in catalogue.base:
    assert catalogue.check(name, catalogue.base[name]) is None
catalogue.model(catalogue.models()[0])
print(time.perf_counter() - started)
assert not {"yaml", "pydantic", "pydantic_core", "difflib"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)  # noqa: PLW1510
    assert (done.returncode, done.stderr) == (0, "")
    # 5 ms on one idle core; the bound is for a loaded machine.
    assert float(done.stdout) < 0.1


def test_a_catalogue_is_read_once_a_process() -> None:
    assert maxtext.load(RELEASE) is maxtext.load(RELEASE)
