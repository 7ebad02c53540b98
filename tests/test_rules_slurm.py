"""Rules on options of Slurm, judged by real sbatch where it is installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.rules import slurm
from moectl.rules.slurm_values import grammars, value_fault
from tests.support.components import require
from tests.support.scripts import TRAIN, found, script, seen

RULES = slurm.RULES
HEAD = "#!/bin/bash\n"


def _directive(text: str) -> list[tuple[str, str, int | None]]:
    return seen(RULES, script(f"{HEAD}#SBATCH {text}\ntrue\n"))


MALFORMED = [
    "-mem=0", "-mem 0", "-time=30", "-nodes=4", "-partition gpu", "-ntasks-per-node=8",
    "--N 4", "--N=4", "--t 30", "--n 8", "---time=30", "----nodes=2",
    "nodes=2", "time 30", "\u2013\u2013nodes=2", "\u2014time=30", "\u2212N 2",
    "-N=4", "-n=8", "-t=30",
    "--nodes", "--time", "-N", "--requeue=1x --hold=1", "--nodes 2 -c",
]  # fmt: skip
UNKNOWN = [
    "--node=2", "--ntask=4", "--gpu=8", "--tim=30 --nodes-per-task=2", "--cpu-per-task=8",
    "--memory=8G", "--label", "--mpi=pmix", "--kill-on-bad-exit=1", "--no-such-thing=1",
    "--tasks_per_node=8", "--ntasks-per=4", "--job_name=x", "--gpus-per-nodes=8",
]  # fmt: skip
BAD_VALUES = [
    "--nodes=two", "--nodes=2.5", "--nodes=4-2", "-N 2-", "--nodes=x2", "--nodes= 2",
    "--ntasks=0", "--ntasks=2k", "-n 2.5", "--ntasks-per-node=all", "-c 0", "--cpus-per-task=-1",
    "--time=1h", "--time=2d", "--time=90m", "--time=1:30:00:00", "--time=30:", "-t 4hours",
    "--time=1-2-3", "--mem=4GiB", "--mem=4.5G", "--mem=all", "--mem=-1", "--mem-per-cpu=4P",
    "--gpus-per-node=h100:x", "--gpus-per-node=a:b:4", "--gres=8", "--gres=gpu:", "--gres=gpu:a:b",
    "--gres=gpu:8:h100",
]  # fmt: skip
GOOD = [
    "-N4", "-N 4 -n 32", "-pgpu", "-J x", "-t30", "-c 8", "--nodes=2-4", "--nodes 1k", "--time=30",
    "--time=1-0", "--time=1-12:30", "--time=UNLIMITED", "--time=00:30:00", "--mem=0", "--mem=4g",
    "--mem=400GB", "--gpus-per-node=8", "--part=batch", "--job-name='a b'", "--exclusive",
    "--exclusive=user", "--requeue", "--nodes=2 # two", "--mail-type=END,FAIL",
    "--signal=B:TERM@60", "--export=ALL", "--export=ALL,A=1", "--gpus-per-node=h100",
    "--gres=gpu:h100:8", "--gres=gpu", "-o %x-%j.log", "--ntasks-per-node=8 --mem-per-cpu=4G",
    "--hint=nomultithread", "--nice", "--array=0-3%2", "--tmp=10G", "--comment='a \"b\" #c'",
]  # fmt: skip


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_option_is_an_error(text: str) -> None:
    assert ("SLURM102", "error", 2) in _directive(text)


@pytest.mark.parametrize("text", UNKNOWN)
def test_an_option_nobody_has_is_named(text: str) -> None:
    severity = "warning" if "no-such" in text else "error"
    assert ("SLURM101", severity, 2) in _directive(text)


@pytest.mark.parametrize("text", BAD_VALUES)
def test_a_value_sbatch_cannot_read_is_an_error(text: str) -> None:
    assert [(code, severity) for code, severity, _ in _directive(text)][:1] in (
        [("SLURM103", "error")],
        [("SLURM102", "error")],
    )


@pytest.mark.parametrize("text", GOOD)
def test_a_good_option_is_passed(text: str) -> None:
    assert _directive(text) == []


@pytest.mark.parametrize(
    "text",
    ["--container-image=./x.sqsh", "--segment=4", "--tres-per-task=gres/gpu:1", "--stepmgr"],
)
def test_options_of_newer_releases_and_of_pyxis_are_known(text: str) -> None:
    assert [row for row in _directive(text) if row[0].startswith("SLURM")] == []


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration with which sbatch reads options and asks nobody."""
    require("slurm")
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "slurm.conf").write_text(
        "ClusterName=x\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\n"
        f"AuthType=auth/none\nCredType=cred/none\nPlugStackConfig={folder}/plugstack.conf\n"
        "MessageTimeout=1\nGresTypes=gpu\nNodeName=a CPUs=1\nPartitionName=batch Nodes=a\n"
    )
    (folder / "plugstack.conf").write_text("")
    return folder / "slurm.conf"


