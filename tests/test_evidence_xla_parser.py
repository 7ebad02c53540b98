"""A real jaxlib as judge of XLA_FLAGS; the one of this interpreter is always there."""

from __future__ import annotations

import shlex
import stat
import sys
import textwrap
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moectl.errors import BackendError
from moectl.evidence.xla_parser import XlaVerdict, judge, judge_many
from moectl.evidence.xla_proto import WireError, carve, debug_options, fields, schema
from moectl.evidence.xla_session import ParserSession
from moectl.facts import xla
from moectl.xla_text import parse
from tests.support import components

LHS = "--xla_gpu_enable_latency_hiding_scheduler=true"
SCHEDULER = "xla_gpu_enable_latency_hiding_scheduler"
BUFFER = "xla_gpu_enable_command_buffer"
LEVEL = "xla_gpu_autotune_level"
RECIPE = (
    "--xla_gpu_all_reduce_combine_threshold_bytes=33554432"
    " --xla_gpu_all_gather_combine_threshold_bytes=6442450944"
    " --xla_gpu_reduce_scatter_combine_threshold_bytes=201326592"
    " --xla_gpu_experimental_enable_nccl_symmetric_buffers=false"
    " --xla_gpu_enable_command_buffer='FUSION,CUBLAS,CUDNN,DYNAMIC_SLICE_FUSION'"
    " --xla_gpu_experimental_max_unroll_factor=8"
    " --xla_gpu_memory_limit_slop_factor=99"
)
# Every trap of the syntax, read by the model and by the parser.
TRAPS = (
    f"{LHS} --{LEVEL}=0",
    f"--{LEVEL}=0 word {LHS}",
    f"--{LEVEL}=0 \\ {LHS}",
    f"--{LEVEL}=0 #comment {LHS}",
    f"--{LEVEL}=0 '{LHS}'",
    f"--{BUFFER}=FUSION, CUBLAS {LHS}",
    f"--{BUFFER}='FUSION, CUBLAS' {LHS}",
    f'--{BUFFER}="FUSION,CUBLAS" {LHS}',
    f"--{BUFFER}=FUSION --{BUFFER}=+CUBLAS",
    f"--{BUFFER}=fusion\n{LHS}",
    f"--xla_dump_to='/data/x {LHS}",
    rf"--xla_dump_to='/data/a\b' {LHS}",
    rf'--xla_dump_to="/data/a\"b" {LHS}',
    f"--xla_dump_to='/data/x'y {LHS}",
    f"--xla_dump_to=/data/x'y' {LHS}",
    f"--xla_dump_to=/data/\u00a0x {LHS}",
    f"--{SCHEDULER} =false --{LEVEL}=0",
    f"  \t{LHS}\r\n--{LEVEL}=0  ",
    "--xla_disable_hlo_passes=a,b --xla_disable_hlo_passes=c",
    f"--{LEVEL}=1 --{LEVEL}=2",
    "",
)


@pytest.fixture(scope="module")
def verdicts() -> dict[str, XlaVerdict]:
    asked = [
        "", RECIPE, f"--{LEVEL}=3",
        f"--{LEVEL}=1GiB --xla_bogus=1 --{SCHEDULER}=maybe --xla_gpu_shape_checks=X --{BUFFER} "
        "--xla_bogus=1",
        "garbage", "   ", "--", "-xla_a=1", "--help", *TRAPS,
    ]  # fmt: skip
    return dict(zip(asked, judge_many(asked), strict=True))


def test_the_judge_says_which_release_it_is(verdicts: dict[str, XlaVerdict]) -> None:
    assert {verdict.jaxlib for verdict in verdicts.values()} == {release_here()}


def test_no_flags_are_accepted_and_change_nothing(verdicts: dict[str, XlaVerdict]) -> None:
    verdict = verdicts[""]
    assert verdict.accepted
    assert verdict.changed == {}
    assert len(verdict.values) > 200
    assert verdict.note == ""


