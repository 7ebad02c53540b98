"""Judging files: one by one and many at once come to the same."""

from __future__ import annotations

import os
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from moectl.actions import validate as action
from moectl.actions.validate import AHEAD, FEW, PORTION, Given, validate


@pytest.fixture(autouse=True)
def _two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have several processes judge, on a machine of one core too."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


def test_many_files_are_judged_as_each_alone_and_in_their_order(tmp_path: Path) -> None:
    count = FEW + 6
    for number in range(count):
        text = f"base_config: base.yml\nhardware: gpu_multiprocess\nsteps_{number}: 1\n"
        (tmp_path / f"run-{number:03d}.yml").write_text(text)
    paths = sorted(map(str, tmp_path.iterdir()))
    together = validate([str(tmp_path)], Given())
    alone = [validate([path], Given()) for path in paths]
    assert [checked.name for checked in together.checked] == paths
    assert list(together.findings) == [f for report in alone for f in report.findings]
    assert list(together.checked) == [c for report in alone for c in report.checked]
    errors = [finding for finding in together.findings if finding.severity == "error"]
    assert [finding.field for finding in errors] == [f"steps_{n}" for n in range(count)]


def test_no_more_is_judged_ahead_than_a_reader_takes_soon(tmp_path: Path) -> None:
    done: list[str] = []

    class Pool:
        """Judges when it is asked to, in this process."""

        def submit(self, call: Any, judge: Any, names: list[str]) -> Future[list[str]]:
            future: Future[list[str]] = Future()
            future.set_result(call(judge, names))
            return future

    def judge(name: str) -> str:
        done.append(name)
        return name

    names = [str(number) for number in range(10 * PORTION * AHEAD)]
    outcomes: Any = action._in_order(cast("Any", Pool()), cast("Any", judge), names)
    assert next(outcomes) == "0"
    assert len(done) == PORTION * (AHEAD + 1)
    assert ["0", *outcomes] == names
    assert done == names


GPUS_OF_A_NODE = """\
apiVersion: batch/v1
kind: Job
metadata: {name: g}
spec:
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-GB200}
      containers:
      - name: t
        image: ghcr.io/nvidia/jax:maxtext-2026-10-09
        resources: {limits: {nvidia.com/gpu: "8"}}
"""


def test_more_gpus_than_a_node_has_are_said_once(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(GPUS_OF_A_NODE, "utf-8")
    errors = [f.code for f in validate([str(path)]).findings if f.severity == "error"]
    assert errors == ["K8S141"]


def test_a_manifest_is_judged_against_the_image_of_its_run_alone(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    helper = "      - {name: log, image: 'busybox:1'}\n"
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n"
    config += "  train.yml: |\n    base_config: base.yml\n    steps: 3\n---\n"
    command = "[python3, -m, maxtext.trainers.pre_train.train, base.yml, hardware=gpu]"
    text = GPUS_OF_A_NODE.replace("      - name: t\n", f"{helper}      - name: t\n")
    path.write_text(f"{config}{text}        command: {command}\n", "utf-8")
    (checked,) = validate([str(path)]).checked
    told = [sentence for sentence in checked.told if "judged against" in sentence]
    assert len(told) == 1
    assert "no image is named" not in told[0]


@pytest.mark.parametrize("name", ["README.md", "docs/usage.rst", "page.html"])
def test_a_text_that_is_none_of_ours_is_one_sentence(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("# How to\n\nsteps: 10\nrun_name: r\nbad_key: [\n", "utf-8")
    (found,) = validate([str(path)]).findings
    assert (found.code, found.severity) == ("FILE106", "warning")


@pytest.mark.parametrize(
    ("text", "line"), [("a: [\n", 1), ("b: 1\na: {c\n\n", 2), ("x:\n  - y\n z: 3\n", 3)]
)
def test_broken_yaml_that_is_named_is_an_error_at_its_place(
    tmp_path: Path, text: str, line: int
) -> None:
    path = tmp_path / "a.yml"
    path.write_text(text, "utf-8")
    (found,) = validate([str(path)]).findings
    assert (found.code, found.severity, found.line) == ("YAML101", "error", line)
    assert validate([str(tmp_path)]).findings == ()
    path.write_text("a: {{ .Values.a }}\nb: [\n", "utf-8")
    assert [f.code for f in validate([str(path)]).findings] == ["FILE106"]


def test_old_images_are_said_once_to_fail_with_emergency_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    text = "base_config: base.yml\nenable_emergency_checkpoint: true\nhardware: gpu_multiprocess\n"
    path.write_text(text, "utf-8")

    def codes(image: str) -> set[str]:
        found = validate([str(path)], Given(image=image)).findings
        return {f.code for f in found} & {"CKPT120", "VER106"}

    assert codes("ghcr.io/nvidia/jax:maxtext-2025-01-10") == {"VER106"}
    assert codes("ghcr.io/nvidia/jax:maxtext-2026-09-09") == set()
    assert codes("registry.example.com/own:1") == {"CKPT120"}
