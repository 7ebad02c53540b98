"""Arithmetic of spans of time: pairs (start, end), start not after end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from moectl.logs.xplane import Kernel

Span: TypeAlias = tuple[float, float]


def union(spans: Iterable[Span]) -> list[Span]:
    """Return the spans that cover the same time, apart from each other and in order."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if end <= start:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def length(spans: Iterable[Span]) -> float:
    """Return the time that spans which lie apart cover."""
    return sum(end - start for start, end in spans)


def common(left: Sequence[Span], right: Sequence[Span]) -> list[Span]:
    """Return the time in both of two unions."""
    found = []
    i = j = 0
    while i < len(left) and j < len(right):
        start, end = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if start < end:
            found.append((start, end))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return found


def own(line: Sequence[Kernel]) -> Iterator[tuple[Kernel, list[Span]]]:
    """Yield each kernel of a line with the spans in which nothing it called ran.

    On a GPU's stream kernels follow each other. On a thread of the host an operation such as a
    loop contains others, whose time is theirs.

    Args:
        line: kernels by start, the longer first of two that begin together.
    """
    stack: list[tuple[Kernel, list[Span], float]] = []  # kernel, its spans, how far it is told

    def close(before: float) -> Iterator[tuple[Kernel, list[Span]]]:
        while stack and stack[-1][0].end <= before:
            kernel, spans, told = stack.pop()
            if told < kernel.end:
                spans.append((told, kernel.end))
            yield kernel, spans
            if stack:
                outer, held, far = stack[-1]
                stack[-1] = (outer, held, max(far, told, kernel.end))

    for kernel in line:
        yield from close(kernel.start)
        if stack:
            outer, held, told = stack[-1]
            if told < kernel.start:
                held.append((told, kernel.start))
            stack[-1] = (outer, held, max(told, kernel.start))
        stack.append((kernel, [], kernel.start))
    yield from close(float("inf"))