# What sbatch says when it asked the absent controller, after it read every option.
_READ_ALL = ("Unable to contact", "allocation failure", "unsupported by configured SelectType")


def _sbatch_refuses(conf: Path, directive: str) -> bool:
    job = conf.with_name("job.sh")
    job.write_text(f"{HEAD}#SBATCH {directive}\ntrue\n", "utf-8")
    done = subprocess.run(
        ["sbatch", "--test-only", job],
        env={"SLURM_CONF": str(conf), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return not any(text in done.stderr for text in _READ_ALL)


@pytest.mark.parametrize("text", [*MALFORMED, *UNKNOWN, *BAD_VALUES])
def test_sbatch_refuses_what_is_an_error(conf: Path, text: str) -> None:
    assert _sbatch_refuses(conf, text)


@pytest.mark.parametrize("text", GOOD)
def test_sbatch_takes_what_is_passed(conf: Path, text: str) -> None:
    assert not _sbatch_refuses(conf, text)


_VALUE = st.one_of(
    st.text("0123456789:-", min_size=1, max_size=9),
    st.text("0123456789kKmMgGtTpPbB.", min_size=1, max_size=5),
)
# Those that need neither GPU plugins nor the controller, and that 22.05 has.
_JUDGED = sorted(
    name
    for name, grammar in grammars().items()
    if "gpu" not in name
    and name not in {"--nodes", "--segment", "--oom-kill-step", "--thread-spec", "--core-spec"}
    and grammar.reader == "sbatch"
)


@given(st.sampled_from(_JUDGED), _VALUE)
@settings(max_examples=80, deadline=None)
def test_a_value_is_refused_only_where_sbatch_refuses_it(conf: Path, name: str, value: str) -> None:
    if value_fault(name, value):
        assert _sbatch_refuses(conf, f"{name}={value}")


def test_a_fix_is_the_word_that_is_meant() -> None:
    def fixes(text: str) -> list[tuple[str, str] | None]:
        return [finding.fix for finding in found(RULES, script(f"{HEAD}#SBATCH {text}\n"))]

    assert fixes("-mem=0") == [("-mem=0", "--mem=0")]
    assert fixes("--N 4") == [("--N", "-N")]
    assert fixes("---time=30") == [("---time=30", "--time=30")]
    assert fixes("nodes=2") == [None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#SBATCH --mem=0\n#SBATCH --mem-per-cpu=8G\nsrun true", [("SLURM104", "error", 3)]),
        ("#SBATCH --mem-per-gpu=8G --mem=0\nsrun true", [("SLURM104", "error", 2)]),
        ("srun --mem=0 --mem-per-cpu=1G true", [("SLURM104", "error", 2)]),
        ("#SBATCH --mem=0\nsrun --mem-per-cpu=1G true", []),
        # GPUs
        ("#SBATCH -N 1\n#SBATCH --gpus-per-node=8\n#SBATCH --gres=gpu:8\nsrun true",
         [("SLURM109", "warning", 4)]),
        ("#SBATCH --gres=gpu:h100:8\n#SBATCH -G 8\ntrue", [("SLURM109", "warning", 3)]),
        ("#SBATCH --gpus-per-node=4 --gres=gpu:2\ntrue", [("SLURM109", "error", 2)]),
        ("#SBATCH -N 2 --gpus-per-node=4 --gpus=4\ntrue", [("SLURM109", "error", 2)]),
        ("#SBATCH -N 2 --gpus-per-node=4 --gpus=8\ntrue", []),
        ("#SBATCH --gpus-per-node=4 --gres=nvme:1\ntrue", []),
        (f"#SBATCH -N 2 --gpus=7\nsrun {TRAIN} b.yml hardware=gpu_multiprocess $X",
         [("SLURM109", "warning", 2)]),
        # tasks
        ("#SBATCH -N 2 --ntasks=32\n#SBATCH --ntasks-per-node=8\ntrue",
         [("SLURM110", "error", 2)]),
        ("#SBATCH -N 2 --ntasks=8 --ntasks-per-node=8\ntrue", [("SLURM110", "warning", 2)]),
        ("#SBATCH -N 4 -n 2\ntrue", [("SLURM110", "warning", 2)]),
        ("#SBATCH -N 2 --ntasks=16 --ntasks-per-node=8\ntrue", []),
        ("#SBATCH -N 1 -n 1\n#SBATCH hetjob\n#SBATCH -N 4 -n 2\ntrue", []),
        # nothing is expanded
        ("#SBATCH --container-mounts=$PWD\nsrun true", [("SLURM107", "error", 2)]),
        ("#SBATCH -o ${HOME}/%j.log\ntrue", [("SLURM107", "error", 2)]),
        ("#SBATCH --chdir=~/run\ntrue", [("SLURM107", "error", 2)]),
        ("#SBATCH --time=`date`\ntrue", [("SLURM107", "error", 2)]),
        ("#SBATCH --nodes=$(nproc)\ntrue", [("SLURM107", "error", 2)]),
        ("#SBATCH --job-name=$USER\ntrue", [("SLURM107", "warning", 2)]),
        ("#SBATCH --comment='100$'\n#SBATCH --output=a~b.log\ntrue", []),
        # ignored lines
        ("echo start\n#SBATCH --nodes=4\ntrue", [("SLURM108", "warning", 3)]),
        ("# SBATCH --nodes=4\ntrue", [("SLURM108", "warning", 2)]),
        ("#sbatch --nodes=4\ntrue", [("SLURM108", "warning", 2)]),
        (" #SBATCH --nodes=4\ntrue", [("SLURM108", "warning", 2)]),
        ("##SBATCH --nodes=4\n# use #SBATCH lines\ntrue", []),
        # said twice
        ("#SBATCH --export=ALL,A=1\n#SBATCH --export=ALL\ntrue", [("SLURM111", "warning", 3)]),
        ("#SBATCH --nodes=2\n#SBATCH -N 4\ntrue", [("SLURM111", "warning", 3)]),
        ("srun -n 2 --ntasks=4 true", [("SLURM111", "warning", 2)]),
        ("#SBATCH --nodes=2\nsrun -N 1 -n 1 true", []),
        # a range of nodes
        (f"#SBATCH -N 2-4\nsrun {TRAIN} b.yml", [("SLURM113", "warning", 2)]),
        ("#SBATCH -N 2-4\nsrun hostname", []),
        # launchers in launchers
        (f"srun mpirun -n 4 {TRAIN} b.yml", [("SLURM112", "warning", 2)]),
    ],
)  # fmt: skip
def test_requests(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert seen(RULES, script(f"{HEAD}{text}\n")) == expected


def test_a_log_name_gets_slurms_own_pattern() -> None:
    text = f"{HEAD}#SBATCH --output=logs/$SLURM_JOB_NAME-${{SLURM_JOB_ID}}.log\ntrue\n"
    (finding,) = found(RULES, script(text))
    assert finding.hint == "--output=logs/%x-%j.log"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("srun --export=XLA_FLAGS,NCCL_DEBUG=INFO x", [("SLURM105", "error", 2)]),
        ("srun --export=NONE x", [("SLURM105", "error", 2)]),
        ("srun --export NIL x", [("SLURM105", "error", 2)]),
        ("srun --export=ALL x", []),
        ("srun --export=ALL,A=1 x", []),
        ("srun --export=A=1,ALL x", []),
        ("srun --export=$NAMES x", []),
        ("srun x", []),
        ("sbatch --export=A=1 job.sh", [("SLURM105", "warning", 2)]),
        ("export SLURM_EXPORT_ENV=A\nsrun x", [("SLURM105", "error", 2)]),
        ("#SBATCH --export=WANDB_KEY\nsrun x", [("SLURM105", "error", 2)]),
        ("#SBATCH --export=WANDB_KEY\nsrun --export=ALL x", []),
        ("#SBATCH --export=WANDB_KEY\nexport SLURM_EXPORT_ENV=ALL\nsrun x", []),
        ("#SBATCH --export=NONE\nexport XLA_FLAGS=--a\nsrun x", [("SLURM105", "error", 2)]),
        ("#SBATCH --export=NONE\nsrun /bin/true", []),
        ("#SBATCH --export=ALL,A=1\nexport B=1\nsrun x", []),
    ],
)
def test_what_is_exported(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert seen(RULES, script(f"{HEAD}{text}\n")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("srun x", [("SLURM106", "warning", 3)]),
        ("srun -c 16 x", []),
        ('srun --cpus-per-task="$SLURM_CPUS_PER_TASK" x', []),
        ("export SRUN_CPUS_PER_TASK=16\nsrun x", []),
        ("srun --cpu-bind=none x", []),
        ("srun $OPTIONS --label x", []),
        ("true", []),
        (f"srun -n 1 nvidia-smi\nsrun -c 16 {TRAIN} b.yml", []),
    ],
)
def test_cpus_of_a_task(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert seen(RULES, script(f"{HEAD}#SBATCH --cpus-per-task=16\n{text}\n")) == expected


def test_one_cpu_a_task_is_what_srun_gives_anyway() -> None:
    assert seen(RULES, script(f"{HEAD}#SBATCH -c 1\nsrun x\n")) == []


def test_a_batch_script_without_an_interpreter_is_noted() -> None:
    codes = [f.code for f in found(RULES, script("#SBATCH -N 2\ntrue\n"))]
    assert codes == ["SLURM116"]
    assert found(RULES, script("srun true\n")) == []


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("srun --wait=60 --kill-on-bad-exit=1 x", []),
        ("srun -W 60 x", []),
        ("srun --wait 60 x", []),
        ("srun --wait x", ["SLURM103"]),  # x is the value then
        ("sbatch --wait job.sh", []),
        ("sbatch -W job.sh", []),
        ("sbatch --wait=60 job.sh", ["SLURM102"]),
        ("#SBATCH --wait\ntrue", []),
        ("#SBATCH -W\ntrue", []),
    ],
)
def test_wait_is_another_option_to_srun_than_to_sbatch(text: str, codes: list[str]) -> None:
    rows = seen(RULES, script(f"{HEAD}{text}\n"))
    assert [code for code, _, _ in rows if code in {"SLURM101", "SLURM102", "SLURM103"}] == codes


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("srun --kill-on-bad-exit=yes x", "error"),
        ("srun --cpu-bind=off x", "error"),
        ("srun --gres=gpus:4 x", "error"),
        ("srun --gres=gpu=4 x", "warning"),
        ("sbatch --mail-type=FINISH job.sh", "error"),
        ("#SBATCH --nodes=4,8", "warning"),
        ("#SBATCH --array=a-b", "error"),
        ("#SBATCH --exclusive=topo", None),
        ("srun --cpu-bind=$BIND x", None),
    ],
)
def test_values_are_judged_in_every_place(text: str, severity: str | None) -> None:
    rows = seen(RULES, script(f"{HEAD}{text}\n"))
    assert [row for row in rows if row[0] == "SLURM103"] == (
        [("SLURM103", severity, 2)] if severity else []
    )
