"""The text of #SBATCH lines, judged by real sbatch where it is installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from moectl.rules import slurm, slurm_directives
from tests.support.components import require
from tests.support.scripts import found, script, seen

HEAD = "#!/bin/bash\n"
OPEN = [
    "--comment=don't",
    '--job-name="x',
    "--comment='a\\'",
    "-J 'a b",
    "--comment=a\\#don't",
    '--comment="a\\"',
]
CLOSED = [
    '--comment="a\'b"',
    "--comment=a\\'b",
    "--comment='a\"b'",
    "--nodes=1 # don't",
    "--nodes=1 #don't",
    "--comment=a#don't",
    '--comment="a\\"b"',
    "--comment='x'y",
    "--comment=a\\",
]


def _rows(text: str) -> list[tuple[str, str, int | None]]:
    return seen(slurm_directives.RULES, script(f"{HEAD}{text}\n"))


@pytest.mark.parametrize("text", OPEN)
def test_an_open_quote_is_an_error_at_its_line(text: str) -> None:
    assert _rows(f"#SBATCH -N 1\n#SBATCH {text}\ntrue") == [("SLURM117", "error", 3)]


@pytest.mark.parametrize("text", CLOSED)
def test_quotes_that_close_and_quotes_in_comments_are_passed(text: str) -> None:
    assert [row for row in _rows(f"#SBATCH {text}\ntrue") if row[0] == "SLURM117"] == []


def test_the_column_is_that_of_the_quote() -> None:
    (only,) = found(slurm_directives.RULES, script(f"{HEAD}#SBATCH --comment=don't\ntrue\n"))
    assert (only.line, only.column) == (2, 22)


@pytest.mark.parametrize("text", [*OPEN, *CLOSED])
def test_sbatch_says_the_same_of_quotes(tmp_path: Path, text: str) -> None:
    require("slurm")
    (tmp_path / "slurm.conf").write_text(
        "ClusterName=x\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\n"
        f"AuthType=auth/none\nCredType=cred/none\nPlugStackConfig={tmp_path}/none\n"
        "MessageTimeout=1\nNodeName=a CPUs=1\nPartitionName=batch Nodes=a\n"
    )
    job = tmp_path / "job.sh"
    job.write_text(f"{HEAD}#SBATCH {text}\ntrue\n")
    done = subprocess.run(
        ["sbatch", "--test-only", job],
        env={"SLURM_CONF": str(tmp_path / "slurm.conf"), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ("Unmatched" in done.stderr) == (text in OPEN)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#SBATCH --container-image=nvcr.io#nvidia/jax:25.01", [("SLURM118", "error", 2)]),
        ("#SBATCH -N 1 --output=log#%j.txt", [("SLURM118", "warning", 2)]),
        ("#SBATCH --nodes=4#four", [("SLURM118", "warning", 2)]),
        ("#SBATCH --container-image='nvcr.io#nvidia/jax:25.01'", []),
        ("#SBATCH --container-image=nvcr.io\\#nvidia/jax:25.01", []),
        ("#SBATCH --nodes=4 #four", []),
        ("#SBATCH --nodes=4\t# a#b", []),
        ("##SBATCH --output=a#b", []),
        ("true\n#SBATCH --output=a#b", []),
        ("# SBATCH --output=a#b", []),
    ],
)
def test_a_hash_inside_a_value(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert _rows(text) == expected


def test_the_fix_puts_the_image_in_quotes() -> None:
    text = f"{HEAD}#SBATCH --container-image=nvcr.io#nvidia/jax:25.01 -N 2\ntrue\n"
    (only,) = found(slurm_directives.RULES, script(text))
    assert only.fix == ("nvcr.io#nvidia/jax:25.01", '"nvcr.io#nvidia/jax:25.01"')
    assert text.split("\n")[1][(only.column or 0) - 1 :].startswith("nvcr.io#")


def test_a_comment_that_touches_a_number_is_not_told_to_be_quoted() -> None:
    (only,) = found(slurm_directives.RULES, script(f"{HEAD}#SBATCH --nodes=4#four\ntrue\n"))
    assert only.fix is None
    assert only.hint.startswith("--nodes=4 #")


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("--ntasks-per-gpu=1 --gpus-per-task=1", "error"),
        ("--ntasks-per-node=4 --ntasks-per-gpu=1", "error"),
        ("--gpus-per-socket=4 --ntasks-per-gpu=1", "error"),
        ("--core-spec=1 --thread-spec=1", "error"),
        ("--exclusive --oversubscribe", "warning"),
        ("--cpus-per-task=4 --cpus-per-gpu=4", "warning"),
        ("--ntasks-per-gpu=1 --gpus=8", None),
        ("--ntasks-per-node=8 --gpus-per-node=8 --exclusive", None),
    ],
)
def test_options_that_exclude_each_other(text: str, severity: str | None) -> None:
    rows = seen(slurm.RULES, script(f"{HEAD}#SBATCH {text}\ntrue\n"))
    got = [row for row in rows if row[0] == "SLURM114"]
    assert got == ([] if severity is None else [("SLURM114", severity, 2)])


def test_a_pair_in_two_commands_is_no_pair() -> None:
    text = f"{HEAD}#SBATCH --ntasks-per-gpu=1 --gpus=8\nsrun --gpus-per-task=1 true\n"
    assert [row for row in seen(slurm.RULES, script(text)) if row[0] == "SLURM114"] == []


def test_a_value_of_requeue_is_for_new_releases_only() -> None:
    rows = seen(slurm.RULES, script(f"{HEAD}#SBATCH --requeue=1\ntrue\n"))
    assert ("SLURM102", "warning", 2) in rows
    assert seen(slurm.RULES, script(f"{HEAD}#SBATCH --requeue\ntrue\n")) == []
