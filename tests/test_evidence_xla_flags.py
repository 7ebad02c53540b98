"""The table of XLA flags, read again out of a real jaxlib."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import pytest

from moectl.errors import BackendError, LocalFilesError
from moectl.evidence.xla_flags import candidates, extract, write_catalogue
from moectl.evidence.xla_probe import Probe
from moectl.evidence.xla_proto import schema
from moectl.evidence.xla_session import ParserSession
from moectl.facts import xla
from moectl.facts.xla_flag import XlaFlag, shapes
from tests.support import components

# One flag of each way in which a parser treats a text; all of them in every release catalogued.
SAMPLE = (
    "xla_gpu_enable_latency_hiding_scheduler",
    "xla_gpu_enable_libnvptxcompiler",
    "xla_gpu_enable_libnvjitlink",
    "xla_cpu_use_thunk_runtime",
    "xla_gpu_all_gather_combine_threshold_bytes",
    "xla_gpu_graph_min_graph_size",
    "xla_gpu_executable_warn_stuck_timeout",
    "xla_gpu_autotune_gemm_rtol",
    "xla_gpu_enable_command_buffer",
    "xla_gpu_disable_async_collectives",
    "xla_gpu_command_buffer_scheduling_mode",
    "xla_gpu_detect_nan",
    "xla_cpu_experimental_onednn_fusion_type",
    "xla_disable_hlo_passes",
    "xla_backend_extra_options",
    "xla_dump_to",
    "xla_fuel",
)
HERE = version("jaxlib")
catalogued = pytest.mark.skipif(
    HERE not in xla.releases(), reason=f"needs a catalogue of jaxlib {HERE}, the one installed"
)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> xla.XlaCatalogue:
    path = tmp_path_factory.mktemp("catalogue") / "sample.tsv"
    assert write_catalogue(sys.executable, path, [*SAMPLE, "xla_no_such_flag"]) == len(SAMPLE)
    assert [entry.name for entry in path.parent.iterdir()] == ["sample.tsv"]
    return xla.read(path)


def test_the_parser_itself_decides_what_is_a_flag(sample: xla.XlaCatalogue) -> None:
    assert sample.names() == tuple(sorted(SAMPLE))
    assert sample.release == HERE


def one(catalogue: xla.XlaCatalogue, name: str) -> XlaFlag:
    flag = catalogue.flag(name)
    assert flag is not None
    return flag


def test_types_come_from_the_descriptor_and_from_trying(sample: xla.XlaCatalogue) -> None:
    types = {name: one(sample, name).parser_type for name in SAMPLE}
    assert types["xla_gpu_enable_latency_hiding_scheduler"] == "bool"
    assert types["xla_gpu_all_gather_combine_threshold_bytes"] == "int64"
    assert types["xla_gpu_graph_min_graph_size"] == "int32"
    assert types["xla_gpu_autotune_gemm_rtol"] == "float"
    assert types["xla_dump_to"] == types["xla_gpu_enable_command_buffer"] == "string"
    # These have no field of their name in DebugOptions.
    assert types["xla_cpu_use_thunk_runtime"] == "bool"
    assert types["xla_gpu_executable_warn_stuck_timeout"] == "int32"
    assert types["xla_fuel"] == "string"


def test_spellings_and_lists_come_from_trying(sample: xla.XlaCatalogue) -> None:
    buffer = one(sample, "xla_gpu_enable_command_buffer")
    assert buffer.any_case
    assert buffer.edits
    assert buffer.list_of == "kinds"
    assert not buffer.accumulates
    assert {"FUSION", "CUBLAS", "COLLECTIVES"} <= set(buffer.accepts)
    assert isinstance(buffer.default, list)
    assert "FUSION" in buffer.default
    collectives = one(sample, "xla_gpu_disable_async_collectives")
    assert (collectives.edits, collectives.takes_empty) == (False, False)
    assert "ALLCOLLECTIVES" in collectives.accepts
    assert not one(sample, "xla_gpu_command_buffer_scheduling_mode").any_case
    assert one(sample, "xla_gpu_detect_nan").accepts == ("none", "warning", "fail")
    assert one(sample, "xla_cpu_experimental_onednn_fusion_type").kind("dot") == (
        "LIBRARY_FUSION_TYPE_DOT"
    )
    passes = one(sample, "xla_disable_hlo_passes")
    assert (passes.list_of, passes.accumulates) == ("text", True)
    assert one(sample, "xla_backend_extra_options").list_of == "map"


def test_flags_that_write_elsewhere_or_need_another_build_are_marked(
    sample: xla.XlaCatalogue,
) -> None:
    assert one(sample, "xla_gpu_enable_libnvptxcompiler").depends_on_build
    assert one(sample, "xla_gpu_enable_libnvjitlink").writes == "xla_gpu_libnvjitlink_mode"
    timeout = one(sample, "xla_gpu_executable_warn_stuck_timeout")
    assert timeout.writes == "xla_gpu_executable_warn_stuck_timeout_seconds"
    assert isinstance(timeout.default, int)
    assert one(sample, "xla_fuel").rules == {"shape": "fuel"}
    assert one(sample, "xla_dump_to").rules == {"unset": "yes"}


@catalogued
def test_the_sample_is_what_the_shipped_catalogue_says(sample: xla.XlaCatalogue) -> None:
    shipped = xla.load(HERE)
    assert {name: sample.flag(name) for name in SAMPLE} == {
        name: shipped.flag(name) for name in SAMPLE
    }


@catalogued
def test_the_library_holds_every_catalogued_flag_and_the_parser_knows_no_other() -> None:
    shipped = xla.load(HERE)
    with ParserSession(sys.executable) as session:
        found = candidates(session.library)
        probe = Probe(session)
        assert set(shipped.names()) <= found | set(probe.options)
        assert tuple(probe.known(sorted(found | set(probe.options)))) == shipped.names()


@catalogued
def test_the_shipped_types_are_those_of_the_descriptor() -> None:
    shipped = xla.load(HERE)
    with ParserSession(sys.executable) as session:
        known = schema(session.library)
    options = known.options()
    for name in shipped.names():
        flag, option = one(shipped, name), options.get(name)
        assert flag.proto_type == (option.shown if option else ""), name
        assert flag.enum_values == (known.enum_values(option) if option else ()), name


@catalogued
def test_the_shipped_catalogue_and_the_parser_judge_alike() -> None:
    """For every flag: its default, a text it cannot take, every kind any release ever had."""
    shipped = xla.load(HERE)
    assert _disagreements(sys.executable, shipped, shipped.names()) == []


@pytest.mark.parametrize("release", [name for name in xla.releases() if name != HERE])
def test_where_another_release_differs_its_catalogue_and_parser_judge_alike(release: str) -> None:
    python = components.require(f"jaxlib-{release}")
    other, here = xla.load(release), xla.load(xla.closest(HERE))
    differs = [name for name in other.names() if other.flag(name) != here.flag(name)]
    assert len(differs) > 20
    assert _disagreements(str(python), other, differs) == []


def _disagreements(
    python: str, shipped: xla.XlaCatalogue, names: Iterable[str]
) -> list[tuple[str, bool]]:
    cases = [(text, clause is None) for text, clause in _cases(shipped, names)]
    with ParserSession(python) as session:
        assert session.jaxlib == shipped.release
        answers = session.ask([text for text, _ in cases])
    return [
        (text, answer.accepted)
        for (text, good), answer in zip(cases, answers, strict=True)
        if answer.accepted != good
    ]


def _cases(shipped: xla.XlaCatalogue, names: Iterable[str]) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for name in names:
        flag = one(shipped, name)
        texts = ["moectl_probe"]
        if flag.parser_type in {"int32", "int64"}:
            texts.append(str(1 << 31))
        others = (xla.load(release).flag(name) for release in xla.releases())
        texts += sorted({text for other in others if other for text in other.accepts})
        default = flag.default
        if isinstance(default, (bool, int, float, str, list)):
            texts.append(flag.spell(default))
        if flag.list_of == "kinds":
            texts.append(f"+{flag.accepts[0]},{flag.accepts[-1]}")
        found += [(f"--{name}={text}", shipped.check(name, text)) for text in texts]
    return found


def test_a_table_is_whole_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="cannot start"):
        write_catalogue(str(tmp_path / "python"), tmp_path / "out.tsv")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "folder").mkdir()
    with pytest.raises(LocalFilesError, match="cannot write"):
        write_catalogue(sys.executable, tmp_path / "folder", ["xla_dump_to"])
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]
    with pytest.raises(LocalFilesError, match="cannot write"):
        write_catalogue(sys.executable, tmp_path / "none" / "out.tsv", ["xla_dump_to"])


def test_nothing_asked_is_nothing_found() -> None:
    assert extract(sys.executable, [])[1] == []


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"none\.so"):
        candidates(tmp_path / "none.so")


def test_names_between_two_nuls_are_candidates(tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(b"\0xla_a_b\0xla_c_d\0no\0xla_E\0 xla_f_g\0xla_h_i")
    assert candidates(library) == {"xla_a_b", "xla_c_d"}


def test_the_samples_of_every_shape_tell_the_shapes_apart() -> None:
    for shape in shapes():
        others = [other for other in shapes() if other.name != shape.name]
        assert all(set(shape.good) - set(other.good) for other in others), shape.name
