"""Which file is meant by a cluster profile: a path, a name, or what $MOECTL_CLUSTER says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from moectl.errors import UnknownNameError

VARIABLE = "MOECTL_CLUSTER"
_ENDINGS = (".yaml", ".yml")


def folder(environment: Mapping[str, str]) -> Path:
    """Return where profiles are kept by name: NAME.yaml in it."""
    config = environment.get("XDG_CONFIG_HOME", "")
    base = Path(config) if config.startswith("/") else Path(environment.get("HOME") or "/")
    return (base if config.startswith("/") else base / ".config") / "moectl" / "clusters"


def names(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the profiles that are kept."""
    try:
        return sorted(path.stem for path in folder(environment).glob("*.yaml"))
    except OSError:
        return []


def find(said: str | None, environment: Mapping[str, str]) -> Path | None:
    """Return the file of a cluster profile, None when nobody named one.

    Args:
        said: what --cluster says; None leaves it to the variable.
        environment: the variables of this process.

    Raises:
        UnknownNameError: a name that no file has; the nearest are named.
    """
    where = "--cluster"
    if said is None:
        said, where = environment.get(VARIABLE, ""), f"${VARIABLE}"
    if not said:
        return None
    path = Path(said)
    if "/" in said or path.suffix in _ENDINGS or path.exists():
        return path
    kept = folder(environment) / f"{said}.yaml"
    if kept.is_file():
        return kept
    raise UnknownNameError(
        "cluster profile",
        said,
        names(environment),
        where=where,
        why=f"no such file, and no {kept}",
    )
