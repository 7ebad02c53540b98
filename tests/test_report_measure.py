"""The figures of a report, against numbers computed here from the same logs."""

from __future__ import annotations

import gzip
import random
import statistics
from math import isnan
from pathlib import Path

import pytest

from moectl.actions.report import report
from moectl.errors import UsageError
from moectl.report.context import Wish, value
from moectl.report.measure import Report
from tests.support import report_logs as made
from tests.support import training_logs as real


def of(folder: Path, text: str, *, name: str = "run.log", wish: Wish | None = None) -> Report:
    path = folder / name
    path.write_text(text)
    return report([str(path)], wish)


def test_step_time_is_that_of_the_steady_steps(tmp_path: Path) -> None:
    found = of(tmp_path, made.log(63))
    wanted = [round(seconds, 3) for seconds in made.times(63)[3:]]
    assert found.value("step_time_s.median") == pytest.approx(statistics.median(wanted))
    inclusive = statistics.quantiles(wanted, n=20, method="inclusive")
    assert found.value("step_time_s.p5") == pytest.approx(inclusive[0])
    assert found.value("step_time_s.p95") == pytest.approx(inclusive[-1])
    assert found.value("dropped_steps") == 3
    assert found.value("steps") == 63
    assert found.figures["step_time_s.median"].places == (f"{tmp_path}/run.log:32-91",)


def test_rates_mfu_and_their_denominator(tmp_path: Path) -> None:
    found = of(tmp_path, made.log(60), wish=Wish(hardware="gb300"))
    rates = [round(made.TOKENS / s, 3) for s in made.times(60)[3:]]
    assert found.value("tokens_per_s_per_gpu") == pytest.approx(statistics.median(rates), abs=0.01)
    assert found.value("tokens_per_s") == pytest.approx(128 * statistics.median(rates), rel=1e-5)
    tflops = found.value("tflops_per_gpu")
    assert tflops == pytest.approx(1068, rel=0.01)
    assert found.value("mfu") == pytest.approx((tflops or 0) / 4900)
    assert found.context.precision == "mxfp8"
    assert "TE_MXFP8" not in found.context.precision_why
    assert found.figures["mfu"].formula.endswith(
        f"dense mxfp8 of gb300-nvl72 (te_gmm_quantization: te_mxfp8 at {tmp_path}/run.log:17)"
    )


def test_without_hardware_there_is_no_mfu_but_a_reason(tmp_path: Path) -> None:
    found = of(tmp_path, made.log(20))
    assert found.value("mfu") is None
    assert found.figures["mfu"].why == "nothing says the GPU; --hardware names it"
    vera = of(tmp_path, made.log(20), wish=Wish(hardware="vr"))
    assert vera.figures["mfu"].why == "no dense peak is known of vr-nvl72 in mxfp8"
    said = of(tmp_path, "".join(real.steps(20)), wish=Wish(hardware="h100"))
    assert said.figures["mfu"].why == "nothing says the precision; --precision names it"


def test_profiled_and_ramp_up_steps_do_not_count(tmp_path: Path) -> None:
    text = made.log(
        40, profiler="ProfilerType.XPLANE", skip_first_n_steps_for_profiler=10, profiler_steps=5
    )
    found = of(tmp_path, text)
    dropped = sorted(found.series.steps[row] for row in found.steady.dropped)
    assert dropped == [0, 1, 2, *range(10, 17)]
    assert found.steady.count == {"start": 3, "profile": 7}
    hidden = of(tmp_path, real.steps(3) + real.BOUNDARY + real.steps(4, 4))
    assert hidden.steady.count == {"start": 3, "profile": 1}
    ramp = "".join(
        made.step_text(step, 5.0, 3.0).replace("completed", "[Rampup Batch Size Phase], completed")
        + "\n"
        for step in range(6)
    )
    grown = of(tmp_path, ramp + real.steps(4, 6))
    assert grown.steady.count["ramp-up"] == 3


def test_a_run_with_no_steady_step_says_so(tmp_path: Path) -> None:
    found = of(tmp_path, made.log(3))
    assert found.value("step_time_s.median") is None
    assert found.figures["step_time_s.median"].why == "no step is steady"
    assert found.value("loss.last") is not None


def test_an_empty_file_is_a_plain_statement(tmp_path: Path) -> None:
    found = of(tmp_path, "")
    assert found.notes == ["no line tells of a step"]
    assert found.value("steps") == 0


