"""Compiling a job for GPUs that are not there: the verdict, the depths, and the real compiler.

One real compile of a tiny model serves the tests that say so. The others put a double in the
compiler's place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import moectl.actions.prove as module
from moectl.actions.explain import explain
from moectl.actions.plan import Wishes
from moectl.actions.prove import Proof, prove
from moectl.actions.prove_report import as_dict
from moectl.environments import Environment
from moectl.errors import BackendError, ValueUsageError
from moectl.evidence import prove_cache
from moectl.evidence.hlo_collectives import Collective
from moectl.evidence.prove import Compiled, Request
from moectl.evidence.prove_flags import Flag
from moectl.facts.yaml_facts import read
from tests.support import components

GIB = 1 << 30
TINY = (
    "base_emb_dim=256", "base_num_query_heads=4", "base_num_kv_heads=2", "head_dim=64",
    "base_mlp_dim=512", "base_moe_mlp_dim=512", "base_num_decoder_layers=2", "vocab_size=1024",
    "max_target_length=128", "per_device_batch_size=1", "sparse_matmul=true",
    "ici_expert_parallelism=4", "ici_fsdp_parallelism=2",
    "xla_flags.xla_gpu_memory_limit_slop_factor=90",
)  # fmt: skip


def wish(gpus: int, hardware: str, *sets: str) -> Wishes:
    options = {"gpus": (gpus, "--gpus"), "hardware": (hardware, "--hardware")}
    return Wishes(options=options, sets=sets)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of what compiles found, for these tests alone."""
    folder = tmp_path_factory.mktemp("proofs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prove_cache, "folder", lambda: folder)
        yield folder


@pytest.fixture(scope="module")
def tiny(kept: Path) -> Proof:
    """A real compile of a tiny MoE for two nodes of H100."""
    components.require("maxtext-cuda")
    return prove("mixtral-8x7b", wish(16, "h100", *TINY))


def test_the_real_compiler_tells_the_memory(tiny: Proof) -> None:
    memory = tiny.memory
    assert 0 < memory["argument_size"] < tiny.peak <= tiny.total + memory["output_size"]
    assert memory["alias_size"] == pytest.approx(memory["argument_size"], rel=0.01)
    assert tiny.spaces["default"] == pytest.approx(tiny.peak, rel=0.05)
    assert tiny.compiled.buffers[0]["bytes"] > 0
    assert tiny.verdict == "fits"


def test_the_real_compiler_s_collectives_reach_as_far_as_the_mesh(tiny: Proof) -> None:
    assert ("ragged-all-to-all", "domain") in tiny.rows
    assert ("all-gather", "slices") in tiny.rows
    assert ("ragged-all-to-all", "slices") not in tiny.rows
    # One of its six stands in the forward loop of two layers, and so on.
    assert all(row["sure"] for row in tiny.rows.values())
    assert tiny.rows["ragged-all-to-all", "domain"]["runs"] == 12


def test_the_real_compiler_s_flags_are_read_back(tiny: Proof) -> None:
    held = {flag.name: (flag.outcome, flag.held) for flag in tiny.flags}
    assert held["xla_gpu_memory_limit_slop_factor"] == ("taken", "90")
    assert held["xla_gpu_enable_cub_radix_sort"] == ("added", "false")
    assert tiny.compiled.options["xla_gpu_memory_limit_slop_factor"] == 90


def test_the_opaque_attention_is_in_the_real_program(tiny: Proof) -> None:
    assert tiny.opaque_attention == "cudnn_flash_te"
    assert tiny.compiled.opaque_calls >= 2


def test_what_is_known_needs_neither_network_nor_environment(
    tiny: Proof, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ensure", no_network)
    again = prove("mixtral-8x7b", wish(16, "h100", *TINY))
    assert again.cached
    assert replace(again, cached=False) == replace(tiny, cached=False)


def test_fresh_compiles_what_is_known(tiny: Proof, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ensure", no_network)
    with pytest.raises(BackendError, match="uv failed"):
        prove("mixtral-8x7b", wish(16, "h100", *TINY), fresh=True)


def no_network(*_: Any, **__: Any) -> Environment:
    raise BackendError("uv failed (exit code 2) at `uv pip install`: no network")


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[Request]]:
    """Return a function that puts a double in the compiler's place; it tells what it was asked."""

    def put(peak: Callable[[int], int], flags: list[Flag] | None = None) -> list[Request]:
        asked: list[Request] = []

        def compile_step(request: Request, *_: Any, **__: Any) -> Compiled:
            asked.append(request)
            words = dict(word.partition("=")[::2] for word in request.arguments)
            layers = int(words.get("base_num_decoder_layers", "61"))
            size = peak(layers)
            memory = dict.fromkeys(
                ("output_size", "alias_size", "host_argument_size", "host_temp_size"), 0
            )
            return Compiled(
                memory={**memory, "argument_size": 1, "temp_size": size - 1, "peak_memory": size},
                spaces={"default": size},
                buffers=[{"space": "default", "bytes": size, "shapes": ["bf16[1]"]}],
                collectives=[Collective("a", "all-gather", layers, True, 10, 8, "domain")],
                options={},
                mesh={"fsdp": 8},
                versions={"jaxlib": "0.12.0.1"},
                layers=layers,
                opaque_calls=3,
                seconds=1.0,
            )

        monkeypatch.setattr(module, "compile_step", compile_step)
        monkeypatch.setattr(
            module, "ensure", lambda *_, **__: Environment("e", tmp_path, tmp_path / "python")
        )
        monkeypatch.setattr(module, "sort_flags", lambda text, *_: (text, list(flags or [])))
        monkeypatch.setattr(prove_cache, "folder", lambda: tmp_path / "proofs")
        return asked

    return put


Compiler = Callable[..., list[Request]]


def codes(proof: Proof) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in proof.findings]


def test_a_native_step_beyond_the_memory_is_an_error(compiler: Compiler) -> None:
    compiler(lambda _: 200 * GIB)
    proof = prove("deepseek2-16b", wish(8, "h200"))
    assert (proof.verdict, proof.fits) == ("exceeds", False)
    assert codes(proof) == [("PRV111", "error")]
    assert "200.00 GiB, and h200-hgx has 140.40 GiB" in proof.findings[0].message


def test_a_native_step_beyond_the_pool_alone_is_a_warning(compiler: Compiler) -> None:
    compiler(lambda _: 130 * GIB)
    assert codes(prove("deepseek2-16b", wish(8, "h200"))) == [("PRV112", "warning")]


def test_the_pool_is_that_of_the_variables_that_the_estimate_reads(compiler: Compiler) -> None:
    compiler(lambda _: 80 * GIB)
    assert codes(prove("deepseek2-16b", wish(8, "h200"))) == []
    asked = wish(8, "h200", "environment.XLA_PYTHON_CLIENT_MEM_FRACTION=0.5")
    assert codes(prove("deepseek2-16b", asked)) == [("PRV112", "warning")]


def test_a_transformer_engine_step_gets_no_verdict(compiler: Compiler) -> None:
    asked = compiler(lambda _: 231 * GIB)
    proof = prove("deepseek3-671b", wish(128, "gb200"))
    assert (proof.verdict, proof.fits) == ("information", False)
    assert codes(proof) == [("PRV111", "note")]
    assert [one.key for one in proof.stood_in] == [
        "te_moe_block", "te_gmm_quantization", "quantization",
    ]  # fmt: skip
    assert {"te_moe_block=false", 'quantization=""'} <= set(asked[0].arguments)


def test_the_layout_is_that_of_the_job(compiler: Compiler) -> None:
    (asked,) = [compiler(lambda _: GIB)]
    prove("deepseek3-671b", wish(128, "gb200"))
    assert (asked[0].topology, asked[0].per_domain, asked[0].gpus) == ("2x16x4", 64, 128)


def test_a_key_is_said_once(compiler: Compiler) -> None:
    asked = compiler(lambda _: GIB)
    prove("deepseek3-671b", wish(128, "gb200"))
    names = [word.partition("=")[0] for word in asked[0].arguments]
    assert len(names) == len(set(names))


def test_two_shallow_models_are_extrapolated(compiler: Compiler) -> None:
    asked = compiler(lambda layers: (10 + layers) * GIB)
    proof = prove("deepseek3-671b", wish(128, "gb200"), layers=2)
    assert [word for one in asked for word in one.arguments if "decoder_layers" in word] == [
        "base_num_decoder_layers=7",
        "base_num_decoder_layers=5",
    ]
    assert proof.peak == 71 * GIB
    assert proof.rows["all-gather", "domain"]["runs"] == 61
    assert any("5 and 7 decoder layers to 61" in note for note in proof.notes)


def test_a_refused_flag_is_an_error_and_a_changed_one_a_warning(compiler: Compiler) -> None:
    compiler(
        lambda _: GIB,
        [Flag("xla_a", "1", "refused", why="jaxlib 1 does not know --xla_a")],
    )
    proof = prove("deepseek2-16b", wish(8, "h200"))
    assert codes(proof) == [("PRV101", "error")]
    assert proof.findings[0].message == "jaxlib 1 does not know --xla_a"


def test_a_platform_without_a_description_names_those_that_have_one() -> None:
    with pytest.raises(BackendError, match=r"no description of h800-hgx.*h100-hgx"):
        prove("deepseek2-16b", wish(8, "h800"))


def test_a_platform_whose_memory_nobody_published_is_not_compared(compiler: Compiler) -> None:
    compiler(lambda _: 900 * GIB)
    proof = prove("deepseek2-16b", wish(8, "vr-nvl72"))
    assert (proof.verdict, proof.findings) == ("unknown", ())


def test_no_network_for_the_environment_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ensure", no_network)
    with pytest.raises(BackendError, match="uv failed"):
        prove("deepseek2-16b", wish(8, "h200", "steps=77"))


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(ValueUsageError, match="--timeout"):
        prove("deepseek2-16b", wish(8, "h200"), seconds=0)


def test_a_spoilt_result_is_compiled_again(compiler: Compiler, tmp_path: Path) -> None:
    asked = compiler(lambda _: GIB)
    prove("deepseek2-16b", wish(8, "h200"))
    (file,) = (tmp_path / "proofs").iterdir()
    for text in ("", "[]", '{"compiled": {}, "flags": []}', '{"compiled": 1, "flags": 2}'):
        file.write_text(text, "utf-8")
        assert not prove("deepseek2-16b", wish(8, "h200")).cached
    assert prove("deepseek2-16b", wish(8, "h200")).cached
    assert len(asked) == 5


def test_another_setting_is_another_result(compiler: Compiler) -> None:
    asked = compiler(lambda _: GIB)
    for batch in (1, 2, 1):
        prove("deepseek2-16b", wish(8, "h200", f"per_device_batch_size={batch}"))
    assert len(asked) == 2


def test_a_result_that_cannot_be_kept_is_a_note(compiler: Compiler, tmp_path: Path) -> None:
    compiler(lambda _: GIB)
    (tmp_path / "proofs").write_text("a file in the way", "utf-8")
    proof = prove("deepseek2-16b", wish(8, "h200"))
    assert [note for note in proof.notes if "could not be kept" in note]


def test_the_json_form_is_json_and_says_what_is_not_covered(compiler: Compiler) -> None:
    compiler(lambda _: GIB)
    data = json.loads(json.dumps(as_dict(prove("deepseek2-16b", wish(8, "h200")))))
    assert data["bytes_per_device"]["peak"] == GIB
    assert data["path"] == "native"
    assert data["not_covered"] == read("prove.yaml")["not_covered"]
    assert data["collective_bytes"] == {"domain": 610, "domains": 0, "slices": 0}


@pytest.mark.parametrize("code", ["PRV101", "PRV102", "PRV111", "PRV112"])
def test_its_codes_can_be_explained(code: str) -> None:
    assert explain(code)[0]["name"] == code


def test_other_releases_than_the_image_s_are_told(compiler: Compiler) -> None:
    compiler(lambda _: GIB)
    proof = prove("deepseek2-16b", wish(8, "h200"))
    image = proof.job.container.image
    told = [note for note in proof.notes if "compiled it" in note]
    assert told == (
        []
        if image.jaxlib == "0.12.0.1"
        else [f"jaxlib 0.12.0.1 compiled it, and the image is checked against {image.jaxlib}"]
    )


def test_two_models_that_are_too_flat_withhold_the_verdict(compiler: Compiler) -> None:
    compiler(lambda _: 20 * GIB)
    proof = prove("deepseek2-16b", wish(8, "h200"), layers=2)
    assert (proof.verdict, proof.fits) == ("withheld", None)
    assert any("the peak is elsewhere" in note for note in proof.notes)


def test_a_depth_beyond_the_model_is_told_before_all_of_it_is_compiled(compiler: Compiler) -> None:
    compiler(lambda _: 20 * GIB)
    said: list[str] = []
    proof = prove("deepseek2-16b", wish(8, "h200"), layers=99, say=said.append)
    assert any("all of it is compiled" in one for one in said)
    assert proof.verdict == "fits"
