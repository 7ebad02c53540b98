"""A YAML file is judged only when its keys show that it is one of ours."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.facts.maxtext import load, releases
from moectl.settings.sources.belongs import belongs, near_key
from moectl.settings.sources.detect import detect
from moectl.settings.sources.read import read_source

CATALOGUE = load(releases()[-1])
FOREIGN = {
    "mkdocs": "site_name: x\nnav: [a.md]\n",
    "compose": 'services:\n  web: {image: "nginx:1"}\n',
    "compose with an environment": "services:\n  a:\n    environment: {A: b}\nvolumes: {x: {}}\n",
    "pre-commit": "repos:\n- repo: https://example.com/x\n  rev: v1\n  hooks: [{id: a}]\n",
    "chart": "apiVersion: v2\nname: x\ndescription: y\nversion: 1.0.0\ntype: application\n",
    "a name only": "name: nccl\nnodes: 2\nresources: {cpus: 3}\n",
    "codecov": "codecov:\n  require_ci_to_pass: yes\ncoverage:\n  precision: 2\n  status: off\n",
    "workflow": "name: ci\non: [push]\njobs:\n  a:\n    steps:\n    - run: x\n      name: y\n",
    "cloud build": "steps:\n- name: gcr.io/x\n  args: [build]\ntimeout: 3600s\n",
    "helm values": "image: {tag: y}\nreplicas: 2\nresources: {}\nworkload: {gpus: 8}\n",
    "nemo": (
        "name: llama\ntrainer:\n  devices: 8\n  precision: bf16\n  max_steps: 10\n"
        "exp_manager: {exp_dir: x}\nmodel:\n  micro_batch_size: 1\n  encoder_seq_length: 8192\n"
        "  data: {num_workers: 2}\n  optim: {name: adam, lr: 1e-4}\n"
    ),
    "transformers": (
        "learning_rate: 1e-4\nrun_name: x\nnum_train_epochs: 3\noutput_dir: y\n"
        "per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\n"
    ),
    "a model of transformers": (
        '{"architectures": ["X"], "vocab_size": 3, "head_dim": 128, "hidden_size": 8,'
        ' "num_experts": 8, "rope_theta": 1.0, "torch_dtype": "bfloat16", "model_type": "x"}'
    ),
    "vllm": "async-scheduling: true\nkv-cache-dtype: fp8\nmax-num-seqs: 3\n",
    "a preset that is a list": '{"preset": ["node", "node"]}',
    "one everyday word": "steps: 3\n",
    "one shared name with a text": "quantization: |\n  a\n",
    "a prompt": "prompt: |\n  say steps\n  enable_checkpointing: x\n",
    "sections of another trainer": "model: {name: x}\noptimizer: {learning_rate: 1}\ntags: [a]\n",
    "openapi": "openapi: 3.0.0\ninfo: {title: x}\npaths: {}\n",
    "a word": "a word\n",
    "a list": "- a\n- b: c\n",
}
OURS = {
    "one misspelt key": ("hardware: gpu\nper_device_batchsize: 4\n", "MaxText config"),
    "misspelt only": ("per_device_batchsize: 4\n", "MaxText config"),
    "two misspelt": ("hardware: gpu\nici_expert_paralelism: 8\nstesp: 4\n", "MaxText config"),
    "a wrong case": ("Per_Device_Batch_Size: 4\nsteps: 3\n", "MaxText config"),
    "a base and nothing known": ("base_config: base.yml\nfoo: 1\nbar: 2\nbaz: 3\n",
                                 "MaxText config"),
    "shared names only": ("model_name: x\nattention: dot_product\n", "MaxText config"),
    "one shared name with a word": ("attention: off\n", "MaxText config"),
    "one number": ("learning_rate: 3e-4\n", "MaxText config"),
    "a platform of MaxText": ("hardware: gpu\nlearning_rate: 3e-4\n", "MaxText config"),
    "a section of a fork": ("train:\n  per_device_batch_size: 3\n  steps: 3\n", "MaxText config"),
    "one line": ("{per_device_batch_size: 4, hardware: gpu}\n", "MaxText config"),
    "broken": ("hardware: gpu\nper_device_batch_size: [4\nsteps: 3\n", "MaxText config"),
    "a sweep": ("- per_device_batch_size: 3\n  steps: 4\n- per_device_batch_size: 4\n",
                "MaxText config"),
    "a model": ("decoder_block: mixtral\nbase_emb_dim: 8\nbase_mlp_dim: 9\nnum_experts: 8\n",
                "MaxText model file"),
    "a model with a slip": ("decoder_block: mixtral\nbase_emb_dim: 8\nbase_mpl_dim: 9\n",
                            "MaxText model file"),
    "a model on another": ("base_config: mixtral-8x7b.yml\nweight_dtype: float32\n",
                           "MaxText model file"),
    "a run on a model": ("base_config: models/mixtral-8x7b.yml\nsteps: 3\nrun_name: r\n",
                         "MaxText config"),
    "a run on MaxText's own config": ("base_config: gpu/models/llama2_7b.yml\nsteps: 3\n",
                                      "MaxText config"),
    "a model of a config": ("base_config: base.yml\ndecoder_block: mixtral\nbase_emb_dim: 8\n",
                            "MaxText config"),
    "a run": ("preset: mixtral-8x7b-h100\nname: x\n", "run file"),
    "a misspelt run": ("presett: mixtral-8x7b\ngpus: 8\n", "run file"),
    "a platform": ("hardware: gb200\n", "run file"),
    "a model and GPUs": ("model: {name: x}\ngpus: 8\n", "run file"),
    "a profile": ("partition: a\naccount: b\ngres: gpu\n", "cluster profile"),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_of_another_program_is_not_judged(name: str) -> None:
    assert belongs(FOREIGN[name]) == "unknown"


@pytest.mark.parametrize("name", OURS)
def test_a_file_of_ours_is_known_by_its_keys(name: str) -> None:
    text, kind = OURS[name]
    assert detect("x.yml", text) == kind


@pytest.mark.parametrize("model", CATALOGUE.models())
def test_every_model_file_of_maxtext_is_known_for_one(model: str) -> None:
    text = yaml.safe_dump(dict(CATALOGUE.model(model) or {}))
    assert detect(f"models/{model}.yml", text) == "MaxText model file"


def test_the_base_of_maxtext_is_a_config_and_no_model() -> None:
    assert belongs(yaml.safe_dump(dict(CATALOGUE.base))) == "MaxText config"


def test_a_model_file_starts_no_run_and_its_keys_are_read() -> None:
    text = "decoder_block: mixtral\nbase_emb_dim: 8\nbase_mlp_dim: 9\n"
    source = read_source("m.yml", text, lambda _: None)
    (part,) = source.parts
    assert (part.kind, part.is_maxtext) == ("MaxText model file", False)
    assert part.config["base_emb_dim"].value == 8
    assert "starts no run" in source.told[0]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([key for key in CATALOGUE.keys() if len(key) > 8]), st.data())  # noqa: SIM118
def test_a_key_with_one_slip_is_near_to_a_key(key: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(key) - 2))
    slips = {
        "left out": key[:at] + key[at + 1 :],
        "doubled": key[:at] + key[at] + key[at:],
        "another": key[:at] + "q" + key[at + 1 :],
        "exchanged": key[:at] + key[at + 1] + key[at] + key[at + 2 :],
        "joined": key.replace("_", ""),
    }
    slip = slips[data.draw(st.sampled_from(sorted(slips)))]
    assert near_key(slip) is not None


@pytest.mark.parametrize("name", ["site_name", "services", "repos", "nav", "version", "", "x" * 90])
def test_a_word_of_another_program_is_near_to_no_key(name: str) -> None:
    assert near_key(name) is None


def test_twenty_thousand_unknown_keys_are_weighed_soon() -> None:
    text = "".join(f"some_other_key_{n}: 3\n" for n in range(20_000))
    began = time.monotonic()
    assert belongs(text) == "unknown"
    assert time.monotonic() - began < 5


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab_:- {}[],\n\"'|>#\\\0ü"), max_size=300))
def test_any_text_is_weighed(text: str) -> None:
    assert belongs(text) in {
        "unknown", "MaxText config", "run file", "cluster profile", "MaxText model file",
    }  # fmt: skip


def test_no_file_of_this_repository_but_presets_is_taken_for_one_of_ours() -> None:
    root = Path(__file__).parent.parent
    found = {
        path.name: detect(str(path), path.read_text("utf-8"))
        for path in [*root.glob("*.yml"), *root.glob("moectl/facts/data/*.yaml")]
    }
    assert found["hardware.yaml"] == "unknown"
    assert set(found.values()) == {"unknown"}


@pytest.mark.parametrize(
    ("aliased", "plain"),
    [
        ("x: &a gpu\nhardware: *a\nrun_name: q\nsteps: 5\n",
         "x: gpu\nhardware: gpu\nrun_name: q\nsteps: 5\n"),
        ("x: &a {y: 1}\nother: *a\nrun_name: q\n", "x: {y: 1}\nother: {y: 1}\nrun_name: q\n"),
        ("x: &a\n  steps: 5\n  model_name: m\ny: *a\n",
         "x:\n  steps: 5\n  model_name: m\ny:\n  steps: 5\n  model_name: m\n"),
        ("hardware: gpu\nrun_name: q\na: &a [1]\nb: &b [*a]\nsteps: *b\n",
         "hardware: gpu\nrun_name: q\na: [1]\nb: [[1]]\nsteps: [[1]]\n"),
        ("hardware: *nowhere\nsteps: 5\n", "hardware: other\nsteps: 5\n"),
    ],
)  # fmt: skip
def test_a_file_with_aliases_belongs_where_it_would_if_they_were_written_out(
    aliased: str, plain: str
) -> None:
    assert belongs(aliased) == belongs(plain)
