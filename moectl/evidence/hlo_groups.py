"""Reads which devices take part in a collective, in every form XLA writes.

    replica_groups={{0,1},{2,3}}                explicit; {} is one group of all
    replica_groups=[2,4]<=[8]                   iota: 0..7 cut into 2 groups of 4
    replica_groups=[4,2]<=[2,4]T(1,0)           iota over a transposed grid
    replica_groups=mesh['a'=2,'b'=4] {'b'}      groups along axes of a mesh
    replica_groups=mesh['a'=8] {'a':(2)4}       along a part of an axis
    source_target_pairs={{0,1},{1,0}}           who sends to whom

The forms are those of openxla/xla: xla/hlo/ir/replica_group.cc, collective_op_group_mode and
mesh_and_axis.cc (AxisRef: `:(m)k` is the part of size k of which m lies before it).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

Groups = tuple[tuple[int, ...], ...]
_LARGEST = 1 << 22  # devices; nobody has more, and a hostile text must not ask for memory


class GroupsError(ValueError):
    """A text that is no device groups: one sentence."""


def replica_groups(text: str, devices: int) -> Groups:
    """Return the groups of a `replica_groups` value.

    Args:
        text: the value, as in the module's examples.
        devices: participants in all; what an empty list means.

    Raises:
        GroupsError: it is in none of the forms, or does not fit together.
    """
    if text.startswith("mesh["):
        return _by_mesh(text)
    if text.startswith("["):
        return _iota(text)
    found = _explicit(text)
    return found or (tuple(range(devices)),)


def source_target_pairs(text: str) -> Groups:
    """Return the pairs (source, target) of a `source_target_pairs` value.

    Raises:
        GroupsError: it is no list of pairs.
    """
    pairs = _explicit(text)
    if any(len(pair) != 2 for pair in pairs):
        raise GroupsError(f"{text[:60]!r} is no list of pairs")
    return pairs


def _explicit(text: str) -> Groups:
    if not (text.startswith("{") and text.endswith("}")):
        raise GroupsError(f"{text[:60]!r} is no list of groups")
    inner = text[1:-1].replace(" ", "")
    if not inner:
        return ()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise GroupsError(f"{text[:60]!r} is no list of groups")
    return tuple(
        tuple(_number(item) for item in group.split(",") if item)
        for group in inner[1:-1].split("},{")
    )


def _iota(text: str) -> Groups:
    shape_text, arrow, rest = text.partition("<=")
    source_text, turned, order_text = rest.partition("T")
    if not arrow:
        raise GroupsError(f"{text[:60]!r} has no <=")
    shape, source = _numbers(shape_text, "[]"), _numbers(source_text, "[]")
    order = _numbers(order_text, "()") if turned else tuple(range(len(source)))
    if sorted(order) != list(range(len(source))):
        raise GroupsError(f"{text[:60]!r} turns dimensions that are not there")
    if prod(shape) != prod(source) or not 0 < prod(source) <= _LARGEST or min(shape) < 1:
        raise GroupsError(f"{text[:60]!r} does not fit together")
    flat = list(transposed(source, order))
    size = prod(shape[1:])
    return tuple(tuple(flat[at : at + size]) for at in range(0, len(flat), size))


def transposed(shape: Sequence[int], order: Sequence[int]) -> Iterator[int]:
    """Yield 0, 1, ... of a grid of `shape`, its dimensions read in `order`, row by row."""
    strides = [prod(shape[at + 1 :]) for at in range(len(shape))]
    read = [(shape[axis], strides[axis]) for axis in order]
    total = prod(shape)
    for position in range(total):
        rest, place = position, 0
        for size, stride in reversed(read):
            rest, index = divmod(rest, size)
            place += index * stride
        yield place


def _by_mesh(text: str) -> Groups:
    """Return the groups along axes of a mesh, in the order of its devices."""
    mesh_text, bracket, rest = text.removeprefix("mesh[").partition("]")
    if not bracket:
        raise GroupsError(f"{text[:60]!r} does not close its mesh")
    axes = [_axis(item) for item in mesh_text.split(",") if item.strip()]
    sizes = dict(axes)
    if len(sizes) != len(axes) or not 0 < prod(sizes.values()) <= _LARGEST:
        raise GroupsError(f"{text[:60]!r} is no mesh")
    ids: Sequence[int] = range(prod(sizes.values()))
    rest = rest.strip().lstrip(",").strip()
    if rest.startswith("device_ids="):
        ids_text, _, rest = rest.removeprefix("device_ids=").partition("{")
        rest = "{" + rest
        ids = _device_ids(ids_text.strip().strip(",").strip(), len(ids))
    if not (rest.startswith("{") and rest.endswith("}")):
        raise GroupsError(f"{text[:60]!r} names no axes")
    # Every axis becomes up to three: before, the part itself, after.
    parts = [_part(item.strip(), sizes) for item in rest[1:-1].split(",") if item.strip()]
    shape: list[int] = []
    chosen: dict[int, int] = {}
    for name, size in axes:
        cuts = sorted({1, size, *(c for p in parts if p[0] == name for c in (p[1], p[1] * p[2]))})
        for low, high in pairwise(cuts):
            if high % low:
                raise GroupsError(f"{text[:60]!r} cuts an axis unevenly")
            for place, (owner, before, length) in enumerate(parts):
                if owner == name and before <= low and high <= before * length:
                    chosen[len(shape)] = place
            shape.append(high // low)
    inside = sorted(chosen, key=lambda at: (chosen[at], at))
    outside = [at for at in range(len(shape)) if at not in chosen]
    flat = [ids[place] for place in transposed(shape, [*outside, *inside])]
    size = prod(shape[at] for at in inside)
    return tuple(tuple(flat[at : at + size]) for at in range(0, len(flat), size))


def _device_ids(text: str, count: int) -> Sequence[int]:
    """Return the devices of a mesh that are not 0, 1, ...: an iota, or all of them written out."""
    body = text.removeprefix("(").removesuffix(")") if text.startswith("(") else text
    if "<=" not in body and "T" in body:
        body = f"[{count}]<={body}"
    if "<=" in body:
        found: Sequence[int] = [item for group in _iota(body) for item in group]
    else:
        found = [_number(item) for item in body.strip("[](){}").split(",") if item.strip()]
    if len(found) != count:
        raise GroupsError(f"{text[:60]!r} are not the {count} devices of the mesh")
    return found


def _axis(text: str) -> tuple[str, int]:
    name, equals, size = text.partition("=")
    if not equals:
        raise GroupsError(f"{text[:60]!r} is no axis")
    return _name(name), _number(size)


def _part(text: str, sizes: dict[str, int]) -> tuple[str, int, int]:
    """Return (axis, what of it lies before, size) of an axis or of a part of one."""
    quoted, colon, part = text.partition(":")
    name = _name(quoted)
    if name not in sizes:
        raise GroupsError(f"no axis {name[:60]!r}")
    if not colon:
        return name, 1, sizes[name]
    before_text, closed, size_text = part.removeprefix("(").partition(")")
    if not (part.startswith("(") and closed):
        raise GroupsError(f"{text[:60]!r} is no part of an axis")
    before, size = _number(before_text), _number(size_text)
    if before < 1 or size < 1 or sizes[name] % (before * size):
        raise GroupsError(f"{text[:60]!r} does not divide its axis")
    return name, before, size


def _name(text: str) -> str:
    name = text.strip()
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] and name[0] in "'\"" else name


def _numbers(text: str, brackets: str) -> tuple[int, ...]:
    text = text.strip()
    if len(text) < 3 or text[0] != brackets[0] or text[-1] != brackets[1]:
        raise GroupsError(f"{text[:60]!r} is no list of sizes")
    return tuple(_number(item) for item in text[1:-1].split(","))


def _number(text: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise GroupsError(f"{text[:60]!r} is no number of a device")
    return int(text)
