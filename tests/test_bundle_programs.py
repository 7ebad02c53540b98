"""What the processes run, under real shells."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from moectl.errors import UsageError
from moectl.job import Checkout, Container, Job
from moectl.render import templates
from moectl.render.programs import programs
from moectl.render.slurm import launch_script
from tests.support import jobs, shell

HOSTILE = "-w eird 'x' \"$(touch CANARY)\" `touch CANARY` é ☃ ; touch CANARY & \n:, %j \\"


def files(job: Job) -> dict[str, str]:
    return {"launch.sbatch": launch_script(job), "config.yml": "a: 1\n", **programs(job)}


def canaries(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in folder.rglob("CANARY")]


@pytest.mark.parametrize("name", ["placement.py", "as_run.py", "watchdog.py", "go_on.py"])
def test_the_programs_are_of_the_standard_library_and_of_python_3_8(name: str) -> None:
    tree = ast.parse(templates.source(name), feature_version=(3, 8))
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported
    assert {module.partition(".")[0] for module in imported} <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("name", ["placement.py", "as_run.py", "watchdog.py", "go_on.py"])
def test_the_programs_hold_nothing_for_tests(name: str) -> None:
    text = templates.source(name).lower()
    assert re.search(r"\b(test|pytest|mock|fake)\b", text) is None


# ---- rank.sh and launch.sbatch under a shell ---------------------------------------------------


@pytest.fixture(params=["sh", "bash", ""], ids=["sh", "bash", "as Slurm does"])
def under(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_only_the_intended_program_runs_whatever_the_names_hold(under: str, tmp_path: Path) -> None:
    scratch, bundle = tmp_path / "scratch", tmp_path / HOSTILE
    job = replace(
        jobs.one_node(),
        name="-n 'x' $(touch CANARY) `touch CANARY`",
        title="t\ntouch CANARY",
        arguments=jobs.said({"run_name": HOSTILE, "dataset_path": "-x", "steps": 5}),
        environment=jobs.said({"A": HOSTILE, "B": "", "C": "-n"}),
        secrets=("HF_TOKEN",),
    )
    shell.write(bundle, files(job))
    ran = shell.run(under, bundle, scratch, {"HF_TOKEN": f"S3CRET {HOSTILE}"})
    assert ran.code == 0, ran.output
    assert ran.maxtext[:3] == ["-m", "maxtext.trainers.pre_train.train", "config.yml"]
    assert [word.partition("=")[0] for word in ran.maxtext[3:]] == [
        "run_name",
        "dataset_path",
        "steps",
    ]
    assert ran.environment["HF_TOKEN"] == f"S3CRET {HOSTILE}"
    for name, value in {"A": HOSTILE, "B": "", "C": "-n"}.items():
        assert ran.environment[name] == value
    assert ran.environment["PWD"] == str(bundle)
    assert canaries(tmp_path) == []
    written = [path for path in bundle.rglob("*") if path.is_file()]
    assert bundle / "logs/4711/as-run.json" in written
    assert not [path for path in written if "S3CRET" in path.read_text("utf-8")]


def test_the_process_knows_its_slice_and_its_coordinator(under: str, tmp_path: Path) -> None:
    shell.write(tmp_path / "b", files(jobs.one_node()))
    ran = shell.run(under, tmp_path / "b", tmp_path / "s")
    assert ran.code == 0, ran.output
    assert ran.environment["JAX_PARTITION_INDEX"] == "0"
    port = ran.environment["JAX_COORDINATOR_PORT"]
    assert ran.environment["JAX_COORDINATOR_ADDRESS"] == f"node0:{port}"
    assert ran.environment["XLA_FLAGS"] == "--xla_gpu_enable_latency_hiding_scheduler=true"
    (words,) = ran.srun
    assert words[-2:] == ["/bin/sh", "./rank.sh"]
    assert {"--ntasks=8", "--ntasks-per-node=8", "--cpus-per-task=2", "--cpu-bind=cores"} <= {
        *words
    }


def test_nothing_of_the_submitting_shell_reaches_the_process(under: str, tmp_path: Path) -> None:
    poison = {
        "M_STEPS": "7",
        "XLA_FLAGS": "--xla_nonsense",
        "NCCL_ALGO": "Ring",
        "PYTHONPATH": "/evil",
        "LD_AUDIT_X": "x\nM_OTHER=1",
        "BASH_ENV": str(tmp_path / "env.sh"),
        "ENV": str(tmp_path / "env.sh"),
        "CDPATH": "/",
        "BASH_FUNC_srun%%": "() { touch CANARY; }",
        "BASH_FUNC_cd%%": "() { touch CANARY; }",
        "SLURM_HOSTFILE": "/nowhere",
        "SLURM_TASK_PROLOG": "/bin/false",
        "SLURM_CPU_BIND": "none",
        "PYXIS_CONTAINER_MOUNTS": "/:/host",
        "JAX_PLATFORMS": "cpu",
        "https_proxy": "http://proxy",
        "HF_TOKEN": "not declared",
    }
    (tmp_path / "env.sh").write_text("touch CANARY\n")
    shell.write(tmp_path / "b", files(jobs.one_node()))
    ran = shell.run(under, tmp_path / "b", tmp_path / "s", poison)
    assert ran.code == 0, ran.output
    if not under:  # "bash launch.sbatch" reads BASH_ENV before it reads the script
        assert canaries(tmp_path) == []
    reached = set(poison) & set(ran.environment)
    assert reached == {"XLA_FLAGS"}
    assert ran.environment["XLA_FLAGS"] == "--xla_gpu_enable_latency_hiding_scheduler=true"
    assert not [name for name in ran.environment if name.startswith(("BASH_FUNC", "M_"))]
    known = r"SLURM|JAX_|MOECTL_|PYTHONUNBUFFERED|XLA_FLAGS|PATH|HOME|PWD|OLDPWD|SHLVL|_$|LC_CTYPE"
    assert [name for name in ran.environment if not re.match(known, name)] == []


def test_a_missing_secret_stops_the_job_with_its_name(under: str, tmp_path: Path) -> None:
    job = replace(jobs.one_node(), secrets=("HF_TOKEN", "WANDB_API_KEY", "EMPTY"))
    shell.write(tmp_path / "b", files(job))
    ran = shell.run(under, tmp_path / "b", tmp_path / "s", {"WANDB_API_KEY": "x", "EMPTY": ""})
    assert ran.code == 78
    assert ran.srun == []
    (line,) = ran.output.splitlines()
    assert line.endswith("this job declares: HF_TOKEN EMPTY")


def test_outside_slurm_the_script_says_what_to_type(under: str, tmp_path: Path) -> None:
    shell.write(tmp_path / "b", files(jobs.one_node()))
    ran = shell.run(under, tmp_path / "b", tmp_path / "s", {"SLURM_JOB_ID": "12; touch CANARY"})
    assert ran.code == 78
    assert "sbatch launch.sbatch" in ran.output
    assert len(ran.output.splitlines()) == 1
    assert canaries(tmp_path) == []


def test_a_bundle_that_cannot_be_written_stops_the_job(under: str, tmp_path: Path) -> None:
    shell.write(tmp_path / "b", files(jobs.one_node()))
    (tmp_path / "b" / "logs").write_text("a file where the folder goes")
    ran = shell.run(under, tmp_path / "b", tmp_path / "s")
    assert ran.code == 78
    assert "cannot write the logs of this run" in ran.output


def rank(bundle: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "./rank.sh"],
        cwd=bundle,
        env={"PATH": f"{bundle}/bin:/usr/bin:/bin", "MOECTL_LOGS": "logs/1", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def ranked(tmp_path: Path, job: Job, python: str) -> Path:
    """Return a bundle whose `python3` is the script `python`."""
    shell.write(tmp_path, programs(job))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text(f"#!/bin/sh\n{python}\n")
    (tmp_path / "bin" / "python3").chmod(0o755)
    (tmp_path / "logs" / "1").mkdir(parents=True)
    return tmp_path


AT = {"SLURM_PROCID": "70", "SLURM_LOCALID": "2", "SLURMD_NODENAME": "gpu017"}


def test_a_failing_process_leaves_its_code_and_only_the_first_does(tmp_path: Path) -> None:
    bundle = ranked(tmp_path, jobs.deepseek(), "exit $((SLURM_PROCID / 10))")
    assert rank(bundle, AT).returncode == 7
    assert rank(bundle, AT | {"SLURM_PROCID": "90"}).returncode == 9
    assert (bundle / "logs/1/first-failure").read_text() == "7 70 gpu017\n"


def test_a_process_that_ends_well_leaves_nothing(tmp_path: Path) -> None:
    bundle = ranked(tmp_path, jobs.deepseek(), "exit 0")
    assert rank(bundle, AT).returncode == 0
    assert list((bundle / "logs/1").iterdir()) == []


def test_the_slice_follows_from_the_rank(tmp_path: Path) -> None:
    bundle = ranked(tmp_path, jobs.deepseek(), 'echo "$JAX_PARTITION_INDEX"')
    for process, expected in ((0, 0), (63, 0), (64, 1), (127, 1)):
        at = AT | {"SLURM_PROCID": str(process), "SLURM_LOCALID": str(process % 4)}
        assert rank(bundle, at).stdout == f"{expected}\n"


def test_a_rank_that_is_not_where_the_plan_has_it_stops(tmp_path: Path) -> None:
    bundle = ranked(tmp_path, jobs.deepseek(), "exit 0")
    plan = "".join(f"gpu{index:03d} {index // 16} -\n" for index in range(32))
    (bundle / "logs/1/nodes").write_text(plan)
    assert rank(bundle, AT).returncode == 0
    done = rank(bundle, AT | {"SLURMD_NODENAME": "gpu018"})
    assert done.returncode == 78
    assert "runs on gpu018, but the plan has it on gpu017" in done.stderr
    assert (bundle / "logs/1/first-failure").read_text() == "78 70 gpu018\n"
    done = rank(bundle, AT | {"SLURM_LOCALID": "1"})
    assert done.returncode == 78
    assert "local rank" in done.stderr


def test_a_rank_outside_srun_says_so(tmp_path: Path) -> None:
    done = rank(ranked(tmp_path, jobs.deepseek(), "exit 0"), {})
    assert done.returncode == 78
    assert "launch.sbatch starts this script" in done.stderr


@pytest.mark.parametrize(
    ("visible", "ids"), [(None, ""), ("0,1,2,3", ""), ("2", "0"), ("GPU-3a", "0")]
)
def test_a_task_that_sees_one_gpu_takes_that_one(
    visible: str | None, ids: str, tmp_path: Path
) -> None:
    bundle = ranked(tmp_path, jobs.deepseek(), 'echo "${JAX_LOCAL_DEVICE_IDS-}"')
    seen = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert rank(bundle, AT | seen).stdout == f"{ids}\n"


def test_checkouts_come_before_what_the_image_has_on_its_path(tmp_path: Path) -> None:
    container = Container(jobs.IMAGE, (), (Checkout("maxtext", "/home/me/max text", "0123"),))
    job = replace(jobs.deepseek(), container=container)
    bundle = ranked(tmp_path, job, 'echo "$PYTHONPATH"')
    assert rank(bundle, AT).stdout == "/moectl-source/maxtext/src\n"
    baked = AT | {"PYTHONPATH": "/opt/image"}
    assert rank(bundle, baked).stdout == "/moectl-source/maxtext/src:/opt/image\n"


def test_debug_writes_nccl_logs_and_hlo_by_rank(tmp_path: Path) -> None:
    show = 'echo "$XLA_FLAGS $NCCL_DEBUG_FILE"'
    bundle = ranked(tmp_path, replace(jobs.deepseek(), debug=True), show)
    done = rank(bundle, AT | {"XLA_FLAGS": "--xla_a=1"})
    assert done.stdout == ("--xla_a=1 --xla_dump_to=logs/1/hlo/rank-70 logs/1/nccl/rank-70.log\n")


def test_a_dump_folder_somebody_named_is_kept_under_debug() -> None:
    flags = jobs.said({"xla_dump_to": "/dumps"})
    job = replace(jobs.deepseek(), debug=True, xla_flags=flags)
    assert "--xla_dump_to" not in programs(job)["rank.sh"]


def traced(ranks: list[int]) -> Job:
    job = jobs.deepseek()
    effective = {**job.effective, "profiler": "nsys"}
    settings = {**job.settings, **jobs.said({"profile.ranks": ranks})}
    return replace(job, effective=effective, settings=settings)


def test_nsight_systems_runs_around_the_chosen_processes_only(tmp_path: Path) -> None:
    bundle = ranked(tmp_path, traced([70, 3]), 'echo "plain $*"')
    (bundle / "bin/nsys").write_text("#!/bin/sh\nprintf '%s ' nsys \"$@\"\n")
    (bundle / "bin/nsys").chmod(0o755)
    around = rank(bundle, AT).stdout
    assert around.startswith("nsys profile --capture-range=cudaProfilerApi ")
    assert "--output=logs/1/nsys/rank-70 python3 -m maxtext." in around
    other = AT | {"SLURM_PROCID": "71", "SLURM_LOCALID": "3"}
    assert rank(bundle, other).stdout.startswith("plain -m maxtext.")


def test_a_profile_without_nsight_systems_stops_before_it_trains(tmp_path: Path) -> None:
    bundle = ranked(tmp_path, traced([70]), "echo trained")
    done = rank(bundle, AT)
    assert done.returncode == 78
    assert "nsys is not on PATH" in done.stderr
    assert "trained" not in done.stdout


def test_a_process_that_the_job_does_not_have_cannot_be_traced() -> None:
    with pytest.raises(UsageError, match=r"profile\.ranks names process 128, .* 0 to 127"):
        programs(traced([0, 128]))


def test_a_record_that_cannot_be_written_does_not_fail_the_run(tmp_path: Path) -> None:
    program = f'case $1 in -m) exit 0 ;; esac\nexec {shutil.which("python3")} "$@"'
    bundle = ranked(tmp_path, jobs.deepseek(), program)
    (bundle / "logs/1/as-run.json.part").mkdir()
    at = AT | {"SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    done = rank(bundle, at)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (bundle / "logs/1/as-run.json").exists()


def test_a_restarted_job_keeps_the_logs_of_its_first_start(under: str, tmp_path: Path) -> None:
    shell.write(tmp_path / "b", files(jobs.one_node()))
    ran = shell.run(under, tmp_path / "b", tmp_path / "s", {"SLURM_RESTART_COUNT": "2"})
    assert ran.environment["MOECTL_LOGS"] == "logs/4711.2"
    assert [path.name for path in (tmp_path / "b/logs").iterdir()] == ["4711.2"]
