"""The shipped presets, as data: each is complete, reasoned, and legal in the facts of this repo."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from moectl.facts import hardware as platforms
from moectl.facts import maxtext
from moectl.facts.maxtext import Catalogue
from moectl.settings.files import Preset, preset, preset_names
from moectl.settings.setting import Setting
from moectl.settings.yaml_source import read_mapping
from moectl.spec.preset import PresetSpec

REPOSITORY = Path(__file__).parent.parent
FOLDER = REPOSITORY / "presets"
RELEASE = "0.2.5"
EXPECTED = """
    deepseek2-16b deepseek2-236b deepseek3-671b deepseek3.2-671b glm-5-744b gpt-oss-120b
    gpt-oss-20b kimi-k2-1t llama4-17b-128e llama4-17b-16e mimo-v2-flash-309b mixtral-8x22b
    mixtral-8x7b qwen3-235b-a22b qwen3-30b-a3b qwen3-next-80b-a3b qwen3.5-397b-a17b
""".split()
FORMS = ("benchmark", "pretrain")
# Only this decoder reports the MoEBlock's receive counts: MaxText models/deepseek.py:254 and
# trainers/pre_train/train.py:379.
MOE_BLOCK_DECODER = "deepseek"
# layers/moe.py:1321, where the routing of DeepSeek-V3 hangs on the name.
SIGMOID_NAMES = ("deepseek3", "deepseek4", "kimi-k2")
SOURCE_LINE = re.compile(r"[\w/]+\.py:\d+")
DIMENSIONS = {"layers", "emb", "q_heads", "kv_heads", "experts", "top_k", "moe_mlp", "vocab"}

each_preset = pytest.mark.parametrize("name", preset_names())


def renderable() -> list[str]:
    """Return the names of the presets MaxText can run."""
    return [name for name in preset_names() if preset(name).estimate_only is None]


each_renderable = pytest.mark.parametrize("name", renderable())


def document(name: str) -> dict[str, Any]:
    text = (FOLDER / f"{name}.yaml").read_text("utf-8")
    return dict(read_mapping(text, f"{name}.yaml").data)


def catalogue() -> Catalogue:
    return maxtext.load(RELEASE)


def effective(shown: Preset, form: str, platform: str) -> dict[str, Any]:
    """Return path to value, the strongest last word of the preset on a platform."""
    said: list[Setting] = shown.settings(form, platforms.platform(platform))
    return {setting.path: setting.value for setting in sorted(said, key=lambda s: s.layer)}


def model_of(shown: Preset) -> Mapping[str, Any]:
    """Return what the model file says, under the preset's overrides of it."""
    values = catalogue().model(shown.run["model"]["name"])
    assert values is not None
    return {**values, **shown.run["model"].get("overrides", {})}


def test_exactly_the_promised_presets_are_shipped() -> None:
    assert preset_names() == EXPECTED


@each_preset
def test_a_preset_is_a_valid_preset_file(name: str) -> None:
    spec = PresetSpec.model_validate(document(name), strict=True)
    assert spec.name == name


@each_preset
def test_a_preset_says_which_path_it_takes_and_why_and_where_it_comes_from(name: str) -> None:
    shown = preset(name)
    assert shown.title
    assert len(shown.source) > 20
    assert shown.path["name"] in {"te-moe-block", "native-dropless", "none"}
    assert SOURCE_LINE.search(shown.path["why"]), "the reason cites no line of the source"


@each_preset
def test_a_preset_names_a_platform_and_whole_nodes_of_it(name: str) -> None:
    shown = preset(name)
    assert shown.hardware in platforms.names()
    assert shown.gpus % platforms.platform(shown.hardware).gpus_per_node == 0


@each_preset
def test_a_preset_reads_without_a_fault_on_every_platform(name: str) -> None:
    shown = preset(name)
    for platform in platforms.names():
        for form in FORMS:
            paths = [setting.path for setting in shown.settings(form, platforms.platform(platform))]
            assert bool(paths) is (shown.estimate_only is None)


@each_preset
def test_what_a_preset_says_for_hardware_is_for_hardware_of_the_catalogue(name: str) -> None:
    every = [platforms.platform(platform) for platform in platforms.names()]
    known = {one.name for one in every} | {one.architecture for one in every}
    assert set(preset(name).for_hardware) <= known


def test_a_preset_that_cannot_run_says_what_is_missing_and_gives_its_dimensions() -> None:
    shown = [preset(name) for name in preset_names() if preset(name).estimate_only is not None]
    assert [one.name for one in shown] == ["mimo-v2-flash-309b"]
    for one in shown:
        assert one.estimate_only is not None
        assert RELEASE in one.estimate_only["missing"]
        assert set(one.estimate_only["architecture"]) >= DIMENSIONS
        assert not one.run
        assert not one.forms
        assert one.path["name"] == "none"


@each_renderable
def test_a_preset_names_a_model_file_of_maxtext(name: str) -> None:
    assert preset(name).run["model"]["name"] in catalogue().models()


@each_renderable
def test_a_preset_overrides_only_what_the_model_file_says_otherwise(name: str) -> None:
    shown = preset(name)
    base = catalogue().model(shown.run["model"]["name"])
    assert base is not None
    for key, value in shown.run["model"].get("overrides", {}).items():
        assert key in base
        assert base[key] != value, f"{key} is {value} already"


