"""What a person pins stays, and a mesh always covers the GPUs."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.__main__ import main
from moectl.actions.plan import Wishes
from moectl.actions.render import plan_job, render, write
from moectl.mesh import MeshError, MeshRequest, solve

AXES = st.dictionaries(
    st.sampled_from(["data", "fsdp", "expert", "tensor"]), st.sampled_from([1, 2, 4, 8])
)


@given(
    gpus=st.sampled_from([8, 64, 96, 128, 512]), ici=AXES, dcn=AXES, pin_ici=st.booleans(),
    pin_dcn=st.booleans(), shards=st.sampled_from([None, 8, 64]),
)  # fmt: skip
def test_a_mesh_covers_the_gpus_and_keeps_what_is_pinned(
    gpus: int, ici: dict[str, int], dcn: dict[str, int], pin_ici: bool, pin_dcn: bool,
    shards: int | None,
) -> None:  # fmt: skip
    request = MeshRequest(
        gpus, 8, 64, ici, dcn,
        pinned_ici=frozenset(ici) if pin_ici else frozenset(),
        pinned_dcn=frozenset(dcn) if pin_dcn else frozenset(),
        weight_shards=shards,
    )  # fmt: skip
    try:
        made_ici, made_dcn = solve(request)
    except MeshError:
        return
    assert prod(made_ici.values()) * prod(made_dcn.values()) == gpus
    assert not pin_ici or all(made_ici.get(axis, 1) == degree for axis, degree in ici.items())
    assert not pin_dcn or all(made_dcn.get(axis, 1) == degree for axis, degree in dcn.items())


@pytest.mark.parametrize("gpus", [64, 512, 2048])
@pytest.mark.parametrize("hardware", ["h100-hgx", "b200-hgx", "gb200-nvl72"])
@pytest.mark.parametrize("name", ["mixtral-8x22b", "llama4-17b-16e", "kimi-k2-1t"])
def test_a_bundle_on_any_platform_is_rendered_again(
    name: str, hardware: str, gpus: int, tmp_path: Path
) -> None:
    options = {"gpus": (gpus, "--gpus"), "hardware": (hardware, "--hardware")}
    first = render(name, Wishes(options=options))
    write(first, tmp_path / "b")
    assert render(str(tmp_path / "b")).files == first.files


def test_data_and_fsdp_given_together_stay() -> None:
    sets = ["parallelism.dcn.data=8", "parallelism.dcn.fsdp=8"]
    job = plan_job("mixtral-8x22b", gpus=512, hardware="h100-hgx", sets=sets)
    assert (job.mesh.degrees["data"].dcn, job.mesh.degrees["fsdp"].dcn) == (8, 8)


@pytest.mark.parametrize(
    "said",
    ["ici_sequence_parallelism=2", "dcn_sequence_parallelism=2", "mesh_axes=[data]",
     "custom_mesh_and_rule=ep-as-cp", "cluster.nodes_per_domain=40", "cluster.gres=gpu:h100:2"],
)  # fmt: skip
def test_an_axis_or_a_size_that_is_none_is_refused(
    said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["render", "mixtral-8x7b", "--gpus", "64", "--stdout", "lock", "--set", said]) == 2
    assert capsys.readouterr().err


def test_a_count_of_slices_that_is_not_the_meshs_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["render", "mixtral-8x7b", "--gpus", "64", "--format", "json", "--set", "num_slices=4"]
    assert main(words) == 1
    codes = [finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]]
    assert "MESH114" in codes


def test_the_batch_remembers_whom_it_overrode() -> None:
    job = plan_job("deepseek3-671b", sets=["batch.per_device=4"])
    assert [value for value, _ in job.config["per_device_batch_size"].overrode] == [6, 12.0]
