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
EXPECTED = [
    "deepseek2-16b",
    "deepseek2-236b",
    "deepseek3-671b",
    "deepseek3.2-671b",
    "glm-5-744b",
    "gpt-oss-120b",
    "gpt-oss-20b",
    "kimi-k2-1t",
    "llama4-17b-128e",
    "llama4-17b-16e",
    "mimo-v2-flash-309b",
    "mixtral-8x22b",
    "mixtral-8x7b",
    "qwen3-235b-a22b",
    "qwen3-30b-a3b",
    "qwen3-next-80b-a3b",
    "qwen3.5-397b-a17b",
]
FORMS = ("benchmark", "pretrain")
# Only this decoder reports the MoEBlock's receive counts: MaxText models/deepseek.py:254 and
# trainers/pre_train/train.py:379.
MOE_BLOCK_DECODER = "deepseek"
# layers/moe.py:1321, where the routing of DeepSeek-V3 hangs on the name.
SIGMOID_NAMES = ("deepseek3", "deepseek4", "kimi-k2")
SOURCE_LINE = re.compile(r"[\w/]+\.py:\d+")
DIMENSIONS = {"layers", "emb", "q_heads", "kv_heads", "experts", "top_k", "moe_mlp", "vocab"}

# What the model files say of them; a test holds these lists to it.
WITH_INDEXER = ["deepseek3.2-671b", "glm-5-744b"]
WITH_RECURRENCE = ["qwen3-next-80b-a3b", "qwen3.5-397b-a17b"]
WITH_SINKS = ["gpt-oss-120b", "gpt-oss-20b"]
WITH_CHUNKS = ["llama4-17b-128e", "llama4-17b-16e"]

each_preset = pytest.mark.parametrize("name", preset_names())


def renderable() -> list[str]:
    """Return the names of the presets MaxText can run."""
    return [name for name in preset_names() if preset(name).estimate_only is None]


each_renderable = pytest.mark.parametrize("name", renderable())


def among(names: list[str]) -> pytest.MarkDecorator:
    """Run a test for each of these presets."""
    return pytest.mark.parametrize("name", names)


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


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("use_indexer", WITH_INDEXER),
        ("gdn_chunk_size", WITH_RECURRENCE),
        ("attention_sink", WITH_SINKS),
        ("chunk_attn_window_size", WITH_CHUNKS),
    ],
)
def test_the_special_decoders_are_those_the_model_files_name(key: str, name: list[str]) -> None:
    assert [one for one in renderable() if model_of(preset(one)).get(key)] == name


def test_an_architecture_override_says_only_what_the_model_file_does_not() -> None:
    with_overrides = [n for n in renderable() if preset(n).run["model"].get("overrides")]
    assert with_overrides == ["glm-5-744b"]
    model = preset("glm-5-744b").run["model"]
    base = catalogue().model(model["name"])
    assert base is not None
    same = {k: v for k, v in model["overrides"].items() if base.get(k, v) == v}
    assert same == {}


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


@among([name for name in renderable() if preset(name).path["name"] == "native-dropless"])
def test_a_native_preset_drops_no_token(name: str) -> None:
    moe = preset(name).run["moe"]
    assert moe["capacity_factor"] == -1
    assert "receive_factor" not in moe


@each_renderable
def test_the_experts_divide_over_the_expert_degree(name: str) -> None:
    shown = preset(name)
    degree = shown.run["parallelism"]["ici"].get("expert", 1)
    assert model_of(shown)["num_experts"] % degree == 0


@each_renderable
@pytest.mark.parametrize("form", FORMS)
def test_hopper_is_never_given_mxfp8(name: str, form: str) -> None:
    hopper = [p for p in platforms.names() if platforms.platform(p).architecture == "hopper"]
    assert hopper
    for platform in hopper:
        said = effective(preset(name), form, platform)
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
        packed = said["data.packing"] and said["attention.kernel"] == "cudnn_flash_te"
        assert not packed or said["data.max_segments"] > 0


@among(WITH_RECURRENCE)
def test_a_recurrent_decoder_is_not_given_packed_sequences(name: str) -> None:
    """Its state would run from one document into the next: models/qwen3.py:1075."""
    assert effective(preset(name), "pretrain", preset(name).hardware)["data.packing"] is False


@among(WITH_INDEXER)
@pytest.mark.parametrize("form", FORMS)
def test_a_sparse_indexer_gets_its_kernel_and_a_language_model_loss(name: str, form: str) -> None:
    """The kernel: configs/types.py:4817. Without the key the loss is 0, train.py:222."""
    for platform in platforms.names():
        said = effective(preset(name), form, platform)
        assert said["attention.kernel"] == "dot_product"
        assert said["maxtext.indexer_sparse_training"] is True


@among(WITH_SINKS)
def test_attention_sinks_get_a_kernel_that_knows_them(name: str) -> None:
    """See layers/attention_op.py:154."""
    for platform in platforms.names():
        kernel = effective(preset(name), "benchmark", platform)["attention.kernel"]
        assert kernel in {"cudnn_flash_te", "dot_product"}


@among(WITH_CHUNKS)
@pytest.mark.parametrize("form", FORMS)
def test_chunked_attention_keeps_a_sequence_within_one_chunk(name: str, form: str) -> None:
    """Beyond one chunk cudnn_flash_te takes the mask for a shorter sequence."""
    said = effective(preset(name), form, preset(name).hardware)
    assert said["batch.sequence_length"] <= model_of(preset(name))["chunk_attn_window_size"]


def test_kimi_says_that_it_covers_the_text_model_of_its_successors() -> None:
    notes = " ".join(preset("kimi-k2-1t").notes)
    assert "K2.5" in notes
    assert "text model" in notes


def test_the_table_of_presets_is_the_presets() -> None:
    table = (REPOSITORY / "docs" / "presets.md").read_text("utf-8")
    rows = [
        line.strip("| \n").split(" | ") for line in table.splitlines() if line.startswith("| `")
    ]
    told = {row[0].strip("`"): row for row in rows}
    assert sorted(told) == EXPECTED
    for name, row in told.items():
        shown = preset(name)
        assert row[1] == shown.path["name"]
        assert row[-1] == f"{shown.gpus} x {shown.hardware}"
