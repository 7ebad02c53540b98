"""Rules on mesh, batch and image: what MaxText's config check passes and a later stage refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moectl.actions.plan import Wishes, plan
from moectl.errors import UsageError
from moectl.findings import Finding
from moectl.rules.run import findings
from moectl.settings.files import preset, preset_names
from moectl.values import Origin, Value

BLOCK = "deepseek3-671b"


def found(sets: list[str], code: str, name: str = BLOCK, **options: Any) -> list[Finding]:
    wished = {path: (value, f"--{path}") for path, value in options.items()}
    return [f for f in plan(name, Wishes(options=wished, sets=sets)).findings if f.code == code]


@pytest.mark.parametrize("axis", ["data", "tensor", "context", "pipeline"])
def test_the_moe_block_takes_fsdp_and_expert_axes_only(axis: str) -> None:
    """MaxText 0.2.5 layers/moe.py:4514."""
    sets = [f"ici_{axis}_parallelism=2", "ici_fsdp_parallelism=4", "ici_expert_parallelism=8"]
    refused = found(sets, "TE113")
    assert len(refused) == 1
    assert "layers/moe.py:4514" in refused[0].message
    assert f"{axis} is 2" in refused[0].message
    assert found([f"ici_{axis}_parallelism=1", *sets[1:2]], "TE113") == []


def test_an_expert_group_of_the_block_stays_inside_a_slice() -> None:
    """MaxText 0.2.5 layers/moe.py:4514."""
    refused = found(["dcn_expert_parallelism=2", "dcn_fsdp_parallelism=1"], "TE114")
    assert len(refused) == 1
    assert "layers/moe.py:4514" in refused[0].message
    assert found(["dcn_expert_parallelism=1"], "TE114") == []


def test_the_micro_batch_of_the_block_divides_over_fsdp_and_expert() -> None:
    """MaxText 0.2.5 utils/max_utils.py:1317."""
    refused = found(["per_device_batch_size=1.5"], "TE115")
    assert len(refused) == 1
    assert "utils/max_utils.py:1317" in refused[0].message
    assert "16 x 8 = 128" in refused[0].message
    assert found(["per_device_batch_size=2"], "TE115") == []


def test_the_experts_divide_over_the_expert_degree() -> None:
    """MaxText 0.2.5 layers/moe.py:4480; `plan` says it of weights it knows before the rule can."""
    job = plan("mixtral-8x7b", Wishes(options={"gpus": (128, "--gpus")}))
    degrees = {"ici_expert_parallelism": 8, "dcn_expert_parallelism": 2}
    said = {key: Value(size, Origin("run file")) for key, size in degrees.items()}
    crossing = replace(job, config={**job.config, **said})
    refused = [f for f in findings(crossing) if f.code == "MESH101"]
    assert len(refused) == 1
    assert "layers/moe.py:4480" in refused[0].message
    assert "8 experts are not divisible by EP 16 (ici 8 x dcn 2)" in refused[0].message
    assert refused[0].hint == "EP may be 1, 2, 4, 8"
    assert [f for f in findings(job) if f.code == "MESH101"] == []


def test_experts_that_do_not_divide_are_refused_whoever_says_it() -> None:
    sets = ["dcn_expert_parallelism=2", "ici_expert_parallelism=8"]
    with pytest.raises(UsageError, match="8 along exp, which expert 16"):
        found(sets, "MESH101", "mixtral-8x7b", gpus=128)


def test_a_native_micro_batch_covers_its_axes() -> None:
    """Real MaxText trains with fewer sequences than shards, so it is no error."""
    warned = found(["per_device_batch_size=0.5"], "MESH107", "mixtral-8x7b")
    assert [f.severity for f in warned] == ["warning"]
    assert warned[0].hint.startswith("--global-batch ")
    mended = int(warned[0].hint.split()[1])
    assert found([f"batch.global={mended}"], "MESH107", "mixtral-8x7b") == []


def test_a_native_loaded_batch_divides_over_its_axes() -> None:
    refused = found(["per_device_batch_size=1.5"], "MESH102", "mixtral-8x7b")
    assert [f.severity for f in refused] == ["error"]
    mended = int(refused[0].hint.split()[1])
    assert found([f"batch.global={mended}"], "MESH102", "mixtral-8x7b") == []


def test_an_expert_group_larger_than_a_domain_is_warned_of() -> None:
    sets = ["ici_expert_parallelism=16", "ici_fsdp_parallelism=1"]
    warned = found(sets, "MESH103", hardware="h100-hgx", gpus=128)
    assert [f.severity for f in warned] == ["warning"]
    assert found(sets, "MESH103", gpus=128) == []


@pytest.mark.parametrize("name", [n for n in preset_names() if not preset(n).estimate_only])
def test_no_preset_stops_its_own_render(name: str) -> None:
    for form in ("benchmark", "pretrain"):
        job = plan(name, Wishes(options={"form": (form, "--form")}))
        assert [f for f in job.findings if f.stops] == []
