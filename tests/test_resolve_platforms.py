"""The GPU platform a file names in what it asks its scheduler for."""

from __future__ import annotations

import pytest

from moectl.facts.hardware import names, platform
from moectl.resolve.platforms import platform_asked, platform_hinted, platform_named
from moectl.settings.shell import read_script
from moectl.values import Hardware
from moectl.workload import Manifest

HEAD = "#!/bin/bash\n"


def _name(found: Hardware | None) -> str | None:
    return found.name if found is not None else None


def _asked(directives: str, command: str = "srun python3 train.py") -> str | None:
    batch = read_script(f"{HEAD}#SBATCH {directives}\n{command}\n", "job $(id).sh")
    step = next((step for step in batch.steps if step.program == "srun"), None)
    return _name(platform_asked(batch, step, None))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b200", "b200-hgx"),
        ("B200", "b200-hgx"),
        ("nvidia_b200", "b200-hgx"),
        ("NVIDIA-B200", "b200-hgx"),
        ("gb200", "gb200-nvl72"),
        ("nvidia-gb200-nvl72", "gb200-nvl72"),
        ("nvidia_h100_80gb_hbm3", "h100-hgx"),
        ("NVIDIA-H100-80GB-HBM3", "h100-hgx"),
        ("nvidia-h100-mega-80gb", "h100-hgx"),
        ("nvidia-h200-141gb", "h200-hgx"),
        ("a3-megagpu-8g", "h100-hgx"),
        ("a4x-highgpu-4g", "gb200-nvl72"),
        ("p6-b200.48xlarge", "b200-hgx"),
        ("b200_192gb", "b200-hgx"),
        # another product of the name, a part of a GPU, or nothing known
        ("h100_pcie", None),
        ("nvidia_h100_nvl", None),
        ("h100_1g.10gb", None),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", None),
        ("nvidia_h100_96gb", None),
        ("gh200", None),
        ("a100", None),
        ("vr", None),
        ("h100b200", None),
        ("h100-b200", None),
        ("", None),
        ("$(touch /tmp/never)", None),
        ("99999999999999999999gb-h100", None),
    ],
)
def test_a_word_names_a_platform_or_none(text: str, expected: str | None) -> None:
    assert _name(platform_named(text)) == expected


def test_every_platform_is_found_by_its_resource_type() -> None:
    types = [platform(name).gres_type for name in names() if len(platform(name).gres_type) > 2]
    assert [platform(t).name for t in types] == [_name(platform_named(t)) for t in types]


@pytest.mark.parametrize(
    ("directives", "expected"),
    [
        ("--gres=gpu:b200:8", "b200-hgx"),
        ("--gres=gres:gpu:b200:8", "b200-hgx"),
        ("--gres=nvme:1,gpu:h100:8", "h100-hgx"),
        ("--gres=gpu:h100", "h100-hgx"),
        ("--gpus-per-node=h100:8", "h100-hgx"),
        ("--gpus=gb300:64", "gb300-nvl72"),
        ("-G h200:16", "h200-hgx"),
        ("--gpus-per-task=b300:1", "b300-hgx"),
        ("--tres-per-task=gres/gpu:b200:1", "b200-hgx"),
        ("-C b200", "b200-hgx"),
        ("--constraint='b200&ib'", "b200-hgx"),
        ("--constraint='h100|b200'", None),
        ("--constraint='[h100|b200]'", None),
        ("--constraint=ib", None),
        ("--gres=gpu:8", None),
        ("--gres=h100:8", None),
        ("--gres=gpu:h100:4,gpu:b200:4", None),
        ("--gres=gpu:h100_1g.10gb:1", None),
        ("--gres=gpu:8 --gpus-per-node=b200:8", "b200-hgx"),
        ("--gres=gpu:h100:8 -C b200", "h100-hgx"),
        ("-p b200", None),
        ("-N 2", None),
    ],
)
def test_what_a_script_asks_for(directives: str, expected: str | None) -> None:
    assert _asked(directives) == expected


def test_options_of_srun_count_before_directives() -> None:
    assert _asked("--gpus-per-node=h100:8", "srun --gpus-per-node=b200:8 x") == "b200-hgx"
    assert _asked("-C h100", "srun --gres=gpu:$TYPE:8 x") == "h100-hgx"


def test_a_partition_is_a_hint_only() -> None:
    batch = read_script(f"{HEAD}#SBATCH -p gb200-batch\nsrun x\n", "j")
    assert platform_asked(batch, None, None) is None
    hinted = platform_hinted(batch)
    assert hinted is not None
    assert hinted[0].name == "gb200-nvl72"
    for text in ("-p gpu", "-p h100,b200", "-N 1"):
        assert platform_hinted(read_script(f"{HEAD}#SBATCH {text}\nsrun x\n", "j")) is None
    assert platform_hinted(None) is None


def _pod(spec: dict[str, object], gpus: int = 8) -> str | None:
    container = {"name": "t", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    data = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "t"},
        "spec": {"containers": [container], **spec},
    }
    return _name(platform_asked(None, None, Manifest(data, {})))


def _affinity(*values: str, operator: str = "In", terms: int = 1) -> dict[str, object]:
    term = {"matchExpressions": [{"key": "k", "operator": operator, "values": list(values)}]}
    required = {"nodeSelectorTerms": [term] * terms}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-B200"}}, "b200-hgx"),
        ({"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}}, "h100-hgx"),
        ({"nodeSelector": {"zone": "a", "gpu": "h200"}}, "h200-hgx"),
        ({"nodeSelector": {"a": "h100", "b": "b200"}}, None),
        ({"nodeSelector": {"zone": "a"}}, None),
        ({"nodeSelector": "b200"}, None),
        ({}, None),
        (_affinity("NVIDIA-GB200"), "gb200-nvl72"),
        (_affinity("h100", "b200"), None),
        (_affinity("b200", operator="NotIn"), None),
        (_affinity("b200", terms=2), None),
    ],
)
def test_what_a_pod_asks_for(spec: dict[str, object], expected: str | None) -> None:
    assert _pod(spec) == expected


def test_a_pod_without_gpus_names_no_platform() -> None:
    assert _pod({"nodeSelector": {"gpu": "b200"}}, gpus=0) is None
