"""Plans of runs of several jobs: links, checkpoints, room, and the time limit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.actions import checkpoint_space, step_seconds
from moectl.actions.calibrations import file_of
from moectl.actions.chain import ChainWish, plan_chain, training_seconds, wish_of
from moectl.actions.checkpoint_space import Space, amount, require_space, space
from moectl.actions.launch import Planned, intent, plan_launch
from moectl.actions.plan import Wishes
from moectl.actions.step_seconds import StepSeconds, predicted_step_seconds
from moectl.actions.time_limit import fits
from moectl.errors import UsageError
from moectl.estimate.calibration import rates
from moectl.launch.chain import links, missing
from moectl.launch.store import Store
from moectl.render.limits import steps
from tests.support import training_logs as made
from tests.support.run_records import record

RUN = """\
preset: gpt-oss-20b
hardware: gb200-nvl72
name: moe
gpus: 8
form: pretrain
data: {{type: synthetic}}
training: {{steps: {steps}}}
output_directory: {output}
cluster: {{time: "{time}", runtime: none, segment: false{cluster}}}
{more}
"""
GIB = 1 << 30


def run_file(folder: Path, **changes: Any) -> str:
    """Write a run file and return its path."""
    said: Mapping[str, Any] = {
        "steps": 1000,
        "output": "gs://bucket/moe",
        "time": "04:00:00",
        "cluster": "",
        "more": "",
        **changes,
    }
    path = folder / "run.yaml"
    path.write_text(RUN.format(**said))
    return str(path)


def trained(store: Store, planned: Planned, seconds: float, number: int = 1) -> None:
    """Leave a run of the same bundle whose steps took so long."""
    found = record(store, number, jobs=[str(number)], steps=None)
    bundle = Path(found.bundle)
    for name, text in planned.rendered.files.items():
        (bundle / name).write_text(text)
    logs = bundle / "logs" / str(number)
    logs.mkdir(parents=True)
    (logs / "rank-0.log").write_text("".join(made.step(step, seconds) for step in range(30)))


ESTIMATED = step_seconds._estimated


@pytest.fixture(autouse=True)
def no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only what was measured be known, unless a test is about the estimate."""
    monkeypatch.setattr(step_seconds, "_estimated", lambda *_: None)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def planned_chain(
    target: str, store: Store, chain: int | None = 4, until: int | None = None, **wishes: Any
) -> Planned:
    return plan_chain(target, Wishes(**wishes), ChainWish(chain, until), store)


def checkpoints(planned: Planned) -> tuple[Any, ...]:
    keys = ("enable_autocheckpoint", "checkpoint_period", "max_num_checkpoints_to_keep")
    return tuple(planned.job.effective[key] for key in keys)


# ---- the step time of an earlier run ---------------------------------------------------------


def test_a_step_takes_what_it_took_in_an_earlier_run_of_the_same_settings(
    tmp_path: Path, store: Store
) -> None:
    target = run_file(tmp_path)
    planned = plan_launch(target, Wishes())
    assert predicted_step_seconds(planned.job, store) is None
    trained(store, planned, 2.0)
    trained(store, planned, 2.5, 2)
    found = predicted_step_seconds(planned.job, store)
    assert found is not None
    assert (found.low, found.high) == (2.0, 2.5)
    assert found.source == "measured in moe-20261130-000002-0a1b and 1 more"
    assert str(found) == "2 to 2.5 s"


@pytest.mark.parametrize(
    ("sets", "same"),
    [
        (["steps=77"], True),
        (["checkpoint_period=7", "learning_rate=0.1"], True),
        (["max_target_length=2048"], False),
        (["remat_policy=minimal"], False),
        (["xla_flags.xla_gpu_enable_latency_hiding_scheduler=false"], False),
        (["model.overrides.base_num_decoder_layers=2"], False),
    ],
)
def test_what_changes_a_step_makes_it_another_one(
    tmp_path: Path, store: Store, sets: list[str], same: bool
) -> None:
    target = run_file(tmp_path)
    trained(store, plan_launch(target, Wishes()), 2.0)
    other = plan_launch(target, Wishes(sets=sets))
    assert (predicted_step_seconds(other.job, store) is not None) is same


def test_what_was_measured_is_stronger_than_the_estimate(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_seconds, "_estimated", ESTIMATED)
    target = run_file(tmp_path)
    planned = plan_launch(target, Wishes())
    found = predicted_step_seconds(planned.job, store)
    assert found is not None
    assert found.source == "estimated"
    assert 0 < found.low < found.high
    assert planned_chain(target, store, None, 100).links == 2
    unheard_of = replace(planned.job.hardware, figures={})
    assert predicted_step_seconds(replace(planned.job, hardware=unheard_of), store) is None
    calibrated = {name: rate / 2 for name, rate in rates().items()}
    kept = file_of(store, planned.job)
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps({"format": 1, "efficiencies": calibrated}))
    slower = predicted_step_seconds(planned.job, store)
    assert slower is not None
    assert slower.low > found.low
    trained(store, planned, 2.0)
    measured = predicted_step_seconds(planned.job, store)
    assert measured is not None
    assert (measured.low, measured.high) == (2.0, 2.0)


