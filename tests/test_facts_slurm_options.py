from __future__ import annotations

import pytest

from moectl.facts.launchers import load as launchers
from moectl.facts.slurm_options import load
from moectl.resources import fact


@pytest.mark.parametrize(
    ("program", "spelling", "name"),
    [
        ("sbatch", "--nodes", "--nodes"),
        ("sbatch", "--tasks-per-node", "--ntasks-per-node"),
        ("srun", "--cpu_bind", "--cpu-bind"),
        ("srun", "--kill-command", None),  # of salloc
        ("sbatch", "--excl", None),  # --exclude and --exclusive
        ("sbatch", "--exclus", "--exclusive"),
        ("sbatch", "--node", None),
        ("sbatch", "--t", None),
        ("sbatch", "--N", None),
        ("sbatch", "--", None),
        ("sbatch", "--mpi", None),
        ("srun", "--mpi", "--mpi"),
        ("srun", "--wrap", None),
        ("sbatch", "--wra", "--wrap"),
        ("srun", "--container-mount-h", "--container-mount-home"),
        ("srun", "--tasks", "--ntasks-per-node"),
    ],
)
def test_a_long_option_may_be_cut_short_while_one_is_meant(
    program: str, spelling: str, name: str | None
) -> None:
    found = load().long(program, spelling)
    assert (found and found.means) == name


def test_letters_belong_to_their_program() -> None:
    table = load()
    letters = {letter: table.short("sbatch", letter) for letter in "NncptJGA"}
    assert {letter: option.name for letter, option in letters.items() if option} == {
        "N": "--nodes", "n": "--ntasks", "c": "--cpus-per-task", "p": "--partition",
        "t": "--time", "J": "--job-name", "G": "--gpus", "A": "--account",
    }  # fmt: skip
    assert table.short("sbatch", "l") is None
    label = table.short("srun", "l")
    assert label is not None
    assert (label.name, label.argument) == ("--label", "no")


def test_the_table_says_since_when_an_option_is_known() -> None:
    table = load()
    segment, power = table.option("--segment"), table.option("--power")
    assert segment is not None
    assert power is not None
    assert (segment.since, segment.until) == ("24.05", "")
    assert (power.since, power.until) == ("", "23.11")


def test_every_other_name_leads_to_an_option_with_the_same_argument() -> None:
    table = load()
    for option in table.options.values():
        target = table.option(option.means)
        assert target is not None
        assert target.argument == option.argument, option.name
        assert option.programs <= target.programs, option.name
        assert option.programs <= {"sbatch", "srun", "salloc"}


def test_no_letter_means_two_options_of_a_program() -> None:
    for program in ("sbatch", "srun", "salloc"):
        letters = [o.short for o in load().options.values() if o.short and program in o.programs]
        assert len(letters) == len(set(letters))


def test_pyxis_options_are_marked_as_such() -> None:
    names = {name for name, option in load().options.items() if option.plugin == "pyxis"}
    assert {"--container-image", "--container-mounts", "--container-env"} <= names
    assert "--container" not in names  # Slurm's own, for OCI bundles


def test_nearest_names_come_from_the_programs_own_options() -> None:
    assert load().nearest("sbatch", "--ntask-per-node")[0] == "--ntasks-per-node"
    assert "--mpi" not in load().nearest("sbatch", "--mp")


def test_the_tables_name_their_sources() -> None:
    assert "slurm_opt.c" in fact("slurm_options.tsv").read_text("utf-8").splitlines()[0]
    import json  # noqa: PLC0415

    rows = json.loads(fact("launchers.json").read_text("utf-8"))["programs"]
    assert [name for name, row in rows.items() if not (row.get("source") or row.get("same"))] == []


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ("/usr/bin/python3.12", "python"), ("python", "python"), ("srun", "slurm"),
        ("/bin/bash", "shell"), ("podman", "container"), ("mpiexec", "launcher"),
        ("env", "environment"), ("timeout", "wrapper"), ("torchrun", "program"), ("ls", None),
        ("3", None), ("", None), ("pythonic", None),
    ],
)  # fmt: skip
def test_a_program_is_known_by_its_name_without_path_and_version(
    command: str, role: str | None
) -> None:
    found = launchers().program(command)
    assert (found and found.role) == role
