"""Variables that reach a process by other roads than export."""

from __future__ import annotations

from textwrap import dedent

import pytest

from moectl.settings.shell import MaxTextStart, maxtext_commands, read, read_script

TRAIN = "python3 -m maxtext.trainers.pre_train.train base.yml run_name=r"


def starts(text: str) -> list[MaxTextStart]:
    steps = read_script(dedent(text).lstrip("\n"), "job.sh").steps
    return [start for step in steps for start in maxtext_commands(step)]


def environment(text: str) -> dict[str, str]:
    (start,) = starts(text)
    return {name: value.text for name, value in start.environment.items()}


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--export=ALL,A=1,B=x=y", {"X": "0", "A": "1", "B": "x=y"}),
        ("--export ALL,A=1", {"X": "0", "A": "1"}),
        ("--export=all", {"X": "0"}),
        ("--export=NONE", {}),
        ("--export=NIL", {}),
        ("--export=A=1", {"A": "1"}),
        ("--export=X,A=1", {"X": "0", "A": "1"}),
        ("--export=ALL,A=\"'p,q'\"", {"X": "0", "A": "p,q"}),
        ("--export=ALL,A=p,q", {"X": "0", "A": "p"}),
        ("--export=ALL,X=1", {"X": "1"}),
        ("--export=$LIST", {"X": "0"}),
        ("--export=ALL,A=1 --export=ALL", {"X": "0"}),
        ("", {"X": "0"}),
    ],
)
def test_srun_hands_on_what_export_says(option: str, expected: dict[str, str]) -> None:
    assert environment(f"export X=0\nsrun {option} {TRAIN}\n") == expected


def test_a_directive_begins_the_script_with_its_variables() -> None:
    (start,) = starts(f"#!/bin/bash\n#SBATCH --export=ALL,A=1,XLA_FLAGS=--xla_b=2\nsrun {TRAIN}\n")
    place = start.environment["XLA_FLAGS"].origin
    assert start.environment["XLA_FLAGS"].text == "--xla_b=2"
    assert (place.line, place.column) == (2, 36)


def test_what_the_script_sets_overrides_its_directive() -> None:
    assert environment(f"#SBATCH --export=ALL,A=1\nA=2\nsrun {TRAIN}") == {"A": "2"}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (f"docker run -e A=1 --env B=2 -e X img {TRAIN}", {"A": "1", "B": "2", "X": "0"}),
        (f"podman run --env=A='p q' img {TRAIN}", {"A": "p q"}),
        (f"docker run img {TRAIN}", {}),
        (f"docker exec -e A=1 c {TRAIN}", {"A": "1"}),
        (f"apptainer exec --env A=1,B=2 x.sif {TRAIN}", {"X": "0", "A": "1", "B": "2"}),
        (f"srun singularity run --nv --env A=1 x.sif {TRAIN}", {"X": "0", "A": "1"}),
        (f"enroot start -e A=1 c {TRAIN}", {"X": "0", "A": "1"}),
        (f"mpirun -np 4 -x A=1 -x X {TRAIN}", {"X": "0", "A": "1"}),
        (f"srun env -u X A=1 {TRAIN}", {"A": "1"}),
        (f"env -i A=1 {TRAIN}", {"A": "1"}),
        (f"srun --export=ALL,A=1 bash -c '{TRAIN}'", {"X": "0", "A": "1"}),
        (f"docker run -e A=1 img bash -c 'export B=2; {TRAIN}'", {"A": "1", "B": "2"}),
        (f'ssh -p 22 n1 "A=1 {TRAIN}"', {"A": "1"}),
        (f"ssh n1 {TRAIN}", {}),
        (f"kubectl exec -n ns pod -c main -- {TRAIN}", {}),
        (f"kubectl exec pod -- bash -c 'export A=1; {TRAIN}'", {"A": "1"}),
    ],
)
def test_a_launcher_gives_its_variables_to_what_it_starts(
    command: str, expected: dict[str, str]
) -> None:
    assert environment(f"export X=0\n{command}\n") == expected


def test_a_shell_on_another_machine_reads_its_here_document() -> None:
    found = starts(
        f"export X=0\nssh n1 bash -s <<'EOF'\n{TRAIN}\nEOF\nssh n2 <<'EOF'\n{TRAIN}\nEOF\n"
    )
    assert [start.step.words[0].text for start in found][-1] == "n2"
    assert found[-1].environment == {}


def test_pulling_an_image_is_a_step() -> None:
    steps = read_script("docker pull --platform linux/arm64 a/b:c\npodman pull d\n", "j").steps
    assert [(s.program, [w.text for w in s.words]) for s in steps] == [
        ("docker", ["pull", "a/b:c"]),
        ("podman", ["pull", "d"]),
    ]


@pytest.mark.parametrize("option", ["-W", "--wait"])
def test_wait_has_an_argument_in_srun_and_none_in_sbatch(option: str) -> None:
    steps = read_script(f"sbatch {option} job.sh\nsrun {option} 60 true\n", "j").steps
    assert [word.text for word in steps[0].words] == ["job.sh"]
    assert [(o.name, o.value and o.value.text) for o in steps[1].options] == [("--wait", "60")]
    assert [word.text for word in steps[1].words] == ["true"]


def test_variables_given_to_the_reader_are_exported() -> None:
    outer = read_script("A=1", "pod.yaml").steps
    assert outer == ()
    given = read("export A=1\nsrun x", "pod.yaml").batch.steps[0].environment
    inner = read("srun true $A ${B:-2}", "job.sh", environment=given).batch.steps[0]
    assert inner.words[1].text == "1"
    assert inner.environment["A"].origin.file == "pod.yaml"


@pytest.mark.parametrize(
    ("spelling", "near"),
    [
        ("maxtext.trainers.pre_train.trian", "maxtext.trainers.pre_train.train"),
        ("maxtext.trainer.train", "maxtext.trainers.pre_train.train"),
        ("maxtext.train", "maxtext.trainers.pre_train.train"),
        ("maxtext.decode", "maxtext.inference.decode"),
        ("MaxText.trainers.pre_train.train", "maxtext.trainers.pre_train.train"),
    ],
)
def test_a_misspelt_module_is_still_a_start_of_maxtext(spelling: str, near: str) -> None:
    (start,) = starts(f"srun /opt/conda/bin/python -m {spelling} base.yml steps=1")
    assert start.module == near
    assert [word.text for word in start.words] == ["base.yml", "steps=1"]


@pytest.mark.parametrize("module", ["maxtext.utils.estimator", "maxtext.trainers", "torch.train"])
def test_other_modules_are_no_start(module: str) -> None:
    assert starts(f"python3 -m {module} base.yml") == []
