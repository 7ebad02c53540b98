"""How MaxText lays weights over a mesh, which layouts JAX refuses, and how to mend them.

Pure arithmetic on the logical axis rules. MaxText turns the logical axes of each weight into
mesh axes by the rules (flax/linen/spmd.py), and a run dies while it makes its state when a
dimension is not a multiple of its shards ("IndivisibleError", by JAX, from
utils/maxtext_utils.py setup_initial_state), or when too little is sharded
(utils/sharding.py assert_params_sufficiently_sharded). Neither is seen by the checks of the
configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import gcd, prod
from typing import TypeAlias

from moectl.facts.weights import Leaf

Rule: TypeAlias = Sequence[object]  # (logical axis, mesh axis or list of mesh axes or None)
Override: TypeAlias = list[str | list[str]]  # what a configuration takes: ["q_lora", ["fsdp"]]

ITEM_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8}


@dataclass(frozen=True, slots=True)
class Indivisible:
    """A dimension that the mesh does not divide.

    Attributes:
        path: the weight.
        dim: index of the dimension.
        size: its size.
        shards: into how many parts it is to be cut.
        axis: its logical axis.
        mesh_axes: the mesh axes that cut it.
    """

    path: str
    dim: int
    size: int
    shards: int
    axis: str
    mesh_axes: tuple[str, ...]


def partition(
    axes: Sequence[str | None], rules: Sequence[Rule], mesh: Mapping[str, int]
) -> tuple[tuple[str, ...], ...]:
    """Return the mesh axes above 1 that cut each dimension of a weight.

    Rules are taken in their order; one applies if its logical axis is among `axes` and not yet
    placed, and none of its mesh axes is used in this weight, those of size 1 included
    (flax/linen/spmd.py _logical_to_mesh_axes). A second rule of the same name is thus the
    fallback of the first. Afterwards axes of size 1 are dropped (utils/sharding.py
    remove_size_one_mesh_axis).

    Args:
        axes: logical axis of each dimension, None for none.
        rules: the logical axis rules, in force order.
        mesh: size of each mesh axis; an axis that is not named has size 1.

    Raises:
        ValueError: a logical axis occurs twice, which flax refuses.
    """
    return _Partitioner(rules, mesh)(axes)


def placement(
    rules: Sequence[Rule],
) -> Callable[[tuple[str | None, ...]], tuple[tuple[str, ...], ...]]:
    """Return what gives the mesh axes of each dimension of a weight, whatever their sizes.

    `partition` leaves the axes of size 1 out of these; which rule applies does not hang on sizes.
    """
    return _Partitioner(rules, {}).placed


class _Partitioner:
    """`partition` under one set of rules and one mesh, for many weights of few kinds."""

    def __init__(self, rules: Sequence[Rule], mesh: Mapping[str, int]) -> None:
        self.rules = [_rule(rule) for rule in rules]
        self.mesh = mesh
        self.known: dict[tuple[str | None, ...], tuple[tuple[str, ...], ...]] = {}

    def __call__(self, axes: Sequence[str | None]) -> tuple[tuple[str, ...], ...]:
        key = tuple(axes)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self.cut(key)
        return found

    def cut(self, axes: tuple[str | None, ...]) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple(target for target in targets if self.mesh.get(target, 1) > 1)
            for targets in self.placed(axes)
        )

    def placed(self, axes: tuple[str | None, ...]) -> tuple[tuple[str, ...], ...]:
        named = {axis for axis in axes if axis is not None}
        if len(named) != len(axes) - axes.count(None):
            raise ValueError(f"logical axes occur more than once: {list(axes)}")
        placed: dict[str, tuple[str, ...]] = {}
        used: set[str] = set()
        for name, targets in self.rules:
            if name in named and name not in placed and used.isdisjoint(targets):
                placed[name] = targets
                used.update(targets)
        return tuple(placed.get(axis or "", ()) for axis in axes)


def indivisible(
    leaves: Iterable[Leaf], rules: Sequence[Rule], mesh: Mapping[str, int]
) -> list[Indivisible]:
    """Return every dimension whose size is not a multiple of its shards."""
    found = []
    cut = _Partitioner(rules, mesh)
    for leaf in leaves:
        spec = cut(leaf.axes)
        for dim, (size, targets) in enumerate(zip(leaf.shape, spec, strict=True)):
            shards = _shards(targets, mesh)
            if size % shards:
                axis = leaf.axes[dim] or ""
                found.append(Indivisible(leaf.path, dim, size, shards, axis, targets))
    return found


def parameter_bytes(
    leaves: Iterable[Leaf], rules: Sequence[Rule], mesh: Mapping[str, int], weight_dtype: str
) -> int:
    """Return the bytes of weights that one device holds.

    A dimension that is not divisible counts as rounded up; no run gets that far.

    Args:
        leaves: the weights.
        rules: the logical axis rules.
        mesh: size of each mesh axis.
        weight_dtype: dtype of the weights that have none of their own, e.g. "bfloat16".
    """
    total = 0
    cut = _Partitioner(rules, mesh)
    for leaf in leaves:
        spec = cut(leaf.axes)
        held = prod(
            -(-size // _shards(targets, mesh))
            for size, targets in zip(leaf.shape, spec, strict=True)
        )
        total += held * ITEM_BYTES[leaf.dtype or weight_dtype]
    return total


def unsharded_share(
    leaves: Iterable[Leaf],
    rules: Sequence[Rule],
    mesh: Mapping[str, int],
    weight_dtype: str,
    wanted_axes: Iterable[str],
) -> float:
    """Return the share that MaxText compares with `sharding_tolerance`.

    As MaxText has it: elements of the trained weights that some wanted mesh axis does not cut,
    over the bytes of all trained weights, so 2-byte weights get twice the tolerance
    (utils/sharding.py _analyze_sharding, assert_params_sufficiently_sharded). MaxText does not
    look under pipeline parallelism and for multimodal models (utils/train_utils.py).

    Args:
        leaves: the weights.
        rules: the logical axis rules.
        mesh: size of each mesh axis.
        weight_dtype: dtype of the weights that have none of their own.
        wanted_axes: mesh axes over which every weight is to be cut, `Weights.wanted_axes`.
    """
    wanted = {axis for axis in wanted_axes if mesh.get(axis, 1) > 1}
    unsharded = total = 0
    cut = _Partitioner(rules, mesh)
    for leaf in leaves:
        if leaf.trained:
            total += leaf.elements * ITEM_BYTES[leaf.dtype or weight_dtype]
            used = {axis for axes in cut(leaf.axes) for axis in axes}
            unsharded += 0 if wanted <= used else leaf.elements
    return unsharded / total if wanted and total else 0.0


def overridden(rules: Sequence[Rule], overrides: Sequence[Rule]) -> list[Rule]:
    """Return the rules as MaxText merges overrides into them.

    All rules of an overridden name go, and the overrides come last (configs/pyconfig.py
    _merge_logical_axis_rules). That is so for a model file and the command line only: a
    `logical_axis_rules` in a configuration file that has a base_config replaces all rules
    (_load_config merges as OmegaConf does, which replaces lists).
    """
    names = {_rule(override)[0] for override in overrides}
    return [*(rule for rule in rules if _rule(rule)[0] not in names), *overrides]


def narrowed_rules(
    leaves: Sequence[Leaf], rules: Sequence[Rule], mesh: Mapping[str, int]
) -> list[Override]:
    """Return the smallest override of the rules under which the mesh divides every weight.

    Each rule of a logical axis that is not divisible keeps the mesh axes, in their order, with
    the most shards that divide all sizes of that axis; mesh axes of size 1 are left out. What
    no longer cuts a weight holds it whole. Empty when nothing is needed. Whether enough stays
    sharded is for `unsharded_share` to say: uncut experts mend nothing.

    Args:
        leaves: the weights.
        rules: the logical axis rules.
        mesh: size of each mesh axis.
    """
    narrowed: dict[str, list[Override]] = {}
    while True:
        overrides = [override for name in sorted(narrowed) for override in narrowed[name]]
        faults = indivisible(leaves, overridden(rules, overrides), mesh)
        if not faults:
            return overrides
        # One name at a time: an override comes last in the rules, which gives mesh axes of
        # weights to the other axes there. A narrowed name divides all its sizes, so it is
        # never at fault again and this ends.
        name = min(fault.axis for fault in faults)
        common = gcd(*_sizes(leaves, name))
        kept = [
            _widest(targets, common, mesh) for axis, targets in map(_rule, rules) if axis == name
        ]
        narrowed[name] = [[name, list(targets)] for targets in dict.fromkeys(kept)]


def impossible(
    leaves: Sequence[Leaf],
    rules: Sequence[Rule],
    mesh: Mapping[str, int],
    weight_dtype: str,
    wanted_axes: Iterable[str],
    *,
    tolerance: float,
) -> list[Indivisible]:
    """Return why no override of the rules makes a mesh possible; empty if one does.

    Those are the indivisible dimensions, the largest weights first, when with `narrowed_rules`
    more than `tolerance` (MaxText's `sharding_tolerance`) would be unsharded. A higher one
    lets MaxText start all the same: with little lost for embeddings, with everything for experts.
    """
    merged = overridden(rules, narrowed_rules(leaves, rules, mesh))
    if unsharded_share(leaves, merged, mesh, weight_dtype, wanted_axes) <= tolerance:
        return []
    sizes = {leaf.path: leaf.elements for leaf in leaves}
    faults = indivisible(leaves, rules, mesh)
    return sorted(faults, key=lambda fault: (-sizes[fault.path], fault.path, fault.dim))


def _widest(targets: Sequence[str], common: int, mesh: Mapping[str, int]) -> tuple[str, ...]:
    """Return the sub-list of mesh axes above 1 with the most shards that divide `common`."""
    best: tuple[str, ...] = ()
    above = [target for target in targets if mesh.get(target, 1) > 1]
    for count in range(len(above), 0, -1):
        for chosen in combinations(above, count):
            shards = _shards(chosen, mesh)
            if common % shards == 0 and shards > _shards(best, mesh):
                best = chosen
    return best


def _sizes(leaves: Iterable[Leaf], name: str) -> list[int]:
    return [
        size
        for leaf in leaves
        for axis, size in zip(leaf.axes, leaf.shape, strict=True)
        if axis == name
    ]


def _shards(targets: Iterable[str], mesh: Mapping[str, int]) -> int:
    return prod(mesh.get(target, 1) for target in targets)


def _rule(rule: Rule) -> tuple[str, tuple[str, ...]]:
    """Return name and mesh axes of a rule; a lone mesh axis may stand without its list."""
    name, targets = rule
    if targets is None:
        return str(name), ()
    if isinstance(targets, str):
        return str(name), (targets,)
    assert isinstance(targets, Iterable)  # noqa: S101 - the rules are ours or were checked
    return str(name), tuple(str(target) for target in targets)
