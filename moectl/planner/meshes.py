"""Every way to lay a number of GPUs out as a mesh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from moectl.mesh import divisors


@dataclass(frozen=True, slots=True)
class Space:
    """What meshes are made of.

    Attributes:
        gpus: GPUs in all.
        gpus_per_node: GPUs a node; a slice is whole nodes.
        domain_gpus: GPUs of an NVLink domain that a slice may take.
        ici: axes that may have a degree inside a slice.
        dcn: axes that may have one across slices.
        experts: experts, which the expert degree must divide; None for a dense model.
        within_node: axes whose degree stays within a node.
    """

    gpus: int
    gpus_per_node: int
    domain_gpus: int
    ici: tuple[str, ...]
    dcn: tuple[str, ...]
    experts: int | None
    within_node: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """One mesh: degrees by axis, those of 1 left out.

    Attributes:
        ici: inside a slice.
        dcn: across slices.
    """

    ici: tuple[tuple[str, int], ...]
    dcn: tuple[tuple[str, int], ...]

    def degree(self, group: str, axis: str) -> int:
        """Return the degree of an axis in a group ("ici" or "dcn")."""
        return dict(self.ici if group == "ici" else self.dcn).get(axis, 1)

    def totals(self) -> tuple[tuple[str, int], ...]:
        """Return the devices along each axis, slices included, in the order of names."""
        found = dict(self.ici)
        for axis, degree in self.dcn:
            found[axis] = found.get(axis, 1) * degree
        return tuple(sorted(found.items()))

    def as_dict(self) -> dict[str, dict[str, int]]:
        """Return the JSON form."""
        return {"ici": dict(self.ici), "dcn": dict(self.dcn)}

    def __str__(self) -> str:
        """Return it in words, e.g. "ici fsdp 8 x expert 8, dcn fsdp 2"."""
        groups = [("ici", self.ici), ("dcn", self.dcn)]
        said = [
            f"{name} {' x '.join(f'{axis} {degree}' for axis, degree in held)}"
            for name, held in groups
            if held
        ]
        return ", ".join(said) or "one GPU"


def slices(space: Space) -> list[int]:
    """Return the sizes that a slice may have, largest first."""
    return [
        size
        for size in divisors(space.gpus)
        if size <= space.domain_gpus and size % space.gpus_per_node == 0
    ]


def meshes(space: Space) -> Iterator[Layout]:
    """Yield every mesh of a space, always in the same order.

    Its degrees multiply to the GPUs, its slices are whole nodes of one domain, and its expert
    degree divides the experts.
    """
    for size in slices(space):
        inner = [degrees for degrees in ways(size, space.ici) if _legal(degrees, space)]
        for outer in ways(space.gpus // size, space.dcn):
            for degrees in inner:
                yield Layout(degrees, outer)


def _legal(degrees: Sequence[tuple[str, int]], space: Space) -> bool:
    for axis, degree in degrees:
        if axis == "expert" and (space.experts or 1) % degree:
            return False
        if axis in space.within_node and degree > space.gpus_per_node:
            return False
    return True


@cache
def ways(number: int, axes: tuple[str, ...]) -> tuple[tuple[tuple[str, int], ...], ...]:
    """Return every way to write a number as a product of degrees, one an axis, 1 left out."""
    if not axes:
        return ((),) if number == 1 else ()
    axis, *rest = axes
    return tuple(
        (*(((axis, degree),) if degree > 1 else ()), *others)
        for degree in divisors(number)
        for others in ways(number // degree, tuple(rest))
    )


def nearest(space: Space, legal: int, most: int) -> list[int]:
    """Return numbers of GPUs near a space's own that have a mesh, at most one on either side.

    Args:
        space: the space; its number of GPUs has none.
        legal: how many nodes are tried on either side.
        most: the largest number of GPUs.
    """
    node = space.gpus_per_node
    start = space.gpus // node * node
    found = []
    for step in (-node, node):
        first = start if step < 0 and start != space.gpus else start + step
        for count in range(first, first + step * legal, step):
            if not 0 < count <= most:
                break
            if has_mesh(_of(space, count)):
                found.append(count)
                break
    return found


def has_mesh(space: Space) -> bool:
    """Return whether there is any mesh."""
    return next(meshes(space), None) is not None


def _of(space: Space, gpus: int) -> Space:
    return Space(
        gpus,
        space.gpus_per_node,
        space.domain_gpus,
        space.ici,
        space.dcn,
        space.experts,
        space.within_node,
    )


def matches(layout: Layout, wanted: Mapping[tuple[str, str], int]) -> bool:
    """Return whether a mesh has the degrees that are wanted, by (group, axis)."""
    return all(layout.degree(*key) == degree for key, degree in wanted.items())
