"""Counts the collectives of a compiled training step, and says how far they reach.

Every instruction is counted as often as it runs: what stands in the body of a loop, times the
loop's trips where the compiler knows them. A pair of start and done is one collective.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from moectl.evidence.hlo_groups import Groups, replica_groups, source_target_pairs
from moectl.evidence.hlo_text import Instruction, Module, attribute, shape_bytes

Reach: TypeAlias = Literal["domain", "domains", "slices"]
REACHES: tuple[Reach, ...] = ("domain", "domains", "slices")
KINDS = (
    "all-gather", "all-reduce", "reduce-scatter", "all-to-all", "ragged-all-to-all",
    "collective-permute", "collective-broadcast", "send",
)  # fmt: skip
_PAIRS = frozenset({"collective-permute", "send"})
_FINISHES = ("-done", "-update")
_DEEPEST = 200


@dataclass(frozen=True, slots=True)
class Places:
    """Where the devices are.

    Attributes:
        assignment: device of each participant, in the program's own order.
        per_slice: devices a slice.
        per_domain: usable devices of an NVLink domain.
    """

    assignment: Sequence[int]
    per_slice: int
    per_domain: int

    def reach(self, groups: Groups) -> Reach:
        """Return how far the widest of the groups reaches.

        Slices are put in domains one by one, so two slices are never taken to share one.
        """
        found: Reach = "domain"
        for group in groups:
            devices = [self.assignment[item] for item in group if item < len(self.assignment)]
            if len({device // self.per_slice for device in devices}) > 1:
                return "slices"
            if len({device % self.per_slice // self.per_domain for device in devices}) > 1:
                found = "domains"
        return found


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective instruction.

    Attributes:
        name: the instruction.
        kind: e.g. "all-gather".
        runs: how often it runs in a step.
        sure: whether that is known; a loop of unknown trips counts once.
        bytes: what one device gives or gets in one run, whichever is more.
        group: devices of its largest group.
        reach: "domain" inside one NVLink domain, "domains" across, "slices" across slices.
    """

    name: str
    kind: str
    runs: int
    sure: bool
    bytes: int
    group: int
    reach: Reach


@dataclass(slots=True)
class _Walk:
    read: Module
    places: Places
    found: dict[tuple[str, str], Collective] = field(default_factory=dict)

    def into(self, name: str, runs: int, sure: bool, depth: int = 0) -> None:
        instructions = self.read.computations.get(name, {})
        if depth > _DEEPEST:
            return
        for instruction in instructions.values():
            if instruction.opcode.endswith(_FINISHES):
                continue
            kind = kind_of(instruction)
            if kind:
                self.add(name, instruction, kind, runs, sure)
                continue
            trips = instruction.trips if instruction.opcode == "while" else 1
            times = runs if trips is None else runs * trips
            for callee in instruction.callees:
                self.into(callee, times, sure and trips is not None, depth + 1)

    def add(
        self, computation: str, instruction: Instruction, kind: str, runs: int, sure: bool
    ) -> None:
        key = (computation, instruction.name)
        if before := self.found.get(key):  # a computation that is called from several places
            runs, sure = runs + before.runs, sure and before.sure
        groups = groups_of(instruction, kind, len(self.places.assignment))
        self.found[key] = Collective(
            name=instruction.name,
            kind=kind,
            runs=runs,
            sure=sure,
            bytes=bytes_of(instruction, self.read.computations[computation]),
            group=_participants(groups, kind),
            reach=self.places.reach(groups),
        )


def collectives(read: Module, places: Places) -> list[Collective]:
    """Return the collectives that the module runs, those that run never left out.

    Raises:
        GroupsError: the devices of one are said in no known form.
    """
    walk = _Walk(read, places)
    walk.into(read.entry, 1, sure=True)
    return [one for one in walk.found.values() if one.runs]


def kind_of(instruction: Instruction) -> str:
    """Return the kind of a collective, "" for any other instruction."""
    kind = instruction.opcode.removesuffix("-start")
    if kind == "send" and "is_host_transfer=true" in instruction.attributes:
        return ""
    return kind if kind in KINDS else ""


def groups_of(instruction: Instruction, kind: str, devices: int) -> Groups:
    """Return the groups, or for transfers the pairs, of a collective.

    Raises:
        GroupsError: they are said in no known form.
    """
    if kind in _PAIRS:
        names = ("source_target_pairs", "_xla_send_recv_source_target_pairs")
        text = next(filter(None, (attribute(instruction.attributes, n) for n in names)), "{}")
        return source_target_pairs(text.strip('"'))
    text = attribute(instruction.attributes, "replica_groups") or "{}"
    return replica_groups(text, devices)


def bytes_of(instruction: Instruction, among: dict[str, Instruction] | object) -> int:
    """Return what one device gives or gets in one run, whichever is more.

    The result of a start holds its operands too; they are taken off.
    """
    assert isinstance(among, dict)  # noqa: S101 - typing only
    given = sum(shape_bytes(among[name].shape) for name in instruction.operands if name in among)
    made = shape_bytes(instruction.shape)
    if instruction.opcode.endswith("-start") and made > given:
        made -= given
    if "ragged" in instruction.opcode and instruction.operands:
        # Its second operand is the buffer the result is written to; the others are offsets.
        first = among.get(instruction.operands[0])
        second = among.get(instruction.operands[1]) if len(instruction.operands) > 1 else None
        return max(shape_bytes(one.shape) if one else 0 for one in (first, second))
    return max(given, made)


def _participants(groups: Groups, kind: str) -> int:
    if kind in _PAIRS:
        return len({device for pair in groups for device in pair})
    return max((len(group) for group in groups), default=0)


def tally(
    found: Sequence[Collective], key: Callable[[Collective], tuple[str, ...]] | None = None
) -> dict[tuple[str, ...], dict[str, int | bool]]:
    """Sum collectives by kind and reach, or by another key, in the order of the kinds.

    Returns:
        For each key `instructions`, `runs`, `bytes` (of all runs, a device) and whether the
        number of runs is `sure`.
    """
    rows: dict[tuple[str, ...], dict[str, int | bool]] = {}
    order = {name: at for at, name in enumerate((*KINDS, *REACHES))}
    for one in sorted(found, key=lambda one: (order[one.kind], order[one.reach])):
        row = rows.setdefault(
            key(one) if key else (one.kind, one.reach),
            {"instructions": 0, "runs": 0, "bytes": 0, "sure": True},
        )
        row["instructions"] += 1
        row["runs"] += one.runs
        row["bytes"] += one.runs * one.bytes
        row["sure"] = bool(row["sure"]) and one.sure
    return rows