@each_renderable
def test_the_moe_block_is_on_exactly_where_the_path_says_so(name: str) -> None:
    shown = preset(name)
    block = shown.run["moe"]["te_block"]
    assert block is (shown.path["name"] == "te-moe-block")
    assert shown.run["moe"]["megablox"] is False


@each_renderable
def test_the_moe_block_serves_only_what_it_computes_rightly(name: str) -> None:
    shown = preset(name)
    model = model_of(shown)
    served = (
        model["decoder_block"] == MOE_BLOCK_DECODER
        and model.get("routed_score_func") == "sigmoid"
        and shown.run["model"]["name"].startswith(SIGMOID_NAMES)
    )
    assert served is shown.run["moe"]["te_block"]


@each_renderable
def test_a_native_preset_drops_no_token(name: str) -> None:
    moe = preset(name).run["moe"]
    if not moe["te_block"]:
        assert moe["capacity_factor"] == -1
        assert "receive_factor" not in moe


@each_renderable
def test_the_experts_divide_over_the_expert_degree(name: str) -> None:
    shown = preset(name)
    degree = shown.run["parallelism"]["ici"].get("expert", 1)
    assert model_of(shown)["num_experts"] % degree == 0


@each_renderable
def test_hopper_is_never_given_mxfp8(name: str) -> None:
    shown = preset(name)
    for platform in platforms.names():
        if platforms.platform(platform).architecture == "hopper":
            for form in FORMS:
                said = effective(shown, form, platform)
                assert "mxfp8" not in str(said.get("moe.te_gmm_quantization"))
                assert "mxfp8" not in str(said.get("precision.quantization"))


@each_renderable
def test_the_benchmark_form_needs_no_data_and_writes_no_checkpoint(name: str) -> None:
    said = effective(preset(name), "benchmark", preset(name).hardware)
    assert said["data.type"] == "synthetic"
    assert said["checkpoints.enabled"] is False
    assert said["training.steps"] <= 100


@each_renderable
def test_the_pretrain_form_has_all_of_a_real_run(name: str) -> None:
    said = effective(preset(name), "pretrain", preset(name).hardware)
    assert said["data.type"] == "hf"
    assert said["data.hf_path"]
    assert said["data.tokenizer"]
    assert said["data.tokenizer_type"] == "huggingface"
    assert said["checkpoints.enabled"] is True
    assert said["evaluation.interval"] > 0
    assert said["evaluation.steps"] > 0, "MaxText wants them: configs/types.py:5453"
    assert said["data.hf_eval_split"], "MaxText wants it: configs/types.py:5404"
    assert 0 < said["optimizer.learning_rate"] < 1e-2
    assert said["training.steps"] >= 10_000


@each_renderable
def test_packed_sequences_stand_only_where_the_kernel_is_told_how_many_documents(name: str) -> None:
    for platform in platforms.names():
        said = effective(preset(name), "pretrain", platform)
        if said["data.packing"] and said["attention.kernel"] == "cudnn_flash_te":
            assert said["data.max_segments"] > 0


@each_renderable
def test_a_recurrent_decoder_is_not_given_packed_sequences(name: str) -> None:
    """Its state would run from one document into the next: models/qwen3.py:1075."""
    shown = preset(name)
    recurrent = model_of(shown).get("gdn_chunk_size") is not None
    if recurrent:
        assert shown.forms["pretrain"]["data"]["packing"] is False


@each_renderable
def test_the_sparse_indexer_gets_the_kernel_it_takes_and_a_language_model_loss(name: str) -> None:
    """See configs/types.py:4815 and layers/nnx_decoders.py:2305."""
    shown = preset(name)
    if not model_of(shown).get("use_indexer"):
        return
    for platform in platforms.names():
        said = effective(shown, "pretrain", platform)
        assert said["attention.kernel"] == "dot_product"
        if said.get("maxtext.indexer_loss_scaling_factor", 0) > 0:
            assert said["maxtext.indexer_sparse_training"] is True


@each_renderable
def test_attention_sinks_get_a_kernel_that_knows_them(name: str) -> None:
    """See layers/attention_op.py:154."""
    shown = preset(name)
    if model_of(shown).get("attention_sink"):
        for platform in platforms.names():
            kernel = effective(shown, "benchmark", platform)["attention.kernel"]
            assert kernel in {"cudnn_flash_te", "dot_product"}


@each_renderable
def test_chunked_attention_keeps_a_sequence_within_one_chunk(name: str) -> None:
    """Beyond one chunk cudnn_flash_te takes the mask for a shorter sequence."""
    shown = preset(name)
    window = model_of(shown).get("chunk_attn_window_size")
    if window:
        for form in FORMS:
            said = effective(shown, form, shown.hardware)
            assert said["batch.sequence_length"] <= window


def test_kimi_says_that_it_covers_the_text_model_of_its_successors() -> None:
    notes = " ".join(preset("kimi-k2-1t").notes)
    assert "K2.5" in notes
    assert "text model" in notes


def test_the_table_of_presets_is_the_presets() -> None:
    table = (REPOSITORY / "docs" / "presets.md").read_text("utf-8")
    rows = [line.strip("| \n").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    told = {row[0].strip("`"): row for row in rows}
    assert sorted(told) == EXPECTED
    for name, row in told.items():
        shown = preset(name)
        assert row[1] == shown.path["name"]
        assert row[-1] == f"{shown.gpus} x {shown.hardware}"
