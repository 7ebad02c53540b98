"""moectl estimate: its text as a whole, its JSON, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from moectl.__main__ import main
from moectl.facts.yaml_facts import read
from tests.support import golden

WANTED = {
    "parameters": {"total", "active"},
    "bytes_per_device": {
        "parameters", "optimizer", "gradients", "activations", "moe_buffers", "peak", "limit",
    },
    "step_time_s": {"low", "mid", "high"},
    "tflops_per_gpu": {"low", "mid", "high"},
}  # fmt: skip
PLAIN = {"host_bytes_per_device", "fits", "flops_per_step_per_device", "tokens_per_s_per_gpu",
         "dominant"}  # fmt: skip


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(["estimate", *words]) == code
    return capsys.readouterr().out


def data(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    found = json.loads(said(capsys, *words, "--format", "json", code=code))
    assert isinstance(found, dict)
    return found


def test_the_text_of_an_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = ("deepseek3-671b", "--gpus", "128", "--hardware", "gb200")
    files = {
        "deepseek3.txt": said(capsys, *recipe, "--tokens", "14.8T", "--price", "2"),
        "deepseek3-explained.txt": said(capsys, *recipe, "--explain"),
        "dense-dropless.txt": said(capsys, "mixtral-8x7b", "--gpus", "64"),
        "cannot-fit.txt": said(
            capsys, "deepseek3-671b", "--gpus", "8", "--hardware", "h100", code=1
        ),
        "estimate-only.txt": said(capsys, "mimo-v2-flash-309b"),
    }
    golden.compare("estimate", files)


def test_the_json_has_what_programs_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "deepseek3-671b", "--gpus", "128", "--hardware", "gb200")
    for name, keys in WANTED.items():
        assert set(found[name]) >= keys
    assert set(found) >= PLAIN
    assert found["bytes_per_device"]["parameters"] == 10498455552
    assert found["bytes_per_device"]["optimizer"] == 20996851712
    assert found["flops_per_step_per_device"] == pytest.approx(6155.06e12, rel=1e-5)
    for name in ("step_time_s", "tflops_per_gpu"):
        assert found[name]["low"] <= found[name]["mid"] <= found[name]["high"]
    assert sum(found["parts_s"].values()) == pytest.approx(found["step_time_s"]["mid"], rel=1e-4)
    assert found["mfu"]["dtype"] == "mxfp8"
    assert found["fits"] is True


def test_the_json_explains_every_line_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("deepseek3-671b", "--tokens", "1T")
    assert "lines" not in data(capsys, *words)
    lines = data(capsys, *words, "--explain")["lines"]
    assert len(lines) > 25
    for line in lines:
        assert line["line"]
        assert line["value"]
        assert line["formula"]
        assert line["sources"]


def test_what_is_not_known_is_null_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "mimo-v2-flash-309b")
    assert found["bytes_per_device"] is None
    assert found["fits"] is None
    other = data(capsys, "mixtral-8x7b", "--hardware", "vr-nvl72")
    assert other["step_time_s"] is None
    assert other["pool"] is None
    assert other["bytes_per_device"]["limit"] is None


def test_what_does_not_fit_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("deepseek3-671b", "--gpus", "8", "--hardware", "h100")
    found = data(capsys, *words, code=1)
    assert found["fits"] is False
    assert found["gpus_that_hold"] > 8


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["deepseek3-671b", "--hardware", "gb400"], "docs/estimates.md"),
        (["deepseek3-671b", "--gpus", "6"], "4 or 8"),
        (["deepseek3-671b", "--price", "2"], "--tokens"),
        (["nobody"], "unknown preset"),
        (["deepseek3-671b", "--hardware", "none.yaml"], "none.yaml"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(
    words: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", *words]) in {2, 4}
    captured = capsys.readouterr()
    assert captured.out == ""
    assert part in captured.err
    assert captured.err.startswith("moectl: ")
    assert "Traceback" not in captured.err


def test_every_part_and_line_has_a_formula_and_a_source() -> None:
    for row in read("estimate_lines.yaml")["lines"].values():
        assert row["title"]
        assert row["formula"]
        assert row["source"]
    known = read("step_model.yaml")["sources"]
    for row in read("step_model.yaml")["parts"].values():
        assert row["formula"]
        assert set(row["sources"]) <= set(known)


def test_nothing_heavy_is_imported_for_an_estimate() -> None:
    program = (
        "import sys; from moectl.__main__ import main; main(['estimate', 'deepseek3-671b']);"
        "print([m for m in ('jax', 'numpy', 'pydantic', 'typer', 'rich') if m in sys.modules],"
        " file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize("offloads", [[], ["optimizer"], ["parameter"], ["optimizer", "parameter"]])
def test_the_parts_in_json_are_the_peak_wherever_weights_and_moments_lie(
    offloads: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for name in offloads for word in ("--set", f"{name}_memory_host_offload=true")]
    assert main(["estimate", "deepseek3-671b", "--format", "json", *words]) in {0, 1}
    found = json.loads(capsys.readouterr().out)
    said = found["bytes_per_device"]
    parts = (
        "parameters", "optimizer", "gradients", "activations", "moe_buffers", "gathered_weights",
        "logits", "fetched_parameters", "fetched_moments",
    )  # fmt: skip
    assert sum(said[name] for name in parts) == said["peak"]
    assert said["first_moment"] + said["second_moment"] == said["optimizer"]
    host = found["host_parts_per_device"]
    assert sum(host.values()) == found["host_bytes_per_device"]
    assert (host["optimizer"] > 0) == ("optimizer" in offloads) == (said["optimizer"] == 0)
    assert (host["parameters"] > 0) == ("parameter" in offloads) == (said["parameters"] == 0)


def test_a_refused_run_is_estimated_with_its_findings_and_ends_with_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("deepseek3-671b", "--set", "num_experts_per_tok=9", "--set", "num_experts=8")
    text = said(capsys, *words, code=1)
    assert "memory of a GPU" in text
    assert "error MOE136 num_experts_per_tok: more experts a token than experts" in text
    found = data(capsys, *words, code=1)
    assert found["errors"] == ["MOE136"]
    assert found["findings"][0]["field"] == "num_experts_per_tok"


def test_flops_need_no_platform(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "mixtral-8x7b", "--hardware", "vr-nvl72")
    usual = data(capsys, "mixtral-8x7b", "--hardware", "gb200")
    assert found["flops_per_step_per_device"] == usual["flops_per_step_per_device"] > 0
    assert "model FLOPs a step and GPU" in said(capsys, "mixtral-8x7b", "--hardware", "vr-nvl72")
