"""moectl import: what people have becomes a run file that means the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moectl.__main__ import main
from moectl.actions.plan import Wishes, plan

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=ds
#SBATCH --nodes=32
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --time=04:00:00
#SBATCH --partition=gb200
#SBATCH --comment=moe
export XLA_FLAGS="--xla_gpu_enable_latency_hiding_scheduler=true"
XLA_FLAGS+=" --xla_gpu_all_reduce_combine_threshold_bytes=33554432"
export XLA_FLAGS
export NCCL_IB_HCA=mlx5_0 HF_TOKEN=hf_sesame
srun --container-image=ghcr.io/nvidia/jax:maxtext-2026-09-09 \\
  python3 -m maxtext.trainers.pre_train.train base.yml model_name=deepseek3-671b \\
  per_device_batch_size=6 ici_fsdp_parallelism=8 ici_expert_parallelism=8 \\
  dcn_fsdp_parallelism=2 steps=15 dataset_type=synthetic hardware=gpu_multiprocess \\
  run_name=ds-1 remat_policy=full stepz=3
"""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def imported(*words: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["import", *words, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_a_script_becomes_a_run_file_with_the_same_meaning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("old.sbatch").write_text(SCRIPT)
    words = ["old.sbatch", "--hardware", "gb200-nvl72", "--output", "run.yaml"]
    found = imported(*words, capsys=capsys)
    assert found["differences"] == []
    assert found["understood"]["xla_flags"] == 2
    (lost,) = found["unplaced"]
    assert (lost["what"], lost["file"], lost["line"]) == ("stepz", "old.sbatch", 17)
    assert "did you mean steps?" in lost["why"]
    job = plan("run.yaml", Wishes())
    assert (job.name, job.gpus, job.cluster.partition, job.cluster.time) == (
        "ds-1", 128, "gb200", "04:00:00",
    )  # fmt: skip
    assert job.effective["remat_policy"] == "full"
    assert job.xla_flags["xla_gpu_all_reduce_combine_threshold_bytes"].value == 33554432
    assert job.environment["NCCL_IB_HCA"].value == "mlx5_0"
    assert list(job.cluster.directives) == ["--comment=moe"]


def test_a_secret_goes_by_its_name_only(capsys: pytest.CaptureFixture[str]) -> None:
    Path("old.sbatch").write_text(SCRIPT)
    assert main(["import", "old.sbatch", "--hardware", "gb200-nvl72"]) == 0
    captured = capsys.readouterr()
    assert "sesame" not in captured.out + captured.err
    assert 'secrets: ["HF_TOKEN"]' in captured.out


@pytest.mark.parametrize(
    "preset", ["deepseek3-671b", "gpt-oss-20b", "qwen3-30b-a3b", "mixtral-8x7b"]
)
def test_the_config_of_a_bundle_comes_back_as_it_was(
    preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["render", preset, "--output", "b"]) == 0
    capsys.readouterr()
    job = plan("b", Wishes())
    words = ["b/config.yml", "--gpus", str(job.gpus), "--hardware", job.hardware.name]
    found = imported(*words, "--output", "run.yaml", capsys=capsys)
    assert (found["differences"], found["unplaced"], found["fault"]) == ([], [], "")
    again = plan("run.yaml", Wishes())
    given = set(job.config) - {"run_name", "base_output_directory", "jax_cache_dir", "base_config"}
    assert {k: again.effective[k] for k in given} == {k: job.effective[k] for k in given}


def test_a_config_beside_a_script_fills_in_what_that_does_not_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("c.yml").write_text("base_config: base.yml\nsteps: 99\nremat_policy: minimal\n")
    Path("old.sbatch").write_text(SCRIPT)
    found = imported("old.sbatch", "c.yml", "--hardware", "gb200-nvl72", capsys=capsys)
    assert "\n  steps: 15\n" in found["run_file"]
    assert 'policy: "full"' in found["run_file"]


def test_a_manifest_is_taken_over(capsys: pytest.CaptureFixture[str]) -> None:
    Path("job.yaml").write_text(
        """\
apiVersion: batch/v1
kind: Job
metadata: {name: moe}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: train
          image: ghcr.io/nvidia/jax:maxtext-2026-09-09
          env: [{name: NCCL_DEBUG, value: WARN}]
          command: [python3, -m, maxtext.trainers.pre_train.train, base.yml]
          args: [model_name=gpt-oss-20b, steps=5, dataset_type=synthetic, run_name=k]
          resources: {limits: {nvidia.com/gpu: 8}}
"""
    )
    found = imported("job.yaml", "--gpus", "8", "--hardware", "h100-hgx", capsys=capsys)
    assert 'name: "gpt-oss-20b"' in found["run_file"]
    assert 'NCCL_DEBUG: "WARN"' in found["run_file"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo hello\n", "starts no MaxText run"),
        (SCRIPT + SCRIPT.split("export XLA_FLAGS\n", 1)[1], "2 runs are started"),
        ("", "starts no MaxText run"),
    ],
)
def test_what_starts_no_run_or_several_is_refused(
    text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("old.sbatch").write_text(text)
    assert main(["import", "old.sbatch", "--hardware", "gb200-nvl72"]) == 2
    assert said in capsys.readouterr().err


def test_a_config_that_does_not_say_its_gpus_is_asked_for_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("c.yml").write_text("base_config: base.yml\nmodel_name: gpt-oss-20b\n")
    assert main(["import", "c.yml"]) == 2
    assert "add --gpus N" in capsys.readouterr().err


def test_a_file_that_is_there_is_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    Path("old.sbatch").write_text(SCRIPT)
    Path("run.yaml").write_text("mine\n")
    words = ["--hardware", "gb200-nvl72", "--output", "run.yaml"]
    assert main(["import", "old.sbatch", *words]) == 4
    assert "run.yaml exists; --force replaces it" in capsys.readouterr().err
    assert Path("run.yaml").read_text() == "mine\n"
    assert main(["import", "old.sbatch", *words, "--force"]) == 0
    assert "mine" not in Path("run.yaml").read_text()


def test_names_and_values_of_strangers_stay_text(capsys: pytest.CaptureFixture[str]) -> None:
    name = "old\nname: evil\x1b.sbatch"
    Path(name).write_text(SCRIPT.replace("HF_TOKEN=hf_sesame", "TAG='$(touch owned); `id`: #x'"))
    main(["import", name, "--hardware", "gb200-nvl72", "--output", "run.yaml"])
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    job = plan("run.yaml", Wishes())
    assert job.name == "ds-1"
    assert job.environment["TAG"].value == "$(touch owned); `id`: #x"
    assert not Path("owned").exists()


def test_maxtext_s_own_default_of_the_hardware_is_not_added(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("old.sbatch").write_text(
        SCRIPT.replace(" hardware=gpu_multiprocess", "").replace("run_name=ds-1", "run_name='d s'")
    )
    words = ["old.sbatch", "--hardware", "gb200-nvl72", "--gpus", "17", "--output", "run.yaml"]
    found = imported(*words, capsys=capsys)
    assert "hardware" not in found["added"]
    assert "tpu" not in found["run_file"]
    assert "run_name" in {one["what"] for one in found["unplaced"]}
    assert any("--gpus 17 does not" in note for note in found["notes"])
    assert not [one for one in plan("run.yaml", Wishes()).findings if one.code == "RUN101"]


def test_what_the_rules_refuse_is_no_run_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    Path("old.sbatch").write_text(SCRIPT.replace("hardware=gpu_multiprocess", "hardware=tpu"))
    assert main(["import", "old.sbatch", "--hardware", "gb200-nvl72"]) == 1
    assert "it would be refused: RUN101" in capsys.readouterr().err


def test_a_launcher_and_the_script_it_starts_are_one_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["render", "gpt-oss-20b", "--gpus", "8", "--output", "b"]) == 0
    capsys.readouterr()
    files = ["b/launch.sbatch", "b/config.yml", "b/rank.sh"]
    main(["import", *files, "--gpus", "8", "--hardware", "gb200-nvl72"])
    assert "runs are started" not in capsys.readouterr().err
