"""Published runs: every row has a source, and what the model says of them is told as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.estimate.published import predict, rank_correlation, runs, summary
from moectl.facts import hardware, maxtext
from tests.estimates.page import newest, predictions, published_table, replaced


def test_every_row_names_a_known_model_a_platform_and_its_source() -> None:
    rows = runs()
    assert len(rows) == 95
    catalogue = maxtext.load("0.2.5")
    for row in rows:
        assert catalogue.model(row.model) is not None
        assert hardware.platform(row.hardware).name == row.hardware
        assert row.source
        assert row.tflops or row.tokens
        assert row.precision in {"mxfp8", "fp8", "bf16"}


def test_the_one_maxtext_run_is_predicted_from_its_recipe() -> None:
    (row,) = [run for run in runs() if run.framework == "maxtext"]
    found = predict(row)
    assert found is not None
    assert found.error == pytest.approx(0, abs=0.15)
    assert found.inside


def test_a_ladder_of_earlier_kernels_is_no_row_of_its_own() -> None:
    assert {run.framework for run in runs() if run.earlier} == {"megatron-core"}
    assert not any(row.run.earlier for row in predictions())


def test_degrees_that_do_not_multiply_to_the_gpus_are_not_expressed() -> None:
    odd = [run for run in runs() if not run.replicas]
    assert odd
    assert [predict(run) for run in odd] == [None] * len(odd)


def test_the_page_tells_errors_good_or_bad() -> None:
    rows = predictions()
    found = summary(rows)
    assert found["rows"] == len(rows) > 60
    assert 0.6 < found["rank_correlation"] <= 1
    assert found["median_error"] <= found["worst_error"]
    text = published_table(rows)
    assert text.count("\n| ") == len(rows) + 4  # three rows of a summary, and the second head
    assert len(newest(rows)) < len(rows)


def test_the_table_of_the_page_is_that_of_the_model_now() -> None:
    from pathlib import Path  # noqa: PLC0415

    page = Path(__file__).parent.parent / "docs" / "estimates.md"
    assert published_table(predictions()) in page.read_text("utf-8")


def test_a_section_of_a_page_is_replaced_and_a_page_without_it_refused() -> None:
    page = "a\n<!-- x -->\nold\n<!-- end of x -->\nb\n"
    assert replaced(page, {"x": "new"}) == "a\n<!-- x -->\nnew\n<!-- end of x -->\nb\n"
    with pytest.raises(ValueError, match="no marks of 'y'"):
        replaced(page, {"y": "new"})


def test_rank_correlation_of_equal_orders_is_one_and_of_opposite_ones_minus_one() -> None:
    assert rank_correlation([1, 2, 3], [10, 20, 90]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [9, 5, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 1], [1, 2]) == 0


@given(st.lists(st.integers(0, 50), min_size=2, max_size=30))
def test_rank_correlation_with_itself_is_one_unless_all_are_equal(values: list[int]) -> None:
    expected = 1 if len(set(values)) > 1 else 0
    assert rank_correlation(values, values) == pytest.approx(expected)