def test_a_flag_arrives_with_its_value(verdicts: dict[str, XlaVerdict]) -> None:
    assert verdicts[f"--{LEVEL}=3"].changed == {LEVEL: 3}
    assert verdicts[f"--{LEVEL}=3"].values[LEVEL] == 3


@pytest.mark.skipif(
    "xla_gpu_experimental_max_unroll_factor" not in xla.load(xla.closest(version("jaxlib"))),
    reason="needs jaxlib 0.10.2 or newer, which brought a flag of the recipe",
)
def test_the_published_recipe_arrives_whole(verdicts: dict[str, XlaVerdict]) -> None:
    verdict = verdicts[RECIPE]
    assert verdict.accepted, verdict.sentence
    assert verdict.changed[BUFFER] == ["FUSION", "CUBLAS", "CUDNN", "DYNAMIC_SLICE_FUSION"]
    assert verdict.changed["xla_gpu_all_gather_combine_threshold_bytes"] == 6442450944
    assert verdict.values["xla_gpu_experimental_enable_nccl_symmetric_buffers"] is False
    assert verdict.dropped == ()


def test_every_bad_flag_is_named_in_one_pass(verdicts: dict[str, XlaVerdict]) -> None:
    verdict = next(verdict for text, verdict in verdicts.items() if "1GiB" in text)
    assert verdict.outcome == "refused"
    assert [(fault.flag, fault.problem) for fault in verdict.faults] == [
        (LEVEL, "value"),
        ("xla_bogus", "unknown"),
        (SCHEDULER, "value"),
        ("xla_gpu_shape_checks", "value"),
        (BUFFER, "bare"),
        ("xla_bogus", "unknown"),
    ]
    assert "1GiB" in verdict.faults[0].line
    assert f"does not take --{LEVEL} with '1GiB'; does not know --xla_bogus" in verdict.sentence


@pytest.mark.parametrize("text", ["garbage", "   "])
def test_a_text_taken_as_a_file_that_is_not_there_is_refused(
    verdicts: dict[str, XlaVerdict], text: str
) -> None:
    verdict = verdicts[text]
    assert verdict.outcome == "refused"
    assert [fault.problem for fault in verdict.faults] == ["file"]
    assert "Could not open file" in verdict.sentence


@pytest.mark.parametrize("text", ["--", "-xla_a=1", "--help"])
def test_what_is_no_flag_is_refused(verdicts: dict[str, XlaVerdict], text: str) -> None:
    assert verdicts[text].outcome == "refused"
    assert parse(text).fatal or text == "--help"


@pytest.mark.parametrize("text", TRAPS)
def test_the_model_of_the_tokenizer_agrees_with_the_parser(
    verdicts: dict[str, XlaVerdict], text: str
) -> None:
    verdict, model = verdicts[text], parse(text)
    assert verdict.accepted, verdict.sentence
    assert expected(model.values, text) == dict(verdict.changed)
    assert verdict.dropped == model.dropped


def expected(values: dict[str, str], text: str) -> dict[str, object]:
    """What should differ from the defaults, given what the model says XLA keeps."""
    catalogue = xla.load(xla.closest(release_here()))
    merged = catalogue.merge((token.name, token.value) for token in parse(text).kept)
    assert merged.keys() == values.keys()
    wanted: dict[str, object] = {}
    for name, merged_text in merged.items():
        flag = catalogue.flag(name)
        assert flag is not None
        if flag.parser_type == "bool":
            found: object = merged_text == "true"
        elif flag.list_of:
            found = [kind.strip() for kind in merged_text.split(",") if kind]
            found = [flag.kind(kind) or kind for kind in found]
        else:
            found = int(merged_text) if flag.parser_type.startswith("int") else merged_text
        if found != flag.default:
            wanted[name] = found
    return wanted


def release_here() -> str:
    return version("jaxlib")


