"""Runs are compared in the right direction, and not when their figures measure different things."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moectl.actions.report import compare
from moectl.cli import report as command
from moectl.errors import UnknownNameError, UsageError, ValueUsageError
from moectl.report.compare import IncomparableError, TooFewStepsError
from moectl.report.context import Wish
from tests.support import report_logs as made


def log(
    folder: Path,
    name: str,
    seconds: float = 5.763,
    count: int = 80,
    said: dict[str, str] | None = None,
) -> str:
    path = folder / name
    start = made.beginning(0.0, said=said)
    path.write_text(start + made.steps(made.times(count, seconds, seed=len(name)), 70.0))
    return str(path)


def run(*words: str, allow: list[str] | None = None, threshold: str | None = None) -> int:
    return command.compare(list(words), threshold, allow or [], None, None, None, "text", None)


def test_a_slower_run_is_a_regression_and_a_faster_one_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual, slow = log(tmp_path, "usual", 5.0), log(tmp_path, "slower", 5.5)
    assert run(usual, slow) == 1
    assert "takes 10." in (out := capsys.readouterr().out) or "takes 9." in out
    assert "more time a token than usual" in out
    assert "a regression beyond 2.0%" in out
    assert run(slow, usual) == 0
    out = capsys.readouterr().out
    assert "less time a token than slower" in out
    assert out.splitlines()[0].endswith("steady steps): faster")


def test_the_other_direction_holds_for_every_size_of_change(tmp_path: Path) -> None:
    for change in (1.04, 1.2, 3.0):
        usual, slow = log(tmp_path, "a", 5.0), log(tmp_path, "bb", 5.0 * change)
        (worse,) = compare([usual, slow], 0.02)
        (better,) = compare([slow, usual], 0.02)
        assert worse.regression
        assert worse.change.low > 0.02
        assert not better.regression
        assert better.change.high < 0
        assert 1 + worse.change.value == pytest.approx(change, rel=0.01)


def test_two_runs_of_one_speed_differ_by_nothing_that_is_sure(tmp_path: Path) -> None:
    found = compare([log(tmp_path, "a"), log(tmp_path, "bb"), log(tmp_path, "ccc")], 0.02)
    assert len(found) == 2
    for each in found:
        assert not each.regression
        assert each.change.low > -0.02
        assert each.change.high < 0.02


def test_a_small_but_sure_slowdown_is_told_and_passes_below_the_threshold(tmp_path: Path) -> None:
    usual, slow = log(tmp_path, "a", 5.0, 400), log(tmp_path, "bb", 5.05, 400)
    (found,) = compare([usual, slow], 0.02)
    assert (found.verdict, found.regression) == ("slower", False)
    assert "slower, not surely by more than 2.0%" in found.sentence
    assert compare([usual, slow], 0.0)[0].regression


def test_another_batch_is_no_difference(tmp_path: Path) -> None:
    """Twice the tokens in twice the time is the same speed."""
    usual, twice = log(tmp_path, "usual"), tmp_path / "twice"
    spent = made.times(80, 2 * 5.763, seed=4)
    twice.write_text(made.beginning(0.0) + made.steps(spent, 70.0, batch=2.0))
    (found,) = compare([usual, str(twice)], 0.02)
    assert found.verdict == "no difference"


@pytest.mark.parametrize(
    ("kind", "config", "reason"),
    [
        ("sequence", {"max_target_length": "8192"}, "max_target_length is 4096 in a and 8192 in b"),
        ("routing", {"use_random_routing": "True"}, "use_random_routing is False in a and True"),
        ("denominator", {"te_gmm_quantization": "Type.TE_NO_QUANT"}, "MFU divides by 4,900"),
    ],
)
def test_what_measures_different_things_is_refused_unless_told(
    tmp_path: Path, kind: str, config: dict[str, str], reason: str
) -> None:
    words = [log(tmp_path, "a"), log(tmp_path, "b", said=config)]
    wish = Wish(hardware="gb200")
    with pytest.raises(IncomparableError, match=reason) as refused:
        compare(words, 0.02, (), wish)
    assert [each for each, _ in refused.value.reasons] == [kind]
    assert f"--allow {kind} compares them anyway" in str(refused.value)
    assert refused.value.exit_code == 2
    (found,) = compare(words, 0.02, [kind], wish)
    assert len(found.allowed) == 1


def test_another_count_of_flops_is_refused(tmp_path: Path) -> None:
    words = [log(tmp_path, "a"), log(tmp_path, "b")]
    text = Path(words[1]).read_text()
    for step in text.splitlines():
        if "TFLOP/s/device: " in step:
            rate = step.partition("TFLOP/s/device: ")[2].partition(",")[0]
            text = text.replace(f": {rate},", f": {float(rate) * 1.038:.3f},")
    Path(words[1]).write_text(text)
    with pytest.raises(IncomparableError, match="another model, or another formula"):
        compare(words, 0.02)
    assert compare(words, 0.02, ["flops"])[0].allowed


def test_all_reasons_are_told_at_once(tmp_path: Path) -> None:
    other = log(tmp_path, "b", said={"max_target_length": "8192", "use_random_routing": "True"})
    with pytest.raises(IncomparableError) as refused:
        compare([log(tmp_path, "a"), other], 0.02)
    assert [kind for kind, _ in refused.value.reasons] == ["sequence", "routing"]
    assert "--allow sequence --allow routing" in str(refused.value)


def test_what_only_one_run_tells_is_no_difference(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.write_text(made.steps(made.times(80), 70.0))
    assert compare([log(tmp_path, "a"), str(bare)], 0.02)[0].allowed == ()


def test_too_few_steps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TooFewStepsError, match="short has 5 steady steps"):
        compare([log(tmp_path, "a"), log(tmp_path, "short", count=8)], 0.02)


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    path = log(tmp_path, "a")
    with pytest.raises(UsageError, match="at least two"):
        run(path)
    with pytest.raises(ValueUsageError):
        run(path, path, threshold="much")
    with pytest.raises(UnknownNameError, match="routing"):
        run(path, path, allow=["rooting"])


def test_the_json_form_holds_the_interval_and_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [log(tmp_path, "a", 5.0), log(tmp_path, "b", 6.0)]
    assert command.compare(words, "3", [], None, None, None, "json", None) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["regression"] is True
    assert found["threshold"] == 0.03
    assert found["interval"][0] < found["change"] < found["interval"][1]
    assert found["confidence"] == 0.95
    assert {row["name"] for row in found["figures"]} >= {"tokens_per_s_per_gpu", "loss.last"}
