"""Profiles with known content, as JAX would write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def xspace(
    planes: Mapping[str, Mapping[str, Sequence[tuple[str, int, int, Mapping[str, str]]]]],
) -> bytes:
    """Return a serialized profile.

    Args:
        planes: plane to line to its events: (name, start in ns, duration in ns, statistics).
    """
    from jax.profiler import ProfileData  # noqa: PLC0415

    return bytes(
        ProfileData.text_proto_to_serialized_xspace("\n".join(map(_plane, planes.items())))
    )


def _plane(
    item: tuple[str, Mapping[str, Sequence[tuple[str, int, int, Mapping[str, str]]]]],
) -> str:
    name, lines = item
    events: dict[str, int] = {}
    stats: dict[str, int] = {}
    texts = []
    for number, (line, held) in enumerate(lines.items(), start=1):
        rows = []
        for event, start, duration, said in held:
            identity = events.setdefault(event, len(events) + 1)
            more = " ".join(
                f"stats {{ metadata_id: {stats.setdefault(key, len(stats) + 1)} "
                f"str_value: {_quoted(value)} }}"
                for key, value in said.items()
            )
            rows.append(
                f"events {{ metadata_id: {identity} offset_ps: {start * 1000} "
                f"duration_ps: {duration * 1000} {more} }}"
            )
        texts.append(f"lines {{ id: {number} name: {_quoted(line)} {' '.join(rows)} }}")
    names = [
        f"event_metadata {{ key: {n} value {{ id: {n} name: {_quoted(event)} }} }}"
        for event, n in events.items()
    ]
    names += [
        f"stat_metadata {{ key: {n} value {{ id: {n} name: {_quoted(stat)} }} }}"
        for stat, n in stats.items()
    ]
    return f"planes {{ name: {_quoted(name)} {' '.join(texts)} {' '.join(names)} }}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
