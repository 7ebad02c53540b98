"""Running the compiling child: what it says, how it may die, and that nothing of it is left.

The children here are doubles, short scripts in the interpreter's place; the real one is asked
in tests/test_actions_prove.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moectl.errors import BackendError
from moectl.evidence import prove_child
from moectl.evidence.prove import Compiled, CompileError, Request, compile_step

REQUEST = Request(
    target="NVIDIA H100",
    slices=2,
    nodes_per_slice=1,
    gpus_per_node=2,
    per_domain=2,
    config="model_name: default\n",
    arguments=("steps=1",),
    xla_flags="--xla_gpu_autotune_level=0",
    packages={"jaxlib": "jaxlib"},
)
HLO = """HloModule jit_train_step

ENTRY %main (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %x = f32[4]{0} all-reduce(%p), replica_groups=[2,2]<=[2,2]T(1,0)
}
"""
MEMORY = {"argument_size": 5, "peak_memory": 9}


def double(folder: Path, body: str) -> Path:
    """Return an interpreter that runs `body` whatever it is given; `asked` is the request."""
    path = folder / "python"
    path.write_text(
        f"#!{sys.executable}\nimport json, os, signal, subprocess, sys, time\n"
        f"asked = json.loads(sys.stdin.readline())\n{body}",
        "utf-8",
    )
    path.chmod(0o755)
    return path


def asked(folder: Path, body: str, seconds: float = 30.0) -> Compiled:
    return compile_step(REQUEST, double(folder, body), seconds=seconds, say=lambda _: None)


def gone(pid: int) -> bool:
    """Return whether a process has ended, waiting for it a while."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with contextlib.suppress(OSError):
            if " Z " in Path(f"/proc/{pid}/stat").read_text("utf-8"):
                return True
        time.sleep(0.02)
    return False


GOOD = f"""
open(asked["hlo"], "w").write({HLO!r})
os.mkdir("dump")
open("dump/module_1.jit_train_step.config.pbtxt", "w").write(
    "debug_options {{\\n  xla_gpu_autotune_level: 0\\n}}\\n")
print(json.dumps({{"doing": "compile"}}))
print(json.dumps({{"answer": {{"memory": {MEMORY}, "mesh": {{"fsdp": 4}},
    "assignment": [0, 1, 2, 3], "versions": {{"jaxlib": "1"}}, "layers": 2,
    "opaque_calls": 0, "seconds": 1.5, "asked": asked}}}}))
"""


def test_an_answer_is_read_with_what_the_compiler_left(tmp_path: Path) -> None:
    found = asked(tmp_path, GOOD)
    assert found.memory == MEMORY
    assert found.options == {"xla_gpu_autotune_level": 0}
    (one,) = found.collectives
    assert (one.kind, one.reach, one.bytes) == ("all-reduce", "slices", 16)


def test_an_answer_survives_being_kept(tmp_path: Path) -> None:
    found = asked(tmp_path, GOOD)
    assert Compiled.from_dict(json.loads(json.dumps(found.as_dict()))) == found


def test_what_the_child_does_is_passed_on(tmp_path: Path) -> None:
    said: list[str] = []
    compile_step(REQUEST, double(tmp_path, GOOD), seconds=30, say=said.append)
    assert said == ["compiling the training step (a minute or two on two quiet cores)"]


def test_the_child_gets_the_flags_and_nothing_of_ours_that_changes_jax(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "tpu")
    monkeypatch.setenv("XLA_FLAGS", "--xla_bogus")
    monkeypatch.setenv("M_STEPS", "7")
    seen = tmp_path / "seen.json"
    asked(tmp_path, f"open({str(seen)!r}, 'w').write(json.dumps(dict(os.environ)))\n{GOOD}")
    got = json.loads(seen.read_text("utf-8"))
    assert got["JAX_PLATFORMS"] == "cpu"
    assert "M_STEPS" not in got
    first, *dump = got["XLA_FLAGS"].split()
    assert first == "--xla_gpu_autotune_level=0"
    assert [flag.partition("=")[0] for flag in dump] == [
        "--xla_dump_to",
        "--xla_dump_hlo_module_re",
    ]


def test_a_child_killed_for_memory_is_told_with_the_next_step(tmp_path: Path) -> None:
    body = 'print(\'{"doing": "compile"}\', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n'
    with pytest.raises(BackendError, match=r"killed at the compile.*memory.*`--layers 2`"):
        asked(tmp_path, body)


