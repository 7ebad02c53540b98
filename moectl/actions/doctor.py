"""From what was seen of a cluster to what is found or missing, and to a cluster profile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from moectl.actions.doctor_checks import Check, checks
from moectl.actions.doctor_profile import Key, profile
from moectl.launch.doctor import Site, look
from moectl.launch.whole_file import write
from moectl.settings.emit import flow


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What `moectl doctor` says."""

    checks: tuple[Check, ...]
    profile: tuple[Key, ...]

    @property
    def missing(self) -> bool:
        """Whether something is missing that a launch needs."""
        return any(check.state == "missing" for check in self.checks)

    def text(self) -> str:
        """Return the profile as YAML."""
        lines = ["# A cluster profile: what `moectl doctor` found. docs/cluster.md has every key."]
        for key in self.profile:
            lines.append(f"# {key.why}")
            lines.append(f"{key.name}: {flow(key.value, omegaconf=False)}")
        return "\n".join(lines) + "\n"

    def save(self, path: Path, *, force: bool) -> None:
        """Write the profile, whole or not at all.

        Raises:
            LocalFilesError: the file is there, or the file system refuses.
        """
        write(path, self.text(), force=force)


def diagnose(look_around: Callable[[], Site] = look) -> Diagnosis:
    """Look at the cluster and say what it has."""
    site = look_around()
    return Diagnosis(tuple(checks(site)), tuple(profile(site)))
