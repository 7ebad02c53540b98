"""Files beside a script: sourced, run, submitted, given as variables, and made in place."""

from __future__ import annotations

from textwrap import dedent

import pytest

from moectl.settings.shell import Reading, made_file, maxtext_commands, read, stray_directives
from moectl.values import Origin
from moectl.workload import MARK, Text

TRAIN = "python3 -m maxtext.trainers.pre_train.train base.yml run_name=r"


def reading(text: str, path: str = "job.sh", **files: str) -> Reading:
    named = {name.replace("__", "/").replace("_sh", ".sh"): text for name, text in files.items()}
    return read(dedent(text).lstrip("\n"), path, named.get)


def environment(found: Reading, name: str) -> tuple[str, str, int | None]:
    text = found.batch.steps[-1].environment[name]
    return text.text, text.origin.file, text.origin.line


@pytest.mark.parametrize(
    "line",
    [
        "source env.sh", ". env.sh", "source ./env.sh", '. "$PWD/env.sh"',
        'source "$SLURM_SUBMIT_DIR/env.sh"', 'source "$(dirname "$0")/env.sh"',
        'DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)\n. "$DIR/env.sh"',
    ],
)  # fmt: skip
def test_a_sourced_file_sets_variables_with_its_own_places(line: str) -> None:
    seen: list[str] = []

    def open_file(path: str) -> str | None:
        seen.append(path)
        return "# first\nexport NCCL_DEBUG=INFO\n"

    found = read(f"{line}\nsrun true\n", "work/job.sh", open_file)
    assert environment(found, "NCCL_DEBUG") == ("INFO", "work/env.sh", 2)
    assert seen[0].removeprefix("./") == "env.sh"
    assert found.told == ()


def test_return_ends_the_sourced_file_only() -> None:
    found = reading("source e.sh\nsrun true", e_sh="export A=1\nreturn 0\nexport B=2\n")
    assert {n: t.text for n, t in found.batch.steps[0].environment.items()} == {"A": "1"}


def test_set_a_exports_what_a_sourced_file_assigns() -> None:
    found = reading("set -a; . ./n.sh; set +a\nB=2\nsrun true", n_sh="A=1\n")
    assert {n: t.text for n, t in found.batch.steps[0].environment.items()} == {"A": "1"}


@pytest.mark.parametrize("start", ["bash run.sh", "sh ./run.sh", "./run.sh", "bash -x ./run.sh"])
def test_a_script_that_is_run_gets_its_arguments(start: str) -> None:
    found = reading(f"export A=1\nsrun {start} steps=7\n", run_sh=f'#!/bin/bash\n{TRAIN} "$@"\n')
    (start_found,) = [s for step in found.batch.steps for s in maxtext_commands(step)]
    assert [word.text for word in start_found.words] == ["base.yml", "run_name=r", "steps=7"]
    assert (start_found.origin.file, start_found.origin.line) == ("run.sh", 2)
    assert start_found.words[2].origin.file == "job.sh"
    assert start_found.environment["A"].text == "1"


def test_a_submitted_script_brings_the_directives_that_sbatch_does_not_overrule() -> None:
    found = reading(
        "sbatch -N 4 train.sh\n",
        train_sh=f"#!/bin/bash\n#SBATCH -N 2 --export=ALL,A=1\nsrun {TRAIN}\n",
    )
    (step,) = found.batch.steps
    assert [(o.name, o.value and o.value.text, o.origin.file) for o in step.options] == [
        ("--export", "ALL,A=1", "train.sh"),
        ("--nodes", "4", "job.sh"),
    ]
    assert step.inside[0].environment["A"].text == "1"


def test_a_file_that_is_not_there_is_told_once_and_nothing_is_guessed() -> None:
    found = reading("source gone.sh\nsource gone.sh\nsrun true ${A:-1}")
    assert found.told == (
        "the file gone.sh (line 1) is not beside the script; what it says is not known here",
        "the file gone.sh (line 2) is not beside the script; what it says is not known here",
    )
    assert found.complete


