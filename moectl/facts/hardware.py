"""The catalogue of GPU platforms."""

from __future__ import annotations

from typing import Any

from moectl.errors import UnknownNameError
from moectl.facts.yaml_facts import read
from moectl.values import Hardware


def names() -> list[str]:
    """Return the platform names, in the order of the catalogue."""
    return list(read("hardware.yaml")["platforms"])


def known() -> list[str]:
    """Return every name and alias of a platform."""
    rows = read("hardware.yaml")["platforms"]
    return [*rows, *(alias for row in rows.values() for alias in row["aliases"])]


def platform(name: str, *, where: str = "") -> Hardware:
    """Return a platform by name or alias.

    Args:
        name: e.g. "gb200-nvl72" or "gb200".
        where: who said it, for the message.

    Raises:
        UnknownNameError: no such platform; the nearest are named.
    """
    if name in _adopted:
        return _adopted[name]
    platforms: dict[str, dict[str, Any]] = read("hardware.yaml")["platforms"]
    aliases = {alias: known for known, row in platforms.items() for alias in row["aliases"]}
    folded = name.casefold()
    known = folded if folded in platforms else aliases.get(folded)
    if known is None:
        raise UnknownNameError("hardware", name, [*platforms, *aliases], where=where)
    row = platforms[known]
    return Hardware(
        name=known,
        title=row["title"],
        architecture=row["architecture"],
        compute_capability=row.get("compute_capability"),
        gpus_per_node=row["gpus_per_node"],
        domain_gpus=row["domain_gpus"],
        usable_domain_gpus=row["usable_domain_gpus"],
        cpu_cores_per_node=row.get("cpu_cores_per_node"),
        cpu_architecture=row.get("cpu_architecture"),
        gres_type=row["gres_type"],
        figures=row["figures"],
    )


def adopt(found: Hardware) -> Hardware:
    """Keep a platform that a person described, so that `platform` finds it by its name."""
    _adopted[found.name] = found
    return found


_adopted: dict[str, Hardware] = {}


def details(name: str) -> dict[str, Any]:
    """Return everything the catalogue says of a platform, its sources written out."""
    catalogue = read("hardware.yaml")
    known = platform(name).name
    row = dict(catalogue["platforms"][known])
    row["sources"] = {code: catalogue["sources"][code] for code in row["sources"]}
    return {"name": known, **row}
