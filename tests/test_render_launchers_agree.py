"""The same run file means the same on Slurm and on Kubernetes, whatever the preset."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from moectl.actions.plan import Wishes
from moectl.actions.render import Rendered, render
from moectl.settings.files import preset, preset_names
from tests.support.pods import environment

SITE = """\
runs_folder: /runs
socket_interfaces: [eth0]
environment: {NCCL_IB_GID_INDEX: 3, SITE: "a $(b) 'c' ${D}"}
kubernetes:
  volumes: [{claim: runs, target: /runs}]
  secret: moectl
"""
PRESETS = [name for name in preset_names() if preset(name).estimate_only is None]
BEGIN, END = "# ---- Variables of the processes", "# ---- The processes"


def rendered(name: str, form: str, launcher: str, folder: Path, *sets: str) -> Rendered:
    site = folder / "site.yaml"
    site.write_text(SITE)
    told = preset(name)
    options = {
        "launcher": (launcher, "--launcher"),
        "form": (form, "--form"),
        "gpus": (told.gpus, "--gpus"),
        "hardware": (told.hardware, "--hardware"),
    }
    data = ["output_directory=/runs/out", "compilation_cache=/runs/cache"]
    if form == "pretrain":
        data += ["data.type=hf", "data.path=allenai/c4"]
    return render(name, Wishes(options=options, cluster=site, sets=[*data, *sets]))


def exported(script: str) -> dict[str, str]:
    """Return the variables that the batch script exports, as bash understands them."""
    part = script[script.index(BEGIN) : script.index(END)]
    done = subprocess.run(
        ["bash", "-c", f"first=0 port=0 logs=0\n{part}\nenv -0"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    pairs = (entry.partition("=") for entry in done.stdout.decode().split("\0") if entry)
    own = {"PATH", "PWD", "SHLVL", "_", "JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_PORT"}
    return {name: value for name, _, value in pairs if name not in {*own, "MOECTL_LOGS"}}


@pytest.mark.parametrize("form", ["benchmark", "pretrain"])
@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_means_the_same_to_both(name: str, form: str, tmp_path: Path) -> None:
    slurm = rendered(name, form, "slurm", tmp_path)
    kubernetes = rendered(name, form, "kubernetes", tmp_path)
    assert slurm.files["config.yml"] == kubernetes.files["config.yml"]
    said, other = slurm.summary(), kubernetes.summary()
    for part in ("maxtext", "xla_flags", "environment", "mesh", "slices", "global_batch_size"):
        assert said[part] == other[part]
    config_map, *_, jobset = yaml.safe_load_all(kubernetes.files["jobset.yaml"])
    assert config_map["data"]["config.yml"] == slurm.files["config.yml"]
    assert environment(jobset) == exported(slurm.files["launch.sbatch"])
    assert (
        yaml.safe_load(config_map["data"]["pod.json"])["arguments"] == said["maxtext"]["arguments"]
    )


def test_the_lock_in_the_pods_renders_the_same_bundle(tmp_path: Path) -> None:
    first = rendered("mixtral-8x7b", "benchmark", "kubernetes", tmp_path)
    folder = tmp_path / "again"
    folder.mkdir()
    lock = next(iter(yaml.safe_load_all(first.files["jobset.yaml"])))["data"]["moectl.lock.yaml"]
    assert lock == first.files["moectl.lock.yaml"]
    (folder / "moectl.lock.yaml").write_text(lock)
    assert render(str(folder), Wishes()).files == first.files
