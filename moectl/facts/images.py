"""Container images by date: what they bake, and which releases stand for their own."""

from __future__ import annotations

from typing import Any

from moectl.facts.yaml_facts import read
from moectl.values import Image


def default_image() -> str:
    """Return the reference used when nothing is said."""
    return str(read("images.yaml")["default"])


def image(
    reference: str,
    *,
    digest: str = "",
    maxtext: str | None = None,
    jaxlib: str | None = None,
) -> Image:
    """Return what is known of an image.

    Args:
        reference: "registry/path:tag", with or without "@sha256:...", or a .sqsh path.
        digest: the pinned digest, when said beside the reference.
        maxtext: release of its MaxText, when known.
        jaxlib: release of its jaxlib, when known.

    Returns:
        The image; `probed` only when both releases were given.
    """
    name, _, inline = reference.partition("@")
    found = _entry(name)
    nearest = found["nearest"] if found else _nearest(_date(name))
    return Image(
        reference=name,
        digest=digest or inline,
        date=_date(name),
        maxtext=maxtext or nearest["maxtext"],
        jaxlib=jaxlib or nearest["jaxlib"],
        probed=bool(maxtext and jaxlib),
        baked_flags=dict(found["baked_flags"]) if found else {},
    )


def provides(reference: str, what: str) -> bool | None:
    """Whether the image provides a capability; None for an image nothing is known of."""
    found = _entry(reference.partition("@")[0])
    return None if found is None else what in found["provides"]


def first_with(what: str) -> str | None:
    """Return the date of the first catalogued image with a capability."""
    dates = [row["since"] for row in read("images.yaml")["images"] if what in row["provides"]]
    return min(dates, default=None)


def neighbours(package: str, date: str) -> tuple[str | None, str | None]:
    """Return the last catalogued release of `package` not after `date`, and the next one."""
    released: dict[str, str] = read("images.yaml")["releases"][package]
    before = [name for name, day in released.items() if day <= date]
    after = [name for name, day in released.items() if day > date]
    return (
        max(before, key=released.__getitem__, default=None),
        min(after, key=released.__getitem__, default=None),
    )


def _entry(name: str) -> dict[str, Any] | None:
    repository = name.rpartition(":")[0].replace("#", "/")
    date = _date(name)
    if date is None:
        return None
    for row in read("images.yaml")["images"]:
        if row["repository"] == repository and row["since"] <= date:
            found: dict[str, Any] = row
            return found
    return None


def _nearest(date: str | None) -> dict[str, str]:
    """Return the releases that stand for an image of no catalogued repository, by its date."""
    table = read("images.yaml")
    rows = table["images"]
    found: dict[str, str] = table["unknown"]
    if date is not None:
        found = next((row for row in rows if row["since"] <= date), rows[-1])["nearest"]
    return found


def _date(name: str) -> str | None:
    """Return the YYYY-MM-DD at the end of a tag, or None.

    A tag that names a month, as NVIDIA's YY.MM, is of its first day.
    """
    repository, _, tag = name.rpartition(":")
    tail = tag[-10:]
    parts = tail.split("-")
    lengths = [len(part) for part in parts if part.isdigit()]
    if lengths == [4, 2, 2] and len(parts) == 3:
        return tail
    year, dot, month = tag.partition("-")[0].partition(".")
    monthly = repository.replace("#", "/") in read("images.yaml")["monthly"]
    if not (monthly and dot and len(year) == len(month) == 2 and (year + month).isdigit()):
        return None
    return f"20{year}-{month}-01" if 1 <= int(month) <= 12 else None