def test_runs_without_steps_or_bundle_say_nothing(tmp_path: Path, store: Store) -> None:
    target = run_file(tmp_path)
    planned = plan_launch(target, Wishes())
    trained(store, planned, 2.0)
    shutil.rmtree(store.list().records[0].bundle)
    record(store, 2)
    assert predicted_step_seconds(planned.job, store) is None


# ---- what is derived -------------------------------------------------------------------------


def test_the_period_follows_the_time_limit_and_the_step_time(tmp_path: Path, store: Store) -> None:
    target = run_file(tmp_path, steps=100_000)
    trained(store, plan_launch(target, Wishes()), 2.0)
    planned = planned_chain(target, store)
    # An eighth of four hours is 1,800 s.
    assert checkpoints(planned) == (True, 900, 3)
    assert "a checkpoint every 900 steps, about 30 min; 3 are kept, 251 GB each" in " ".join(
        planned.notes
    )
    assert planned.links == 4
    assert planned.gpu_hours == pytest.approx(8 * 4 * 4)
    meant = intent(planned)
    assert (links(meant), missing(meant)) == (4, 4)


def test_what_a_person_says_stays(tmp_path: Path, store: Store) -> None:
    more = "checkpoints: {period: 123, keep: 2}"
    target = run_file(tmp_path, more=more)
    trained(store, plan_launch(target, Wishes()), 2.0)
    assert checkpoints(planned_chain(target, store)) == (True, 123, 2)
    target = run_file(tmp_path)
    planned = planned_chain(target, store, sets=["checkpoint_period=77", "checkpoints.keep=9"])
    assert checkpoints(planned) == (True, 77, 9)


def test_without_a_step_time_the_presets_period_stays_and_that_is_said(
    tmp_path: Path, store: Store
) -> None:
    planned = planned_chain(run_file(tmp_path), store)
    assert checkpoints(planned) == (True, 500, 3)
    assert fits(planned, None) == (
        "how long a step takes is not known, so neither is whether 4 jobs of 04:00:00 are enough "
        "for 1000 steps: no earlier run has the same settings, and there is no estimate"
    )


@pytest.mark.parametrize(
    ("changes", "wishes", "says"),
    [
        (
            {},
            {"options": {"form": ("benchmark", "--form")}},
            "set form: pretrain (--form pretrain) and checkpoints.enabled: true",
        ),
        ({"more": "checkpoints: {enabled: false}"}, {}, "set checkpoints.enabled: true"),
        ({"more": "checkpoints: {on_preemption: false}"}, {}, "on_preemption: true only"),
    ],
)
def test_a_run_that_cannot_go_on_is_refused_with_what_to_set(
    tmp_path: Path, store: Store, changes: dict[str, Any], wishes: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        planned_chain(run_file(tmp_path, **changes), store, **wishes)
    assert says in str(caught.value)


def test_a_bundle_is_chained_as_it_stands(tmp_path: Path, store: Store) -> None:
    planned = plan_launch(run_file(tmp_path), Wishes())
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    for name, text in planned.rendered.files.items():
        (bundle / name).write_text(text)
    found = planned_chain(str(bundle), store)
    assert (found.bundle, found.links) == (bundle, 4)
    assert checkpoints(found) == (True, 500, 3)
    with pytest.raises(UsageError, match=r"render it anew with --set training\.steps=7"):
        planned_chain(str(bundle), store, until=7)
    assert planned_chain(str(bundle), store, until=1000).links == 4


# ---- until a step ----------------------------------------------------------------------------


def test_until_a_step_takes_as_many_jobs_as_it_takes(tmp_path: Path, store: Store) -> None:
    target = run_file(tmp_path, steps=100_000)
    trained(store, plan_launch(target, Wishes()), 2.0)
    planned = planned_chain(target, store, None, 20_000)
    # 4 h without the start and the last ten minutes: 12,900 s; 40,000 s of steps.
    assert training_seconds(planned.job) == 12_900
    assert (planned.links, steps(planned.job)) == (4, 20_000)
    # The schedule stays that of the whole run.
    assert planned.job.effective["learning_rate_schedule_steps"] == 100_000
    seconds = predicted_step_seconds(planned.job, store)
    assert fits(planned, seconds).endswith("4 jobs of 04:00:00 leave 14.3 h to train: enough")
    assert planned_chain(target, store, None, 100).links == 2


@pytest.mark.parametrize("said", ["steps=700", "training.steps=700"])
def test_until_a_step_and_another_number_of_steps_is_an_error_that_names_both(
    tmp_path: Path, store: Store, said: str
) -> None:
    with pytest.raises(UsageError, match=r"--until-step 500 .*--set.* 700"):
        planned_chain(run_file(tmp_path), store, 2, 500, sets=[said])


def test_until_a_later_step_has_a_schedule_of_its_own(tmp_path: Path, store: Store) -> None:
    planned = planned_chain(run_file(tmp_path), store, 2, 2000)
    assert (steps(planned.job), planned.job.effective["learning_rate_schedule_steps"]) == (2000, -1)


def test_how_many_jobs_is_asked_where_nothing_tells(tmp_path: Path, store: Store) -> None:
    with pytest.raises(UsageError, match="say it with --chain N beside --until-step"):
        planned_chain(run_file(tmp_path), store, None, 500)
    target = run_file(tmp_path, time="00:15:00")
    trained(store, plan_launch(target, Wishes()), 2.0)
    with pytest.raises(UsageError, match="leaves no time to train"):
        planned_chain(target, store, None, 500)
    target = run_file(tmp_path, time="0")
    with pytest.raises(UsageError, match="no time limit"):
        planned_chain(target, store, None, 500)
    target = run_file(tmp_path, steps=10_000_000)
    with pytest.raises(UsageError, match=r"takes 1551 jobs of 04:00:00.* at most 100"):
        planned_chain(target, store, None, 10_000_000)


@pytest.mark.parametrize(
    ("chain", "until", "says"),
    [
        ("1", None, "--chain cannot be '1'"),
        ("101", None, "from 2 to 100"),
        ("", None, "--chain cannot be ''"),
        ("-3", None, "--chain cannot be '-3'"),
        ("٣", None, "--chain cannot be"),
        ("2", "0", "--until-step cannot be '0'"),
        (None, "9" * 40, "--until-step cannot be"),
    ],
)
def test_a_number_that_cannot_be_meant_is_told(
    chain: str | None, until: str | None, says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        wish_of(chain, until)
    assert says in str(caught.value)


def test_nothing_is_wished_where_nothing_is_said() -> None:
    assert wish_of(None, None) is None
    assert wish_of("7", "20") == ChainWish(7, 20)


# ---- the time limit --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (2.0, 2.0, "1000 steps x 2 s = 33.3 min (here); 04:00:00 leaves 3.58 h to train: enough"),
        (10.0, 20.0, "enough unless steps take the longest; it may end at about step 645"),
        (20.0, 25.0, "not enough, it ends at about step 516; raise cluster.time, or --chain"),
    ],
)
def test_it_is_said_whether_the_time_is_enough(
    tmp_path: Path, low: float, high: float, says: str
) -> None:
    planned = plan_launch(run_file(tmp_path), Wishes())
    assert says in fits(planned, StepSeconds(low, high, "here"))


