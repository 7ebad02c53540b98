"""The catalogues of XLA flags and what they say about a value."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.errors import SourceError, UnknownNameError
from moectl.facts import xla
from moectl.facts.xla_flag import shapes
from moectl.resources import fact
from moectl.xla_text import FlagValue, parse

RELEASES = ("0.8.3", "0.10.2", "0.11.2", "0.12.0.1")
SIZES = {"0.8.3": (264, 166), "0.10.2": (309, 199), "0.11.2": (339, 220), "0.12.0.1": (350, 229)}
BUFFER = "xla_gpu_enable_command_buffer"
LHS = "xla_gpu_enable_latency_hiding_scheduler"
BYTES = "xla_gpu_all_gather_combine_threshold_bytes"
# The flags published with NVIDIA's DeepSeek-V3 671B recipe (JAX-Toolbox,
# docs/frameworks/maxtext/deepseek-v3-moe), inner quotes included.
RECIPE: dict[str, FlagValue] = {
    "xla_gpu_all_reduce_combine_threshold_bytes": 33554432,
    "xla_gpu_all_gather_combine_threshold_bytes": 6442450944,
    "xla_gpu_reduce_scatter_combine_threshold_bytes": 201326592,
    "xla_gpu_experimental_enable_nccl_symmetric_buffers": False,
    BUFFER: "'FUSION,CUBLAS,CUDNN,DYNAMIC_SLICE_FUSION'",
    "xla_gpu_experimental_max_unroll_factor": 8,
    "xla_gpu_memory_limit_slop_factor": 99,
}


def test_the_catalogued_releases_come_oldest_first() -> None:
    assert xla.releases() == RELEASES


@pytest.mark.parametrize("release", RELEASES)
def test_a_catalogue_is_whole(release: str) -> None:
    catalogue = xla.load(release)
    gpu = [name for name in catalogue.names() if name.startswith("xla_gpu_")]
    assert (len(catalogue), len(gpu)) == SIZES[release]
    assert catalogue.release == release
    assert "parser" in catalogue.source
    assert list(catalogue.names()) == sorted(catalogue.names())
    for name in catalogue.names():
        flag = catalogue.flag(name)
        assert flag is not None
        assert flag.parser_type in {"bool", "int32", "int64", "float", "string"}
        assert flag.rules.get("shape", "") in {"", *(shape.name for shape in shapes())}
        assert len(flag.enum_values) == 0 or flag.accepts
        assert isinstance(flag.default, (bool, int, float, str, list, dict)) or flag.default is None


@pytest.mark.parametrize("release", RELEASES)
def test_every_default_that_can_be_read_is_accepted(release: str) -> None:
    catalogue = xla.load(release)
    refused = {}
    for name in catalogue.names():
        flag = catalogue.flag(name)
        assert flag is not None
        default = flag.default
        if isinstance(default, (bool, int, float, str, list)) and (clause := flag.fault(
            flag.spell(default)
        )):  # fmt: skip
            refused[name] = clause
    # An empty list is what the read-back shows, but this setter takes no empty text.
    assert refused.keys() == {"xla_gpu_disable_async_collectives"}


def test_a_catalogue_loads_in_a_few_milliseconds() -> None:
    text = fact("xla", "0.12.0.1.tsv").read_text("utf-8")
    best = min(_seconds(text) for _ in range(5))
    assert best < 0.005


def _seconds(text: str) -> float:
    start = time.perf_counter()
    xla.parse_catalogue(text, "x")
    return time.perf_counter() - start


def test_a_release_that_is_not_catalogued_is_refused_with_those_that_are() -> None:
    with pytest.raises(UnknownNameError, match=r"0\.10\.2"):
        xla.load("0.9.9")
    with pytest.raises(UnknownNameError):
        xla.load("../xla/0.10.2")


@pytest.mark.parametrize(
    ("release", "known"),
    [("0.10.2", "0.10.2"), ("0.11.1.dev3", "0.10.2"), ("0.13", "0.12.0.1"), ("0.4.30", "0.8.3"),
     ("0.12.0", "0.11.2"), ("", "0.8.3")],
)  # fmt: skip
def test_a_release_between_two_catalogues_counts_as_the_older(release: str, known: str) -> None:
    assert xla.closest(release) == known


@pytest.mark.parametrize("release", RELEASES[1:])
def test_the_published_recipe_is_accepted_from_0_10_2_on(release: str) -> None:
    catalogue = xla.load(release)
    assert {name: catalogue.check(name, value) for name, value in RECIPE.items()} == dict.fromkeys(
        RECIPE
    )
    assert f"--{BUFFER}=FUSION,CUBLAS,CUDNN,DYNAMIC_SLICE_FUSION " in catalogue.emit(RECIPE)


def test_0_8_3_refuses_the_recipe_for_its_unroll_factor_alone() -> None:
    catalogue = xla.load("0.8.3")
    refused = {name for name, value in RECIPE.items() if catalogue.check(name, value)}
    assert refused == {"xla_gpu_experimental_max_unroll_factor"}
    clause = catalogue.check("xla_gpu_experimental_max_unroll_factor", 8)
    assert clause == "is unknown to jaxlib 0.8.3; 0.10.2, 0.11.2 and 0.12.0.1 do know it"


def test_a_name_nobody_knows_gets_the_nearest_one() -> None:
    clause = xla.load("0.10.2").check("xla_gpu_enable_latency_hiding_schedular", True)
    assert clause is not None
    assert LHS in clause
    assert xla.load("0.10.2").nearest(f"--{LHS}s")[0] == LHS


def test_the_releases_of_a_flag_are_known() -> None:
    assert xla.load("0.8.3").in_releases("xla_gpu_pipeline_all_gather") == ("0.11.2", "0.12.0.1")
    assert xla.in_releases("xla_gpu_graph_level") == ()
    assert not xla.load("0.8.3").has("xla_gpu_pipeline_all_gather")
    assert xla.load("0.8.3").flag("xla_gpu_pipeline_all_gather") is None


@pytest.mark.parametrize("value", [True, False, 1, 0, "true", "False", "TRUE", None])
def test_a_switch_takes_what_its_parser_takes(value: FlagValue | None) -> None:
    assert xla.load("0.10.2").check(LHS, value) is None


@pytest.mark.parametrize("value", ["yes", "on", "off", "", 2, 1.0, "maybe", ["true", "false"]])
def test_a_switch_refuses_what_its_parser_refuses(value: FlagValue) -> None:
    clause = xla.load("0.10.2").check(LHS, value)
    assert clause is not None
    assert clause.startswith("takes true, false, 1 or 0, not ")


@pytest.mark.parametrize("value", [0, -1, 6442450944, "6442450944", "+5", (1 << 63) - 1])
def test_a_number_takes_digits(value: FlagValue) -> None:
    assert xla.load("0.10.2").check(BYTES, value) is None


@pytest.mark.parametrize(
    "value",
    ["1GiB", "1e9", "0x10", 4.5, 8.0, True, "", "1_000", "٣", 1 << 63, "--5", "5 ", "9" * 5000],
)
def test_a_number_refuses_units_and_fractions(value: FlagValue) -> None:
    assert xla.load("0.10.2").check(BYTES, value) is not None


def test_a_short_number_has_a_short_range() -> None:
    clause = xla.load("0.10.2").check("xla_gpu_graph_min_graph_size", 1 << 31)
    assert clause is not None
    assert "2147483647" in clause


def test_a_setter_that_checks_its_number_is_known() -> None:
    catalogue = xla.load("0.10.2")
    assert catalogue.check("xla_gpu_experimental_max_unroll_factor", 1) is None
    clause = catalogue.check("xla_gpu_experimental_max_unroll_factor", 0)
    assert clause is not None
    assert "from 1 to" in clause


def test_a_flag_that_needs_a_value_is_refused_without() -> None:
    assert xla.load("0.10.2").check(BYTES, None) == "needs a value: --" + BYTES + "=..."


@pytest.mark.parametrize("release", ["0.8.3", "0.10.2", "0.11.2"])
def test_a_kind_of_a_newer_release_is_refused_with_the_legal_ones(release: str) -> None:
    clause = xla.load(release).check(BUFFER, ["FUSION", "COLLECTIVES_KERNEL"])
    assert clause is not None
    assert clause.startswith(f"has no COLLECTIVES_KERNEL in jaxlib {release}; legal kinds are ")
    assert xla.load("0.12.0.1").check(BUFFER, ["FUSION", "COLLECTIVES_KERNEL"]) is None


def test_a_kind_that_went_away_is_refused() -> None:
    assert xla.load("0.8.3").check(BUFFER, "DYNAMIC_SLICE_COPY_FUSION") is None
    assert xla.load("0.10.2").check(BUFFER, "DYNAMIC_SLICE_COPY_FUSION") is not None


def test_kinds_are_edited_all_or_none() -> None:
    catalogue = xla.load("0.12.0.1")
    assert catalogue.check(BUFFER, "+COLLECTIVES,-CUDNN") is None
    clause = catalogue.check(BUFFER, "+COLLECTIVES,CUDNN")
    assert clause is not None
    assert "every kind or of none" in clause
    assert catalogue.check("xla_gpu_disable_async_collectives", "+ALLREDUCE") is not None


@pytest.mark.parametrize("value", ["fusion, cublas", ["fusion", "Cublas"], "'FUSION,cublas'"])
def test_kinds_are_written_in_upper_case_without_blanks(value: FlagValue) -> None:
    assert xla.load("0.10.2").spell(BUFFER, value) == "FUSION,CUBLAS"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        (LHS, "1", "true"),
        (BYTES, "+0005", "5"),
        ("xla_gpu_all_gather_mode", "SYMMETRIC", "symmetric"),
        ("xla_gpu_pipeline_all_gather", "Off", "off"),
        ("xla_gpu_experimental_use_collective_kernels", "all_gather",
         "COLLECTIVE_KERNEL_ALL_GATHER"),
        (BUFFER, [], ""),
        (BUFFER, "+collectives", "+COLLECTIVES"),
        ("xla_disable_hlo_passes", ["rematerialization", "dce"], "rematerialization,dce"),
        ("xla_dump_to", "/data/Dump", "/data/Dump"),
        ("xla_never_heard_of", "Some", "Some"),
        (LHS, "maybe", "maybe"),
    ],
)  # fmt: skip
def test_a_value_has_one_canonical_text(name: str, value: FlagValue, text: str) -> None:
    assert xla.load("0.12.0.1").spell(name, value) == text


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("xla_gpu_command_buffer_scheduling_mode", "LHS", "lhs"),
        ("xla_gpu_enable_while_loop_unrolling", "while_loop_unrolling_double_buffer",
         "DOUBLE_BUFFER"),
        ("xla_gpu_pgle_accuracy_checker", "PGLE_STRICTNESS_LEVEL_ERROR", "ERROR"),
        ("xla_gpu_ragged_all_to_all_mode", "peer", "COLLECTIVES_PEER_MEMORY"),
        ("xla_gpu_pipeline_all_reduce", "explicit", "COLLECTIVE_PIPELINING_MODE_EXPLICIT"),
        ("xla_gpu_detect_nan", "warning", "WARNING"),
        ("xla_gpu_execution_terminate_timeout", "1h30m", "90"),
        ("xla_enable_nccl_symmetric_buffers_for_collectives", "RaggedAllToAll,all-reduce:1024:bf16",
         "RaggedAllToAll:1KiB"),
        ("xla_disable_hlo_passes", "rematerialization", "remat:all"),
        ("xla_gpu_autotune_gemm_rtol", 0.5, "half"),
        ("xla_dump_to", "/data/dump", "/data/my dump"),
    ],
)  # fmt: skip
def test_a_text_is_judged_by_the_rules_of_its_flag(name: str, good: FlagValue, bad: str) -> None:
    catalogue = xla.load("0.12.0.1")
    assert catalogue.check(name, good) is None
    assert catalogue.check(name, bad) is not None


def test_a_switch_of_the_cuda_build_is_not_refused_for_the_cpu_build() -> None:
    flag = xla.load("0.10.2").flag("xla_gpu_enable_libnvptxcompiler")
    assert flag is not None
    assert flag.depends_on_build
    assert xla.load("0.10.2").check(flag.name, True) is None


def test_a_deprecated_switch_shows_the_flag_it_writes() -> None:
    flag = xla.load("0.11.2").flag("xla_gpu_enable_pipelined_all_gather")
    assert flag is not None
    assert (flag.writes, flag.default) == ("xla_gpu_pipeline_all_gather", False)
    older = xla.load("0.10.2").flag("xla_gpu_enable_pipelined_all_gather")
    assert older is not None
    assert older.writes == older.name


def test_a_flag_that_is_left_unset_says_so() -> None:
    states = {}
    for release in RELEASES:
        flag = xla.load(release).flag(LHS)
        assert flag is not None
        states[release] = (flag.default, flag.unset)
    assert states["0.10.2"] == (False, False)
    assert states["0.11.2"] == states["0.12.0.1"] == (False, True)


def test_repeated_flags_are_merged_as_the_parser_does() -> None:
    merged = xla.load("0.12.0.1").merge(
        [
            (LHS, None),
            (LHS, "false"),
            ("xla_disable_hlo_passes", "a"),
            ("xla_disable_hlo_passes", "b,c"),
            (BUFFER, "FUSION,CUBLAS"),
            (BUFFER, "+collectives"),
            (BUFFER, "-CUBLAS"),
            ("xla_gpu_unsupported_use_cross_host_one_shot_kernel", "+ALLREDUCE"),
            ("xla_unknown", "1"),
        ]
    )
    assert merged == {
        LHS: "false",
        "xla_disable_hlo_passes": "a,b,c",
        BUFFER: "FUSION,COLLECTIVES",
        "xla_gpu_unsupported_use_cross_host_one_shot_kernel": "ALLCOLLECTIVES,ALLREDUCE",
        "xla_unknown": "1",
    }


@given(st.data())
def test_what_is_checked_good_is_written_without_a_loss(data: st.DataObject) -> None:
    catalogue = xla.load("0.12.0.1")
    name = data.draw(st.sampled_from(catalogue.names()))
    value = data.draw(st.one_of(st.booleans(), st.integers(), st.text(max_size=12)))
    if catalogue.check(name, value) is None:
        read = parse(catalogue.emit({name: value}))
        assert list(read.values) == [name]
        assert catalogue.check(name, read.values[name]) is None
        assert catalogue.spell(name, read.values[name]) == read.values[name]


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_text_breaks_a_check(name: str, value: str) -> None:
    for known in (name, BUFFER, BYTES, "xla_gpu_execution_terminate_timeout", "xla_fuel"):
        clause = xla.load("0.10.2").check(known, value)
        assert clause is None or (clause and "\n" not in clause)


def test_the_shapes_take_and_refuse_their_own_samples() -> None:
    for shape in shapes():
        assert all(re.fullmatch(shape.pattern, text, re.ASCII) for text in shape.good), shape.name
        assert not any(re.fullmatch(shape.pattern, text, re.ASCII) for text in shape.bad)
        assert shape.legal
        assert shape.source


def test_a_catalogue_of_ones_own_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    path.write_text(
        "# jaxlib 0.99: own\n"
        + "\t".join(xla.COLUMNS)
        + "\nxla_a\tbool\ttrue\tbool optional\t\t\t\n",
        "utf-8",
    )
    catalogue = xla.read(path)
    assert (catalogue.release, catalogue.source, catalogue.names()) == ("0.99", "own", ("xla_a",))
    assert "xla_a" in catalogue
    assert catalogue.check("xla_a", "on") is not None


@pytest.mark.parametrize(
    "text",
    ["", "name\tparser_type\n", "# jaxlib 1: x\nwrong\n", "# jaxlib 1: x\n{}\nxla_a\tbool\n"],
)
def test_a_file_that_is_no_catalogue_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "own.tsv"
    path.write_text(text.replace("{}", "\t".join(xla.COLUMNS)), "utf-8")
    with pytest.raises(SourceError, match=r"own\.tsv"):
        xla.read(path)
    with pytest.raises(SourceError, match="cannot be read"):
        xla.read(tmp_path / "nothing.tsv")
