"""Rendered scripts under a real shell, with srun replaced by a program that notes its words."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# Notes its arguments, then runs what srun would run, as process 0 of the job.
SRUN = """#!/bin/bash -p
printf '%s\\0' "$@" >>"{notes}/srun-$BASHPID"
while [ "$#" -gt 0 ]; do case $1 in --*) shift ;; *) break ;; esac; done
export SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURMD_NODENAME=node0
exec "$@"
"""
SCONTROL = """#!/bin/sh
case "$1 $2" in
  'show hostnames') echo node0 ;;
  *) exit 1 ;;
esac
"""
# Stands in for MaxText; every other use of Python is real.
PYTHON = """#!/bin/bash -p
if [ "${{1-}}" = -m ]; then
  printf '%s\\0' "$@" >"{notes}/maxtext"
  env -0 >"{notes}/environment"
  exit 0
fi
exec {python} "$@"
"""


@dataclass(frozen=True)
class Ran:
    """What a run of launch.sbatch did."""

    code: int
    output: str
    srun: list[list[str]]
    maxtext: list[str]
    environment: dict[str, str]


def words(path: Path) -> list[str]:
    """Return the NUL-separated words of a file; none when it is missing."""
    if not path.is_file():
        return []
    return path.read_bytes().decode("utf-8", "surrogateescape").split("\0")[:-1]


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of a bundle."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)


def run(
    shell: str, bundle: Path, scratch: Path, environment: Mapping[str, str] | None = None
) -> Ran:
    """Run launch.sbatch of a bundle by hand, as inside an allocation of one node.

    Args:
        shell: "sh" or "bash"; "" runs the file as Slurm does, by its first line.
        bundle: where the files lie.
        scratch: an empty folder for the stand-ins and their notes.
        environment: variables of the submitting shell beside PATH and HOME.
    """
    programs, notes = scratch / "bin", scratch / "notes"
    programs.mkdir(parents=True)
    notes.mkdir()
    stand_ins = {
        "srun": SRUN.format(notes=notes),
        "scontrol": SCONTROL,
        "python3": PYTHON.format(notes=notes, python=sys.executable),
    }
    for name, text in stand_ins.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    done = subprocess.run(
        [*([shell] if shell else []), str(bundle / "launch.sbatch")],
        cwd=scratch,
        env={
            "PATH": f"{programs}:/usr/bin:/bin",
            "HOME": str(scratch),
            "SLURM_JOB_ID": "4711",
            "SLURM_JOB_NODELIST": "node0",
            "SLURM_CPUS_ON_NODE": "16",
            **(environment or {}),
        },
        capture_output=True,
        timeout=60,
        check=False,
    )
    pairs = (entry.partition("=") for entry in words(notes / "environment"))
    return Ran(
        code=done.returncode,
        output=(done.stdout + done.stderr).decode("utf-8", "surrogateescape"),
        srun=[words(path) for path in sorted(notes.glob("srun-*"))],
        maxtext=words(notes / "maxtext"),
        environment={name: value for name, _, value in pairs},
    )
