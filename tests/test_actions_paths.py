"""A folder is searched for what moectl reads, and for nothing else."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from moectl.actions.paths import ENDINGS, SKIPPED, is_plain_folder, meant

ROOT = Path(__file__).parent.parent
CONFIG = "base_config: base.yml\n"
FOUND = {
    "a.yml": CONFIG,
    "b.YAML": CONFIG,
    "train.SH": "echo\n",
    "job.sub": "#SBATCH -N 2\n",
    "job.sbatch": "#SBATCH -N 2\n",
    "job.slurm": "#SBATCH -N 2\n",
    "x.bash": "echo\n",
    "x.ksh": "echo\n",
    "site.env": "A=1\n",
    ".env": "A=1\n",
    ".env.cluster": "A=1\n",
    "launch": "#!/bin/bash\nsrun x\n",
    "submit": "#SBATCH -N 2\n",
    "nightly.py": "#!/usr/bin/env python3\n#SBATCH -N 2\n",
    "old.csh": "#!/bin/csh\n#SBATCH -N 2\n",
    "flags.txt": "--xla_gpu_autotune_level=0\n--xla_b=2\n",
    "variables.txt": "NCCL_DEBUG=INFO\nA=b\n",
    "it's a\nname.yml": CONFIG,
}
LEFT_OUT = {
    "README.md": "srun x\n",
    "train.py": "import os\n",
    "tool": "#!/usr/bin/env python3\n",
    "Makefile": "all:\n\techo\n",
    "binary": "\0\1#SBATCH",
    "requirements.txt": "--index-url https://x\nnumpy==1\n",
    "notes.txt": "call me\n",
    ".gitlab-ci.yml": "a: b\n",
    "old.csh": "#!/bin/csh\necho\n",
    "x.json": "{}",
    "yml": "a: b\n",
}


def names(folder: Path) -> list[str]:
    return [os.path.relpath(name, folder) for name in meant([str(folder)])]


@pytest.mark.parametrize("name", FOUND)
def test_what_is_read_is_found(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FOUND[name])
    assert names(tmp_path) == [name]


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_not_read_is_left_out(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(LEFT_OUT[name])
    (tmp_path / "a.yml").write_text(CONFIG)
    assert names(tmp_path) == ["a.yml"]


def test_folders_with_a_dot_are_searched_and_those_of_tools_are_not(tmp_path: Path) -> None:
    for folder in (".cluster", ".github/jobs", *sorted(SKIPPED)):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.yml").write_text(CONFIG)
    assert names(tmp_path) == [".cluster/x.yml", ".github/jobs/x.yml"]


def test_a_folder_in_which_nothing_is_found_is_named_itself(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("x")
    assert names(tmp_path) == ["."]
    assert is_plain_folder(str(tmp_path))


def test_a_bundle_is_one_thing_and_a_file_that_is_named_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "moectl.lock.yaml").write_text("moectl: 1\n")
    (tmp_path / "bundle" / "job.sbatch").write_text("#SBATCH -N 2\n")
    assert names(tmp_path) == ["bundle"]
    assert not is_plain_folder(str(tmp_path / "bundle"))
    assert list(meant(["no such file.md", "-", "-"])) == ["no such file.md", "-"]


def test_links_in_a_ring_pipes_and_unreadable_names_end_the_search(tmp_path: Path) -> None:
    (tmp_path / "ring").symlink_to(tmp_path)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "a.yml").write_text(CONFIG)
    assert names(tmp_path) == ["a.yml"]


def test_the_hook_takes_the_files_that_a_folder_is_searched_for_by_name() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())

    def taken(name: str) -> bool:
        return bool(re.search(hook["files"], name)) and not re.search(hook["exclude"], name)

    for ending in ENDINGS:
        assert taken(f"a/x{ending}")
        assert taken(f"x{ending.upper()}")
        assert not taken(f"a/.x{ending}") or ending == ".env"
    for folder in SKIPPED:
        assert not taken(f"{folder}/x.yml")
        assert not taken(f"a/{folder}/b/x.yml")
    assert taken(".env")
    assert taken("a/.env.cluster")
    assert taken(".github/workflows/train.yml")
    assert not taken("README.md")
