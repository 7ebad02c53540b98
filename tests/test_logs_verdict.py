"""Why a job ended, by the texts of its logs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.logs.fatal import cause, exception, known, rows
from moectl.logs.folders import Failure, first_failure
from moectl.logs.verdict import verdict
from tests.support import training_logs as made

SAID = {
    "config-error": made.REFUSED.splitlines()[0],
    "start-failed": "E1130 15:27:39.7 1 pyconfig.py:393] MAXTEXT CONFIG ERROR: DEADLINE_EXCEEDED: "
    "Barrier timed out",
    "unknown-flag": "F1130 parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --xla_x=1",
    "nan-loss": made.ABORT,
    "te-overflow": "RuntimeError: TE MoE receive capacity overflow at training step 41 (detected "
    "at the 20-step check ending at step 59): observed padded receive demand 9 exceeds",
    "out-of-memory": made.MEMORY,
    "allocator": "Allocator (GPU_0_bfc) ran out of memory trying to allocate 16.00GiB (rounded)",
    "nccl-failed": "NCCL operation ncclAllGather(..) failed: unhandled system error. Last NCCL",
    "nccl-peer": "ncclRemoteError: remote process exited or there was a network error",
    "rendezvous-waits": "[id=3] This thread has been waiting for `x` for 40 seconds and may be "
    "stuck. Expected 8 threads",
    "rendezvous-ended": "[id=3] Termination timeout for `x` of 40 seconds exceeded. Exiting to "
    "ensure a consistent program state. Expected",
    "heartbeat": "/job:jax_worker/replica:0/task:3 heartbeat timeout. This indicates that the "
    "remote task has failed, got preempted, or crashed",
    "barrier": "Barrier timed out. Id: Shutdown::1. This usually happens because",
    "not-registered": made.UNMET,
    "service-fatal": made.VICTIM,
    "host-memory": "slurmstepd: error: Detected 1 oom_kill event in StepId=12.0.",
    "no-space": "OSError: [Errno 28] No space left on device: '/out/x'",
    "container": "slurmstepd: error: pyxis: child 4711 failed with error code: 1",
    "time-limit": "slurmstepd: error: *** STEP 12.0 ON gpu000 CANCELLED AT 2026-11-30T10:00:00 "
    "DUE TO TIME LIMIT ***",
    "node-failure": "slurmstepd: error: *** JOB 12 ON gpu001 CANCELLED AT 2026-11-30T10:00:00 DUE "
    "TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
    "ecc": "INTERNAL: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered",
    "no-maxtext": "/usr/bin/python3: Error while finding module specification for "
    "'maxtext.trainers.pre_train.train' (ModuleNotFoundError: No module named 'maxtext')",
    "gloo": "jax.errors.JaxRuntimeError: UNKNOWN: Gloo context initialization failed: "
    "DEADLINE_EXCEEDED: GetKeyValue() timed out",
    "jax-error": "jax.errors.JaxRuntimeError: INTERNAL: something else",
    "crashed": "Fatal Python error: Segmentation fault",
}


@pytest.mark.parametrize(("row", "line"), SAID.items(), ids=SAID)
def test_a_text_is_known_for_what_it_is(row: str, line: str) -> None:
    found = known(line)
    assert found is not None
    assert found.id == row


@pytest.mark.parametrize(
    "line",
    [
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 3.00GiB. The caller indicates "
        "that this is not a failure, but this may mean that there could be performance gains",
        "ModuleNotFoundError: No module named 'transformer_engine'",
        "[NO-OP] mldiagnostics: dependency missing; using stub. (ModuleNotFoundError)",
        made.config(run_name=made.MEMORY),
        made.config(abort_on_nan_loss=True),
        made.STOPPED,
        made.step(3),
        made.STACKS.splitlines()[0],
        "I1130 15:35:10.4 1 coordination_service.cc:1485] Shutdown barrier in coordination service "
        "has passed.",
    ],
)
def test_what_a_run_that_is_well_says_is_not_known(line: str) -> None:
    assert known(line) is None


def test_every_row_is_complete_and_refers_to_rows_that_exist() -> None:
    ids = [row.id for row in rows()]
    assert len(set(ids)) == len(ids)
    for row in rows():
        assert row.cause
        assert row.remedy
        assert row.source
        assert not row.cause.endswith(".")
        assert set(row.unless) <= set(ids)
        assert re.compile(row.pattern).groups == 0
        assert re.compile(row.task).groups == bool(row.task)
        assert not (row.victim and not row.retry)


@given(st.text())
def test_no_line_is_too_odd(line: str) -> None:
    known(line)
    cause([line, line])
    exception([line])


def test_a_processs_own_failure_weighs_more_than_that_of_another() -> None:
    said = cause([made.UNMET, made.VICTIM, made.MEMORY])
    assert said is not None
    assert (said.known.id, said.line) == ("out-of-memory", made.MEMORY)
    harmless = "Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.00GiB\n"
    found = cause([harmless, made.ABORT])
    assert found is not None
    assert found.known.id == "nan-loss"


def test_a_failed_start_is_no_error_of_the_configuration() -> None:
    line = "E1130 1 pyconfig.py:393] MAXTEXT CONFIG ERROR: something about tasks\n"
    said = cause([made.UNMET, line])
    assert said is not None
    assert said.known.id == "not-registered"
    alone = cause([line])
    assert alone is not None
    assert alone.known.id == "config-error"


def test_the_last_exception_of_a_traceback_is_the_one() -> None:
    text = """\