def test_a_loss_that_is_nan_is_counted_and_is_the_last_one(tmp_path: Path) -> None:
    found = of(tmp_path, real.steps(3) + real.NAN + real.ABORT)
    assert found.value("loss.not_finite") == 1
    assert isnan(found.value("loss.last") or 0)
    assert any("Aborting training due to NaN loss" in note for note in found.notes)


def test_a_restart_is_one_run_and_its_steps_count_once(tmp_path: Path) -> None:
    spent = made.times(30)
    again = 70 + sum(spent) + 300
    text = made.beginning(0) + made.steps(spent, 70) + made.beginning(again)
    text += made.steps([44.0, 0.3, *[5.7] * 20], again + 70, first=25)
    found = of(tmp_path, text)
    assert found.value("steps") == 47
    assert found.value("restarts") == 1
    assert found.value("steps_redone") == 5
    assert found.value("dropped_steps") == 6
    assert [row.redone for row in found.starts] == [5, 0]
    assert found.starts[1].until_first == pytest.approx(114, abs=0.1)
    total = again + 70 + 44 + 0.3 + 20 * 5.7
    median = found.value("step_time_s.median") or 0
    assert found.value("goodput") == pytest.approx(47 * median / total, rel=1e-3)
    assert found.value("time_to_first_step_s") == pytest.approx(114.903, abs=0.01)


def test_of_two_runs_in_one_file_the_last_is_reported_and_the_other_named(tmp_path: Path) -> None:
    text = (
        made.log(20) + made.beginning(900, said={"run_name": "second"}) + made.steps([4.0] * 9, 990)
    )
    found = of(tmp_path, text)
    assert found.value("steps") == 9
    assert found.value("step_time_s.median") == 4.0
    assert found.value("restarts") == 0
    assert "the files hold several runs; this is the last one, 'second'" in found.notes[0]
    assert "20 steps) is left out" in found.notes[0]


def test_missing_steps_and_clocks_that_jump_are_said(tmp_path: Path) -> None:
    lines = made.log(30).splitlines(keepends=True)
    head, steps = lines[:28], lines[28:]
    back = [made.absl(50.0, "m.py:1", steps[-1].split("] ")[1].strip())]
    found = of(tmp_path, "".join([*head, *steps[:10], *steps[14:-1], *back]))
    assert "4 steps have no line between the first and the last one" in " ".join(found.notes)
    assert "the clock goes back; times across it are not used" in " ".join(found.notes)
    assert found.value("goodput") is None
    assert "the clock goes back before" in found.figures["goodput"].why


def test_a_new_year_is_no_jump(tmp_path: Path) -> None:
    text = "".join(
        f"I{when} 7 m.py:1] {made.step_text(step, 5.0, 3.0)}\n"
        for step, when in enumerate(
            ["1231 23:59:50.0", "1231 23:59:55.0", "0101 00:00:00.0", "0101 00:00:05.0"]
        )
    )
    found = of(tmp_path, text)
    assert found.value("longest_pause_s") == 5.0
    assert not any("clock" in note for note in found.notes)


def test_processes_are_compared_and_a_straggler_is_found(tmp_path: Path) -> None:
    found = report([str(made.folder(tmp_path / "run", 60, 12))])
    assert found.processes[0].name == "rank 11"
    assert [each.name for each in found.processes if each.straggler] == ["rank 11"]
    assert found.value("ranks.stragglers") == 1
    assert found.value("ranks.slowest_excess") == pytest.approx(0.04, abs=0.003)
    assert len(found.processes) == 12