def test_a_child_that_dies_tells_its_last_lines(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"ended with exit code 7 at the start:\n  last words"):
        asked(tmp_path, "sys.stderr.write('last words\\n')\nsys.exit(7)\n")


def test_a_child_that_aborts_tells_the_signal(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="died of SIGABRT at the start"):
        asked(tmp_path, "os.abort()\n")


def test_a_refusal_tells_where_and_why_in_a_few_lines(tmp_path: Path) -> None:
    lines = "\\n".join(["bad key"] * 50)
    body = (
        f"said = {{'error': 'ValueError', 'message': '{lines}', 'stage': 'configuration'}}\n"
        "print(json.dumps(said))\n"
    )
    with pytest.raises(
        CompileError, match="refused at the configuration: ValueError: bad key"
    ) as no:
        asked(tmp_path, body)
    assert no.value.exit_code == 1
    assert len(str(no.value).splitlines()) < 20


def test_a_gpu_without_a_description_is_told_with_those_that_have_one(tmp_path: Path) -> None:
    body = """print(json.dumps({"error": "Unknown", "message": '["A", "B"]', "stage": "x"}))"""
    with pytest.raises(BackendError, match=r"no description of 'NVIDIA H100'; it has A, B"):
        asked(tmp_path, body)


TREE = """
child = subprocess.Popen(["sleep", "600"])
open({pids!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
print(json.dumps({{"doing": "compile"}}), flush=True)
time.sleep(600)
"""


def test_a_compile_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with pytest.raises(BackendError, match=r"longer than 1 s \(it was at the compile\).*--timeout"):
        asked(tmp_path, TREE.format(pids=str(pids)), seconds=1)
    assert all(gone(int(pid)) for pid in pids.read_text("utf-8").split())


def test_an_interrupted_compile_leaves_nothing_running(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    python = double(tmp_path, TREE.format(pids=str(pids)))
    with pytest.raises(KeyboardInterrupt):
        compile_step(REQUEST, python, seconds=30, say=interrupt)
    assert all(gone(int(pid)) for pid in pids.read_text("utf-8").split())


def test_a_missing_interpreter_is_told(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="cannot start"):
        compile_step(REQUEST, tmp_path / "none", seconds=5, say=lambda _: None)


def test_a_text_of_the_compiler_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="compiler's text cannot be read"):
        asked(tmp_path, GOOD.replace("ENTRY ", ""))


def test_the_child_ends_when_whoever_asked_is_gone() -> None:
    program = Path(prove_child.__file__).read_text("utf-8").replace('"__main__"', '"nobody"')
    child = subprocess.Popen(
        [sys.executable, "-c", f"{program}\nend_with_the_parent()\ntime.sleep(600)\n"],
        stdin=subprocess.PIPE,
    )
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(timeout=30) == 1


def test_descriptions_are_found_between_the_bytes_of_a_library() -> None:
    one = b'gpu {\n}\ndevice_description_str: "NVIDIA A"\n'
    two = b'device_description_str: "NVIDIA B"\ngpu {\n}\n'
    library = b"\x7fELF\0" + one + b"\0other\0" + two + b"\0device_description_str\0"
    assert prove_child.descriptions(library) == {"NVIDIA A": one.decode(), "NVIDIA B": two.decode()}


def test_a_library_without_descriptions_has_none() -> None:
    assert prove_child.descriptions(b"\x7fELF\0\0") == {}


def test_a_device_says_its_slice_and_is_otherwise_itself() -> None:
    class Device:
        id = 5
        platform = "gpu"

    device = prove_child.Sliced(Device(), 4)
    assert (device.slice_index, device.platform, device.id) == (1, "gpu", 5)


def test_a_fatal_line_is_told_before_what_follows_it(tmp_path: Path) -> None:
    body = """
sys.stderr.write("warm up\\nF1130 21:13:16 error_handler.cc:44] ptxas: no space\\n")
sys.stderr.write("F1130 21:13:16 error_handler.cc:44] *** Begin stack trace ***\\n  frame\\n}\\n")
sys.exit(1)
"""
    with pytest.raises(BackendError) as died:
        asked(tmp_path, body)
    assert str(died.value).splitlines()[1:] == [
        "  F1130 21:13:16 error_handler.cc:44] ptxas: no space"
    ]
