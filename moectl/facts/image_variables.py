"""Variables that container images set themselves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from moectl.findings import Severity
from moectl.resources import fact

_SEVERITIES: Mapping[str, Severity] = {"error": "error", "warning": "warning", "note": "note"}


@cache
def _rows() -> Mapping[str, Severity]:
    lines = fact("image_variables.tsv").read_text("utf-8").splitlines()
    cells = [line.split("\t") for line in lines if not line.startswith("#")]
    return {name: _SEVERITIES[severity] for name, severity, *_ in cells[1:]}


def baked(name: str) -> Severity | None:
    """Return how bad it is to lose a variable's value to the image's; None if no image has one.

    Args:
        name: a variable, e.g. "NCCL_IB_SL"; a full name counts before a name with a *.
    """
    rows = _rows()
    if name in rows:
        return rows[name]
    return next(
        (rows[row] for row in rows if row.endswith("*") and name.startswith(row[:-1])), None
    )
