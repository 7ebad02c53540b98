"""A rehearsal from its start to its verdicts. MaxText is a stand-in that writes what it is told."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.launching import run_command
from tests.support.local_site import Machine, machine

# Trains from its newest checkpoint on, as MaxText does; "losses" says which.
PROGRAM = """
import json, pathlib, sys
here = pathlib.Path(__file__).parent
words = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
told = {line.split(": ")[0]: line.split(": ", 1)[1].strip('" ') for line in
        pathlib.Path("config.yml").read_text().splitlines() if ": " in line and line[0] != "#"}
steps, period = int(told["steps"]), int(told.get("checkpoint_period", 1000))
behaviour = json.loads((here / "losses").read_text())
folder = pathlib.Path(json.loads(words["base_output_directory"])) / told["run_name"]
held = [int(path.name) for path in (folder / "checkpoints").glob("*")]
first = max(held) + 1 if held and not behaviour.get("forgets") else 0
for step in range(first, steps):
    if step == behaviour.get("dies"):
        print("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
              "allocate 1 bytes.")
        sys.exit(7)
    side = "other" if told.get(behaviour.get("key"), "") == behaviour.get("value") else "one"
    loss = behaviour[side][step] + (behaviour.get("drift", 0) if held else 0)
    print(f"completed step: {step}, seconds: 0.5, TFLOP/s/device: 1.0, Tokens/s/device: 10.0, "
          f"total_weights: 64, loss: {loss:.3f}", flush=True)
    if told["enable_checkpointing"] == "true" and not behaviour.get("writes_none"):
        if step % period == 0 or step == steps - 1:
            (folder / "checkpoints" / str(step)).mkdir(parents=True)
"""
FALLING = [6.7, 6.0, 5.4, 5.0]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Machine]:
    with machine(tmp_path / "person") as found:
        program = found.folder / "program.py"
        program.write_text(PROGRAM)
        python = found.folder / "python"
        python.write_text(
            f'#!/bin/sh\n[ "$1" = -m ] || exec {sys.executable} "$@"\n'
            f'shift 2\nexec {sys.executable} {program} "$@"\n'
        )
        yield found


def rehearse(here: Machine, *words: str, **behaviour: Any) -> int:
    (here.folder / "losses").write_text(json.dumps({"one": FALLING, **behaviour}))
    return run_command(["rehearse", here.run_file(), "--steps", "4", *words])


def verdicts(capsys: pytest.CaptureFixture[str]) -> dict[str, bool]:
    said = json.loads(capsys.readouterr().out)
    return {each["name"]: each["good"] for each in said["verdicts"]}


def test_a_run_that_learns_and_goes_on_holds(
    here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rehearse(here) == 0
    said = capsys.readouterr()
    assert "4 virtual CPU devices in 1 process, mesh fsdp 2 x expert 2" in said.out
    assert "not run the attention kernel of the GPU cannot run on CPU devices" in said.out
    assert "loss    6.700 █▅▃▁ 5.000" in said.out
    assert "rehearse-moe holds, in" in said.out
    assert "FAIL" not in said.out
    assert "step 3: loss 5.000" in said.err
    (record,) = here.records().values()
    assert [job["why"] for job in record["jobs"]] == ["first", "resume"]
    assert record["name"] == "rehearse-moe"


def test_as_json_it_says_everything(here: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert rehearse(here, "--format", "json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["good"] is True
    assert [each["name"] for each in said["verdicts"]] == [
        "starts", "log lines parse", "loss finite", "loss falls", "checkpoint written", "resumed",
    ]  # fmt: skip
    assert said["rehearsal"]["mesh"] == {"fsdp": 2, "expert": 2}
    assert said["jobs"][0]["losses"] == {"0": 6.7, "1": 6.0, "2": 5.4, "3": 5.0}
    assert said["jobs"][1]["losses"] == {"3": 5.0}


@pytest.mark.parametrize(
    ("behaviour", "bad"),
    [
        ({"one": [6.7, 6.7, 6.7, 6.7]}, "loss falls"),
        ({"one": [6.7, 6.0, float("nan"), 5.0]}, "loss finite"),
        ({"dies": 2}, "starts"),
        ({"writes_none": True}, "checkpoint written"),
        ({"drift": 0.1}, "resumed"),
        ({"forgets": True}, "resumed"),
    ],
)
def test_what_does_not_hold_is_told_by_name_and_fails(
    here: Machine, capsys: pytest.CaptureFixture[str], behaviour: dict[str, Any], bad: str
) -> None:
    assert rehearse(here, "--format", "json", **behaviour) == 1
    assert verdicts(capsys)[bad] is False


def test_why_it_died_is_said_with_its_log(
    here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rehearse(here, dies=0) == 1
    said = capsys.readouterr().out
    assert "FAIL    starts" in said
    assert "RESOURCE_EXHAUSTED" in said
    assert "rank-0.log" in said
    assert "rehearse-moe does not hold" in said


def test_equal_paths_agree_and_others_do_not(
    here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--against", "sparse")
    sides = {"key": "sparse_matmul", "value": "true", "other": [6.7, 6.001, 5.401, 5.0]}
    assert rehearse(here, *words, **sides) == 0
    said = capsys.readouterr().out
    assert "step       one     other     apart   allowed" in said
    assert "the two paths agree" in said
    assert rehearse(here, *words, **{**sides, "other": [6.7, 6.0, 5.3, 4.8]}) == 1
    said = capsys.readouterr().out
    assert "FAIL    parity" in said
    assert "from step 2 on the losses are 5.400 and 5.300" in said
    assert "the two paths do not agree" in said
    assert rehearse(here, *words, "--format", "json", **{**sides, "other": FALLING}) == 0
    assert verdicts(capsys)["parity"] is True


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nothing-of-that-name"], 2, "unknown preset"),
        (["mixtral-8x7b", "--steps", "3"], 2, "--steps cannot be '3': a whole number from 4"),
        (["mixtral-8x7b", "--steps", "٤"], 2, "a whole number from 4 to 1000"),
        (["mixtral-8x7b", "--against", "x"], 2, "is no path"),
        (["mimo-v2-flash-309b"], 1, "can be estimated but not rendered"),
    ],
)
def test_what_cannot_be_rehearsed_is_said_before_anything_starts(
    here: Machine, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert run_command(["rehearse", *words]) == code
    assert said in capsys.readouterr().err
    assert here.records() == {}


def test_a_person_who_interrupts_ends_the_run(
    here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("moectl.actions.rehearse.time.sleep", interrupt)
    python = here.folder / "python"
    python.write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    assert run_command(["rehearse", here.run_file(), "--steps", "4"]) == 130
    monkeypatch.undo()
    here.ended()
    (job,) = here.jobs()
    assert job["phase"] == "cancelled"