PIECES = st.sampled_from(
    [f"--{LEVEL}=0", f"--{LEVEL}=4", f"--{BUFFER}=FUSION", f"--{BUFFER}=+CUBLAS", "word",
     f"--{SCHEDULER}", "--xla_dump_to=", "'x", "y'", "\\", '"', "'", "=", ",", " ", "\n", "#"]
)  # fmt: skip


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.lists(PIECES, min_size=1, max_size=8).map(lambda p: f"--{LEVEL}=2 {''.join(p)}"),
        min_size=30,
        max_size=30,
    )
)
def test_the_parser_sees_exactly_the_flags_the_model_keeps(texts: list[str]) -> None:
    kept = [" ".join(token.source for token in parse(text).kept) for text in texts]
    whole, clean = judge_many(texts), judge_many(kept)
    for text, first, second in zip(texts, whole, clean, strict=True):
        assert (first.outcome, first.changed) == (second.outcome, second.changed), text


def test_a_file_of_flags_is_read_and_its_comment_drops_the_rest(tmp_path: Path) -> None:
    (tmp_path / "flags").write_text(f"--{LEVEL}=0\n# tuned\n{LHS}\n", "utf-8")
    (tmp_path / "bad").write_text("--xla_bogus=1\n", "utf-8")
    good, bad = judge_many(["flags", "bad"], cwd=tmp_path)
    assert good.changed == {LEVEL: 0}
    assert [token.name for token in good.dropped] == [SCHEDULER]
    assert good.sentence.endswith(f"accepts the flags, but silently drops --{SCHEDULER}")
    assert [(fault.flag, fault.problem) for fault in bad.faults] == [("xla_bogus", "unknown")]