def test_files_that_read_each_other_end() -> None:
    found = reading("source a.sh\nsrun true", a_sh="source b.sh\n", b_sh="source a.sh\nB=1\n")
    assert found.complete
    assert [step.words[0].text for step in found.batch.steps] == ["true"]


def test_a_script_that_runs_itself_ends() -> None:
    assert reading("bash job.sh\nsrun true", job_sh="bash job.sh").complete


def test_a_chain_of_files_ends_at_four() -> None:
    files = {f"f{n}_sh": f"export A{n}=1\nsource f{n + 1}.sh\n" for n in range(9)}
    found = reading("source f0.sh\nsrun true", **files)
    assert set(found.batch.steps[0].environment) == {"A0", "A1", "A2", "A3"}
    assert any("f4.sh" in sentence for sentence in found.told)


def test_a_helper_run_in_every_line_does_not_end_the_reading() -> None:
    helper = "\n".join(f"if foo; then A{n}=1; fi" for n in range(150))
    found = reading("./h.sh\n" * 200 + "srun last\n", h_sh=helper)
    assert found.complete
    assert found.batch.steps[-1].words[0].text == "last"


def test_a_file_too_large_to_follow_is_told_and_the_script_goes_on() -> None:
    helper = 'A="$A x"\nsrun true $A\n' * 4000
    found = reading("bash h.sh\nsrun last\n", h_sh=helper)
    assert found.complete
    assert found.batch.steps[-1].words[0].text == "last"


def test_a_program_is_not_opened_as_a_script() -> None:
    asked: list[str] = []
    read("/usr/bin/nvidia-smi\nnvidia-smi\nsrun hostname\n", "job.sh", asked.append)
    assert asked == []


def test_a_file_of_variables_is_given_to_a_container() -> None:
    found = reading(
        "docker run --env-file x.env -e B=2 img srun true\n",
        **{"x.env": "# note\nA=1\nB=1\nQ='q'\nnot a variable\n"},
    )
    step = found.batch.steps[0]
    assert {n: t.text for n, t in step.environment.items()} == {"A": "1", "B": "2", "Q": "'q'"}
    assert (step.environment["A"].origin.file, step.environment["A"].origin.line) == ("x.env", 2)


def test_a_config_made_by_a_here_document_is_given_with_the_lines_of_the_script() -> None:
    found = reading(
        """
        #!/bin/bash
        N=4
        cat > ./cfg.yml <<EOF
        base_config: base.yml
        steps: $N
        EOF
        cat > /shared/open.yml <<EOF
        steps: $UNKNOWN
        EOF
        """
    )

    def made(path: str) -> str | None:
        return made_file(found.files, Text.of(path, Origin("test")))

    assert made("cfg.yml") == "\n\n\nbase_config: base.yml\nsteps: 4\n"
    assert made("./cfg.yml") is not None
    assert made("/shared/open.yml") == f"\n\n\n\n\n\n\nsteps: {MARK}\n"
    assert made("none.yml") is None


def test_a_made_file_is_found_by_the_variables_in_its_name() -> None:
    found = reading(
        """
        CFG=$DIR/run-$SLURM_JOB_ID.yml
        cat > "$CFG" <<EOF
        steps: 4
        EOF
        srun python3 -m maxtext.trainers.pre_train.train ${DIR}/run-$SLURM_JOB_ID.yml
        """
    )
    (start,) = (s for step in found.batch.steps for s in maxtext_commands(step))
    assert made_file(found.files, start.words[0]) == "\n\nsteps: 4\n"


def test_directives_of_a_script_in_a_here_document_are_its_own() -> None:
    text = "#!/bin/bash\nsbatch <<'EOF'\n#!/bin/bash\n#SBATCH -N 2\nsrun true\nEOF\n#SBATCH -n 3\n"
    assert [(o.name, o.origin.line) for o in stray_directives(text)] == [("--ntasks", 7)]
    (step,) = read(text, "job.sh").batch.steps
    assert [(o.name, o.origin.line) for o in step.options] == [("--nodes", 4)]
