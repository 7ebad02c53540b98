"""The table of compiled peaks belongs to its cases, and what is exact in it is exact."""

from __future__ import annotations

import pytest

from moectl.estimate.memory import arguments
from tests.proofs.__main__ import PAGE, page
from tests.proofs.case import COLUMNS, Case, cases, compared, kept, text_of

TABLE = kept()


def test_every_row_belongs_to_a_case_and_every_case_has_one() -> None:
    assert list(TABLE) == [case.id for case in cases()]


def test_the_table_is_what_the_program_writes() -> None:
    assert all(set(row) == set(COLUMNS) for row in TABLE.values())
    assert text_of(list(TABLE.values())).count("\n") == len(TABLE) + 1


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_compiled_arguments_are_weights_and_moments(case: Case) -> None:
    job = case.job()
    mesh = {axis: degree.total for axis, degree in job.mesh.degrees.items()}
    state = arguments(job.effective, mesh, job.container.image.maxtext)
    assert state is not None
    # Beside them a step takes its batch, step counts and random keys: under 2 MB here.
    assert 0 <= int(TABLE[case.id]["argument"]) - state < 2_000_000


def test_the_page_is_made_of_the_table() -> None:
    rows = compared()
    text = page(rows)
    assert all(row.case.id in text for row in rows)
    assert PAGE.read_text("utf-8").count("\n| ") == text.count("\n| ")
