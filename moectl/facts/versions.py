"""Which catalogues judge a job: the image's own when probed, else the nearest releases.

An image built between two releases may hold the keys of either, so what only one of them
refuses is no error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from moectl.facts import images, maxtext, xla
from moectl.facts.yaml_facts import read
from moectl.values import Image

if TYPE_CHECKING:
    from moectl.facts.probed import Probed

Verdict: TypeAlias = Literal["known", "refused", "unsure"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The releases that judge a job.

    Attributes:
        maxtext_release: MaxText release whose catalogue is used.
        jaxlib_release: jaxlib release whose flags are used.
        between: whether the image's date lies between releases of either package.
        maxtext_neighbours: catalogued MaxText releases around the image's date, older first;
            the one release when it is certain.
        jaxlib_neighbours: the same for jaxlib.
        notes: how they were chosen, a sentence each; empty when nothing had to be chosen.
    """

    maxtext_release: str
    jaxlib_release: str
    between: bool
    maxtext_neighbours: tuple[str, ...]
    jaxlib_neighbours: tuple[str, ...]
    notes: tuple[str, ...] = ()


def releases_for(
    image: Image | None,
    maxtext_release: str | None = None,
    jaxlib_release: str | None = None,
    probed: Probed | None = None,
) -> Chosen:
    """Return the releases that judge a job.

    What was named is stronger than what a probe told, and that is stronger than a date.

    Args:
        image: the image as far as it is known; None when nobody names one.
        maxtext_release: release named by the person.
        jaxlib_release: likewise.
        probed: what a probe told of the image.

    Raises:
        UnknownNameError: a named release is not catalogued.
    """
    base = image or images.image(images.default_image())
    keys = _package("maxtext", "MaxText", base, maxtext_release, probed)
    flags = _package("jaxlib", "jaxlib", base, jaxlib_release, probed)
    notes = [note for _, _, _, note in (keys, flags) if note]
    return Chosen(keys[0], flags[0], keys[2] or flags[2], keys[1], flags[1], tuple(notes))


def key_verdict(key: str, image: Image | None, *, argument: bool = False) -> Verdict:
    """Say whether the MaxText of an image has a key.

    Args:
        key: the key, `parent.name` for a nested one.
        image: the image; None for none in particular.
        argument: whether a command line said it, where nesting is written with a dot.

    Returns:
        "refused" only when every release around the image's date refuses it, "known" when all
        have it, and "unsure" when they differ.
    """
    held = [maxtext.load(name).key(key) for name in _around("maxtext", image)]
    return _verdict(found is not None and (argument or "." not in key) for found in held)


def adopt(probed: Probed, reference: str) -> Image:
    """Return an image as a probe told it; its catalogues are then found by their names.

    A part the probe lacks is judged by the nearest release, as without a probe.

    Args:
        probed: what the image holds.
        reference: the image, as it is named.
    """
    from moectl.xla_text import parse  # noqa: PLC0415

    found = images.image(reference)
    changes: dict[str, object] = {}
    if probed.maxtext is not None:
        changes["maxtext"] = maxtext.adopt(probed.maxtext, probed.name)
    if probed.xla is not None:
        changes["jaxlib"] = xla.adopt(probed.xla, probed.name)
    if probed.baked_flags:
        tokens = parse(probed.baked_flags).kept
        changes["baked_flags"] = {t.name: True if t.value is None else t.value for t in tokens}
    whole = probed.maxtext is not None and probed.xla is not None
    return replace(found, probed=whole, **changes)  # type: ignore[arg-type]


def oldest(package: str) -> tuple[str, str]:
    """Return the oldest catalogued release of "maxtext" or "jaxlib", and its date."""
    dates = _dates(package)
    release = min((name for name in dates if name in _catalogued(package)), key=dates.__getitem__)
    return release, dates[release]


def _package(
    package: str, title: str, image: Image, named: str | None, probed: Probed | None
) -> tuple[str, tuple[str, ...], bool, str]:
    """Return release, neighbours, whether it lies between, and the note about it."""
    if named is not None:
        (maxtext.load if package == "maxtext" else xla.load)(named)
        return named, (named,), False, ""
    held = None if probed is None else probed.maxtext if package == "maxtext" else probed.xla
    if held is not None:
        return held.release, (held.release,), False, ""
    release: str = getattr(image, package)
    around = _around(package, image)
    if image.date is None:
        note = f"the {title} of {image.reference} is unknown; {release} stands for it"
        return release, around, False, note
    before, after = images.neighbours(package, image.date)
    between = before is not None and after is not None
    if between:
        dates = _dates(package)
        note = (
            f"{image.reference} is of a date between {title} {before} ({dates[str(before)]}) and "
            f"{after} ({dates[str(after)]}); {release} stands for it"
        )
        return release, around, True, note
    side = "older" if before is None else "newer"
    note = f"{image.reference} is {side} than every catalogued {title}; {release} stands for it"
    return release, around, False, note


def _around(package: str, image: Image | None) -> tuple[str, ...]:
    """Return the catalogued releases that an image's own may lie between."""
    base = image or images.image(images.default_image())
    release: str = getattr(base, package)
    if base.probed or base.date is None:
        return (release,)
    known = _catalogued(package)
    found = [name for name in images.neighbours(package, base.date) if name in known]
    return tuple(found) or (release,)


def _dates(package: str) -> dict[str, str]:
    found: dict[str, str] = read("images.yaml")["releases"][package]
    return found


def _catalogued(package: str) -> tuple[str, ...]:
    return tuple(maxtext.releases()) if package == "maxtext" else xla.releases()


def _verdict(held: Iterable[bool]) -> Verdict:
    answers = set(held)
    return "unsure" if len(answers) > 1 else "known" if answers == {True} else "refused"
