"""The pre-commit hook and the GitHub action run commands that exist, and run nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from moectl.cli.command import quick_parse
from moectl.cli.commands import find
from tests.support import components

ROOT = Path(__file__).parent.parent
HOOK_FILE = ROOT / ".pre-commit-hooks.yaml"
ACTION_FILE = ROOT / "action.yml"
HOOKS = yaml.safe_load(HOOK_FILE.read_text("utf-8"))
ACTION = yaml.safe_load(ACTION_FILE.read_text("utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
GOOD = "base_config: base.yml\nmodel_name: deepseek3-671b\nsteps: 10\n"
BAD = "base_config: base.yml\nmodel_name: deepseek3-671b\nstepz: 10\n"
BIN = Path(sys.executable).parent


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def pre_commit(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "PRE_COMMIT_HOME": str(folder / ".cache"),
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    return subprocess.run(
        [sys.executable, "-m", "pre_commit", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository whose configuration runs our hook as it is, from this installation."""
    git(tmp_path, "init", "-q")
    (hook,) = HOOKS
    local = {**hook, "language": "system"}
    local.pop("minimum_pre_commit_version")
    config = {"repos": [{"repo": "local", "hooks": [local]}]}
    (tmp_path / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / ".gitignore").write_text(".cache\n")
    return tmp_path


def test_pre_commit_takes_the_manifest() -> None:
    (hook,) = import_module("pre_commit.clientlib").load_manifest(HOOK_FILE)
    assert hook["id"] == "moectl-validate"
    assert hook["language"] == "python"


def test_the_entry_is_a_command_that_exists() -> None:
    (hook,) = HOOKS
    program, *words = hook["entry"].split()
    assert program == "moectl"
    command = find(words)
    assert command is not None
    assert quick_parse(command[0], [*command[1], "a.yml", "b.sbatch"]) is not None


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("runs/deepseek.yaml", True),
        ("it's a $(config).yml", True),
        ("launch.sbatch", True),
        ("train.sh", True),
        ("jobs/k8s.job", True),
        ("README.md", False),
        ("train.py", False),
        (".pre-commit-config.yaml", False),
        (".github/workflows/train.yml", True),
        (".git/hooks/x.sh", False),
        ("a/.venv/lib/x.sh", False),
        (".env", True),
        ("site/.env.cluster", True),
        ("x.SH", True),
        ("job.sub", True),
        ("yml", False),
    ],
)
def test_the_hook_looks_at_configs_scripts_and_manifests_alone(name: str, taken: bool) -> None:
    (hook,) = HOOKS
    looked_at = re.search(hook["files"], name) and not re.search(hook["exclude"], name)
    assert bool(looked_at) is taken


def test_a_commit_with_a_misspelt_key_is_stopped_and_a_clean_one_is_not(repository: Path) -> None:
    name = "it's a $(config).yml"
    (repository / name).write_text(GOOD)
    (repository / "notes.md").write_text(BAD)
    git(repository, "add", ".")
    done = pre_commit(repository, "run", "--all-files")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed" in done.stdout
    (repository / name).write_text(BAD)
    git(repository, "add", ".")
    done = pre_commit(repository, "run", "--all-files")
    assert done.returncode == 1
    assert "stepz" in done.stdout
    assert "notes.md" not in done.stdout


def test_a_commit_without_such_files_runs_nothing(repository: Path) -> None:
    (repository / "notes.md").write_text(BAD)
    git(repository, "add", ".")
    done = pre_commit(repository, "run", "--all-files")
    assert done.returncode == 0
    assert "no files to check" in done.stdout


def test_inputs_reach_the_scripts_of_the_action_as_variables_only() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert set(ACTION["inputs"]) == {"paths", "args", "version", "sarif"}
    for step in STEPS.values():
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]
        for value in step["env"].values():
            assert re.fullmatch(r"\$\{\{ (inputs\.\w+|github\.action_path) \}\}", value)
    used = re.findall(r"inputs\.(\w+)", ACTION_FILE.read_text("utf-8"))
    assert sorted(used) == sorted(ACTION["inputs"])


