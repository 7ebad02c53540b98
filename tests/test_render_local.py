"""The local launcher's files: the program is of the standard library, the plan is whole."""

from __future__ import annotations

import ast
import json
import sys
from dataclasses import replace
from pathlib import Path

from moectl.actions.launch import plan_launch
from moectl.actions.plan import Wishes
from moectl.actions.render import render, write
from moectl.render import templates
from moectl.render.local import plan
from tests.support import jobs

LOCAL = Wishes(
    options={"launcher": ("local", "--launcher"), "gpus": (8, "--gpus")},
    sets=("cluster.devices=cpu", "cluster.processes=2"),
)


def test_the_program_is_of_the_standard_library_and_of_python_3_8() -> None:
    tree = ast.parse(templates.source("local.py"), feature_version=(3, 8))
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported
    assert {module.partition(".")[0] for module in imported} <= set(sys.stdlib_module_names)


def test_a_local_bundle_holds_what_runs_here_and_nothing_of_slurm() -> None:
    files = render("mixtral-8x7b", LOCAL).files
    assert sorted(files) == [
        "as_run.py", "config.yml", "launch.json", "launch.py", "moectl.lock.yaml", "watchdog.py",
    ]  # fmt: skip
    told = json.loads(files["launch.json"])
    assert (told["devices"], told["processes"]) == ("cpu", 2)
    assert told["environment"]["XLA_FLAGS"] == "--xla_force_host_platform_device_count=4"
    assert told["environment"]["JAX_PLATFORMS"] == "cpu"
    assert told["environment_name"] == "maxtext-0.2.5"
    assert "--ranks=2" in told["watchdog"]
    assert 'attention: "dot_product"' in files["config.yml"]


def test_the_lock_of_a_local_bundle_renders_the_same_bytes(tmp_path: Path) -> None:
    rendered = render("deepseek3-671b", LOCAL)
    write(rendered, tmp_path / "bundle")
    planned = plan_launch(str(tmp_path / "bundle"), Wishes())
    assert planned.rendered.files == rendered.files
    assert planned.notes == ()
    assert json.loads(planned.script)["processes"] == 2


def test_on_gpus_there_is_one_process_a_gpu_and_one_slice() -> None:
    job = replace(jobs.one_node(), launcher="local")
    told = json.loads(plan(job))
    assert (told["devices"], told["processes"]) == ("gpu", 8)
    assert told["environment"]["JAX_PARTITION_INDEX"] == "0"
    assert "device_count" not in told["environment"]["XLA_FLAGS"]
    assert told["python"] == ""
