"""A bundle rendered again gives the same bytes, whatever it was rendered from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from moectl.actions.plan import Wishes, plan
from moectl.actions.render import Rendered, render, write
from moectl.errors import UsageError
from moectl.render.lock import locked_settings
from moectl.settings.files import preset, preset_names, run_file
from moectl.settings.yaml_source import read_mapping
from moectl.spec.run import RunSpec

NAMES = [name for name in preset_names() if preset(name).estimate_only is None]
COUNTS = (8, 64, 128, 512, 2048)
PRESET = "deepseek3-671b"
SITE = """\
name: "alpha & omega"
partition: "batch"
account: "team-1"
environment: {NCCL_IB_HCA: "mlx5_0,mlx5_1"}
mounts: [{source: "/scratch", target: "/scratch", read_only: true}]
directives: ["--comment=moe"]
nodes_per_domain: 16
cpus_per_task: 7
memory: "800G"
"""
IMAGE = "container.image=ghcr.io/nvidia/jax:maxtext-2026-09-09"
SETS: dict[str, list[str]] = {
    "quotes": ["data.hf_path=a'b\"c $(x) `y` \\ é # {", "title=- off: ["],
    "breaks": ["data.hf_path=a\nb\u2028c\x85d\te"],
    "interpolation": ["data.hf_path=${oc.env:HOME}", "title=\\${x}"],
    "interpolated variable": ["environment.FOO=${x} $y", "environment.BAR=a b'c"],
    "looks like numbers": ["environment.A=1e3", "environment.B=off", "environment.C=007"],
    "checkout": [
        "container.maxtext.path=/src/maxtext", "container.maxtext.commit=1234567",
        "container.transformer_engine.path=/src/te", "container.transformer_engine.commit=1e5",
    ],
    "secrets": ["secrets=[HF_TOKEN, WANDB_API_KEY]"],
    "digest": ["container.digest=sha256:" + "a" * 64],
    "digest in the reference": [f"{IMAGE}@sha256:" + "b" * 64],
    "known releases": ["container.jaxlib_release=0.12.0.1", "container.maxtext_release=0.2.5"],
    "switches": [
        "switches.multi_stream_collectives=2", "switches.offload_activations=[query_proj]",
        "switches.latency_hiding=false", "switches.pgle.enabled=false",
    ],
    "no command buffers": ["switches.command_buffers=[]"],
    "architecture": ["model.overrides.base_num_decoder_layers=6"],
    "nulls": ["cluster.cpus_per_task=null", "hf_name=null"],
    "no container": ["cluster.runtime=none", "cluster.python=/opt/venv/bin/python"],
    "mounts": ["container.mounts=[{source: /a b, target: /c}]"],
    "fraction": ["batch.per_device=1.5", "te_moe_block=false"],
    "degrees": ["ici_expert_parallelism=16", "dcn_fsdp_parallelism=-1"],
}  # fmt: skip


def again(rendered: Rendered, folder: Path) -> Rendered:
    write(rendered, folder)
    return render(str(folder))


@pytest.mark.parametrize("form", ["benchmark", "pretrain"])
@pytest.mark.parametrize("name", NAMES)
def test_every_preset_in_every_size_is_rendered_again(name: str, form: str, tmp_path: Path) -> None:
    for gpus in COUNTS:
        options = {"gpus": (gpus, "--gpus"), "form": (form, "--form")}
        first = render(name, Wishes(options=options))
        assert again(first, tmp_path / str(gpus)).files == first.files


@pytest.mark.parametrize("case", SETS)
def test_what_was_set_is_rendered_again(case: str, tmp_path: Path) -> None:
    first = render(PRESET, Wishes(sets=SETS[case], allow=["TE115", "MESH102"]))
    assert again(first, tmp_path / "b").files == first.files


@pytest.mark.parametrize(
    "options",
    [
        {"batch.global": (1536, "--global-batch"), "gpus": (256, "--gpus")},
        {"debug": (True, "--debug"), "compilation_cache": ("/shared/cache dir", "--cache")},
        {"hardware": ("h100-hgx", "--hardware"), "gpus": (256, "--gpus")},
        {"name": ("another.name-1", "--name")},
    ],
)
def test_what_the_options_said_is_rendered_again(options: dict[str, Any], tmp_path: Path) -> None:
    first = render(PRESET, Wishes(options=options))
    assert again(first, tmp_path / "b").files == first.files


def test_a_cluster_profile_is_rendered_again_without_it(tmp_path: Path) -> None:
    site = tmp_path / "my site.yaml"
    site.write_text(SITE)
    first = render(PRESET, Wishes(cluster=site))
    site.unlink()
    assert "--account=team-1" in first.files["launch.sbatch"]
    assert again(first, tmp_path / "b").files == first.files


def test_a_run_file_is_rendered_again_without_it(tmp_path: Path) -> None:
    run = tmp_path / "run.yaml"
    run.write_text(
        f"preset: {PRESET}\ngpus: 256\naccept: [{{code: XLA308, reason: 'it is \"so\"'}}]\n"
        "environment: {FOO: 'a: b'}\nmaxtext: {metrics_file: 'm 1'}\n"
    )
    first = render(str(run))
    run.unlink()
    assert again(first, tmp_path / "b").files == first.files


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=st.text(max_size=40))
def test_any_text_is_rendered_again(text: str, tmp_path: Path) -> None:
    assume(text.lower() != "none")  # MaxText takes it for no value, see the next test
    first = render(PRESET, Wishes(sets=[f"data.hf_path={text}", f"tokenizer_path={text}"]))
    assert again(first, tmp_path / "b").files == first.files


@pytest.mark.parametrize("text", ["none", "None", "NONE", "nOnE"])
def test_the_word_none_is_refused_where_maxtext_wants_text(text: str) -> None:
    with pytest.raises(UsageError, match=f"hf_path cannot be '{text}'"):
        render(PRESET, Wishes(sets=[f"data.hf_path={text}"]))


def test_text_in_no_encoding_is_refused_or_rendered_again(tmp_path: Path) -> None:
    code = (
        "import sys; from moectl.__main__ import main\n"
        "sys.exit(main(['render', sys.argv[1], '--set', 'data.hf_path=\\udcff', '--output', 'b']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, PRESET], cwd=tmp_path, capture_output=True, check=False
    )
    assert b"Traceback" not in done.stderr
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_another_folder_another_locale_and_another_hash_seed_give_the_same_bytes(
    tmp_path: Path,
) -> None:
    first = render(PRESET)
    write(first, tmp_path / "b")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "moectl", "render", str(tmp_path / "b"), "--output", f"c{seed}"],
            cwd=elsewhere,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONHASHSEED": seed, "M_STEPS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        folder = elsewhere / f"c{seed}"
        found = {path.name: path.read_bytes().decode() for path in folder.iterdir()}
        assert found == first.files


def test_a_lock_is_a_run_file_that_the_models_accept() -> None:
    for name in NAMES:
        text = render(name).files["moectl.lock.yaml"]
        spec = RunSpec.model_validate(read_mapping(text, "lock").data, strict=True)
        assert spec.lock is not None
        assert spec.lock.facts.keys() == {"maxtext", "jaxlib"}


def test_a_lock_names_the_source_of_every_setting() -> None:
    job = plan(PRESET, Wishes(sets=["steps=3"]))
    data = read_mapping(
        render(PRESET, Wishes(sets=["steps=3"])).files["moectl.lock.yaml"], "l"
    ).data
    told = [path for paths in data["lock"]["sources"].values() for path in paths]
    assert sorted(told) == sorted(locked_settings(job))
    assert "training.steps" in data["lock"]["sources"]["--set"]


def test_a_lock_needs_no_preset_that_changes_later(tmp_path: Path) -> None:
    write(render(PRESET), tmp_path / "b")
    lock = tmp_path / "b" / "moectl.lock.yaml"
    lock.write_text(lock.read_text().replace('preset: "deepseek3-671b"', 'preset: "since-gone"'))
    assert run_file(tmp_path / "b").preset == "since-gone"
    assert render(str(tmp_path / "b")).job.gpus == 128


def test_no_value_of_a_secret_and_no_path_of_this_machine_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_never_written")
    files = render(PRESET, Wishes(sets=["secrets=[HF_TOKEN]"])).files
    for text in files.values():
        assert "hf_never_written" not in text
        assert str(tmp_path) not in text
        assert str(Path(__file__).parent.parent) not in text