@pytest.mark.parametrize("name", STEPS)
def test_shellcheck_finds_nothing_in_the_scripts_of_the_action(name: str) -> None:
    program = components.require("shellcheck")
    done = subprocess.run(
        [program, "--shell=bash", "--severity=style", "-"],
        input=STEPS[name]["run"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_action_calls_moectl_with_options_that_exist() -> None:
    lines = re.findall(r'"\$moectl" (validate .*)', STEPS["Validate"]["run"])
    assert len(lines) == 2
    found = find(["validate"])
    assert found is not None
    options = {option.flag: option for option in found[0].options}
    for line in lines:
        for flag, value in re.findall(r"(--[a-z]+) (\S+)", line):
            assert flag in options
            if options[flag].choices:
                assert value in options[flag].choices


def act(tmp_path: Path, inputs: dict[str, str], code: int | str = 0) -> tuple[int, list[list[str]]]:
    """Run the action's second step with a moectl that notes how it was called.

    It ends with `code`, or does what a shell text says.
    """
    ends = code if isinstance(code, str) else f"exit {code}"
    folder = tmp_path / "moectl" / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    notes = tmp_path / "calls"
    notes.write_text("")
    stub = folder / "moectl"
    stub.write_text(
        f"#!/bin/bash\nprintf '%s\\0' \"$@\" >> '{notes}'\nprintf '\\1' >> '{notes}'\n{ends}\n"
    )
    stub.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    defaults = {name: str(row["default"]) for name, row in ACTION["inputs"].items()}
    given = defaults | inputs
    variables = {
        key: given[re.findall(r"inputs\.(\w+)", value)[0]]
        for key, value in STEPS["Validate"]["env"].items()
    }
    done = subprocess.run(
        [shutil.which("bash") or "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c",
         STEPS["Validate"]["run"]],
        cwd=work,
        env={"PATH": os.environ["PATH"], "RUNNER_TEMP": str(tmp_path)} | variables,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    calls = [line.split("\0")[:-1] for line in notes.read_text().split("\1") if line]
    return done.returncode, calls


def test_the_action_checks_the_whole_repository_unless_told_otherwise(tmp_path: Path) -> None:
    code, calls = act(tmp_path, {})
    assert code == 0
    assert calls == [["validate", "--format", "github", "--", "."]]


def test_paths_stand_one_a_line_and_options_between_blanks(tmp_path: Path) -> None:
    inputs = {"paths": "run a.yaml\n\nscripts\n", "args": "--gpus 128\n  --strict"}
    _, calls = act(tmp_path, inputs)
    wanted = ["validate", "--gpus", "128", "--strict", "--format", "github", "--"]
    assert calls == [[*wanted, "run a.yaml", "scripts"]]


def test_with_sarif_the_findings_are_written_too_and_the_log_decides(tmp_path: Path) -> None:
    code, calls = act(tmp_path, {"sarif": "out.sarif"}, code=1)
    assert code == 1
    assert calls[0] == ["validate", "--format", "sarif", "--output", "out.sarif", "--", "."]
    assert calls[1] == ["validate", "--format", "github", "--", "."]


@pytest.mark.parametrize("broken", [2, 4, 130])
def test_the_log_has_its_report_although_the_sarif_file_could_not_be_written(
    tmp_path: Path, broken: int
) -> None:
    code, calls = act(tmp_path, {"sarif": "out.sarif"}, code=broken)
    assert code == broken
    assert [call[2] for call in calls] == ["sarif", "github"]
    only_sarif = f'case "$*" in *sarif*) exit {broken};; esac; exit 0'
    code, calls = act(tmp_path, {"sarif": "out.sarif"}, code=only_sarif)
    assert code == broken
    assert len(calls) == 2


def test_no_array_of_the_action_is_taken_without_asking_whether_it_is_empty() -> None:
    # Bash before 4.4 ends at "${a[@]}" of an empty array under `set -u`.
    for step in STEPS.values():
        bare = re.sub(r'\$\{(\w+)\[@\]\+"\$\{\1\[@\]\}"\}', "", step["run"])
        assert "[@]" not in bare


HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "' ; touch pwned; '",
    '" && touch pwned && "',
    "*",
    "-rf",
    "a\\\nb",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", ["paths", "args", "sarif"])
def test_nothing_in_an_input_is_run_or_expanded(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "bystander").write_text("")
    _, calls = act(tmp_path, {name: text})
    assert sorted(p.name for p in (tmp_path / "work").iterdir()) == ["bystander"]
    words = [word for call in calls for word in call]
    assert "bystander" not in words
    for part in text.split("\n" if name == "paths" else None):
        held = text if name == "sarif" else part
        assert held in words


def test_the_readme_names_the_hook_and_the_action_as_they_are() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"id: {HOOKS[0]['id']}" in readme
    assert "moectl schema" in readme
    section = readme.partition("## In CI")[2].partition("\n## ")[0]
    used = re.findall(r"^ +(paths|args|version|sarif):", section, re.MULTILINE)
    assert set(used) <= set(ACTION["inputs"])
