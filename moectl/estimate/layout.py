"""A model's weights under one set of axis rules, prepared so that many meshes are quick.

Which mesh axes cut a weight does not depend on their sizes, so it is worked out once; a mesh is
then a few divisions. The bytes are those of MaxText's own abstract state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from moectl.facts import maxtext, weights
from moectl.facts.weights import Leaf
from moectl.sharding import ITEM_BYTES, Rule, narrowed_rules, overridden, placement
from moectl.workload import UNKNOWN

RULES = "logical_axis_rules"
# Mesh axes that still cut a layer while it is at work; over the others it is gathered.
_STAYS_CUT = frozenset({"tensor", "tensor_sequence", "autoregressive"})
_EXPERTS = "exp"
_VOCABULARY = "vocab"
# Axis over which layers are stacked to the layers in it.
STACKS = {"moe_layers": "moe", "dense_layers": "dense", "layers": "all", "local_layers": "all"}
_INPUT_TABLE = "token_embedder."
_OUTPUT_TABLE = "logits_dense."

Axes = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One weight as a device holds it.

    Attributes:
        leaf: the weight.
        spec: mesh axes that cut each dimension, those of size 1 left out.
        shape: shape of the share.
        elements: elements of the share.
    """

    leaf: Leaf
    spec: tuple[Axes, ...]
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Return the elements of the share."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Held:
    """What one device holds of a model.

    Attributes:
        elements: elements of weights whose dtype follows `weight_dtype`.
        fixed: bytes of the weights that have a dtype of their own.
        trained, trained_fixed: the same of the weights that the optimizer changes.
        changed: elements of all weights that the optimizer changes.
        layers: bytes (2 an element) of each stack of layers while it is gathered for use, its
            layers together; see `STACKS`.
        tables: the same of the vocabulary tables.
    """

    elements: int
    fixed: int
    trained: int
    trained_fixed: int
    changed: int
    layers: Mapping[str, int]
    tables: int

    def parameters(self, dtype: str) -> int:
        """Return bytes of weights."""
        return self.elements * ITEM_BYTES[dtype] + self.fixed

    def first_moment(self, dtype: str) -> int:
        """Return bytes of the optimizer's first moment: all of it in `dtype` (optax casts it)."""
        return self.changed * ITEM_BYTES[dtype]

    def second_moment(self, dtype: str) -> int:
        """Return bytes of the second one, of each weight's own dtype where it has one."""
        return self.trained * ITEM_BYTES[dtype] + self.trained_fixed


