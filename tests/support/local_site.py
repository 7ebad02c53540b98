"""A person's folder on one machine, and a program that stands in for MaxText."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.launching import SECRET, run_command

RUN = """\
preset: mixtral-8x7b
name: {name}
hardware: gb200-nvl72
gpus: 4
launcher: local
model:
  overrides:
    base_emb_dim: 64
    base_num_query_heads: 4
    base_num_kv_heads: 2
    base_mlp_dim: 128
    base_moe_mlp_dim: 128
    base_num_decoder_layers: 2
    vocab_size: 256
    head_dim: 16
parallelism: {{ici: {{fsdp: 2, expert: 2}}}}
batch: {{per_device: 1, sequence_length: 32}}
training: {{steps: 3}}
cluster: {{runtime: none, python: {python}, devices: cpu, processes: {processes}}}
"""
# Does what the file "behaviour" says, else trains three steps. A stand-in for MaxText.
PYTHON = f"""#!/bin/bash -p
if [ "${{1-}}" = -m ]; then
  if [ -f {{folder}}/behaviour ]; then exec /bin/sh {{folder}}/behaviour; fi
  for step in 0 1 2; do
    echo "completed step: $step, seconds: 0.500, TFLOP/s/device: 100.000," \\
      "Tokens/s/device: 1000.000, total_weights: 1024, loss: 10.$step"
  done
  exit 0
fi
exec {sys.executable} "$@"
"""


@dataclass(frozen=True)
class Machine:
    """A person's folder.

    Attributes:
        folder: the folder.
    """

    folder: Path

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def behave(self, script: str) -> None:
        """Let the processes do something else from now on."""
        (self.folder / "behaviour").write_text(script)

    def run_file(self, name: str = "moe", processes: int = 1, more: str = "") -> str:
        """Write a run file and return its path."""
        path = self.folder / f"{name}-{processes}.yaml"
        python = self.folder / "python"
        path.write_text(RUN.format(name=name, python=python, processes=processes) + more)
        return str(path)

    def launch(self, *words: str, name: str = "moe", processes: int = 1, more: str = "") -> int:
        """Launch as `moectl launch` does, and return the exit code."""
        return run_command(["launch", self.run_file(name, processes, more), *words])

    def records(self, root: Path | None = None) -> dict[str, dict[str, Any]]:
        """Return the records on the disk, by folder."""
        found = (root or self.runs).glob("*/record.json")
        return {path.parent.name: json.loads(path.read_text()) for path in found}

    def jobs(self, root: Path | None = None) -> list[dict[str, Any]]:
        """Return the files of all jobs, oldest first."""
        paths = sorted((root or self.runs).glob("*/jobs/*.json"), key=lambda path: path.name)
        return [json.loads(path.read_text()) for path in paths]

    def programs(self) -> list[int]:
        """Return the programs that run jobs of this folder, by their command lines.

        What they start has the same one for a moment, between fork and exec.
        """
        found: dict[int, int] = {}
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if f"--jobs={self.runs}".encode() in b"\0".join(words):
                    stat = (path.parent / "stat").read_text()
                    found[int(path.parent.name)] = int(stat.rpartition(")")[2].split()[1])
        return [pid for pid, parent in found.items() if parent not in found]

    def until(self, true: Callable[[], bool], what: str, limit: float = 60) -> None:
        """Wait until something is true."""
        deadline = time.monotonic() + limit
        while not true():
            assert time.monotonic() < deadline, f"not within {limit} s: {what}; {self.jobs()}"
            time.sleep(0.05)

    def ended(self) -> None:
        """Wait until no job runs."""
        self.until(lambda: not self.programs(), "all jobs end")


@contextlib.contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """Be a person at a machine without Slurm; their jobs end afterwards."""
    folder.mkdir()
    python = folder / "python"
    python.write_text(PYTHON.replace("{folder}", str(folder)))
    python.chmod(0o755)
    found = Machine(folder)
    patch = pytest.MonkeyPatch()
    for name in [*os.environ]:
        if name.startswith(("SLURM", "SBATCH", "MOECTL_", "XDG_STATE")):
            patch.delenv(name)
    patch.setenv("MOECTL_RUNS", str(found.runs))
    patch.setenv("HF_TOKEN", SECRET)
    patch.chdir(folder)
    try:
        yield found
    finally:
        patch.undo()
        for pid in found.programs():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
