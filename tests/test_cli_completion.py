"""Completion knows what can be typed, in the real shells, and loads nothing heavy."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.__main__ import main
from moectl.cli.commands import COMMANDS
from moectl.cli.completion import SHELLS, candidates
from moectl.cli.completion_bash import insertions, plain, quoted
from moectl.cli.completion_known import KNOWN, known
from moectl.resources import package
from tests.support.components import require
from tests.support.terminal import terminal

HOSTILE = "a b'c\"$(touch pwned)`x`;*é"
RUN = "-20261130-120000-ab12"
BREAKS = " \t\n\"'><=;|&(:"


def values(*words: str) -> list[str]:
    return [value for value, _ in candidates(list(words))[1]]


@pytest.fixture(autouse=True)
def _a_folder_with_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOECTL_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("big", "big-two", HOSTILE, "line\nbreak", ".climbs"):
        (tmp_path / "runs" / f"{name}{RUN}").mkdir(parents=True)
    (tmp_path / "config" / "moectl" / "clusters").mkdir(parents=True)
    (tmp_path / "config" / "moectl" / "clusters" / "site.yaml").write_text("partition: a\n")
    (tmp_path / "my run.yaml").write_text("preset: deepseek3-671b\n")
    (tmp_path / "myfolder").mkdir()


WORDS: list[tuple[list[str], str]] = [
    (["ren"], "render"),
    (["presets", ""], "show"),
    (["hardware", "show", "gb2"], "gb200-nvl72"),
    (["render", "deepseek3"], "deepseek3-671b"),
    (["render", "p", "--hard"], "--hardware"),
    (["render", "p", "--hardware", "gb3"], "gb300-nvl72"),
    (["render", "p", "--hardware=gb3"], "--hardware=gb300-nvl72"),
    (["render", "p", "--set", "bat"], "batch."),
    (["render", "p", "--set", "batch.per"], "batch.per_device="),
    (["render", "p", "--set", "capacity_f"], "capacity_factor="),
    (["render", "p", "--set", "xla_flags.xla_gpu_autotune_l"], "xla_flags.xla_gpu_autotune_level="),
    (["render", "p", "--set=moe.sparse_matmul="], "--set=moe.sparse_matmul=true"),
    (["render", "p", "--set", "sparse_matmul=f"], "sparse_matmul=false"),
    (["render", "p", "--set", "hardware=gb2"], "hardware=gb200-nvl72"),
    (["render", "p", "--allow", "TE1"], "TE101"),
    (["render", "p", "--cluster", "s"], "site"),
    (["render", "p", "--format", ""], "json"),
    (["validate", "--select", "TE101,ME"], "TE101,MESH"),
    (["validate", "--jaxlib", "0.12"], "0.12.0.1"),
    (["validate", "--xla-flags", "--xla_a=1 --xla_gpu_autotune_l"],
     "--xla_a=1 --xla_gpu_autotune_level="),
    (["explain", "--xla_gpu_autotune_l"], "--xla_gpu_autotune_level="),
    (["explain", "ici_fsdp"], "ici_fsdp_parallelism"),
    (["explain", "NCCL_IB_S"], "NCCL_IB_SL"),
    (["status", "big-"], f"big-two{RUN}"),
    (["logs", "big"], "big"),
    (["cancel", HOSTILE[:3]], HOSTILE),
    (["env", "install", "max"], "maxtext-0.2.5"),
    (["completion", "f"], "fish"),
    (["schema", ""], "preset"),
    (["compare", "a", "b", "--allow", "fl"], "flops"),
    (["facts", "weights", "deepseek3-671b,mixtral-8x7"], "deepseek3-671b,mixtral-8x7b"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "wanted"), WORDS, ids=[" ".join(w) for w, _ in WORDS])
def test_what_can_be_typed_is_known(words: list[str], wanted: str) -> None:
    found = values(*words)
    assert wanted in found
    assert all(one.startswith(words[-1]) for one in found)


def test_an_option_that_was_said_is_offered_again_only_when_it_may_be_repeated() -> None:
    found = values("render", "p", "--gpus", "8", "--set=a=1", "--")
    assert "--gpus" not in found
    assert {"--set", "--debug", "--help"} <= set(found)


def test_behind_all_arguments_and_for_unknown_commands_nothing_is_offered() -> None:
    assert candidates(["render", "a", "b"]) == ("", [])
    assert candidates(["nothing", "a"]) == ("", [])
    assert candidates(["render", "p", "--gpus", ""]) == ("", [])


@pytest.mark.parametrize(
    ("words", "files"),
    [
        (["render", ""], "files"),
        (["render", "p", "--output", ""], "folders"),
        (["validate", ""], "files"),
        (["status", ""], ""),
    ],
)
def test_files_are_offered_where_they_may_stand(words: list[str], files: str) -> None:
    assert candidates(words)[0] == files


def test_a_name_that_is_no_line_of_a_terminal_is_not_offered() -> None:
    assert [one for one in values("status", "") if "\n" in one or "line" in one] == []


@pytest.mark.parametrize("kind", sorted(KNOWN))
def test_every_kind_is_known_by_something(kind: str) -> None:
    found = list(known(kind, ""))
    assert found or kind == "climbs"
    assert len(dict(found)) == len(found) or kind == "names"


def test_what_cannot_be_read_is_no_candidate_and_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MOECTL_RUNS", "/dev/null")
    assert main(["__complete", "zsh", "status", ""]) == 0
    assert main(["__complete"]) == 0
    assert capsys.readouterr().err == ""


def test_a_shell_that_nobody_knows_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bahs"]) == 2
    assert "did you mean 'bash'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["render", "p", "--set", "a"], ["status", ""], ["render", ""]])
def test_nothing_heavy_is_loaded_for_an_answer(words: list[str]) -> None:
    program = (
        "import sys\nfrom moectl.__main__ import main\n"
        f"main(['__complete', 'zsh', *{words!r}])\n"
        "heavy = {'pydantic', 'jax', 'typer', 'rich', 'yaml', 'jinja2', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1))
def test_what_is_quoted_for_bash_is_read_back_as_it_was(text: str) -> None:
    assert plain(quoted(text)) == text
    for quote in ("'", '"'):
        inside = quoted(text, quote)
        assert plain(f"{quote}{inside}{quote}") == text


def test_a_real_bash_reads_what_was_quoted_as_it_was() -> None:
    texts = [HOSTILE, "#a", "a\\b", "é (1)", "-n", "{a,b}", "!x", "%1"]
    words = [quoted(text) for text in texts]
    words += [f"'{quoted(text, chr(39))}'" for text in texts]
    words += [f'"{quoted(text, chr(34))}"' for text in texts]
    line = f"printf '%s\\0' {' '.join(words)}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == texts * 3
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        (["render", "p", "--set=batch.per"], ["batch.per_device="]),
        (["render", "p", "--set", "sparse_matmul="], ["true", "false"]),
        (["render", "p", "--set", '"sparse_matmul=f'], ["sparse_matmul=false"]),
        (["status", "a\\ b"], [quoted(f"{HOSTILE}"), quoted(f"{HOSTILE}{RUN}")]),
        (["status", "'a b"], [quoted(HOSTILE, "'"), quoted(f"{HOSTILE}{RUN}", "'")]),
        (["render", "my"], ["my\\ run.yaml", "myfolder/"]),
        (["render", "p", "--output", "my"], ["myfolder/"]),
        (["render", "p", "--output=my"], ["myfolder/"]),
    ],
)
def test_bash_gets_what_stands_behind_the_last_break(typed: list[str], wanted: list[str]) -> None:
    assert insertions(typed, BREAKS) == wanted


def test_the_script_of_bash_has_no_fault_that_shellcheck_sees() -> None:
    script = str(package().joinpath("cli", "completions", "moectl.bash"))
    done = subprocess.run(
        [str(require("shellcheck")), "-s", "bash", script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("", 0)


# A line with tabs where the key is pressed, and the words that moectl is to get.
TYPED: list[tuple[str, list[str]]] = [
    ("ren\tdeepseek3-6\t--hardw\tgb300-\t", ["render", "deepseek3-671b", "--hardware",
                                           "gb300-nvl72"]),
    ("render p --set batch.per_d\t3", ["render", "p", "--set", "batch.per_device=3"]),
    ("render p --set=batch.per_d\t3", ["render", "p", "--set=batch.per_device=3"]),
    ("status a\t", ["status", HOSTILE]),
    ("explain --xla_gpu_autotune_l\t4", ["explain", "--xla_gpu_autotune_level=4"]),
    ("validate my\\ r\t", ["validate", "my run.yaml"]),
]  # fmt: skip
START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
SETUP = {
    "bash": "bind 'set enable-bracketed-paste off'; source <(moectl completion bash)",
    "zsh": "autoload -Uz compinit; compinit -u -D; source <(moectl completion zsh)",
    "fish": "moectl completion fish | source",
}


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with a `moectl` that answers completion and writes other words down."""
    folder = tmp_path / "bin"
    folder.mkdir()
    said = tmp_path / "said.json"
    real = f"{shlex.quote(sys.executable)} -m moectl"
    record = "import json, sys; json.dump(sys.argv[2:], open(sys.argv[1], 'w'))"
    (folder / "moectl").write_text(
        "#!/bin/sh\n"
        f'case "$1" in __complete|completion) exec {real} "$@" ;; esac\n'
        f'exec {shlex.quote(sys.executable)} -c {shlex.quote(record)} {said} "$@"\n'
    )
    (folder / "moectl").chmod(0o755)
    yield folder
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("line", "words"), TYPED, ids=[line.split("\t")[0] for line, _ in TYPED])
def test_a_real_shell_completes_a_line_to_the_words_that_moectl_gets(
    shell: str, line: str, words: list[str], program: Path, tmp_path: Path
) -> None:
    require(shell)
    root = str(Path(__file__).parent.parent)
    variables = {
        "PATH": f"{program}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": root,
        "HOME": str(tmp_path),
        "PS1": "READY> ",
    }
    # Of "a b..." there are the name and the run's id: the name is their common beginning.
    shutil.rmtree(tmp_path / "runs" / f"big{RUN}")
    said = tmp_path / "said.json"
    with terminal(START[shell], tmp_path, variables) as shown:
        shown.type(f"{SETUP[shell]}; echo set''up\r")
        shown.wait_for(r"setup\r?\n")
        shown.type("moectl ")
        for piece in line.split("\t")[:-1]:
            shown.type(piece)
            time.sleep(0.1)
            shown.type("\t")
            time.sleep(1.2)
        shown.type(f"{line.rsplit(chr(9), maxsplit=1)[-1]}\r")
        shown.type("echo fin''ished\r")
        shown.wait_for(r"finished\r?\n")
    assert json.loads(said.read_text("utf-8")) == words


def test_every_command_can_be_completed_to() -> None:
    for command in COMMANDS:
        *before, last = command.name.split()
        assert last in values(*before, "")
