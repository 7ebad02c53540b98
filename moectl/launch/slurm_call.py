"""Calls of Slurm's programs: bounded in time, and a refusal is told by its cause."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from moectl.errors import BackendError
from moectl.facts.yaml_facts import read
from moectl.launch.backend import UnansweredError

SECONDS = 60
# Variables that may say what a script leaves open, and its option.
_FILLED_IN = {
    f"SBATCH_{option.upper()}": option for option in ("account", "partition", "qos", "reservation")
}

# What a person set for their own tables and questions: it would change the columns, the order or
# the rows of an answer that is read here, or ask somebody who is not there.
_OWN_TASTE = ("SQUEUE_", "SACCT_", "SACCTMGR_", "SINFO_", "SCONTROL_", "SCANCEL_", "SSTAT_")
_OWN_NAMES = frozenset({"SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN", "SLURM_JSON", "SLURM_YAML"})


def call(
    words: Sequence[str],
    folder: Path | None = None,
    *,
    errors: bool = False,
    lock: int | None = None,
    text: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run one of Slurm's programs and return what it printed.

    Args:
        words: its command line.
        folder: where it runs.
        errors: whether standard error is part of the answer.
        lock: a file descriptor it inherits.
        text: its standard input.
        environment: its environment, if it is not this process's own.

    Raises:
        BackendError: it failed; the cause in a sentence, its own words below.
    """
    inherited = os.environ if environment is None else environment
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env=plain(inherited),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
            pass_fds=() if lock is None else (lock,),
            input=text or "",
        )
    except FileNotFoundError:
        if folder is not None and not folder.is_dir():
            raise BackendError(f"{folder} is not there any more") from None
        raise BackendError(
            f"{words[0]} is not on this machine: it is one where Slurm's programs are that submits"
        ) from None
    except subprocess.TimeoutExpired:
        raise UnansweredError(f"{words[0]} gave no answer in {SECONDS} s") from None
    except OSError as error:
        raise BackendError(f"{words[0]} cannot be run: {error.strerror}") from None
    if done.returncode:
        raise refused(words[0], done.stderr or done.stdout)
    return done.stdout + (done.stderr if errors else "")


def plain(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which Slurm's programs answer in the form that is read here."""
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(_OWN_TASTE) and name not in _OWN_NAMES
    }
    return {**kept, "SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"}


def submitting(script: str) -> dict[str, str]:
    """Return the environment of sbatch for a script.

    For sbatch a variable SBATCH_X is stronger than the script's own directive, so that what a
    shell happens to hold would change the run. Those stay that say what the script leaves open.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SBATCH_")
        or (name in _FILLED_IN and f"#SBATCH --{_FILLED_IN[name]}=" not in script)
    }


def refused(program: str, said: str) -> BackendError:
    """Return a refusal: its cause in one sentence, and Slurm's own words below."""
    row = _row("rows", said)
    kind = UnansweredError if row and row.get("unanswered") else BackendError
    return kind(refusal(program, said))


def refusal(program: str, said: str) -> str:
    """Return the cause of a refusal in one sentence, and Slurm's own words below."""
    own = "\n".join(f"  {line}" for line in said.strip().splitlines()[:20])
    if row := _row("rows", said):
        return f"{row['cause']}; {row['remedy']}\n{own}"
    return f"{program} refused\n{own}" if own else f"{program} failed without a word"


def blocked(reason: str) -> str:
    """Return why a job that waits for this reason will not start by itself, else nothing."""
    row = _row("waits", reason)
    return f"{row['cause']} (Slurm: {reason}); {row['remedy']}" if row else ""


def _row(table: str, said: str) -> dict[str, Any] | None:
    rows: list[dict[str, Any]] = read("slurm_refusals.yaml")[table]
    return next((row for row in rows if re.search(row["says"], said)), None)
