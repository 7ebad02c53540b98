"""What a run said about its memory."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.report.figure import Figure
from moectl.report.gather import Material


def memory(material: Material) -> Iterator[Figure]:
    """Yield the figures of memory: of the fullest device, and by the compiler."""
    used = [
        (said.value, said.second, f"{log.path}:{said.line}")
        for log in material.logs
        for said in log.said
        if said.kind == "memory" and said.value is not None and said.second
    ]
    if used:
        most, limit, place = max(used)
        yield Figure(
            "memory.used_gib",
            "GPU memory after set-up, fullest device",
            most,
            "GiB",
            f"highest of {len(used)} lines of Memstats; bytes_in_use over 2**30, of {limit} GiB",
            (place,),
            digits=2,
        )
        yield Figure(
            "memory.limit_gib", "GPU memory that JAX may use", limit, "GiB",
            "bytes_limit of the same line", (place,), digits=2,
        )  # fmt: skip
    compiled = [
        (said.value, f"{log.path}:{said.line}")
        for log in material.logs
        for said in log.said
        if said.kind == "compiled memory" and said.value is not None
    ]
    if compiled:
        most, place = max(compiled)
        yield Figure(
            "memory.compiled_gib", "memory of the compiled step", most, "GiB",
            "the compiler's own estimate, output + temporary + argument - alias", (place,),
            digits=1,
        )  # fmt: skip
