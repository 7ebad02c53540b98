"""The door: exit codes, one sentence a fault, never a traceback, and nothing heavy loaded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from moectl import files as writer
from moectl.__main__ import main
from moectl.cli.commands import COMMANDS, overview
from moectl.version import __version__

PRESET = "deepseek3-671b"
Capture = pytest.CaptureFixture[str]


def fault(words: list[str], capsys: Capture) -> tuple[int, str]:
    """Return exit code and standard error; nothing may have been printed."""
    code = main(words)
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    return code, said.err


def file(folder: Path, text: str | bytes, name: str = "run.yaml") -> str:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(folder / name)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


UNKNOWN: list[tuple[list[str], str]] = [
    (["render", "deepseek3-671"], "did you mean 'deepseek3-671b'"),
    (["show", "mixtral8x7b"], "did you mean 'mixtral-8x7b'"),
    (["presets", "show", "kimi-k2"], "did you mean 'kimi-k2-1t'"),
    (["hardware", "show", "gb200-nv72"], "'gb200-nvl72'"),
    (["render", PRESET, "--hardware", "gb20-nvl72"], "did you mean 'gb200-nvl72'"),
    (["render", PRESET, "--set", "stps=3"], "did you mean 'steps'"),
    (["render", PRESET, "--set", "batch.per_devic=3"], "batch.per_device"),
    (
        ["render", PRESET, "--set", "xla_flags.xla_gpu_autotune_leve=3"],
        "'xla_gpu_autotune_level'",
    ),
    (["render", PRESET, "--set", "ici_fsd_parallelism=3"], "'ici_fsdp_parallelism'"),
    (["render", PRESET, "--set", "model.name=deepseek3-671"], "'deepseek3-671b'"),
    (["render", PRESET, "--gpu", "8"], "--gpus"),
    (["rendr", PRESET], "render"),
    (["render", PRESET, "--form", "bench"], "benchmark, pretrain"),
    (["render", PRESET, "--format", "xml"], "text, json"),
    (["render"], "Missing argument"),
    (["render", PRESET, "--set", "steps"], "key=value"),
    (["render", PRESET, "--set", "precision.dtype=fp8"], "'bfloat16', 'float32' or 'float16'"),
    (["render", PRESET, "--set", "container.jaxlib_release=1.0"], "0.12.0.1"),
]


@pytest.mark.parametrize(("words", "said"), UNKNOWN, ids=[" ".join(w) for w, _ in UNKNOWN])
def test_what_is_unknown_is_said_with_the_nearest(
    words: list[str], said: str, capsys: Capture, tmp_path: Path
) -> None:
    code, text = fault(words, capsys)
    assert code == 2
    assert said in text
    assert list(tmp_path.iterdir()) == []


GPUS = {
    "0": "from 4 to 16384", "-4": "from 4 to 16384", "130": "128 or 132",
    "many": "a whole number of GPUs",
    "96": "64 or 112 GPUs are possible", "16388": "16384", "1e3": "a whole number", "": "whole",
    "99999999999999999999": "a whole number", "１２８": "a whole number", "128.0": "a whole number",
}  # fmt: skip


@pytest.mark.parametrize("gpus", GPUS)
@pytest.mark.parametrize("joined", [False, True])
def test_a_number_of_gpus_that_cannot_be_says_what_is_legal_near_it(
    gpus: str, joined: bool, capsys: Capture
) -> None:
    words = [f"--gpus={gpus}"] if joined else ["--gpus", gpus]
    code, text = fault(["render", PRESET, *words], capsys)
    assert code == 2
    assert "--gpus" in text
    assert GPUS[gpus] in text


VALUES = [
    "batch.per_device=.inf", "batch.per_device=.nan", "batch.per_device=1e308",
    "batch.per_device=0", "steps=" + "9" * 5000, "gpus=" + "9" * 400,
    "learning_rate=" + "9" * 400, "steps=\udcff", "name=\udcff", "data.hf_path=\udcff",
    "environment.X=\udcff", "name=a\n", "cluster.time=1\n", "steps=!!int ''",
    "steps=[", "steps={a: &x [*x]}", "environment.A B=3", "environment.M_STEPS=3",
    "environment.XLA_FLAGS=--a", "run_name=x", "parallelism.ici.fsdp=0",
    "container.mounts=[{source: 'a,b', target: /c}]", "cluster.mounts=3", "secrets=HF_TOKEN",
    "container.digest=sha256:abc", "cluster.directives=[\"--a\\nb\"]", "container.image=",
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value[:40]))
def test_a_value_that_cannot_be_meant_is_refused_without_a_traceback(
    value: str, capsys: Capture, tmp_path: Path
) -> None:
    code, text = fault(["render", PRESET, "--set", value], capsys)
    assert code == 2
    assert text.startswith("moectl: ")
    assert list(tmp_path.iterdir()) == []


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)
FILES: dict[str, tuple[str | bytes, str]] = {
    "broken": ("preset: x\nbatch: [1\n", ":2: not YAML"),
    "duplicate": ("preset: x\nname: a\nname: b\n", ":3: the key 'name' stands twice"),
    "itself": ("preset: &x [*x]\n", ":1: an alias refers to what it stands in"),
    "bomb": (BOMB, ":1: its aliases unfold to too many values"),
    "huge": ("a: " + "x" * 5_000_000, ": it is larger than 4 MiB"),
    "list": ("- a\n", ":1: a mapping of keys is wanted here"),
    "binary": (b"a: 1\nb: \xff\xfe\n", ":2: it is not UTF-8 text"),
    "nul": (b"\0\1\2", ": not YAML"),
    "deep": ("[" * 3000, ":1: not YAML"),
    "unknown key": (f"preset: {PRESET}\ngpu: 8\n", ":2:1: unknown key 'gpu'; did you mean 'gpus'"),
    "unknown preset": ("preset: deepseek3-671\n", "did you mean 'deepseek3-671b'"),
    "wrong type": (f"preset: {PRESET}\nbatch:\n  per_device: x\n", ":3:3: batch.per_device"),
    "lock facts": ("gpus: 8\nhardware: h100-hgx\nlock: {facts: 5}\n", "lock"),
    "nothing": ("", "--hardware"),
    "no model file": ("hardware: h100-hgx\ngpus: 8\nmodel: {name: gpt9}\n", "gpt9"),
    "section": (f"preset: {PRESET}\nmodel: 5\n", ":2:1: model is a section"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_read_is_told_by_file_and_line(
    name: str, capsys: Capture, tmp_path: Path
) -> None:
    text, said = FILES[name]
    path = file(tmp_path, text)
    code, told = fault(["render", path], capsys)
    assert code == 2
    assert said in told
    assert len(told) < 1000
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.yaml"]


def test_all_faults_of_a_command_line_are_told_in_one_pass(capsys: Capture) -> None:
    sets = ["--set", "stps=3", "--set", "environment.M_X=1", "--set", "xla_flags.nope=1"]
    code, text = fault(["render", PRESET, *sets], capsys)
    assert code == 2
    assert len(text.splitlines()) == 3


def test_a_foreign_folder_is_refused_and_kept(capsys: Capture, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("mine")
    code, text = fault(["render", PRESET, "--output", str(out)], capsys)
    assert code == 4
    assert "thesis.tex" in text
    assert "--force" in text
    assert main(["render", PRESET, "--output", str(out), "--force"]) == 0
    assert (out / "thesis.tex").read_text() == "mine"
    assert (out / "moectl.lock.yaml").is_file()


def test_an_output_below_a_file_is_refused(capsys: Capture, tmp_path: Path) -> None:
    file(tmp_path, "mine", "blocked")
    code, text = fault(["render", PRESET, "--output", "blocked/out"], capsys)
    assert code == 4
    assert "nothing was written" in text
    assert main(["render", PRESET, "--output", "blocked"]) == 4


@pytest.mark.parametrize("target", ["none.yaml", "no/such/bundle"])
def test_a_missing_file_is_said(target: str, capsys: Capture) -> None:
    code, text = fault(["render", target], capsys)
    assert code == 4
    assert "No such file" in text


def test_a_folder_that_is_no_bundle_is_said(capsys: Capture, tmp_path: Path) -> None:
    assert fault(["render", str(tmp_path)], capsys)[0] == 2


def test_a_full_disk_leaves_no_half_bundle(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, text = fault(["render", PRESET, "--output", "out"], capsys)
    assert code == 4
    assert "No space left on device; nothing was written" in text
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_in_the_middle_of_writing_leaves_no_half_bundle(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, left = writer._write, [3]

    def interrupted(path: Path, content: bytes) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        original(path, content)

    monkeypatch.setattr(writer, "_write", interrupted)
    code, text = fault(["render", PRESET, "--output", "out"], capsys)
    assert code == 130
    assert text == "moectl: interrupted\n"
    assert list(tmp_path.iterdir()) == []


def test_a_kill_in_the_middle_leaves_no_half_bundle(tmp_path: Path) -> None:
    program = (
        "import sys, time\nfrom moectl import files\noriginal = files._write\n"
        "def slow(path, content):\n    original(path, content)\n    print(path.name, flush=True)\n"
        "    time.sleep(0.5)\n"
        "files._write = slow\nfrom moectl.__main__ import main\n"
        f"sys.exit(main(['render', '{PRESET}', '--output', 'out']))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert first == "config.yml\n"
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    assert list(tmp_path.rglob("moectl.lock.yaml")) == []
    assert main(["render", PRESET, "--output", "out"]) == 0


def test_errors_stop_a_render_and_are_shown_with_what_to_type(
    capsys: Capture, tmp_path: Path
) -> None:
    words = ["render", PRESET, "--set", "sparse_matmul=false"]
    code, text = fault(words, capsys)
    assert code == 1
    assert "error TE101 moe.sparse_matmul: " in text
    assert "try: --set moe.sparse_matmul=true" in text
    assert list(tmp_path.iterdir()) == []
    assert main([*words, "--allow", "TE101"]) == 0


def test_a_model_without_a_model_file_is_named_so(capsys: Capture) -> None:
    code, text = fault(["render", "mimo-v2-flash-309b"], capsys)
    assert code == 1
    assert "can be estimated but not rendered" in text


def moectl(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "moectl", *words],
        text=True,
        stderr=subprocess.PIPE,
        check=False,
        **options,
    )


@pytest.mark.parametrize(
    "words",
    [["--version"], ["--help"], ["render", PRESET, "--stdout", "config"], ["presets", "list"]],
    ids=" ".join,
)
def test_a_full_disk_behind_standard_output_is_said_without_a_traceback(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = moectl(*words, stdout=full)
    assert "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr
    assert done.returncode == 4


@pytest.mark.parametrize(
    "words", [["--help"], ["render", PRESET, "--stdout", "launch"], ["presets", "list"]]
)
def test_a_reader_that_leaves_is_no_fault(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = moectl(*words, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr.count("BrokenPipe"), done.stderr.count("Trace")) == (
        0,
        0,
        0,
    )


def test_the_version_and_the_overview_are_printed(capsys: Capture) -> None:
    for words, said in ((["--version"], f"moectl {__version__}\n"), (["--help"], overview())):
        assert main(words) == 0
        assert capsys.readouterr().out == said
    assert main([]) == 2
    assert all(command.name in overview() for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_help_of_a_command_names_its_arguments_options_and_examples(
    command: Any, capsys: Capture
) -> None:
    assert main([*command.name.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert command.summary in text
    assert [option.flag for option in command.options if option.flag not in text] == []
    assert [example for example in command.examples if example not in text] == []


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["--help"],
        ["render", PRESET, "--gpus", "128", "--output", "out"],
        ["render", PRESET, "--stdout", "config"],
        ["render", "mixtral-8x7b", "--stdout", "lock"],
    ],
    ids=" ".join,
)
def test_a_plain_command_loads_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    program = (
        "import json, sys\nfrom moectl.__main__ import main\n"
        "code = main(json.loads(sys.argv[1]))\n"
        "heavy = {'jax', 'jaxlib', 'numpy', 'typer', 'click', 'pydantic', 'rich', 'jinja2'}\n"
        "print(json.dumps([code, sorted(heavy & set(sys.modules))]), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(words)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    code, loaded = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    assert [name for name in loaded if name != "jinja2"] == []
