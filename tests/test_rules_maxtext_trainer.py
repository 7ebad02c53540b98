"""Keys of MaxText's other programs are legal there, and said to be theirs elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moectl.findings import Finding
from moectl.rules.maxtext_trainer import elsewhere, program, trainer, trainers
from moectl.rules.maxtext_verdict import all_rules, refused, workload
from moectl.values import Origin
from moectl.workload import Step, Text, Workload

RL = "maxtext.trainers.post_train.rl.train_rl"
PRE = "maxtext.trainers.pre_train.train"
BASE = "base_config: base.yml\n"
WORDS = ("num_batches=500", "rl.num_generations=8", "chips_per_vm=8", "model_name=llama3.1-8b")
HERE = Origin("script", "run.sh", 3, 8)


def started(module: str, *words: str, text: str = BASE) -> Workload:
    """Return what a script's `srun python3 -m MODULE` starts."""
    said = tuple(Text.of(word, HERE) for word in ("python3", "-m", module, "base.yml", *words))
    made = workload(text, words, 8, 1)
    return replace(made, kind="script", step=Step("srun", (), said, HERE), origin=HERE)


def found(made: Workload, code: str = "KEY101") -> list[Finding]:
    rule = next(rule for rule in all_rules() if rule.code == code)
    return list(rule.findings(made))


@pytest.mark.parametrize("module", [RL, "MaxText.rl.train_rl"])
def test_keys_of_reinforcement_learning_are_legal_where_it_is_started(module: str) -> None:
    made = started(module, *WORDS)
    assert program(made) == module
    assert found(made) == []


def test_a_key_that_reinforcement_learning_has_not_is_refused_there_with_its_neighbour() -> None:
    faults = found(started(RL, "rl_x.num_generation=8", "stepz=5", "num_batchs=1"))
    assert [(f.field, f.severity) for f in faults] == [
        ("rl_x.num_generation", "error"),
        ("stepz", "error"),
        ("num_batchs", "error"),
    ]
    assert "num_generations" in faults[0].hint
    assert "steps" in faults[1].hint
    assert "num_batches" in faults[2].hint
    assert all("train_rl" in fault.message for fault in faults)


def test_the_same_keys_are_no_keys_of_pre_training_and_it_is_said_whose_they_are() -> None:
    faults = found(started(PRE, *WORDS))
    assert [f.field for f in faults] == ["num_batches", "rl.num_generations", "chips_per_vm"]
    assert all(f.severity == "error" and "train_rl has it" in f.message for f in faults)
    assert refused(BASE, WORDS, 8, 1)


def test_a_file_of_its_own_is_known_by_its_keys() -> None:
    text = f"{BASE}trainer_devices_fraction: 0.5\nnum_batches: 3\nrl: {{num_generations: 2}}\n"
    made = replace(workload(text, (), 8, 1), kind="MaxText config")
    known = trainer(made)
    assert known is not None
    assert known.name == "RLConfig"
    assert found(made) == []
    plain = replace(workload(f"{BASE}num_batches: 3\n", (), 8, 1), kind="MaxText config")
    assert trainer(plain) is None
    assert [f.field for f in found(plain)] == ["num_batches"]


def test_a_dot_nests_on_a_command_line_only() -> None:
    text = f"{BASE}rl.num_generations: 8\nchips_per_vm: 4\n"
    made = replace(workload(text, (), 8, 1), kind="MaxText config")
    assert [f.field for f in found(made)] == ["rl.num_generations"]


def test_checks_of_pre_training_do_not_judge_another_program() -> None:
    words = ("ici_tensor_parallelism=3", "num_generations=8")
    assert found(started(PRE, *words), "MESH113")
    assert found(started(RL, *words), "MESH113") == []


def test_a_program_or_release_that_is_not_catalogued_gets_a_note() -> None:
    open_program = "maxtext.integration.vllm.validate_converter"
    row = trainers()[open_program]
    assert row.open
    other = replace(started(RL, "nope_key=1"), maxtext="0.2.4")
    (fault,) = found(other)
    assert fault.severity == "note"
    assert "not catalogued for MaxText 0.2.4" in fault.message


def test_every_name_is_known_flat_and_in_its_section() -> None:
    row = trainers()[RL]
    assert {"rl", "vllm", "cluster"} <= row.sections <= row.names
    assert row.marks <= row.names
    assert row.has("rl.num_generations", argument=True)
    assert not row.has("rl.num_generations", argument=False)
    assert row.has("num_generations", argument=False)
    assert elsewhere("grpo_beta") is not None
    assert elsewhere("num_slice") is None


def test_what_only_pre_training_refuses_is_judged_by_the_program_that_starts() -> None:
    text = f"{BASE}use_dpo: true\n"
    assert [f.severity for f in found(started(PRE, text=text), "DATA109")] == ["error"]
    dpo = "maxtext.trainers.post_train.dpo.train_dpo"
    assert found(started(dpo, text=text), "DATA109") == []
    alone = replace(workload(text, (), 8, 1), kind="MaxText config")
    assert [f.severity for f in found(alone, "DATA109")] == ["note"]
