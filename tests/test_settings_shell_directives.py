from __future__ import annotations

import pytest

from moectl.settings.shell import read_script, stray_directives


def directives(text: str) -> list[tuple[str, str | None]]:
    found = read_script(text, "j").directives
    return [(o.name, None if o.value is None else o.value.text) for o in found]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("#SBATCH --nodes=4", [("--nodes", "4")]),
        ("#SBATCH --nodes 4", [("--nodes", "4")]),
        ("#SBATCH -N4 -N 5", [("--nodes", "4"), ("--nodes", "5")]),
        ("#SBATCH --tasks-per-node=8", [("--ntasks-per-node", "8")]),
        ("#SBATCH --exclus --gpus-per-n=8", [("--exclusive", None), ("--gpus-per-node", "8")]),
        ("#SBATCH --job-name='a b'\t--qos=\"x y\"z", [("--job-name", "a b"), ("--qos", "x yz")]),
        ("#SBATCH --mem=0#no --qos=x", [("--mem", "0")]),
        ("#SBATCH --comment=a\\ b\\#c # --qos=x", [("--comment", "a b#c")]),
        ("#SBATCH --container-mounts=$PWD:/x,~/d:/d", [("--container-mounts", "$PWD:/x,~/d:/d")]),
        ("#SBATCH --container-image=nvcr.io#nvidia/jax", [("--container-image", "nvcr.io")]),
        ("#SBATCH -mem=0", [("-mem", "0")]),
        ("#SBATCH -nodes 4", [("-nodes", "4")]),
        ("#SBATCH --N 4 --t 30", [("--N", "4"), ("--t", "30")]),
        ("#SBATCH --memm=0", [("--memm", "0")]),
        ("#SBATCH --no-such", [("--no-such", None)]),
        ("#SBATCH --nodes", [("--nodes", None)]),
        ("#SBATCH -Hn4", [("--hold", None), ("--ntasks", "4")]),
        ("#SBATCH 4", [("4", None)]),
        ("#SBATCH --container-writable", [("--container-writable", None)]),
        ("#SBATCH", []),
        ("##SBATCH --mem=0", []),
        ("# SBATCH --mem=0", []),
        (" #SBATCH --mem=0", []),
        ("#sbatch --mem=0", []),
    ],
)
def test_a_directive_is_read_as_sbatch_reads_it(line: str, found: list[tuple[str, str]]) -> None:
    assert directives(f"#!/bin/bash\n{line}\nsrun true\n") == found


def test_directives_end_at_the_first_command_and_not_at_comments_or_blank_lines() -> None:
    text = "#!/bin/sh\n\n# note\n   \n#SBATCH -N 1\n  # x\n#SBATCH -n 2\nset -e\n#SBATCH --mem=0\n"
    assert directives(text) == [("--nodes", "1"), ("--ntasks", "2")]


def test_a_directive_knows_its_place_also_behind_quotes() -> None:
    (_, second) = read_script("#SBATCH --qos='a b' --mem=\"0\"\n", "j").directives
    assert (second.origin.file, second.origin.line, second.origin.column) == ("j", 1, 21)
    assert second.value is not None
    assert second.value.origin.column == 28


def test_near_directives_that_sbatch_ignores_are_found_apart() -> None:
    text = (
        "#!/bin/bash\n#SBATCH -N 1\n#sbatch --mem=0\n# SBATCH --qos=x\n  #SBATCH -n 2\n"
        "##SBATCH --time=1\n# the SBATCH lines\n# SBATCH means batch\necho\n#SBATCH --exclusive\n"
    )
    found = [(o.name, o.origin.line, o.origin.column) for o in stray_directives(text)]
    assert found == [("--mem", 3, 9), ("--qos", 4, 10), ("--ntasks", 5, 11), ("--exclusive", 10, 9)]


def test_a_script_without_directives_is_no_batch_script() -> None:
    assert not read_script("srun true\n#SBATCH -N 1\n", "j").scheduled


def test_nothing_is_expanded_in_a_directive() -> None:
    (option,) = read_script("#SBATCH --output=$(id)/`id`/${X}\n", "j").directives
    assert option.value is not None
    assert option.value.known
    assert option.value.text == "$(id)/`id`/${X}"
