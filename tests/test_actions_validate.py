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


TRAIN = (
    "python3 -m maxtext.trainers.pre_train.train base.yml run_name=q model_name=mixtral-8x7b "
    "dataset_type=synthetic hardware=gpu"
)
PGLE = "export JAX_ENABLE_PGLE=true\n"


@pytest.mark.parametrize(
    "body",
    [
        f"{PGLE}nsys profile {TRAIN}",
        f"{PGLE}/usr/local/bin/nsys profile --trace=cuda,nvtx -o x {TRAIN}",
        f"{PGLE}bash -c 'nsys profile -o x {TRAIN}'",
        f"{PGLE}nsys profile bash -c '{TRAIN}'",
        f"JAX_ENABLE_PGLE=true nsys profile {TRAIN} profiler=xplane",
        f"{PGLE}nsys profile {TRAIN}_multiprocess",
        f"{PGLE}numactl -N 0 nsys profile env A=b {TRAIN}",
        f"{PGLE}mpirun -n 1 nsys profile {TRAIN}",
        f"{PGLE}srun nsys profile {TRAIN}",
        f"{PGLE}srun bash -c 'nsys profile {TRAIN}'",
        f"{PGLE}srun nsys profile bash -c '{TRAIN}'",
        f"docker run -e JAX_ENABLE_PGLE=1 jax:1 nsys profile {TRAIN}",
    ],
)
def test_pgle_under_nsys_is_found_however_the_process_is_started(tmp_path: Path, body: str) -> None:
    path = tmp_path / "job.sh"
    path.write_text(f"#!/bin/bash\n{body}\n", "utf-8")
    found = validate([str(path)], Given(select=("XLA307",))).findings
    assert [(f.code, f.severity) for f in found] == [("XLA307", "error")]


@pytest.mark.parametrize(
    "body",
    [
        f"{PGLE}{TRAIN}",
        f"nsys profile {TRAIN}",
        f"{PGLE}nsys --version\n{TRAIN}",
        f"{PGLE}nsys profile python3 prepare.py\n{TRAIN} base_output_directory=/out/nsys",
        f"{PGLE}bash -c 'nsys profile python3 prepare.py; {TRAIN}'",
        f"{PGLE}srun bash -c 'nsys status -e; {TRAIN}'",
        f"{PGLE}srun {TRAIN} base_output_directory=/out/nsys",
    ],
)
def test_pgle_beside_another_use_of_nsys_is_no_fault(tmp_path: Path, body: str) -> None:
    path = tmp_path / "job.sh"
    path.write_text(f"#!/bin/bash\n{body}\n", "utf-8")
    assert validate([str(path)], Given(select=("XLA307",))).findings == ()