ModuleNotFoundError: No module named 'transformer_engine'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "x.py", line 1, in f
AssertionError: MLA requires MLA attention type mla
--------------------
For simplicity, JAX has removed its internal frames from the traceback of the following exception.
"""
    assert exception(text.splitlines()) == "AssertionError: MLA requires MLA attention type mla"
    assert exception(["no exception here", "Error"]) == ""


# ---- Folders ---------------------------------------------------------------------------------


def failed(bundle: Path, logs: dict[int, str], left: str = "") -> Path:
    folder = made.folder(bundle, "1", logs)
    if left:
        (folder / "first-failure").write_text(left)
    return folder


def test_the_rank_that_failed_first_says_why(tmp_path: Path) -> None:
    folder = failed(tmp_path, {0: made.VICTIM, 1: made.steps(3) + made.MEMORY}, "1 1 gpu000\n")
    why = verdict(folder)
    assert why is not None
    assert (why.known, why.rank, why.node, why.exit_code) == ("out-of-memory", 1, "gpu000", 1)
    assert why.text == made.MEMORY.strip()
    assert why.retry is False


def test_when_the_first_only_suffered_the_others_are_asked(tmp_path: Path) -> None:
    folder = failed(tmp_path, {0: made.VICTIM, 1: made.VICTIM, 2: made.MEMORY}, "134 0 gpu000\n")
    why = verdict(folder)
    assert why is not None
    assert (why.known, why.rank, why.node) == ("out-of-memory", 2, "")
    only_victims = failed(tmp_path / "b", {0: made.VICTIM, 1: made.VICTIM}, "134 1 gpu000\n")
    why = verdict(only_victims)
    assert why is not None
    assert (why.known, why.rank, why.retry) == ("service-fatal", 1, True)


def test_a_process_that_died_without_a_word_is_named_by_the_others(tmp_path: Path) -> None:
    logs = {0: made.SILENT + made.VICTIM, 1: made.steps(3), 2: made.VICTIM}
    why = verdict(failed(tmp_path, logs, "134 2 gpu001\n"))
    assert why is not None
    assert (why.known, why.rank, why.exit_code) == ("heartbeat", 1, 134)
    assert "another process died" in why.cause
    first = verdict(failed(tmp_path / "b", logs, "134 0 gpu000\n"))
    assert first is not None
    assert (first.known, first.rank) == ("heartbeat", 1)
    own = verdict(failed(tmp_path / "c", logs | {1: made.MEMORY}, "134 0 gpu000\n"))
    assert own is not None
    assert (own.known, own.rank) == ("out-of-memory", 1)


def test_exit_code_2_alone_is_no_error_of_the_configuration(tmp_path: Path) -> None:
    for name, log, expected in (
        ("said", made.REFUSED, True),
        ("silent", made.steps(1), False),
        ("start", made.UNMET + "E1 1 p.py:393] MAXTEXT CONFIG ERROR: UNAVAILABLE: x\n", False),
    ):
        why = verdict(failed(tmp_path / name, {0: log}, "2 0 gpu000\n"))
        assert why is not None
        assert why.exit_code == 2
        assert why.config_error is expected, name


@pytest.mark.parametrize(
    ("code", "log", "expected"),
    [
        (78, "moectl: rank 3: it runs on a, but the plan has it on b\n", "before MaxText started"),
        (1, "Traceback\nValueError: no such mesh\n", "MaxText ended with ValueError"),
        (137, "", "SIGKILL"),
        (139, "", "a segmentation fault"),
        (5, "", "no known text"),
    ],
)
def test_what_is_not_known_is_told_as_far_as_it_goes(
    code: int, log: str, expected: str, tmp_path: Path
) -> None:
    why = verdict(failed(tmp_path, {3: log}, f"{code} 3 gpu000\n"))
    assert why is not None
    assert expected in why.cause
    assert (why.exit_code, why.rank, why.retry) == (code, 3, None)


def test_the_watchdogs_word_comes_first(tmp_path: Path) -> None:
    folder = failed(tmp_path, {0: made.VICTIM}, "124 3 gpu001\n")
    record = {
        "verdict": "a step did not come in 900 s",
        "cause": "no rank says why",
        "remedy": "compare the stacks",
        "retry": True,
        "rank": 3,
        "node": "gpu001",
        "code": 124,
        "known": None,
        "text": None,
    }
    (folder / "watchdog.json").write_text(json.dumps(record))
    why = verdict(folder)
    assert why is not None
    assert why.watchdog
    assert why.cause == "a step did not come in 900 s; no rank says why"
    assert (why.rank, why.node, why.exit_code, why.known) == (3, "gpu001", 124, "")


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"rank": "x", "retry": 3}', "[" * 100_000])
def test_a_spoilt_word_of_the_watchdog_is_no_obstacle(text: str, tmp_path: Path) -> None:
    folder = failed(tmp_path, {0: made.MEMORY}, "1 0 gpu000\n")
    (folder / "watchdog.json").write_text(text)
    why = verdict(folder)
    assert why is not None
    assert why.rank in {0, None}


def test_a_folder_that_tells_nothing_gives_no_verdict(tmp_path: Path) -> None:
    assert verdict(tmp_path / "none") is None
    assert verdict(made.folder(tmp_path, "1", {0: made.steps(8)})) is None


def test_what_no_rank_could_write_stands_in_the_output_of_the_batch_script(
    tmp_path: Path,
) -> None:
    printed = tmp_path / "moe-1.log"
    usual = "moectl: job 1 on gpu000, coordinator gpu000:20481\n"
    container = "slurmstepd: error: pyxis: child 4711 failed with error code: 1\n"
    printed.write_text(usual + container)
    for folder in (None, made.folder(tmp_path, "1", {0: ""})):
        why = verdict(folder, printed)
        assert why is not None
        assert (why.known, why.rank) == ("container", None)
    printed.write_text(usual + "moectl: cannot write the logs of this run into /x\n")
    why = verdict(None, printed)
    assert why is not None
    assert why.text == "moectl: cannot write the logs of this run into /x"
    printed.write_text(usual)
    assert verdict(None, printed) is None
    assert verdict(None, None) is None
    printed.write_text(usual + "moectl: ranks follow the domains\n")
    raised = failed(tmp_path / "r", {0: "ValueError: no such mesh\n"}, "1 0 gpu000\n")
    why = verdict(raised, printed)
    assert why is not None
    assert why.cause == "MaxText ended with ValueError"
    told = failed(tmp_path, {0: made.MEMORY}, "1 0 gpu000\n")
    printed.write_text(container)
    why = verdict(told, printed)
    assert why is not None
    assert why.known == "out-of-memory"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 5 gpu001\n", Failure(1, 5, "gpu001")),
        ("124 - -\n", Failure(124, None, "")),
        ("2 ? ?\n", Failure(2, None, "")),
        ("", None),
        ("x 5 gpu001\n", None),
        ("9999 5 gpu001\n", None),
        ("1\n", None),
    ],
)
def test_what_a_process_left_is_read_with_care(
    text: str, expected: Failure | None, tmp_path: Path
) -> None:
    (tmp_path / "first-failure").write_text(text)
    assert first_failure(tmp_path) == expected
