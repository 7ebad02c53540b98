"""`moectl prove` on the command line, a double in the compiler's place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import moectl.actions.prove as module
from moectl.__main__ import main
from moectl.environments import Environment
from moectl.evidence import prove_cache
from moectl.evidence.hlo_collectives import Collective
from moectl.evidence.prove import Compiled, CompileError, Request
from moectl.evidence.prove_flags import Flag
from tests.support import golden

GIB = 1 << 30
MADE = Compiled(
    memory={
        "argument_size": 29 * GIB, "output_size": 29 * GIB, "alias_size": 29 * GIB - 1024,
        "temp_size": 172 * GIB, "peak_memory": 200 * GIB, "host_argument_size": 0,
        "host_temp_size": 29 * GIB,
    },
    spaces={"default": 200 * GIB, "cmem": 29 * GIB},
    buffers=[{"space": "default", "bytes": 50 * GIB, "shapes": ["bf16[58,65536,7168]"]}],
    collectives=[
        Collective("a", "all-gather", 116, True, 4224, 8, "domain"),
        Collective("b", "all-gather", 1610, True, 248629256, 16, "slices"),
        Collective("c", "all-reduce", 1, False, 40, 16, "slices"),
    ],
    options={"xla_gpu_memory_limit_slop_factor": 99},
    mesh={"fsdp": 16, "expert": 8},
    versions={"maxtext": "0.2.5", "jaxlib": "0.12.0.1"},
    layers=61,
    opaque_calls=4,
    seconds=118.3,
)  # fmt: skip
FLAGS = [
    Flag("xla_gpu_memory_limit_slop_factor", "99", "taken", "99"),
    Flag("xla_dump_to", "/x", "withheld", why="the dump is the proof's own"),
    Flag("xla_gpu_enable_cub_radix_sort", "false", "added", "false", "CUB asks a device"),
]
DEEPSEEK = ["prove", "deepseek3-671b", "--gpus", "128"]


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A double: it compiles nothing and knows the answer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "compile_step", lambda *_, **__: MADE)
    made = Environment("e", tmp_path, tmp_path / "python")
    monkeypatch.setattr(module, "ensure", lambda *_, **__: made)
    monkeypatch.setattr(module, "sort_flags", lambda text, *_: (text, FLAGS))
    monkeypatch.setattr(module, "read_back", lambda flags, *_: flags)
    monkeypatch.setattr(prove_cache, "folder", lambda: tmp_path / "proofs")


def test_the_answer_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(DEEPSEEK) == 0
    golden.compare("prove", {"deepseek3-671b.txt": capsys.readouterr().out})


def test_the_answer_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*DEEPSEEK, "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["bytes_per_device"]["peak"] == 200 * GIB
    assert data["verdict"] == "information"
    assert data["collectives"][1] == {
        "kind": "all-gather", "reach": "slices", "instructions": 1, "runs": 1610,
        "bytes": 1610 * 248629256, "sure": True,
    }  # fmt: skip


def test_a_native_step_that_does_not_fit_is_exit_code_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["prove", "deepseek2-16b", "--gpus", "8", "--hardware", "h200"]) == 1
    said = capsys.readouterr()
    assert "error PRV111" in said.err
    assert "it does not fit" in said.out


def test_a_run_file_and_a_bundle_are_proved_alike(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.yaml").write_text("preset: deepseek3-671b\ngpus: 64\n", "utf-8")
    assert main(["render", "run.yaml", "--output", "bundle"]) == 0
    capsys.readouterr()
    found = []
    for target in ("run.yaml", "bundle"):
        assert main(["prove", target, "--format", "json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    for data in found:
        data.pop("cached")
        data.pop("findings")
        data.pop("preset")
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--layers", "0"], 2, "--layers cannot be '0'"),
        (["--layers", "two"], 2, "--layers cannot be 'two'"),
        (["--timeout", "1.5"], 2, "--timeout cannot be '1.5'"),
        (["--hardware", "h800"], 3, "no description of h800-hgx"),
        (["--hardware", "tpu"], 2, "unknown hardware 'tpu'"),
    ],
)
def test_what_cannot_be_meant_is_told(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prove", "deepseek2-16b", "--gpus", "8", *words]) == code
    assert said in capsys.readouterr().err


def test_a_refusal_of_the_compiler_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(request: Request, *_: object, **__: object) -> Compiled:
        raise CompileError("compile", "XlaRuntimeError: INTERNAL: no\nsecond line")

    monkeypatch.setattr(module, "compile_step", refuse)
    assert main(DEEPSEEK) == 1
    assert "refused at the compile: XlaRuntimeError: INTERNAL: no" in capsys.readouterr().err


def test_an_interrupt_is_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> Compiled:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "compile_step", interrupted)
    assert main(DEEPSEEK) == 130
    assert "interrupted" in capsys.readouterr().err