def test_a_rank_whose_clock_is_wrong_is_no_restart(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for rank, late in ((0, 0.0), (1, 7200.0), (2, -7200.0)):
        text = made.beginning(late) + made.steps(made.times(30), 70.0 + late)
        (folder / f"rank-{rank}.log").write_text(text)
    found = report([str(folder)])
    assert len(found.starts) == 1
    assert len(found.processes) == 3
    assert found.series.paths == [str(folder / "rank-0.log")]


def test_equal_processes_have_no_straggler(tmp_path: Path) -> None:
    lines = []
    draw = random.Random(3)  # noqa: S311 - repeatable, not secret
    for step in range(40):
        for rank in range(16):
            text = made.step_text(step, 5.0 + 0.2 * draw.random(), 3.0)
            lines.append(f"{rank:>2}: {made.absl(60 + 5.2 * step, 'm.py:1', text)}")
    found = of(tmp_path, "".join(lines))
    assert len(found.processes) == 16
    assert found.value("ranks.stragglers") == 0
    assert found.series.paths == [str(tmp_path / "run.log")]


def test_receive_counts_come_from_the_sink(tmp_path: Path) -> None:
    text = made.log(40)
    (tmp_path / "run.log").write_text(text)
    made.metrics(tmp_path / "m.jsonl", made.times(40))
    bare = report([str(tmp_path / "run.log")])
    assert "none was given" in bare.figures["moe.recv_share"].why
    found = report([str(tmp_path / "run.log"), str(tmp_path / "m.jsonl")])
    share = found.value("moe.recv_share") or 0
    assert 0.8 < share < 0.9
    assert found.value("moe.overflow") == 0
    assert found.value("loss.last") != bare.value("loss.last")
    assert found.value("loss.last") == pytest.approx(bare.value("loss.last"), abs=6e-4)
    places = found.figures["loss.last"].places
    assert places[-1] == f"{tmp_path}/m.jsonl (full precision)"


def test_a_sink_of_another_start_is_left_out_with_a_word(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(real.steps(10))
    made.metrics(tmp_path / "m.jsonl", made.times(10))
    found = report([str(tmp_path / "run.log"), str(tmp_path / "m.jsonl")])
    assert found.value("loss.last") == 7.402
    assert any("another start" in note for note in found.notes)


def test_a_sink_goes_on_where_the_log_was_cut(tmp_path: Path) -> None:
    lines = made.log(40).splitlines(keepends=True)
    (tmp_path / "run.log").write_text("".join(lines[:-5]))
    made.metrics(tmp_path / "m.jsonl", made.times(40))
    found = report([str(tmp_path / "run.log"), str(tmp_path / "m.jsonl")])
    assert found.value("steps") == 40
    assert any("5 steps stand only there" in note for note in found.notes)


def test_sinks_alone_are_enough(tmp_path: Path) -> None:
    made.metrics(tmp_path / "m.jsonl", made.times(40))
    found = report([str(tmp_path / "m.jsonl")])
    assert found.value("step_time_s.median") == pytest.approx(5.763, abs=0.05)
    assert found.value("tflops_per_gpu") == pytest.approx(1068, rel=0.02)


def test_memory_and_overflow_lines_are_read(tmp_path: Path) -> None:
    said = (
        "E1130 09:00:00.000000 7 train.py:1430] TE MoE receive capacity overflow at training step "
        "17 (detected at the 20-step check ending at step 19): observed padded receive demand "
        "250000 exceeds recv_capacity_per_rank 196608 (ragged_buffer_factor=2.0). The x\n"
    )
    found = of(tmp_path, made.log(20) + said)
    assert found.value("memory.used_gib") == 31.44
    assert found.value("memory.limit_gib") == 163.5
    assert found.value("memory.compiled_gib") == 137.2
    assert found.value("moe.overflow") == 1
    assert any("demand 250000 exceeds recv_capacity_per_rank 196608" in n for n in found.notes)


def test_accounts_give_goodput_over_the_time_that_was_allocated(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(made.log(60))
    rows = "JobID|State|Start|End\n7|COMPLETED|2026-11-30T08:00:00|2026-11-30T08:20:00\n"
    (tmp_path / "sacct.txt").write_text(rows)
    found = report([str(tmp_path / "run.log"), str(tmp_path / "sacct.txt")])
    median = found.value("step_time_s.median") or 0
    assert found.value("goodput") == pytest.approx(60 * median / 1200)
    assert "by Slurm's accounts" in found.figures["goodput"].formula


def test_compressed_logs_are_read_like_others(tmp_path: Path) -> None:
    (tmp_path / "run.log.gz").write_bytes(gzip.compress(made.log(30).encode()))
    plain = of(tmp_path, made.log(30))
    packed = report([str(tmp_path / "run.log.gz")])
    assert {n: f.value for n, f in packed.figures.items()} == {
        n: f.value for n, f in plain.figures.items()
    }


def test_what_is_not_there_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("")
    with pytest.raises(UsageError, match="is not there"):
        report([str(tmp_path / "none.log")])
    with pytest.raises(UsageError, match="one run, or files of one run"):
        report(["this-run", str(tmp_path / "a.log")])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("4096", 4096), ("6.0", 6.0), ("None", None), ("True", True), ("1e-05", 1e-5),
        ("['silu', 'linear']", ["silu", "linear"]), ("dot_product", "dot_product"), ("", ""),
        ("9" * 90, "9" * 90), ("-1", -1), ("[", "["),
    ],
)  # fmt: skip
def test_values_of_the_echo_are_read_as_python_prints_them(text: str, wanted: object) -> None:
    assert value(text) == wanted
