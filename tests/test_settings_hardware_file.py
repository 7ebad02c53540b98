"""A GPU described by a person: what is read, and all faults at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from moectl.errors import MoectlError, SourceError, UsageError
from moectl.facts import hardware
from moectl.settings.hardware_file import hardware_file
from tests.test_actions_estimate import HARDWARE


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "gpu.yaml"
    file.write_text(text, "utf-8")
    return file


def test_a_file_is_a_platform_that_is_found_by_its_name(tmp_path: Path) -> None:
    found = hardware_file(written(tmp_path, HARDWARE))
    assert hardware.platform("my-gpu") is found
    assert (found.gpus_per_node, found.domain_gpus, found.usable_domain_gpus) == (4, 64, 64)
    assert found.title == "my-gpu"
    assert "my-gpu" not in hardware.names()


def test_the_example_of_the_documentation_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "estimates.md").read_text("utf-8")
    example = page.partition("```yaml\n")[2].partition("```")[0]
    assert hardware_file(written(tmp_path, example)).gpus_per_node == 8


def test_all_faults_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    text = HARDWARE.replace("name: my-gpu", "nam: my-gpu").replace(
        "gpus_per_node: 4", "gpus_per_node: no"
    )
    text = text.replace("hbm_gbs: 9000", "hbm_gbs: -1").replace("bf16: 3000, ", "")
    with pytest.raises(UsageError) as caught:
        hardware_file(written(tmp_path, text))
    said = str(caught.value)
    for part in (
        "gpu.yaml:1: no key of a platform is 'nam'; did you mean name?",
        "name must be a text",
        "gpus_per_node must be a whole number above zero",
        "figures.hbm_gbs must be a number above zero",
        "figures.dense_tflops must hold the dense peak of bf16",
    ):
        assert part in said


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name: [1]\n",
        "figures: 3\n",
        HARDWARE.replace("mxfp8: 6000", "int4: 6000"),
        HARDWARE.replace("{bf16: 3000, fp8: 6000, mxfp8: 6000}", "[3000]"),
        HARDWARE.replace("hbm_visible_bytes: 400000000000", "hbm_visible_bytes: 4.5"),
        HARDWARE.replace("nic_gbps: 800", "nic_gbps: 1e300"),
        HARDWARE.replace("nic_gbps: 800", "nic_gbps: true"),
        HARDWARE.replace("domain_gpus: 64", "domain_gpus: 0"),
        HARDWARE + "  host_link_gbs: slow\n",
        "a: b: c\n",
        "- 1\n",
    ],
    ids=repr,
)
def test_what_describes_no_gpu_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        hardware_file(written(tmp_path, text))


def test_a_file_that_is_not_there_is_a_fault_of_local_files(tmp_path: Path) -> None:
    with pytest.raises(MoectlError) as caught:
        hardware_file(tmp_path / "none.yaml")
    assert caught.value.exit_code in {2, 4}


def test_a_syntax_fault_has_its_line(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        hardware_file(written(tmp_path, "name: x\n  y: [\n"))
    assert caught.value.line


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: my-gpu", "name: h100-hgx", "is a platform of the catalogue"),
        ("architecture: blackwell", "architecture: volta", "architecture cannot be 'volta'"),
        ("domain_gpus: 64", "domain_gpus: 6", "must be a multiple of gpus_per_node 4"),
        ("hbm_gbs: 9000", "hbm_gb: 9000", "gpu.yaml:7: no figure of a platform is 'hbm_gb'"),
        ("hbm_gbs: 9000", "hbm_gb: 9000", "figures.hbm_gbs is missing"),
    ],
)
def test_what_would_mislead_is_refused_by_name(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        hardware_file(written(tmp_path, HARDWARE.replace(old, new, 1)))
    assert said in str(caught.value)
