"""The probe program, run in real environments and in poor ones."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from moectl.cli import probe as command
from moectl.errors import BackendError, LocalFilesError, ValueUsageError
from moectl.evidence import probe, probe_program
from moectl.facts import maxtext, xla
from moectl.facts.probed import read_probe
from moectl.interpreters import find_python
from tests.support import components

SECRETS = {
    "JAX_HUB_TOKEN": "hf_do_not_print",
    "NCCL_API_KEY": "do_not_print_either",
    "XLA_CLIENT_SECRET": "nor_this",
    "JAX_STORE_PASSWORD": "nor_that",
    "NVIDIA_PRIVATE_REGISTRY": "nor_those",
    "HF_TOKEN": "hf_at_all",
}
BAKED = {
    "XLA_FLAGS": "--xla_gpu_enable_latency_hiding_scheduler=true",
    "NCCL_IB_SL": "1",
    "NVTE_FUSED_ATTN": "1",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "0",
}


def run(
    python: Path | str, *words: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return subprocess.run(
        [str(python), "-", *words],
        input=probe.program().encode(),
        capture_output=True,
        timeout=300,
        check=False,
        env=kept | (environment or {}),
    )


def answer(python: Path | str, *words: str, environment: dict[str, str] | None = None) -> Any:
    done = run(python, *words, environment=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_program_is_one_file_that_python_3_8_can_read_and_imports_nothing_foreign() -> None:
    text = probe.program()
    tree = ast.parse(text, feature_version=(3, 8))
    outside = {
        name.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
    } | {
        str(node.module).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    assert outside <= set(sys.stdlib_module_names)


def test_the_program_is_the_same_each_time_and_holds_the_readers_unchanged() -> None:
    text = probe.program()
    assert text == probe.program()
    space: dict[str, Any] = {"__name__": "probe"}
    exec(compile(text, "probe.py", "exec"), space)  # noqa: S102 - it is our own program
    folder = Path(probe.__file__).parent.parent
    assert len(space["FILES"]) > 15
    for path, held in space["FILES"].items():
        assert held == (folder.parent / path).read_text("utf-8")
    assert "HF_TOKEN" in space["SECRETS"]
    assert "*_API_KEY" in space["SECRETS"]


def test_real_maxtext_is_read_as_the_shipped_catalogue_was() -> None:
    python = components.require("maxtext")
    probed = read_probe(json.dumps(answer(python, "--without", "xla")), "image.json")
    shipped = maxtext.load("0.2.5")
    assert probed.maxtext is not None
    assert sorted(probed.maxtext.keys()) == sorted(shipped.keys())
    names = probed.maxtext.keys()
    assert all(probed.maxtext.key(name) == shipped.key(name) for name in names)
    assert probed.maxtext.base == shipped.base
    assert probed.maxtext.axes == shipped.axes
    assert probed.maxtext.models() == shipped.models()
    assert all(probed.maxtext.model(name) == shipped.model(name) for name in shipped.models())
    assert probed.versions["maxtext"] == "0.2.5"
    assert probed.devices["platform"] == "cpu"
    assert probed.missing["xla"] == "not asked for"


@pytest.mark.parametrize("release", ["0.8.3", "0.11.2", "0.12.0.1"])
def test_the_flags_of_a_real_jaxlib_are_those_of_its_shipped_table(release: str) -> None:
    python = components.require(f"jaxlib-{release}")
    probed = read_probe(json.dumps(answer(python)), "image.json")
    shipped = xla.load(release)
    assert probed.xla is not None
    assert probed.xla.release == release
    assert probed.xla.names() == shipped.names()
    assert [n for n in shipped.names() if probed.xla.flag(n) != shipped.flag(n)] == []
    assert probed.maxtext is None
    assert probed.missing["maxtext"] == "there is none"


def test_baked_variables_are_told_and_secrets_never() -> None:
    words = [word for name in ("xla", "maxtext", "devices") for word in ("--without", name)]
    done = run(sys.executable, *words, environment=BAKED | SECRETS)
    assert json.loads(done.stdout)["environment"] == BAKED
    for value in SECRETS.values():
        assert value.encode() not in done.stdout + done.stderr


def test_two_probes_of_one_image_are_the_same_bytes() -> None:
    words = ("--without", "xla", "--without", "devices")
    first, second = run(sys.executable, *words), run(sys.executable, *words)
    assert first.stdout == second.stdout
    data = json.loads(first.stdout)
    assert list(data) == sorted(data)
    assert data["moectl_probe"] == probe_program.FORMAT


@pytest.mark.parametrize("minor", ["3.8", "3.9"])
def test_an_old_python_tells_what_it_can_and_why_the_rest_is_missing(minor: str) -> None:
    try:
        python = find_python(minor)
    except BackendError:
        pytest.skip(f"needs Python {minor}")
    data = answer(python)
    assert data["python"].startswith(minor)
    assert data["maxtext"] is None
    assert data["missing"]["xla"].startswith("needs Python 3.11")
    assert read_probe(json.dumps(data), "old.json").xla is None


def test_a_section_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text(
        "import os, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "open(os.environ['NOTE'], 'w').write(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    note = tmp_path / "pid"
    environment = {"PYTHONPATH": str(tmp_path), "NOTE": str(note)}
    words = ("--without", "xla", "--without", "maxtext", "--seconds", "2")
    data = answer(sys.executable, *words, environment=environment)
    assert data["devices"] is None
    assert data["missing"]["devices"] == "took longer than 2 s"
    state = Path(f"/proc/{note.read_text()}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise RuntimeError('no GPU on a login node')", "RuntimeError: no GPU on a login node"),
        ("import os; os._exit(9)", "ended with exit code 9: it said nothing"),
        ("import os, sys; sys.stderr.write('F0000 Unknown flag\\n'); os.abort()", "Unknown flag"),
    ],
)
def test_a_jax_that_fails_or_dies_is_a_reason_and_not_a_failed_probe(
    tmp_path: Path, body: str, says: str
) -> None:
    (tmp_path / "jax.py").write_text(f"{body}\n")
    words = ("--without", "xla", "--without", "maxtext")
    data = answer(sys.executable, *words, environment={"PYTHONPATH": str(tmp_path)})
    assert data["devices"] is None
    assert says in data["missing"]["devices"]


def test_gpus_are_read_from_the_driver(tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'NVIDIA GB200, Rev. 2, 189471'\necho 'NVIDIA GB200, 189471'\n")
    smi.chmod(0o755)
    words = [word for name in ("xla", "maxtext", "devices") for word in ("--without", name)]
    path = f"{tmp_path}:{os.environ['PATH']}"
    data = answer(sys.executable, *words, environment={"PATH": path})
    assert data["gpus"] == [
        {"name": "NVIDIA GB200, Rev. 2", "memory_mib": 189471},
        {"name": "NVIDIA GB200", "memory_mib": 189471},
    ]
    assert "gpus" not in data["missing"]


def test_a_driver_without_gpus_is_said(tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'No devices were found'\nexit 6\n")
    smi.chmod(0o755)
    words = [word for name in ("xla", "maxtext", "devices") for word in ("--without", name)]
    path = f"{tmp_path}:{os.environ['PATH']}"
    data = answer(sys.executable, *words, environment={"PATH": path})
    assert data["gpus"] == []
    assert data["missing"]["gpus"] == "nvidia-smi shows none (exit code 6)"


def test_of_the_tasks_of_one_srun_only_the_first_speaks() -> None:
    done = run(sys.executable, environment={"SLURM_PROCID": "3"})
    assert (done.returncode, done.stdout) == (0, b"")


@pytest.mark.parametrize(
    "words", [("--without", "all"), ("--seconds", "0"), ("--seconds", "1s"), ("--gpu",)]
)
def test_other_options_are_refused(words: tuple[str, ...]) -> None:
    done = run(sys.executable, *words)
    assert done.returncode == 2
    assert done.stderr.startswith(b"usage: probe.py")


def test_without_a_writable_temporary_folder_the_rest_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(prefix: str) -> str:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    found = probe_program.probed([], 5)
    assert found["maxtext"] is None
    missing = found["missing"]
    assert isinstance(missing, dict)
    assert "Read-only file system" in missing["xla"]


def test_the_command_writes_the_program_and_says_what_to_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my probe's.py"
    assert command.run(None, str(file)) == 0
    assert file.read_text("utf-8") == probe.program()
    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]
    assert "docker run" in capsys.readouterr().out
    assert command.run(None, None) == 0
    assert capsys.readouterr().out == probe.program()


def test_the_command_runs_the_program_with_an_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "program", lambda: "print('{\"moectl_probe\": 1}')")
    file = tmp_path / "image.json"
    assert command.run(sys.executable, str(file)) == 0
    assert json.loads(file.read_text()) == {"moectl_probe": 1}


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("import sys; sys.exit('no probe today')", "cannot run the probe: no probe today"),
        ("print('hello')", "cannot run the probe: it said nothing"),
        ("import time; time.sleep(60)", "took over 1 s"),
    ],
)
def test_a_probe_that_fails_or_hangs_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, program: str, says: str
) -> None:
    monkeypatch.setattr(probe, "program", lambda: program)
    with pytest.raises(BackendError, match=says):
        probe.run(sys.executable, seconds=1 if "sleep" in program else 60)


def test_an_interpreter_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(BackendError, match="cannot start '/no/such/python'"):
        probe.run("/no/such/python")


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(LocalFilesError, match="cannot write"):
        probe.write(tmp_path / "no" / "folder" / "probe.py", "")


@pytest.mark.parametrize(
    ("python", "output"), [("", None), (None, ""), (None, "/"), (None, "."), ("", "x.json")]
)
def test_an_empty_option_is_a_usage_error(python: str | None, output: str | None) -> None:
    with pytest.raises(ValueUsageError):
        command.run(python, output)
