"""Real MaxText rehearses DeepSeek-V3 on CPU, and its paths are compared both ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moectl.actions.parity import Sides, judged, stage_both
from moectl.actions.plan import Wishes
from moectl.actions.rehearse import Trained, rehearse, stage, train
from moectl.launch.store import Store
from tests.support.components import require
from tests.support.local_site import machine

PRESET = "deepseek3-671b"
STEPS = 4


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    require("maxtext")
    with machine(tmp_path_factory.mktemp("rehearsal") / "person") as found:
        yield Store(found.runs)


def test_deepseek_made_small_learns_and_goes_on_from_its_checkpoint(store: Store) -> None:
    said: list[str] = []
    found = rehearse(stage(PRESET, Wishes(), STEPS), store, said.append)
    assert {each.name: each.good for each in found.verdicts} == {
        "starts": True, "log lines parse": True, "loss finite": True, "loss falls": True,
        "checkpoint written": True, "resumed": True,
    }, [each.why for each in found.verdicts]  # fmt: skip
    assert found.good
    assert [sorted(job.losses) for job in found.jobs] == [[0, 1, 2, 3], [3]]
    assert any(sentence.startswith("step 3: loss") for sentence in said)
    log = found.jobs[0].log.read_text("utf-8", "replace")
    for line in (
        "Config param decoder_block: DecoderBlockType.DEEPSEEK",
        "Config param attention_type: mla",
        "Config param routed_score_func: sigmoid",
        "Config param remat_policy: custom",
        "Num_devices: 4, shape (1, 1, 1, 2,",
    ):
        assert line in log


@pytest.fixture(scope="module")
def one(store: Store) -> Trained:
    """Return the run itself, which both comparisons have as one of their sides."""
    return train(against("sparse").one, store, lambda _: None)


def against(what: str) -> Sides:
    return stage_both(PRESET, Wishes(), what, STEPS)


def test_the_dense_and_the_sparse_path_agree(store: Store, one: Trained) -> None:
    sides = against("sparse")
    other = train(sides.other, store, lambda _: None)
    verdicts = judged(sides, (one, other))
    assert [each.why for each in verdicts if not each.good] == []
    assert verdicts[-1].name == "parity"
    assert other.losses != {}


def test_a_wrong_scale_of_the_router_is_found(store: Store, one: Trained) -> None:
    sides = against("routed_scaling_factor=1.0")
    other = train(sides.other, store, lambda _: None)
    verdicts = judged(sides, (one, other))
    assert [each.name for each in verdicts if not each.good] == ["parity"]
    assert "where 0.00" in verdicts[-1].why
    assert Path(other.log).is_file()