class Layout:
    """The weights of one model under one set of rules."""

    def __init__(self, leaves: Sequence[Leaf], rules: Sequence[Rule]) -> None:
        """Work out which mesh axes may cut which weight.

        Raises:
            ValueError: a weight has a logical axis twice, which flax refuses.
        """
        self.leaves = tuple(leaves)
        self.rules = tuple(rules)
        self._narrowed: dict[tuple[int, ...], Layout] = {}
        place = placement(rules)
        self._specs = {axes: place(axes) for axes in {leaf.axes for leaf in leaves}}
        whole: dict[tuple[Axes, str, bool], int] = {}
        gathered: dict[tuple[str, Axes], int] = {}
        dims: set[tuple[int, Axes]] = set()
        for leaf in leaves:
            spec = self._specs[leaf.axes]
            cuts = tuple(sorted(axis for axes in spec for axis in axes))
            key = cuts, leaf.dtype, leaf.trained
            whole[key] = whole.get(key, 0) + leaf.elements
            dims |= {(size, axes) for size, axes in zip(leaf.shape, spec, strict=True) if axes}
            if name := _stack(leaf):
                kept = name, _kept(leaf, spec)
                gathered[kept] = gathered.get(kept, 0) + leaf.elements
        self._whole = tuple(whole.items())
        self._gathered = tuple(gathered.items())
        self._dims = tuple(dims)
        # Many dimensions and weights are cut by the same few lists of axes.
        self._cuts: tuple[Axes, ...] = tuple(
            {*(a for _, a in dims), *(k[0] for k in whole), *(k[1] for k in gathered)}
        )
        self._axes: Axes = tuple(sorted({axis for axes in self._cuts for axis in axes}))

    def held(self, mesh: Mapping[str, int]) -> Held:
        """Return what a device of `mesh` holds; an indivisible dimension is rounded up."""
        shards = self._shards(mesh)
        if any(size % shards[axes] for size, axes in self._dims):
            return self._rounded(mesh, shards)
        elements = fixed = trained = trained_fixed = changed = 0
        for (axes, dtype, changes), count in self._whole:
            share = count // shards[axes]
            changed += share if changes else 0
            if dtype:
                fixed += share * ITEM_BYTES[dtype]
                trained_fixed += share * ITEM_BYTES[dtype] if changes else 0
            else:
                elements += share
                trained += share if changes else 0
        return Held(elements, fixed, trained, trained_fixed, changed, *self._in_use(shards))

    def divides(self, mesh: Mapping[str, int]) -> bool:
        """Return whether a mesh divides every weight; MaxText dies where it does not."""
        shards = self._shards(mesh)
        return not any(size % shards[axes] for size, axes in self._dims)

    def rows(self, mesh: Mapping[str, int]) -> list[Row]:
        """Return every weight as a device holds it, in the order of the table."""
        found = []
        for leaf in self.leaves:
            spec = tuple(
                tuple(axis for axis in axes if mesh.get(axis, 1) > 1)
                for axes in self._specs[leaf.axes]
            )
            shape = tuple(
                -(-size // prod(mesh[axis] for axis in axes))
                for size, axes in zip(leaf.shape, spec, strict=True)
            )
            found.append(Row(leaf, spec, shape))
        return found

    def parameters(self) -> int:
        """Return the number of parameters; constants that are not trained are counted too."""
        return sum(leaf.elements for leaf in self.leaves)

    def active(self, experts: int, top_k: int) -> int:
        """Return the parameters that one token is multiplied with.

        Of the experts those it is sent to; the input table is left out where the output has one
        of its own, as a token reads one row of it.
        """
        top_k = min(top_k, experts)  # a token has no more experts than there are
        own_output = any(_OUTPUT_TABLE in leaf.path for leaf in self.leaves)
        total = 0
        for leaf in self.leaves:
            if own_output and leaf.path.startswith(_INPUT_TABLE):
                continue
            routed = _EXPERTS in leaf.axes and experts > 1
            total += leaf.elements * top_k // experts if routed else leaf.elements
        return total

    def narrowed(self, mesh: Mapping[str, int]) -> Layout:
        """Return the layout under the rules that moectl narrows for a mesh; itself if none."""
        if self.divides(mesh):
            return self
        # What is narrowed hangs on the sizes of the axes that cut weights, and on nothing else.
        key = tuple(mesh.get(axis, 1) for axis in self._axes)
        found = self._narrowed.get(key)
        if found is None:
            overrides = narrowed_rules(self.leaves, self.rules, mesh)
            found = Layout(self.leaves, overridden(self.rules, overrides))
            self._narrowed[key] = found
        return found

    def _shards(self, mesh: Mapping[str, int]) -> dict[Axes, int]:
        return {axes: prod([mesh.get(axis, 1) for axis in axes]) for axes in self._cuts}

    def _in_use(self, shards: Mapping[Axes, int]) -> tuple[dict[str, int], int]:
        layers: dict[str, int] = {}
        for (name, axes), elements in self._gathered:
            layers[name] = layers.get(name, 0) + 2 * elements // shards[axes]
        tables = layers.pop(_VOCABULARY, 0)
        return layers, tables

    def _rounded(self, mesh: Mapping[str, int], shards: Mapping[Axes, int]) -> Held:
        elements = fixed = trained = trained_fixed = changed = 0
        for row in self.rows(mesh):
            changed += row.elements * row.leaf.trained
            if row.leaf.dtype:
                fixed += row.elements * ITEM_BYTES[row.leaf.dtype]
                trained_fixed += row.elements * ITEM_BYTES[row.leaf.dtype] * row.leaf.trained
            else:
                elements += row.elements
                trained += row.elements * row.leaf.trained
        return Held(elements, fixed, trained, trained_fixed, changed, *self._in_use(shards))


def _stack(leaf: Leaf) -> str:
    if _VOCABULARY in leaf.axes:
        return _VOCABULARY
    return next((str(axis) for axis in leaf.axes if axis in STACKS), "")


def _kept(leaf: Leaf, spec: Sequence[Axes]) -> Axes:
    """Return the mesh axes that still cut a weight while it is used."""
    kept = []
    for axis, targets in zip(leaf.axes, spec, strict=True):
        kept += [t for t in targets if axis == _EXPERTS or t in _STAYS_CUT]
    return tuple(sorted(kept))


def layout_of(values: Mapping[str, Any], release: str) -> Layout | None:
    """Return the layout of a model; None where the weight tables cannot tell.

    Args:
        values: effective MaxText values.
        release: the MaxText release.

    Raises:
        ValueError: the rules or sizes cannot be.
    """
    if release not in _releases() or values.get(RULES) is UNKNOWN:
        return None
    table = weights.load(release)
    model = str(values.get("model_name"))
    if model not in table.models:
        return None
    said = values.get(RULES)
    try:
        settings = tuple((key, values[key]) for key in table.decisive(model) if key in values)
        # Nearly every model has base.yml's rules, and they are long.
        usual = said is None or said == maxtext.load(release).base.get(RULES)
        rules = None if usual else _frozen(said)
        return _layout(release, model, settings, rules)
    except TypeError:  # a value that cannot be a key: no size, and no rule, is one
        leaves = table.leaves(model, values)
        return None if leaves is None else Layout(leaves, axis_rules(values, release))


@lru_cache(maxsize=256)
def _layout(release: str, model: str, settings: tuple[Any, ...], rules: Any) -> Layout | None:
    values = dict(settings)
    leaves = weights.load(release).leaves(model, values)
    if leaves is None:
        return None
    return Layout(leaves, axis_rules({RULES: _thawed(rules)}, release))


@lru_cache(maxsize=1)
def _releases() -> frozenset[str]:
    return frozenset(weights.releases())


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list | tuple) else value


def _thawed(value: Any) -> Any:
    return [_thawed(item) for item in value] if isinstance(value, tuple) else value


def axis_rules(values: Mapping[str, Any], release: str) -> Sequence[Rule]:
    """Return the logical axis rules in force; base.yml's where a file says none."""
    catalogue = maxtext.load(release)
    rules: Any = catalogue.logical_axis_rules
    said = values.get(RULES)
    if not isinstance(said, list) or not said or said == catalogue.base.get(RULES):
        return rules  # type: ignore[no-any-return]
    return overridden(rules, said)
