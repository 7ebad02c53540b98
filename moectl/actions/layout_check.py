"""Has JAX itself lay out every weight over an abstract mesh, and compares with the estimate.

No device is needed: `jax.sharding.AbstractMesh` knows sizes and names only. The logical axis
rules are taken in their order, and JAX judges whether one applies: a layout that uses a mesh axis
twice it refuses. It also cuts the shapes, and refuses what does not divide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from moectl.actions.estimate import Answer
from moectl.errors import LocalFilesError, UsageError
from moectl.estimate.assessment import mesh_of
from moectl.facts.weights import Leaf
from moectl.sharding import ITEM_BYTES, Rule

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Difference:
    """A weight that JAX lays out otherwise.

    Attributes:
        path: the weight.
        ours: shape of a device's share, by moectl.
        jax: the same by JAX, or what it refuses.
    """

    path: str
    ours: tuple[int, ...]
    jax: tuple[int, ...] | str


@dataclass(frozen=True, slots=True)
class LayoutCheck:
    """What came of it.

    Attributes:
        release: the JAX that was asked.
        weights: weights compared.
        ours, theirs: bytes of weights a device, by moectl and by JAX; those that it refuses are
            left out of the second.
        differences: every weight that is laid out otherwise.
    """

    release: str
    weights: int
    ours: int
    theirs: int
    differences: tuple[Difference, ...]

    @property
    def agrees(self) -> bool:
        """Whether every weight is laid out alike."""
        return not self.differences and self.ours == self.theirs

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "jax": self.release,
            "weights": self.weights,
            "agrees": self.agrees,
            "bytes_per_device": {"moectl": self.ours, "jax": self.theirs},
            "differences": [
                {"path": d.path, "moectl": list(d.ours), "jax": d.jax} for d in self.differences
            ],
        }

    def text(self) -> str:
        """Return it as text for people."""
        if self.agrees:
            return (
                f"\nverified: JAX {self.release} lays out all {self.weights} weights alike, "
                f"{self.theirs} bytes a GPU\n"
            )
        lines = [
            f"  {d.path}: moectl {list(d.ours)}, JAX {d.jax}" for d in self.differences[:_SHOWN]
        ]
        rest = len(self.differences) - _SHOWN
        lines += [f"  and {rest} more"] if rest > 0 else []
        return (
            f"\nJAX {self.release} lays out {len(self.differences)} of {self.weights} weights "
            f"otherwise ({self.ours} bytes against {self.theirs}):\n" + "\n".join(lines) + "\n"
        )


def checked(answer: Answer) -> LayoutCheck:
    """Compare the weights of an estimate with JAX's own layout, one by one.

    Raises:
        UsageError: the model has no table of weights, so nothing was laid out.
        LocalFilesError: JAX cannot be imported; the message says what to install.
    """
    found = answer.assessment
    layout, job = found.prepared.layout, answer.job
    if layout is None or job is None:
        raise UsageError(
            f"--verify: there is no table of the weights of {found.prepared.name}, so there is "
            "nothing to compare"
        )
    mesh = mesh_of(found.request.ici, found.request.dcn, found.prepared.release)
    dtype = str(job.effective.get("weight_dtype"))
    laid = laid_out(layout.leaves, layout.rules, mesh)
    differences = []
    ours = theirs = 0
    for row, (shape, refusal) in zip(layout.rows(mesh), laid.shapes, strict=True):
        size = ITEM_BYTES[row.leaf.dtype or dtype]
        ours += row.elements * size
        theirs += prod(shape) * size if not refusal else 0
        if refusal or shape != row.shape:
            differences.append(Difference(row.leaf.path, row.shape, refusal or shape))
    return LayoutCheck(laid.release, len(layout.leaves), ours, theirs, tuple(differences))


@dataclass(frozen=True, slots=True)
class Laid:
    """Shapes of a device's shares, each with why JAX refuses it, empty if it does not."""

    release: str
    shapes: tuple[tuple[tuple[int, ...], str], ...]


def laid_out(leaves: Sequence[Leaf], rules: Sequence[Rule], mesh: Mapping[str, int]) -> Laid:
    """Have JAX lay out weights over an abstract mesh.

    Args:
        leaves: the weights.
        rules: the logical axis rules, in force order.
        mesh: size of every mesh axis, those of size 1 included.

    Raises:
        LocalFilesError: JAX cannot be imported; the message says what to install.
    """
    try:
        import jax  # noqa: PLC0415
        from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec  # noqa: PLC0415
    except ImportError as error:
        raise LocalFilesError(
            f"--verify needs JAX, which cannot be imported: {error}; pip install 'moectl[jax]'"
        ) from error
    partition: Any = PartitionSpec  # it has no types
    abstract: Any = AbstractMesh(tuple(mesh.values()), tuple(mesh))
    known: dict[tuple[str | None, ...], Any] = {}

    def sharding(axes: tuple[str | None, ...]) -> Any:
        placed: list[tuple[str, ...] | None] = [None] * len(axes)
        made = NamedSharding(abstract, partition(*placed))
        for name, targets in rules:
            if name not in axes or placed[axes.index(str(name))] is not None:
                continue
            wished = list(placed)
            wished[axes.index(str(name))] = _axes(targets)
            try:
                made = NamedSharding(abstract, partition(*wished))
            except Exception:  # noqa: S112 - used already; its class is not public
                continue
            placed = wished
        return made

    shapes: list[tuple[tuple[int, ...], str]] = []
    for leaf in leaves:
        if leaf.axes not in known:
            known[leaf.axes] = sharding(leaf.axes)
        try:
            shapes.append((tuple(known[leaf.axes].shard_shape(leaf.shape)), ""))
        except ValueError as error:
            shapes.append(((), str(error).partition(" (full shape")[0]))
    return Laid(jax.__version__, tuple(shapes))


def _axes(targets: object) -> tuple[str, ...]:
    if targets is None:
        return ()
    return (targets,) if isinstance(targets, str) else tuple(map(str, targets))  # type: ignore[call-overload]
