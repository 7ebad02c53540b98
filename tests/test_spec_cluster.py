"""Cluster profiles: where they are found, what each key does, and the page about them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from moectl.actions.plan import Wishes, plan
from moectl.actions.render import render
from moectl.errors import SeveralUsageErrors, UnknownNameError, UsageError
from moectl.job import Job
from moectl.render import container
from moectl.render.slurm import launch_script
from moectl.settings import profiles
from moectl.settings.files import cluster_profile
from moectl.settings.yaml_source import read_mapping
from moectl.spec.cluster import ClusterSpec
from moectl.spec.kubernetes import KubernetesSpec
from moectl.spec.table import table
from tests.support import cluster_page

PAGE = Path(__file__).parent.parent / "docs" / "cluster.md"
KEYS = list(ClusterSpec.model_fields)
PRESET = "kimi-k2-1t"


def written(folder: Path, text: str) -> Path:
    path = folder / "site.yaml"
    path.write_text(text)
    return path


def job(folder: Path, text: str, *sets: str, gpus: int = 128) -> Job:
    options = {"gpus": (gpus, "--gpus"), "hardware": ("gb200-nvl72", "--hardware")}
    return plan(PRESET, Wishes(options=options, cluster=written(folder, text), sets=sets))


def directives(found: Job) -> list[str]:
    lines = launch_script(found).splitlines()
    return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("partion", "partition"),
        ("node_per_domain", "nodes_per_domain"),
        ("spare_node", "spare_nodes"),
        ("run_folder", "runs_folder"),
        ("ib_hca", "ib_hcas"),
        ("gpu_hour_limit", "gpu_hours_limit"),
        ("Account", "account"),
    ],
)
def test_an_unknown_key_names_its_line_and_the_nearest_one(
    key: str, nearest: str, tmp_path: Path
) -> None:
    path = written(tmp_path, f"account: team\n{key}: x\npartition: gb200\n")
    with pytest.raises(UnknownNameError) as refused:
        cluster_profile(path)
    assert f"{path}:2:" in str(refused.value)
    assert refused.value.suggestions[0] == nearest


def test_every_fault_of_a_profile_is_told_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, "time: soon\nacount: x\nspare_nodes: -1\nruntime: podman\n")
    with pytest.raises(SeveralUsageErrors) as refused:
        cluster_profile(path)
    assert [re.search(r":(\d):", str(error))[1] for error in refused.value.errors] == [  # type: ignore[index]
        "1", "2", "3", "4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "launcher: pbs", "slurm_release: 24.11", "slurm_release: '24'", "block_topology: maybe",
        "usable_nodes: 0", "spare_nodes: -1", "node_architecture: arm64", "image: 'a b'",
        "image: ./x.sqsh", "image_folder: images", "image_folder: '/a,b'", "image_folder: '/a:b'",
        "runs_folder: runs", "socket_interfaces: eth0", "ib_hcas: [1]", "gpu_hours_limit: 0",
        "compile_limit: -1", "step_limit: 1.5", "runtime: docker",
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_its_line(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"account: team\n{text}\n")
    with pytest.raises(UsageError, match=rf"site.yaml:2:.*cluster.{text.partition(':')[0]}"):
        cluster_profile(path)


def test_names_of_the_network_become_the_variables_of_nccl(tmp_path: Path) -> None:
    text = "socket_interfaces: [=eth0, ib0]\nib_hcas: ['=mlx5_0:1', mlx5_3]\n"
    environment = job(tmp_path, text).environment
    assert environment["NCCL_SOCKET_IFNAME"].value == "=eth0,ib0"
    assert environment["NCCL_IB_HCA"].value == "=mlx5_0:1,mlx5_3"
    assert environment["NCCL_IB_HCA"].origin.line == 2
    ours = job(tmp_path, text, "environment.NCCL_IB_HCA=mlx5_9").environment["NCCL_IB_HCA"]
    assert ours.value == "mlx5_9"
    assert ours.overrode[0][0] == "=mlx5_0:1,mlx5_3"


def test_a_network_said_twice_and_differently_is_refused(tmp_path: Path) -> None:
    text = "ib_hcas: [mlx5_0]\nenvironment: {NCCL_IB_HCA: mlx5_1}\n"
    with pytest.raises(UsageError, match="NCCL_IB_HCA is also said in "):
        job(tmp_path, text)
    same = job(tmp_path, "ib_hcas: [mlx5_0]\nenvironment: {NCCL_IB_HCA: mlx5_0}\n")
    assert same.environment["NCCL_IB_HCA"].value == "mlx5_0"
    with pytest.raises(UsageError, match="NCCL_SOCKET_IFNAME"):
        job(tmp_path, "socket_interfaces: ['eth 0']\n")


def test_the_image_of_the_site_wins_over_a_presets_and_loses_to_a_person(tmp_path: Path) -> None:
    text = "image: nvcr.io/team/jax:maxtext-2026-09-09@sha256:" + "ab" * 32
    found = job(tmp_path, text).container.image
    assert (found.reference, found.digest) == (
        "nvcr.io/team/jax:maxtext-2026-09-09",
        "sha256:" + "ab" * 32,
    )
    ours = job(tmp_path, text, "container.image=ubuntu:1").container.image
    assert (ours.reference, ours.digest) == ("ubuntu:1", "")


def test_an_image_folder_stands_for_the_registry(tmp_path: Path) -> None:
    text = "image_folder: /lustre/images/\n"
    name = "/lustre/images/ghcr.io+nvidia+jax=maxtext-2026-09-09+aarch64.sqsh"
    found = job(tmp_path, text, "container.image=ghcr.io/nvidia/jax:maxtext-2026-09-09")
    assert container.image_argument(found) == name
    assert f"--container-image={name} " in launch_script(found)
    other = job(tmp_path, f"{text}node_architecture: x86_64\n")
    assert container.imported_file(other).endswith("+x86_64.sqsh")
    bare = job(tmp_path, f"{text}runtime: none\n")
    assert container.imported_file(bare) == ""
    file = job(tmp_path, f"{text}image: /x/jax.sqsh\n")
    assert container.imported_file(file) == ""
    assert container.image_argument(file) == "/x/jax.sqsh"


@pytest.mark.parametrize(
    ("reference", "apptainer"),
    [
        ("ghcr.io/a/b:1", "docker://ghcr.io/a/b:1"),
        ("ubuntu", "docker://ubuntu"),
        ("localhost:5000/a:1@sha256:" + "0" * 64, "docker://localhost:5000/a@sha256:" + "0" * 64),
        ("/x/jax.sif", "/x/jax.sif"),
    ],
)
def test_apptainer_reads_images_as_docker_writes_them(
    reference: str, apptainer: str, tmp_path: Path
) -> None:
    found = job(tmp_path, f'runtime: apptainer\nimage: "{reference}"\n')
    assert container.image_argument(found) == apptainer
    script = launch_script(found)
    assert "exec --nv --cleanenv --no-home --writable-tmpfs" in script
    assert "--container-" not in script


def test_what_other_parts_of_a_launch_read_is_kept(tmp_path: Path) -> None:
    text = (
        "launcher: slurm\nruns_folder: /lustre/runs\ngpu_hours_limit: 512.5\n"
        "compile_limit: 3600\nstep_limit: 600\n"
    )
    found = job(tmp_path, text).cluster
    assert (found.launcher, found.runs_folder) == ("slurm", "/lustre/runs")
    assert (found.gpu_hours_limit, found.compile_limit, found.step_limit) == (512.5, 3600, 600)
    bare = job(tmp_path, "").cluster
    assert (bare.launcher, bare.runs_folder, bare.gpu_hours_limit) == ("", "", None)
    assert (bare.compile_limit, bare.step_limit, bare.spare_nodes) == (None, None, 0)


def kept(tmp_path: Path, *names: str) -> dict[str, str]:
    folder = tmp_path / ".config" / "moectl" / "clusters"
    folder.mkdir(parents=True)
    for name in names:
        (folder / f"{name}.yaml").write_text("partition: x\n")
    return {"HOME": str(tmp_path)}


def test_a_profile_is_found_by_path_by_name_and_by_the_variable(tmp_path: Path) -> None:
    environment = kept(tmp_path, "alpha", "omega")
    alpha = tmp_path / ".config" / "moectl" / "clusters" / "alpha.yaml"
    assert profiles.names(environment) == ["alpha", "omega"]
    assert profiles.find("alpha", environment) == alpha
    assert profiles.find("./alpha", environment) == Path("alpha")
    assert profiles.find("alpha.yaml", environment) == Path("alpha.yaml")
    assert profiles.find(str(tmp_path), environment) == tmp_path
    assert profiles.find(None, environment) is None
    assert profiles.find(None, {**environment, "MOECTL_CLUSTER": "alpha"}) == alpha
    assert profiles.find("omega", {**environment, "MOECTL_CLUSTER": "alpha"}) != alpha
    assert profiles.find("", {**environment, "MOECTL_CLUSTER": "alpha"}) is None


def test_the_folder_of_profiles_follows_xdg(tmp_path: Path) -> None:
    environment = {"HOME": "/nowhere", "XDG_CONFIG_HOME": str(tmp_path)}
    assert profiles.folder(environment) == tmp_path / "moectl" / "clusters"
    relative = {"HOME": "/home/me", "XDG_CONFIG_HOME": "relative"}
    assert profiles.folder(relative) == Path("/home/me/.config/moectl/clusters")
    assert profiles.names(environment) == []


def test_a_name_that_no_profile_has_names_the_nearest_and_who_said_it(tmp_path: Path) -> None:
    environment = kept(tmp_path, "alpha")
    with pytest.raises(UnknownNameError, match=r"--cluster: unknown cluster profile 'alfa'") as no:
        profiles.find("alfa", environment)
    assert no.value.suggestions == ["alpha"]
    with pytest.raises(UnknownNameError, match=r"\$MOECTL_CLUSTER: unknown cluster profile"):
        profiles.find(None, {**environment, "MOECTL_CLUSTER": "beta"})


def test_the_page_is_made_of_the_spec() -> None:
    assert PAGE.read_text("utf-8") == cluster_page.page(), (
        "write it anew: python -m tests.support.cluster_page"
    )


def test_the_page_has_every_key_with_an_example_that_is_legal(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert blocks
    shown: dict[str, Any] = {}
    for number, block in enumerate(blocks):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block)
        assert cluster_profile(path)
        shown |= read_mapping(block, "page").data
    assert sorted(shown) == sorted(KEYS)
    assert sorted(shown["kubernetes"]) == sorted(KubernetesSpec.model_fields)
    leaves = {f"kubernetes.{key}": value for key, value in shown.pop("kubernetes").items()}
    for key, value in {**shown, **leaves}.items():
        field = table().fields.get(f"cluster.{key}") or table().fields[f"cluster.{key}.*"]
        assert value != field.default or key == "gres", key


@pytest.mark.parametrize(
    "text",
    [
        "spare_nodes: 2\nslurm_release: '24.11'\nblock_topology: true\nusable_nodes: 16\n",
        "image: nvcr.io/team/jax:maxtext-2026-09-09\nimage_folder: /i\nruntime: apptainer\n",
        "image: /i/jax.sqsh\nib_hcas: [mlx5_0]\nsocket_interfaces: ['=eth0']\n",
        "launcher: slurm\nruns_folder: /r\ngpu_hours_limit: 1.5\ncompile_limit: 9\nstep_limit: 8\n"
        "node_architecture: aarch64\nnodes_per_domain: 16\n",
    ],
)
def test_a_lock_holds_the_profile_and_renders_the_same(text: str, tmp_path: Path) -> None:
    options = {"gpus": (128, "--gpus"), "hardware": ("gb200-nvl72", "--hardware")}
    first = render(PRESET, Wishes(options=options, cluster=written(tmp_path, text)))
    lock = tmp_path / "lock.yaml"
    lock.write_text(first.files["moectl.lock.yaml"])
    again = render(str(lock))
    assert again.files == first.files
    assert again.job.cluster == first.job.cluster
