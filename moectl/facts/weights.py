"""Which weights a model has in MaxText: path, logical axes and sizes, per release.

The tables (`facts/data/weights/<release>.json`) were told by MaxText itself, see
`moectl.evidence.maxtext_weights`, which renews them. A size is a number or an expression of
MaxText keys, so that an overridden architecture is followed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from moectl.errors import UnknownNameError
from moectl.resources import fact


@dataclass(frozen=True, slots=True)
class Leaf:
    """One weight of a model.

    Attributes:
        path: where it is in the model, e.g. "decoder.moe_layers.self_attention.wq_b.kernel".
        axes: logical axis name of every dimension, None where it has none.
        shape: size of every dimension.
        dtype: its dtype where that does not follow `weight_dtype`, else empty.
        trained: whether the optimizer changes it; the routing bias it does not.
    """

    path: str
    axes: tuple[str | None, ...]
    shape: tuple[int, ...]
    dtype: str = ""
    trained: bool = True

    @property
    def elements(self) -> int:
        """Return the number of its elements."""
        product = 1
        for size in self.shape:
            product *= size
        return product


class Weights:
    """The weight tables of one MaxText release."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.release: str = data["release"]
        self.source: str = data["source"]
        # Mesh axes over which MaxText wants every weight cut.
        self.wanted_axes: tuple[str, ...] = tuple(data["wanted_axes"])
        self._switches: list[str] = data["switches"]
        self._variants: list[list[int]] = data["variants"]
        self._models: Mapping[str, Mapping[str, Any]] = data["models"]

    @property
    def models(self) -> tuple[str, ...]:
        """Return the model files that have a table."""
        return tuple(self._models)

    def unfollowed(self, model: str, settings: Mapping[str, object]) -> dict[str, object]:
        """Return the settings under which `model` has other weights than the table knows.

        They change which weights there are, e.g. `scan_layers`, or exclude each other. Each
        comes with the value that the table is good for.

        Raises:
            UnknownNameError: there is no table of `model`.
        """
        fixed: Mapping[str, object] = self._table(model)["fixed"]
        found = {key: value for key, value in fixed.items() if settings.get(key, value) != value}
        # Between no layer of a kind and some, weights come and go.
        keys: Mapping[str, int] = self._table(model)["keys"]
        sizes = {key: settings.get(key, size) for key, size in keys.items()}
        found |= {
            key: keys[key]
            for key, size in sizes.items()
            if isinstance(size, bool) or not isinstance(size, int) or size < 1
        }
        if self._on(settings) not in self._variants:
            found |= {self._switches[index]: False for index in self._on(settings)}
        return found

    def leaves(
        self, model: str, settings: Mapping[str, object] | None = None
    ) -> tuple[Leaf, ...] | None:
        """Return every weight of `model`, or None if the settings are not followed.

        Args:
            model: the name of a model file, e.g. "deepseek3-671b".
            settings: resolved MaxText keys; those that a size does not hang on do not matter.

        Raises:
            UnknownNameError: there is no table of `model`.
        """
        table, given = self._table(model), settings or {}
        if self.unfollowed(model, given):
            return None
        sizes = {key: int(str(given.get(key, size))) for key, size in table["keys"].items()}
        variant = self._variants.index(self._on(given))
        return tuple(
            Leaf(
                path=path,
                axes=tuple(group["axes"]),
                shape=tuple(evaluated(dim, sizes) for dim in group["dims"]),
                dtype=group.get("dtype", ""),
                trained=group.get("trained", True),
            )
            for group in table["groups"]
            if variant in group.get("variants", (variant,))
            for path in group["paths"]
        )

    def decisive(self, model: str) -> tuple[str, ...]:
        """Return the settings that `leaves` hangs on.

        Raises:
            UnknownNameError: there is no table of `model`.
        """
        table = self._table(model)
        return (*table["fixed"], *table["keys"], *self._switches)

    def axis_sizes(self, model: str) -> dict[str, tuple[int, ...]]:
        """Return the sizes that each logical axis has in `model`, ascending.

        Raises:
            UnknownNameError: there is no table of `model`.
        """
        found: dict[str, set[int]] = {}
        for leaf in self.leaves(model) or ():
            for axis, size in zip(leaf.axes, leaf.shape, strict=True):
                if axis is not None:
                    found.setdefault(axis, set()).add(size)
        return {axis: tuple(sorted(sizes)) for axis, sizes in sorted(found.items())}

    def _table(self, model: str) -> Mapping[str, Any]:
        if model not in self._models:
            raise UnknownNameError(
                "model", model, self._models, why=f"no weight table for MaxText {self.release}"
            )
        return self._models[model]

    def _on(self, settings: Mapping[str, object]) -> list[int]:
        return [index for index, key in enumerate(self._switches) if settings.get(key) is True]


def evaluated(dim: int | str, sizes: Mapping[str, int]) -> int:
    """Return the size that a dimension of the tables has.

    An expression is a sum or difference of products of keys and numbers, one of them perhaps
    over a number: "kv_lora_rank+qk_rope_head_dim", "base_num_decoder_layers/4".
    """
    if isinstance(dim, int):
        return dim
    total = 0
    for term in dim.replace("-", "+-").split("+"):
        product, _, divisor = term.removeprefix("-").partition("/")
        value = 1
        for factor in product.split("*"):
            value *= int(factor) if factor.isdigit() else sizes[factor]
        value //= int(divisor or 1)
        total += -value if term.startswith("-") else value
    return total


def releases() -> Sequence[str]:
    """Return the MaxText releases that have weight tables."""
    names = [entry.name for entry in fact("weights").iterdir()]
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))


@cache
def load(release: str = "0.2.5") -> Weights:
    """Return the weight tables of a MaxText release.

    Raises:
        UnknownNameError: there are none for it.
    """
    if release not in (known := releases()):
        raise UnknownNameError("MaxText release", release, known, why="no weight tables for it")
    return Weights(json.loads(fact("weights", f"{release}.json").read_text("utf-8")))
