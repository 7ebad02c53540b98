"""Makes sure that MaxText can cut every weight over the mesh.

MaxText's config check passes a mesh whose axes do not divide a weight; the run then dies when
its state is made (utils/maxtext_utils.py setup_initial_state, IndivisibleError). Where fewer
cuts of the weights concerned help, the logical axis rules are narrowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moectl.errors import UsageError
from moectl.facts import weights
from moectl.facts.maxtext import Catalogue
from moectl.job import Degree
from moectl.values import Origin, Value

RULES = "logical_axis_rules"


class WeightsError(UsageError):
    """A weight that no rules could cut over the mesh."""


def narrowed(
    values: Mapping[str, Any], degrees: Mapping[str, Degree], catalogue: Catalogue
) -> Value | None:
    """Return the logical axis rules to override, or None when MaxText's own serve.

    They go on the command line: there MaxText merges them by name, while a list in config.yml
    replaces all rules of base.yml (configs/pyconfig.py _load_config).

    Args:
        values: effective MaxText values.
        degrees: mesh degrees by axis.
        catalogue: the MaxText release.

    Raises:
        WeightsError: no rules help, with the weight and the arithmetic.
    """
    leaves = _leaves(values, catalogue.release)
    if leaves is None or values.get(RULES) != catalogue.base.get(RULES):
        return None
    from moectl.sharding import impossible, narrowed_rules  # noqa: PLC0415

    mesh = mesh_sizes(degrees, catalogue)
    rules = catalogue.logical_axis_rules
    overrides = narrowed_rules(leaves, rules, mesh)
    if not overrides:
        return None
    table = weights.load(catalogue.release)
    stuck = impossible(
        leaves,
        rules,
        mesh,
        values.get("weight_dtype", "float32"),
        table.wanted_axes,
        tolerance=values.get("sharding_tolerance", 0.02),
    )
    if stuck:
        worst = stuck[0]
        axes = " x ".join(f"{axis} {mesh[axis]}" for axis in worst.mesh_axes)
        raise WeightsError(
            f"{values.get('model_name')} has the weight {worst.path} with {worst.size} along "
            f"{worst.axis}, which {axes} = {worst.shards} does not divide; MaxText would die when "
            "it makes its state (utils/maxtext_utils.py setup_initial_state)"
        )
    return Value([[axis, list(targets)] for axis, targets in overrides], Origin("scaling"))


def mesh_sizes(degrees: Mapping[str, Degree], catalogue: Catalogue) -> dict[str, int]:
    """Return the size of every mesh axis; an axis is named after the key that sizes it."""
    found = {}
    for axis in catalogue.mesh_axes:
        keys = catalogue.axes[axis]
        name = keys.ici.removeprefix("ici_").removesuffix("_parallelism")
        found[axis] = degrees.get(name, Degree()).total
    return found


def _leaves(values: Mapping[str, Any], release: str) -> Any:
    """Return the weights of the model, or None where the table cannot tell."""
    if release not in weights.releases():
        return None
    table = weights.load(release)
    model = str(values.get("model_name"))
    return table.leaves(model, values) if model in table.models else None


def weight_bytes(
    values: Mapping[str, Any], degrees: Mapping[str, Degree], release: str
) -> int | None:
    """Return the bytes of weights a GPU holds, or None where the table cannot tell.

    Args:
        values: effective MaxText values, overridden logical axis rules included.
        degrees: mesh degrees by axis.
        release: the MaxText release.
    """
    from moectl.facts import maxtext  # noqa: PLC0415
    from moectl.sharding import overridden, parameter_bytes  # noqa: PLC0415

    leaves = _leaves(values, release)
    if leaves is None:
        return None
    catalogue = maxtext.load(release)
    rules: Any = catalogue.logical_axis_rules
    said = values.get(RULES)
    if said is not None and said != catalogue.base.get(RULES):
        rules = overridden(rules, said)
    mesh = mesh_sizes(degrees, catalogue)
    return parameter_bytes(leaves, rules, mesh, str(values.get("weight_dtype") or "float32"))
