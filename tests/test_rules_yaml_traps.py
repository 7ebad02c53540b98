"""What YAML makes of a word is told at the word, and plain values stay without a finding."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
import yaml

from moectl.facts.maxtext import load, releases
from moectl.findings import Finding
from moectl.rules.kubernetes import RULES as KUBERNETES
from moectl.rules.rule import STAGES
from moectl.rules.yaml_traps import RULES
from moectl.settings.sources.read import read_source
from moectl.workload import Workload

RELEASE = releases()[-1]
SOURCES = Path(__file__).parent.parent / "moectl" / "settings" / "sources"


def judged(text: str) -> list[Finding]:
    source = read_source("x.yml", text, lambda _: None, "MaxText config")
    found = list(source.findings)
    for part in source.parts:
        workload = Workload(
            kind=part.kind, origin=part.origin, maxtext=RELEASE, jaxlib="0.12.0.1",
            is_maxtext=part.is_maxtext, config=part.config,
        )  # fmt: skip
        for rule in RULES.all:
            found += rule.findings(workload)
    return found


@pytest.mark.parametrize(
    ("text", "code", "severity", "place"),
    [
        ("attention: off\n", "YAML121", "error", (1, 12)),
        ("steps: 3\nprofiler: no\n", "YAML121", "error", (2, 11)),
        ("quantization: yes\n", "YAML121", "error", (1, 15)),
        ("remat_policy: True\n", "YAML121", "error", (1, 15)),
        ("dataset_type: 'x'\nmodel_name: on\n", "YAML121", "error", (2, 13)),
        ('scan_layers: "no"\n', "YAML122", "warning", (1, 14)),
        ("enable_checkpointing: 'False'\n", "YAML122", "warning", (1, 23)),
        ('packing: "1"\n', "YAML122", "warning", (1, 10)),
        ("steps: 1:30\n", "YAML123", "warning", (1, 8)),
        ("run_name: 12:30:15\n", "YAML123", "warning", (1, 11)),
        ("steps: 0100\n", "YAML124", "warning", (1, 8)),
        ("learning_rate: .inf\n", "YAML125", "warning", (1, 16)),
        ("learning_rate: inf\n", "YAML125", "warning", (1, 16)),
        ("learning_rate: 3e-4\n", "YAML126", "note", (1, 16)),
        ("run_name: ${oc.env:RUN}\n", "YAML127", "note", (1, 11)),
    ],
)
def test_a_trap_is_found_at_the_value(
    text: str, code: str, severity: str, place: tuple[int, int]
) -> None:
    (found,) = judged(text)
    assert (found.code, found.severity, (found.line, found.column)) == (code, severity, place)
    assert found.file == "x.yml"


@pytest.mark.parametrize(
    "text",
    [
        'attention: "dot_product"\n',
        "attention: dot_product\n",
        "scan_layers: no\n",
        "scan_layers: on\n",
        "enable_checkpointing: false\n",
        'run_name: "no"\n',
        'run_name: "1:30"\n',
        "run_name: 2026-01-02\n",
        "steps: 100\n",
        "steps: 1_000\n",
        "steps: 0\n",
        "learning_rate: 3.0e-4\n",
        "adam_eps: 1.e-8\n",
        "run_name: inf\n",
        'quantization: ""\n',
        "quantization: None\n",
        "load_parameters_path: ~\n",
        "run_name: ${oc.env:RUN,r}\n",
        "no_such_key: off\n",
        "logical_axis_rules: [[a, off]]\n",
    ],
)
def test_a_plain_value_is_no_trap(text: str) -> None:
    assert judged(text) == []


def test_a_quoted_boolean_can_be_mended_and_a_word_only_when_it_is_legal() -> None:
    (found,) = judged('scan_layers: "false"\n')
    assert found.fix == ('"false"', "false")
    (found,) = judged("attention: off\n")
    assert found.fix is None
    assert 'write profiler: ""' in judged("profiler: off\n")[0].hint


def test_the_values_of_maxtexts_own_base_are_no_trap_above_a_note() -> None:
    lines = [
        f"{key}: {json.dumps(value)}"
        for key, value in load(RELEASE).base.items()
        if isinstance(value, bool | int | float | str) and key != "base_config"
    ]
    found = judged("\n".join(lines))
    assert [finding for finding in found if finding.severity != "note"] == []


def test_every_code_that_the_readers_use_is_declared() -> None:
    used = set()
    for path in SOURCES.glob("*.py"):
        used |= set(re.findall(r'"((?:YAML|ARG|SRC|K8S)\d{3})"', path.read_text()))
    declared = {rule.code for rule in [*RULES.all, *KUBERNETES.all]}
    assert used
    assert used <= declared


def test_codes_are_unique_and_rules_say_all_they_must() -> None:
    codes = [rule.code for rule in RULES.all]
    assert len(codes) == len(set(codes))
    for rule in RULES.all:
        assert rule.title
        assert rule.reason.endswith(".")
        assert rule.source
        assert rule.stage in STAGES


@pytest.mark.parametrize(
    ("raw", "better"),
    [("3e-4", "3.0e-4"), ("1e-8", "1.0e-8"), ("1E5", "1.0e+5"), ("-2e+3", "-2.0e+3")],
)
def test_a_number_without_a_dot_is_written_out_as_every_reader_takes_it(
    raw: str, better: str
) -> None:
    (found,) = [f for f in judged(f"adam_eps: {raw}\n") if f.code == "YAML126"]
    assert f"write {better} " in found.hint
    assert yaml.safe_load(better) == float(raw)


def model_file(text: str) -> list[Finding]:
    source = read_source("m.yml", text, lambda _: None, "MaxText model file")
    found = list(source.findings)
    for part in source.parts:
        workload = Workload(
            kind=part.kind, origin=part.origin, maxtext=RELEASE, jaxlib="0.12.0.1",
            is_maxtext=part.is_maxtext, config=part.config,
        )  # fmt: skip
        for rule in RULES.all:
            found += rule.findings(workload)
    return found


def test_every_model_file_of_maxtext_is_clean() -> None:
    catalogue = load(RELEASE)
    for name in catalogue.models():
        text = yaml.safe_dump(dict(catalogue.model(name) or {}))
        assert [f for f in model_file(text) if f.severity != "note"] == []


def test_a_model_file_with_a_wrong_key_or_value_is_found_at_it() -> None:
    found = model_file("decoder_block: mixtral\nbase_emb_dimm: 8\nnum_experts: many\n")
    assert [(f.code, f.severity, f.line, f.column) for f in found] == [
        ("YAML131", "error", 2, 1),
        ("YAML131", "error", 3, 14),
    ]
    assert "base_emb_dim" in found[0].hint
    word = model_file("decoder_block: off\nbase_emb_dim: 8\n")
    assert [f.code for f in word] == ["YAML121"]


def test_many_unknown_keys_of_a_model_file_are_told_soon() -> None:
    text = "decoder_block: mixtral\n" + "".join(f"key_{n}: 3\n" for n in range(5_000))
    began = time.monotonic()
    assert len(model_file(text)) == 5_000
    assert time.monotonic() - began < 15
