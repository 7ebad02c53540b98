"""Reads profiles and says where the time of their devices went."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from moectl.errors import LocalFilesError
from moectl.logs.xplane import SUFFIX, profiles
from moectl.report.traced import Traced, traced

__all__ = ["Traced", "trace"]


def trace(paths: Sequence[str]) -> list[Traced]:
    """Read profiles.

    Args:
        paths: xplane.pb files, and folders of which the newest profile is read.

    Raises:
        MoectlError: one of them cannot be read, or holds no profile.
    """
    found = []
    for said in paths:
        path = Path(said)
        if not path.exists():
            raise LocalFilesError(f"{said}: no such file or folder")
        files = profiles(path) if path.is_dir() else [path]
        if not files:
            raise LocalFilesError(
                f"{said} holds no profile (*{SUFFIX}); MaxText writes one with "
                "`--profile xplane`, at tensorboard/plugins/profile of its output"
            )
        found += [traced(file) for file in files]
    return found