@settings(deadline=None)
@given(st.floats(0.01, 1e4), st.floats(1, 10), st.integers(1, 9))
def test_more_jobs_are_never_worse(low: float, factor: float, more: int) -> None:
    seconds = StepSeconds(low, low * factor, "here")
    verdicts = ["not enough", "unless", ": enough"]
    found = [
        max(index for index, text in enumerate(verdicts) if text in fits(each, seconds))
        for each in (PLANNED, replace(PLANNED, links=1 + more))
    ]
    assert found[0] <= found[1]


class Usage(NamedTuple):
    """What shutil.disk_usage says."""

    total: int
    used: int
    free: int


PLANNED = plan_launch("gpt-oss-20b", Wishes(options={"gpus": (8, "--gpus")}))


# ---- room for checkpoints --------------------------------------------------------------------


def test_checkpoints_without_room_are_refused(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage(0, 0, 900 * 10**9))
    target = run_file(tmp_path, output=str(tmp_path / "out"))
    with pytest.raises(UsageError) as caught:
        planned_chain(target, store, allow=["CKPT201"])
    assert str(caught.value) == (
        "3 checkpoints and the one that is being written take 1 TB, and "
        f"{tmp_path}/out has 900 GB free: keep fewer (checkpoints.keep), or set output_directory "
        "to a folder with room"
    )
    planned = planned_chain(target, store, allow=["CKPT201"], sets=["checkpoints.keep=2"])
    assert f"2 are kept, 251 GB each; {tmp_path}/out has 900 GB free" in " ".join(planned.notes)


def test_an_output_folder_that_cannot_be_seen_is_no_obstacle(tmp_path: Path) -> None:
    job = plan_launch(run_file(tmp_path), Wishes()).job
    room = space(job, tmp_path)
    assert (room.folder, room.free, room.keep) == ("gs://bucket/moe", None, 3)
    require_space(room)
    assert checkpoint_space.free(Path("/nobody-mounts-this/out")) is None
    assert checkpoint_space.free(tmp_path / "not" / "yet") is not None
    require_space(Space(None, 3, "/out", 1))


def test_all_checkpoints_are_two_at_least() -> None:
    room = Space(GIB, None, "/out", 2 * GIB - 1)
    with pytest.raises(
        UsageError, match=r"two checkpoints, the least there will be, take 2\.15 GB"
    ):
        require_space(room)
    require_space(replace(room, free=2 * GIB))


def test_amounts_are_told_in_the_largest_unit() -> None:
    assert [amount(count) for count in (999, 10**6, 2_510 * 10**8, 3 * 10**12)] == [
        "999 bytes",
        "1 MB",
        "251 GB",
        "3 TB",
    ]
