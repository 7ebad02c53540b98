"""The batch script as text: golden files, and one choice at a time."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moectl.job import Checkout, Container, Job, Mount
from moectl.render.programs import programs
from moectl.render.slurm import launch_script
from tests.support import golden, jobs
from tests.support.components import require

SAVING = {"enable_checkpointing": True, "enable_autocheckpoint": True, "steps": 500}
JOBS = {
    "deepseek3-671b": jobs.deepseek(),
    "mixtral-8x7b": jobs.hgx(),
    "one-node": jobs.one_node(),
    "long-run": replace(
        jobs.one_node(),
        config=jobs.said(SAVING),
        cluster=replace(jobs.one_node().cluster, time="04:00:00"),
    ),
}


def directives(job: Job) -> list[str]:
    lines = launch_script(job).splitlines()
    return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]


def on(**changes: Any) -> Job:
    job = jobs.deepseek()
    return replace(job, cluster=replace(job.cluster, **changes))


@pytest.mark.parametrize("name", JOBS)
def test_the_scripts_are_as_they_were(name: str) -> None:
    # The two Python programs are the same for every job, so they are no part of it.
    written = {
        "launch.sbatch": launch_script(JOBS[name]),
        "rank.sh": programs(JOBS[name])["rank.sh"],
    }
    golden.compare(f"slurm/{name}", written)


def test_a_job_is_rendered_the_same_twice() -> None:
    assert launch_script(jobs.deepseek()) == launch_script(jobs.deepseek())


def test_the_published_job_asks_for_whole_nodes_with_a_task_a_gpu() -> None:
    said = directives(jobs.deepseek())
    for directive in (
        "--job-name=deepseek3-671b",
        "--output=deepseek3-671b-%j.log",
        "--nodes=32",
        "--ntasks-per-node=4",
        "--cpus-per-task=36",
        "--gpus-per-node=4",
        "--exclusive",
        "--mem=0",
        "--time=01:00:00",
        "--segment=16",
    ):
        assert directive in said


def test_directives_stand_before_the_first_command() -> None:
    lines = launch_script(jobs.deepseek()).splitlines()
    first = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    last = max(i for i, line in enumerate(lines) if line.startswith("#SBATCH"))
    assert last < first


def test_what_the_site_leaves_out_is_left_out() -> None:
    said = directives(
        on(memory="", cpus_per_task=None, exclusive=False, gpu_request="none", segment=False)
    )
    for option in ("mem", "cpus", "exclusive", "gpus", "gres", "segment", "account", "qos"):
        assert not any(line.startswith(f"--{option}") for line in said), option


def test_gpus_are_asked_for_as_the_site_wants() -> None:
    assert "--gres=gpu:h100:8" in directives(jobs.hgx())
    assert "--gpus-per-node=4" in directives(jobs.deepseek())


def test_the_fields_of_the_scheduler_are_said() -> None:
    said = directives(on(account="nlp", qos="high", reservation="r 1", partition="gb200"))
    assert {"--account=nlp", "--qos=high", '--reservation="r 1"', "--partition=gb200"} <= set(said)


def test_further_directives_are_quoted_for_sbatch() -> None:
    said = directives(on(directives=("--comment=a #b", "--requeue")))
    assert said[-3:-1] == ['--comment="a #b"', "--requeue"]


@pytest.mark.parametrize(
    ("job", "segment"),
    [
        (jobs.deepseek(), "--segment=16"),
        (jobs.job(jobs.GB200, 8, slice_gpus=32), "--segment=8"),
        (jobs.job(jobs.GB200, 8, slice_gpus=4), None),  # a slice is one node
        (jobs.job(jobs.GB200, 1, slice_gpus=4), None),
        (jobs.job(jobs.GB200, 64, slice_gpus=128), None),  # wider than a domain: nobody has it
        (jobs.hgx(), None),
    ],
    ids=lambda value: getattr(value, "name", value) or "none",
)
def test_a_segment_is_asked_for_where_a_slice_must_share_a_domain(
    job: Job, segment: str | None
) -> None:
    found = [line for line in directives(job) if line.startswith("--segment")]
    assert found == ([segment] if segment else [])


def test_log_names_hold_nothing_slurm_would_replace() -> None:
    said = directives(replace(jobs.deepseek(), name="-a/../b 'c' $(d) é"))
    assert "--output=a_.._b__c____d___-%j.log" in said


def test_flags_are_written_one_a_line_with_who_said_them() -> None:
    text = launch_script(jobs.deepseek())
    assert f"XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true  # {jobs.BAKED}\n" in text
    assert (
        "XLA_FLAGS=$XLA_FLAGS' --xla_gpu_memory_limit_slop_factor=99'  "
        "# preset deepseek3-671b\n" in text
    )


def test_xla_flags_are_set_for_a_job_without_flags_too() -> None:
    assert "\nXLA_FLAGS=--xla_dump_to=  #" in launch_script(replace(jobs.deepseek(), xla_flags={}))


def test_the_container_is_named_as_pyxis_reads_it() -> None:
    text = launch_script(jobs.deepseek())
    assert "--container-image='ghcr.io#nvidia/jax:maxtext-2026-09-09' \\" in text
    assert "--container-mounts=./:/moectl \\" in text
    assert "--no-container-mount-home --no-container-entrypoint" in text


def test_a_job_without_container_says_nothing_of_containers() -> None:
    assert "container" not in launch_script(jobs.one_node())


def test_folders_a_mount_needs_are_made_first() -> None:
    text = launch_script(replace(jobs.deepseek(), output_directory="/runs/it's"))
    assert "mkdir -p -- '/runs/it'\"'\"'s' ||" in text


def test_no_path_of_the_machine_that_renders_is_in_the_bundle(tmp_path: Path) -> None:
    files = {"launch.sbatch": launch_script(jobs.deepseek()), **programs(jobs.deepseek())}
    for text in files.values():
        assert str(Path.home()) not in text
        assert str(Path(__file__).parent.parent) not in text


def test_a_zipped_source_tree_renders_the_same(tmp_path: Path) -> None:
    root = Path(__file__).parent.parent
    archive = tmp_path / "moectl.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for folder in ("moectl", "templates", "tests/support"):
            for path in sorted((root / folder).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    zipped.write(path, path.relative_to(root))
        zipped.write(root / "tests" / "__init__.py", "tests/__init__.py")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from tests.support import jobs\n"
        "from moectl.render import slurm, programs, templates\n"
        "assert sys.argv[1] in templates.__file__\n"
        "sys.stdout.write(slurm.launch_script(jobs.deepseek()))\n"
        "sys.stdout.write(''.join(programs.programs(jobs.deepseek()).values()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, archive], capture_output=True, check=False
    )
    assert done.stderr.decode() == ""
    expected = launch_script(jobs.deepseek()) + "".join(programs(jobs.deepseek()).values())
    assert done.stdout.decode() == expected


HOSTILE = {
    "as published": jobs.deepseek(),
    "debug": replace(jobs.deepseek(), debug=True),
    "secrets": jobs.hgx(),
    "bare": jobs.one_node(),
    "names": replace(jobs.deepseek(), name="-a 'b' \"c\" $(d) `e` #f é\\", title="x\n#SBATCH -n1"),
    "values": replace(
        jobs.deepseek(),
        environment=jobs.said({"A": "$(id) `id` \"'\\ é", "B": "-n", "C": ""}),
        arguments=jobs.said({"run_name": "'; id; '", "tokenizer_path": "-x\n$(id)"}),
        secrets=("HF_TOKEN", "WANDB_API_KEY"),
        output_directory="/runs/it's é",
    ),
    "bare values": replace(
        jobs.one_node(),
        environment=jobs.said({"A": "two\nlines"}),
        cluster=replace(jobs.one_node().cluster, python="/opt/my python/bin/python3"),
    ),
    "checkouts": replace(
        jobs.deepseek(),
        container=Container(
            jobs.IMAGE,
            (Mount("/data/it's", "/data", read_only=True),),
            (
                Checkout("maxtext", "/home/me/max text", "0123"),
                Checkout("transformer-engine", "/te"),
            ),
        ),
    ),
    "wide slices": jobs.job(jobs.GB200, 64, slice_gpus=128),
    "preflight": replace(
        jobs.hgx(), cluster=replace(jobs.hgx().cluster, preflight=True, runtime="apptainer")
    ),
    "preflight with spare nodes": replace(
        jobs.deepseek(),
        cluster=replace(
            jobs.deepseek().cluster, preflight=True, preflight_retry=True, spare_nodes=2
        ),
    ),
    "long run": JOBS["long-run"],
    "long run with a preflight": replace(
        JOBS["long-run"], cluster=replace(JOBS["long-run"].cluster, preflight=True)
    ),
    "slices inside a node": jobs.job(jobs.H100, 2, slice_gpus=4),
}


@pytest.mark.parametrize("job", HOSTILE.values(), ids=HOSTILE)
def test_every_script_parses_and_shellcheck_has_nothing_to_say(job: Job, tmp_path: Path) -> None:
    (tmp_path / "launch.sbatch").write_text(launch_script(job))
    (tmp_path / "rank.sh").write_text(programs(job)["rank.sh"])
    for name in ("launch.sbatch", "rank.sh"):
        for shell in ("bash", "sh"):
            done = subprocess.run(
                [shell, "-n", tmp_path / name], capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run(
        [require("shellcheck"), tmp_path / "launch.sbatch", tmp_path / "rank.sh"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
