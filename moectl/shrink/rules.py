"""A model and its mesh made small, by rules that keep every path of the code they can."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, TypeGuard

from moectl.errors import UsageError
from moectl.facts.yaml_facts import read

FACTS = "shrink.yaml"


class CannotShrinkError(UsageError):
    """The rules do not make this run small; the sentence says what stays large."""


@dataclass(frozen=True, slots=True)
class Small:
    """What a run becomes.

    Attributes:
        sizes: MaxText key to its new value; keys that stay are not among them.
        degrees: mesh axis to its degree, for every axis; ICI only.
        kept: what of the run stays as it is, a clause each.
    """

    sizes: Mapping[str, int]
    degrees: Mapping[str, int]
    kept: tuple[str, ...] = ()

    @property
    def devices(self) -> int:
        """Return the devices of the mesh."""
        return prod(self.degrees.values())


def shrink(
    values: Mapping[str, Any],
    mesh: Mapping[str, int],
    node: int,
    said: Collection[str] | None = None,
) -> Small:
    """Return a run made small; nothing grows, and nothing that is off is turned on.

    Args:
        values: effective MaxText values.
        mesh: axis to total degree.
        node: devices of a node, of which the mesh has whole ones.
        said: keys that the model or the run says; defaults of others are left alone, but for
            those that every model has. None is all.

    Raises:
        CannotShrinkError: the mesh has more axes than small machines have devices.
    """
    facts = read(FACTS)
    sizes = {
        key: limit
        for key, limit in facts["sizes"].items()
        if _is_count(values.get(key))
        and values[key] > limit
        and (said is None or key in said or key in facts["always"])
    }
    for one, other in facts["equal"]:
        if _is_count(values.get(one)) and values[one] == values.get(other):
            sizes.pop(one, None)
            sizes |= {one: sizes[other]} if other in sizes else {}
    sizes |= _layers(values, sizes, facts["layers"])
    return Small(sizes, _mesh(mesh, node, facts["mesh"]), tuple(_kept(values, mesh)))


def _layers(
    values: Mapping[str, Any], sizes: Mapping[str, int], rule: Mapping[str, Any]
) -> dict[str, int]:
    """Return the number of layers: the dense ones first, then two cycles of the others."""
    key, before = rule["key"], values.get(rule["key"])
    cycles = [values[name] for name in rule["cycle_keys"] if _is_count(values.get(name))]
    first = sizes.get(rule["dense"], values.get(rule["dense"]))
    wanted = rule["cycles"] * max([1, *cycles]) + (first if _is_count(first) else 0)
    return {key: wanted} if _is_count(before) and before > wanted else {}


def _mesh(mesh: Mapping[str, int], node: int, rule: Mapping[str, Any]) -> dict[str, int]:
    """Return the mesh: every axis above 1 stays one, and whole nodes are filled.

    Raises:
        CannotShrinkError: it has too many devices all the same.
    """
    degrees = {axis: rule["degree"] if size > 1 else 1 for axis, size in mesh.items()}
    taken = next((a for a in rule["fills"] if degrees.get(a, 1) > 1), None)
    filled = taken or next((axis for axis in rule["fills"] if axis in degrees), "")
    while filled and prod(degrees.values()) % node:
        have = prod(degrees.values())
        degrees[filled] *= 2
        if have > rule["devices"]:
            break
    devices = prod(degrees.values())
    if devices > rule["devices"] or devices % node:
        axes = ", ".join(axis for axis, size in mesh.items() if size > 1)
        raise CannotShrinkError(
            f"the mesh over {axes or 'one device'} takes {devices} devices when every axis is "
            f"{rule['degree']} and nodes have {node}, and a rehearsal has {rule['devices']} at "
            "most: set some of them to 1"
        )
    return degrees


def _kept(values: Mapping[str, Any], mesh: Mapping[str, int]) -> list[str]:
    """Return what stays of the run, for people."""
    attention = values.get("attention_type")
    words = [f"decoder {values.get('decoder_block')}"]
    words += [f"attention {attention}"] if attention else []
    experts = values.get("num_experts")
    if _is_count(experts) and experts > 1:
        words.append(f"router {values.get('routed_score_func') or 'softmax'}")
        words += ["shared experts"] if _is_count(values.get("shared_experts")) else []
        words += ["first dense layers"] if _is_count(values.get("first_num_dense_layers")) else []
    words += ["multi-token prediction"] if _is_count(values.get("mtp_num_layers")) else []
    words.append(f"remat {values.get('remat_policy')}")
    words.append(f"{values.get('dtype')} over {values.get('weight_dtype')} weights")
    axes = " x ".join(axis for axis, size in mesh.items() if size > 1)
    return [*words, f"mesh {axes}"] if axes else words


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