def test_the_environment_of_the_caller_does_not_reach_the_judge(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_bogus=1")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    (tmp_path / "jaxlib.py").write_text("raise SystemExit('not me')\n", "utf-8")
    good, bad = judge_many(["", f"--{LEVEL}=x"], cwd=tmp_path)
    assert good.changed == {}
    assert "Couldn't interpret value" in bad.faults[0].line


@pytest.mark.parametrize("text", ["--xla_dump_to=" + "x" * 140_000, "--xla_dump_to=\0"])
def test_a_text_no_environment_can_hold_is_refused(text: str) -> None:
    with pytest.raises(BackendError, match="fits no environment"):
        judge(text)


def test_strange_characters_do_not_break_the_judge() -> None:
    texts = ["--xla_dump_to=/data/ä\u2603", "--xla_dump_to=\udcff", "--xla_ä=1", "\x1b[31m"]
    verdicts = judge_many(texts)
    assert [verdict.accepted for verdict in verdicts] == [True, True, False, False]
    assert verdicts[0].changed == {"xla_dump_to": "/data/ä\u2603"}


def test_an_interpreter_without_jaxlib_is_named(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S -I "$@"\n', "utf-8")
    bare.chmod(bare.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(BackendError, match="has no jaxlib that can be asked"):
        judge("", str(bare))


@pytest.mark.parametrize("python", ["/nowhere/python", "", "/"])
def test_an_interpreter_that_cannot_be_started_is_named(python: str) -> None:
    with pytest.raises(BackendError, match="cannot start"):
        judge("", python)


@pytest.fixture
def fake(tmp_path: Path) -> str:
    """An interpreter whose jaxlib crashes, hangs, or lies by the text it is given."""
    package = tmp_path / "jaxlib"
    package.mkdir()
    (package / "__init__.py").write_text("", "utf-8")
    (package / "version.py").write_text("__version__ = '9.9'\n", "utf-8")
    (package / "_jax.py").write_text(
        textwrap.dedent(
            """
            import os, sys, time
            class CompileOptions:
                executable_build_options = type("B", (), {"debug_options": None})
                def __init__(self):
                    text = os.environ["XLA_FLAGS"]
                    if "abort" in text: os.abort()
                    if "exit0" in text: os._exit(0)
                    if "exit1" in text: os._exit(1)
                    if "raise" in text: raise RuntimeError("Unknown mistake")
                    if "hang" in text: time.sleep(60)
                    if "refuse" in text:
                        said = "F1130 06:53:14.5 1 p.cc:234] Unknown flag in XLA_FLAGS: x\\n"
                        sys.stderr.write(said)
                        sys.stderr.flush()
                        os._exit(1)
                def SerializeAsString(self): return b"\\xff\\xff"
            """
        ),
        "utf-8",
    )
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={shlex.quote(str(tmp_path))}\n"
        f'exec {shlex.quote(sys.executable)} -S "$@"\n',
        "utf-8",
    )
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return str(python)


def test_a_parser_that_dies_without_a_known_message_has_crashed(fake: str) -> None:
    texts = ["--abort", "--exit0", "--exit1", "--raise", "--hang", "--refuse", "--fine"]
    verdicts = judge_many(texts, fake, seconds=0.5)
    assert [verdict.outcome for verdict in verdicts] == [
        "crashed", "crashed", "crashed", "crashed", "timeout", "refused", "accepted",
    ]  # fmt: skip
    assert [verdict.faults[0].problem for verdict in verdicts[:5]] == ["crash"] * 5
    assert "Unknown mistake" in verdicts[3].sentence
    assert "did not finish" in verdicts[4].sentence


def test_values_that_cannot_be_read_back_are_said_to_be_missing(fake: str) -> None:
    verdict = judge("--fine", fake)
    assert verdict.accepted
    assert verdict.values == {}
    assert "cannot read" in verdict.note


def test_a_session_whose_process_is_gone_says_so() -> None:
    with ParserSession(sys.executable) as session:
        assert session.ask([]) == []
        assert session._process is not None
        session._process.kill()
        session._process.wait()
        with pytest.raises(BackendError, match="died while its jaxlib was asked"):
            session.ask([""])


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reader_of_descriptors(data: bytes) -> None:
    assert data.startswith(carve(data))
    try:
        assert all(number > 0 for number, _, _ in fields(data))
    except WireError as error:
        assert str(error)  # noqa: PT017 - both ends of the property


def test_a_file_without_xla_has_no_schema(tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(b"\0" * 100)
    with pytest.raises(BackendError, match="holds no descriptor"):
        schema(library)
    with pytest.raises(BackendError, match="cannot read"):
        schema(tmp_path / "none.so")
    library.with_name("empty.so").write_bytes(b"")
    with pytest.raises(BackendError, match="cannot read"):
        schema(tmp_path / "empty.so")


def test_the_schema_of_this_jaxlib_knows_the_kinds_of_a_command_buffer() -> None:
    with ParserSession(sys.executable) as session:
        known = schema(session.library)
        answer = session.ask([f"--{LEVEL}=3"])[0]
    options = known.options()
    assert options[BUFFER].shown == "repeated enum:CommandBufferCmdType"
    assert {"FUSION", "CUBLAS", "CUSTOM_CALL"} <= set(known.enum_values(options[BUFFER]))
    assert debug_options(answer.options, known)[LEVEL] == 3
    with pytest.raises(WireError):
        debug_options(b"\x1a\xff", known)


@pytest.mark.parametrize("release", ["0.8.3", "0.11.2", "0.12.0.1"])
def test_each_release_judges_the_recipe_as_its_catalogue_does(release: str) -> None:
    python = components.require(f"jaxlib-{release}")
    verdict = judge(RECIPE, str(python))
    catalogue = xla.load(release)
    refused = [
        token.name for token in parse(RECIPE).kept if catalogue.check(token.name, token.value)
    ]
    assert verdict.jaxlib == release
    assert [fault.flag for fault in verdict.faults] == refused
    assert verdict.accepted == (not refused)