def test_zero_with_a_degree_of_fsdp_waits_for_no_number_of_gpus(tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    text = (
        "base_config: base.yml\nhardware: gpu_multiprocess\ndataset_type: synthetic\n"
        "model_name: mixtral-8x7b\nshard_optimizer_over_data: true\n"
    )

    def lines(more: str) -> list[int | None]:
        path.write_text(text + more, "utf-8")
        return [f.line for f in validate([str(path)], Given(select=("OPT103",))).findings]

    assert lines("ici_fsdp_parallelism: 8\n") == [5]
    assert lines("dcn_fsdp_parallelism: 2\n") == [5]
    assert lines("ici_fsdp_parallelism: 8\nici_expert_parallelism: -1\n") == [5]
    assert lines("ici_fsdp_parallelism: 1\nici_data_parallelism: -1\n") == []
    assert lines("ici_fsdp_parallelism: -1\n") == []  # it may be 1


def test_bytes_that_are_no_utf_8_hide_nothing_else_of_a_script(tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    script = f"#!/bin/bash\n# lanc\N{LATIN SMALL LETTER E WITH ACUTE} par moi\n{TRAIN} stepz=3\n"
    path.write_text(script, "latin-1")
    found = validate([str(path)]).findings
    encoding = next(f for f in found if f.code == "SRC106")
    assert (encoding.severity, encoding.line, encoding.column) == ("note", 2, 7)
    path.write_text(script, "utf-8")
    assert [f for f in found if f != encoding] == list(validate([str(path)]).findings)
    assert any(f.severity == "error" and "stepz" in f.field for f in found)


@pytest.mark.parametrize("name", ["c.yml", "c.env", "notes.txt"])
def test_bytes_that_are_no_utf_8_stop_the_reading_of_what_is_no_script(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"base_config: base.yml # \xe9\n" if name == "c.yml" else b"A=1\n# \xe9\n")
    (found,) = validate([str(path)]).findings
    assert (found.code, found.severity) == ("FILE102", "error")


@pytest.mark.parametrize(
    ("value", "codes"),
    [
        ('!!python/object/apply:os.system ["x"]', ["YAML110"]),
        ("9" * 10_000, ["YAML110"]),
        ("!own 3", ["YAML110"]),
        ("null", ["KEY102"]),
        ("3", []),
    ],
)
def test_a_value_that_cannot_be_read_is_one_fault(
    tmp_path: Path, value: str, codes: list[str]
) -> None:
    path = tmp_path / "c.yml"
    path.write_text(f"base_config: base.yml\nrun_name: a\nsteps: {value}\n", "utf-8")
    found = validate([str(path)]).findings
    assert [f.code for f in found if f.severity == "error"] == codes
    assert all(f.line == 3 for f in found)


def test_a_base_that_cannot_be_read_is_one_fault(tmp_path: Path) -> None:
    path = tmp_path / "c.yml"
    path.write_text("base_config: !own base.yml\nsteps: 3\n", "utf-8")
    assert [f.code for f in validate([str(path)]).findings] == ["YAML110"]


def test_a_number_of_a_manifest_that_cannot_be_read_is_one_fault(tmp_path: Path) -> None:
    path = tmp_path / "job.yml"
    text = GPUS_OF_A_NODE.replace(
        "spec:\n  template:", "spec:\n  completions: 4\n  parallelism: {}\n  template:"
    )

    def codes(parallelism: str) -> set[str]:
        path.write_text(text.replace("{}", parallelism), "utf-8")
        return {f.code for f in validate([str(path)]).findings}

    assert codes("!own 4") - codes("4") == {"YAML110"}
    assert "K8S121" in codes("1") - codes("4")


@pytest.mark.parametrize("value", [".nan", ".inf"])
def test_a_batch_size_that_is_no_number_is_said_once_where_it_stands(
    tmp_path: Path, value: str
) -> None:
    path = tmp_path / "c.yml"
    path.write_text(f"base_config: base.yml\nper_device_batch_size: {value}\n", "utf-8")
    (found,) = validate([str(path)]).findings
    assert (found.code, found.field, found.line) == ("BAT101", "per_device_batch_size", 2)
    path.write_text(f"base_config: base.yml\neval_per_device_batch_size: {value}\n", "utf-8")
    (found,) = validate([str(path)]).findings
    assert (found.code, found.field, found.line) == ("BAT101", "eval_per_device_batch_size", 2)
    path.write_text("base_config: base.yml\nlearning_rate: .inf\n", "utf-8")
    assert [f.code for f in validate([str(path)]).findings] == ["YAML125"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"services:\n  t:\n    image: x\n    command: {TRAIN}\n", "a compose file"),
        (f"on: [push]\njobs:\n  t:\n    steps:\n    - run: {TRAIN}\n", "a GitHub workflow"),
        (f"stages: [t]\nt:\n  script:\n  - {TRAIN}\n", "a GitLab CI file"),
        ("services: 5\nother: 1\n", "nothing that starts training"),
    ],
)
def test_a_format_that_is_not_read_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "x.yml"
    path.write_text(text, "utf-8")
    (found,) = validate([str(path)]).findings
    assert (found.code, found.severity) == ("FILE106", "warning")
    assert says in found.message
    assert validate([str(tmp_path)]).findings == ()


@pytest.mark.parametrize("batch", ["1", "1.5", ".inf"])
def test_a_length_of_hundreds_of_digits_ends_no_rule(tmp_path: Path, batch: str) -> None:
    path = tmp_path / "c.yml"
    length = "1" + "0" * 400
    text = f"base_config: base.yml\nper_device_batch_size: {batch}\nmax_target_length: {length}\n"
    path.write_text(text, "utf-8")
    found = [f.code for f in validate([str(path)]).findings if f.severity == "error"]
    assert found == (["BAT101"] if batch == ".inf" else [])
