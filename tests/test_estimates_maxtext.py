"""Parameters, bytes and FLOPs of an estimate are those of real MaxText."""

from __future__ import annotations

import pytest

from tests.estimates.points import FEW, SIZES, compared, every, names, point
from tests.judge.client import Judge


def test_parameters_and_bytes_equal_maxtexts_state_and_flops_its_own_count(maxtext: Judge) -> None:
    rows = compared([point(name, size) for name, size in FEW], maxtext)
    assert [row.verdict.error for row in rows if not row.verdict.accepted] == []
    assert [row.ours for row in rows] == [row.theirs for row in rows]
    for row in rows:
        assert row.flops_error == pytest.approx(0, abs=1e-6), row.point.name


def test_every_preset_of_maxtext_is_estimated_on_at_least_four_meshes() -> None:
    points = every()
    assert len(SIZES) >= 4
    assert len(points) == len(names()) * len(SIZES) == 16 * len(SIZES)
    for name in names():
        meshes = {one.name for one in points if one.job.preset == name}
        assert len(meshes) >= 4
    assert [p.name for p in points if p.found.memory is None or p.found.time is None] == []
