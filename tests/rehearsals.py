"""Rehearses presets with real MaxText on this machine, one after the other, and tells of each.

python -m tests.rehearsals [PRESET ...]       as .ci/full does
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from moectl.actions.parity import compare, stage_both
from moectl.actions.plan import Wishes
from moectl.actions.rehearse import rehearse, stage
from moectl.launch.store import Store

PRESETS = ("deepseek3-671b", "qwen3-30b-a3b", "mixtral-8x7b", "gpt-oss-20b")
# Preset, path, and whether the two sides agree.
COMPARED = (
    ("deepseek3-671b", "native", True),
    ("deepseek3-671b", "routed_scaling_factor=1.0", False),
    ("mixtral-8x7b", "sparse", True),
)


def main(names: Sequence[str]) -> int:
    """Rehearse, print a line each, and return 1 when one does not hold."""
    bad = 0
    with tempfile.TemporaryDirectory(prefix="moectl-rehearsals-") as folder:
        store = Store(Path(folder))
        for name in names or PRESETS:
            found = rehearse(stage(name, Wishes()), store, _quiet)
            bad += not found.good
            _say(f"{name}: {'holds' if found.good else 'FAILS'} in {found.seconds:.0f} s")
            for each in found.verdicts:
                _say(f"    {'ok  ' if each.good else 'FAIL'} {each.name}: {each.why}")
        for name, path, agree in () if names else COMPARED:
            compared = compare(stage_both(name, Wishes(), path), store, _quiet)
            bad += compared.verdicts[-1].good is not agree
            _say(f"{name} against {path}: {compared.verdicts[-1].why}")
    return 1 if bad else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _quiet(_: str) -> None:
    """Say nothing of the steps."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
