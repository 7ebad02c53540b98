"""What kind of file a text is: its content decides, its name is a hint."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.settings.sources.detect import KINDS, detect

PRESETS = Path(__file__).parent.parent / "presets"
TEXTS: dict[str, tuple[str, str]] = {
    "flat keys": ("hardware: gpu\nlearning_rate: 3e-4\n", "MaxText config"),
    "misspelt keys": ("hardware: gpu\nper_device_batchsize: 4\n", "MaxText config"),
    "keys that a run file has as sections": ("model_name: x\nattention: dot_product\n",
                                             "MaxText config"),
    "a fork's sections": ("model:\n  base_emb_dim: 8\ntrain:\n  steps: 3\n", "MaxText config"),
    "comments": ("# nothing\n\n", "unknown"),
    "nothing": ("", "unknown"),
    "a run file": ("model:\n  name: mixtral-8x7b\ngpus: 8\n", "run file"),
    "a run file in flow style": ("model: {name: mixtral-8x7b}\nhardware: gb200\n", "run file"),
    "a platform": ("hardware: gb200\n", "run file"),
    "a lock": ("# made\nmoectl: 1\nname: x\n", "run file"),
    "a preset": ("moectl_preset: 1\nname: x\n", "preset"),
    "a cluster profile": ("partition: a\naccount: b\ngres: gpu\n", "cluster profile"),
    "a shebang": ("#!/bin/bash\nA=1\n", "script"),
    "env bash": ("#!/usr/bin/env -S bash -e\nA=1\n", "script"),
    "a Python program": ("#!/usr/bin/env python3\nimport os\n", "unknown"),
    "directives": ("#SBATCH -N 2\n", "script"),
    "commands": ("cd /x\nsrun hostname\n", "script"),
    "exports": ("export A=1\nexport B=2\n", "script"),
    "substitution": ("HEAD=$(hostname)\n", "script"),
    "an operator": ("cd /x && python3 -m maxtext.trainers.pre_train.train base.yml a=1\n",
                    "script"),
    "one command": ("python3 -m maxtext.trainers.pre_train.train base.yml steps=3\n",
                    "MaxText command"),
    "one command over lines": (
        "python3 -m maxtext.trainers.pre_train.train base.yml \\\n  steps=3\n", "MaxText command"
    ),
    "a manifest": ("apiVersion: v1\nkind: Pod\n", "manifest"),
    "a manifest in JSON": ('{"apiVersion": "v1", "kind": "Pod"}', "manifest"),
    "a fragment": ("env:\n- {name: A, value: b}\n", "manifest"),
    "a template": ("apiVersion: v1\nkind: Pod\nmetadata: {name: {{ .Values.x }}}\n", "manifest"),
    "flags": ("--xla_gpu_autotune_level=0 x\n", "flags"),
    "flags after a comment": ("# mine\n--xla_a=1\n--xla_b=2\n", "flags"),
    "flags in quotes": ('"--xla_a=1"\n', "flags"),
    "variables": ("A=1\nB='x y'\n", "variables"),
    "variables in one line": ("A=1 B=eth0\n", "variables"),
    "a doubled sign": ("NCCL_SOCKET_IFNAME==eth0\n", "variables"),
    "docker's form": ("XLA_FLAGS=--xla_a=1 --xla_b=2\n", "variables"),
    "hosts": ("nodeA,nodeB[001,003],nodeC\n", "host list"),
    "one range": ("ml-16-node-[001-002]", "host list"),
    "a sentence": ("hello, world\n", "unknown"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_content_decides_the_kind(name: str) -> None:
    text, kind = TEXTS[name]
    assert detect("-", text) == kind


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("train.sh", "python3 -m maxtext.trainers.pre_train.train base.yml a=1\n", "script"),
        ("x.slurm", "A=1\n", "script"),
        ("x.sh", "", "script"),
        (".env", "export A=1\n", "variables"),
        ("x.env", "", "variables"),
        ("x.yml", "a word\n", "unknown"),
        ("x.yaml", "--- \n- a\n", "unknown"),
        ("x.txt", "#SBATCH -N 2\n", "script"),
        ("evil\nname.sh", "A=1\n", "script"),
    ],
)
def test_the_name_is_a_hint(path: str, text: str, kind: str) -> None:
    assert detect(path, text) == kind


@pytest.mark.parametrize("path", sorted(PRESETS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_preset_is_told_from_a_run_file(path: Path) -> None:
    assert detect("x", path.read_text()) == "preset"


@settings(max_examples=200, deadline=None)
@given(st.text(), st.sampled_from(["-", "x.yml", "x.sh", "x.txt", ".env"]))
def test_any_text_has_a_kind(text: str, name: str) -> None:
    assert detect(name, text) in KINDS
