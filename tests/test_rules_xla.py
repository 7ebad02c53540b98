"""Rules about XLA_FLAGS: each fires at the right place, and stays silent on what is right."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.facts import images, xla
from moectl.findings import Finding
from moectl.rules import environment, xla_flags, xla_pairs, xla_text
from moectl.rules.rule import Rule
from moectl.rules.xla_conditions import View, holds
from moectl.rules.xla_reading import effective_flags, judges, read_flags
from moectl.values import Hardware, Image, Origin, Value
from moectl.workload import MARK, UNKNOWN, Layout, Piece, Step, Text, Workload

LHS = "--xla_gpu_enable_latency_hiding_scheduler=true"
BUFFER = "xla_gpu_enable_command_buffer"
LEVEL = "xla_gpu_autotune_level"
BYTES = "xla_gpu_all_gather_combine_threshold_bytes"
RECIPE = (
    "--xla_gpu_all_reduce_combine_threshold_bytes=33554432"
    " --xla_gpu_all_gather_combine_threshold_bytes=6442450944"
    " --xla_gpu_reduce_scatter_combine_threshold_bytes=201326592"
    " --xla_gpu_experimental_enable_nccl_symmetric_buffers=false"
    " --xla_gpu_enable_command_buffer='FUSION,CUBLAS,CUDNN,DYNAMIC_SLICE_FUSION'"
    " --xla_gpu_experimental_max_unroll_factor=8"
    " --xla_gpu_memory_limit_slop_factor=99"
)
# NVIDIA/JAX-Toolbox .github/container/test-maxtext.sh, the set its tests run with.
TOOLBOX = (
    f"{LHS}\n    --xla_gpu_enable_command_buffer=\n"
    "    --xla_gpu_all_reduce_combine_threshold_bytes=134217728\n"
    "    --xla_gpu_all_gather_combine_threshold_bytes=1073741824\n"
    "    --xla_gpu_reduce_scatter_combine_threshold_bytes=33554432\n"
    "    --xla_gpu_enable_pipelined_all_gather=true\n"
    "    --xla_gpu_enable_pipelined_reduce_scatter=true\n"
    "    --xla_gpu_enable_while_loop_double_buffering=true\n"
    "    --xla_disable_hlo_passes=rematerialization"
)
PLACE = Origin("script", "train.sh", 7, 20)


def workload(
    flags: str | None = None,
    variables: Mapping[str, str] | None = None,
    *,
    kind: str = "script",
    keys: Mapping[str, Any] | None = None,
    **rest: Any,
) -> Workload:
    """Return what a script starts."""
    return Workload(
        kind=kind,
        origin=PLACE,
        maxtext="0.2.5",
        jaxlib=rest.pop("jaxlib", "0.12.0.1"),
        flags=None if flags is None else Text.of(flags, PLACE),
        environment={name: Text.of(text, PLACE) for name, text in (variables or {}).items()},
        is_maxtext=keys is not None,
        effective=keys or {},
        **rest,
    )


def rules() -> list[Rule]:
    return [r for m in (xla_text, xla_flags, xla_pairs, environment) for r in m.RULES.all]


def found(w: Workload) -> list[Finding]:
    return [finding for rule in rules() for finding in rule.findings(w)]


def codes(w: Workload, worst: str = "note") -> set[str]:
    levels = ("note", "warning", "error")[("note", "warning", "error").index(worst) :]
    return {finding.code for finding in found(w) if finding.severity in levels}


def one(w: Workload, code: str) -> Finding:
    (finding,) = [finding for finding in found(w) if finding.code == code]
    return finding


def hardware(architecture: str, domain: int = 8, node: int = 8) -> Hardware:
    return Hardware("x", "x", architecture, "10.0", node, domain, domain, None, None, "x")


def test_every_code_is_said_once_and_every_rule_has_its_words() -> None:
    all_codes = [rule.code for rule in rules()]
    assert len(all_codes) == len(set(all_codes)) > 80
    for rule in rules():
        assert rule.title
        assert rule.source
        for text in (rule.reason, rule.remedy):
            assert len(text) > 8, rule.code


@pytest.mark.parametrize("text", [RECIPE, TOOLBOX, "", LHS, f"{MARK} {LHS}", f"{LHS} {MARK}", MARK])
@pytest.mark.parametrize("variables", [{}, {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.88"}])
def test_what_people_run_stays_clean(text: str, variables: Mapping[str, str]) -> None:
    assert codes(workload(text, variables), "warning") == set()


@pytest.mark.parametrize(
    ("text", "code", "severity", "column"),
    [
        (f"{LHS} intra_op_parallelism_threads=1", "XLA101", "warning", 67),
        (f"--{LEVEL}=0 word {LHS}", "XLA101", "error", 47),
        (f"--{BUFFER}=FUSION CUBLAS CUDNN", "XLA102", "warning", 59),
        (f"--{BUFFER}=FUSION, CUBLAS {LHS}", "XLA102", "error", 60),
        (f"xla_gpu_autotune_level=0 {LHS}", "XLA103", "error", 20),
        ("  nothing", "XLA103", "error", 22),
        (" ", "XLA103", "error", 20),
        (f"{LHS} # off for now\n--{LEVEL}=0", "XLA104", "error", 67),
        (f"--{LEVEL}='0 {LHS}", "XLA105", "error", 45),
        (f"--{LEVEL}=0:{MARK}:--xla_gpu_enable_triton_gemm=false", "XLA106", "error", 20),
        (f"--{LEVEL}=0,{LHS}", "XLA106", "error", 20),
        (f"'{LHS}'", "XLA107", "error", 20),
        (f"{LHS} '--{LEVEL}=0'", "XLA107", "error", 67),
        (f"-{LEVEL}=0", "XLA108", "error", 20),
        (f"\u2014{LEVEL}=0", "XLA108", "error", 20),
        (f"{LHS} \u2013-{LEVEL}=0", "XLA108", "warning", 67),
        (f"{LHS} -- --{LEVEL}=0", "XLA109", "error", 67),
        (f"{LHS} \\\n --{LEVEL}=0", "XLA110", "error", 67),
        (f"--{LEVEL}=0 --{LEVEL}=4", "XLA111", "warning", 20),
        (f"--{BUFFER}=FUSION --{BUFFER}=+CUBLAS", "XLA112", "note", 59),
        (f"--xla_dump_to='/data/x {LHS}", "XLA113", "error", 34),
        ("--xla_dump_to='/data/x", "XLA114", "warning", 34),
        (f"--xla_gpu_enable_latency_hiding_schedular=true {LHS}", "XLA201", "error", 20),
        (f"{LHS} --xla_gpu_enable_async_all_gather=true", "XLA202", "error", 67),
        ("--xla_tpu_enable_data_parallel_all_reduce_opt=true", "XLA202", "error", 20),
        ("--xla_gpu_enable_triton_gemm=off", "XLA203", "error", 20),
        (f"--{LEVEL}", "XLA204", "error", 20),
        (f"--{BYTES}=1GiB", "XLA205", "error", 20),
        (f"--{BUFFER}=FUSION,DYNAMIC_SLICE_COPY_FUSION", "XLA206", "error", 20),
        (f"--{BUFFER}=FUSION,+CUBLAS", "XLA207", "error", 20),
        ("--xla_gpu_memory_limit_slop_factor=150", "XLA208", "warning", 20),
        ("--xla_disable_hlo_passes=rematerialisation", "XLA209", "warning", 20),
        ("--xla_gpu_enable_pipelined_all_gather=false", "XLA210", "note", 20),
        (f"--{BUFFER}=FUSION,CUBLAS,CUDNN,COLLECTIVES", "XLA303", "warning", 20),
        ("--xla_gpu_triton_gemm_any=True", "XLA352", "warning", 20),
    ],
)
def test_a_fault_of_the_text_is_found_where_it_stands(
    text: str, code: str, severity: str, column: int
) -> None:
    finding = one(workload(text), code)
    assert (finding.severity, finding.file, finding.line) == (severity, "train.sh", 7)
    assert finding.column == column
    assert finding.hint
    assert MARK not in finding.message + finding.hint


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("--xla_gpu_enable_triton_gemm-false", "--xla_gpu_enable_triton_gemm=false"),
        (f"--{LEVEL}:0", f"--{LEVEL}=0"),
        (f"--{LEVEL}==0", f"--{LEVEL}=0"),
        ("--xla-gpu-autotune-level=0", f"--{LEVEL}=0"),
        ("--xla_gpu_enable_triton_gemm=off", "--xla_gpu_enable_triton_gemm=false"),
        ("--xla_gpu_command_buffer_scheduling_mode=lhs",
         "--xla_gpu_command_buffer_scheduling_mode=LHS"),
        (f"-{LEVEL}=0", f"--{LEVEL}=0"),
        (f"---{LEVEL}=0", f"--{LEVEL}=0"),
    ],
)  # fmt: skip
def test_what_was_certainly_meant_is_a_fix(text: str, fix: str) -> None:
    w = workload(f"{LHS} {text}")
    (finding,) = [finding for finding in found(w) if finding.severity == "error"]
    assert finding.fix == (text, fix)
    assert codes(workload(f"{LHS} {fix}"), "warning") == set()


@pytest.mark.parametrize(
    "text", [f"--{BYTES}=8GB", "--xla_gpu_enable_triton_gemm=maybe", "--xla_gpu_bogus=1"]
)
def test_what_may_have_been_meant_is_no_fix(text: str) -> None:
    (finding,) = [f for f in found(workload(text)) if f.severity == "error"]
    assert finding.fix is None


def test_all_unknown_flags_are_named_in_one_pass_with_what_to_do() -> None:
    text = (
        f"{LHS} --xla_gpu_enable_async_all_gather=true --xla_gpu_enable_async_reduce_scatter=true"
        " --xla_gpu_graph_level=0 --xla_gpu_bogus=1"
    )
    errors = [finding for finding in found(workload(text)) if finding.severity == "error"]
    assert {finding.code for finding in errors} == {"XLA201", "XLA202"}
    assert len(errors) == 4
    hints = {finding.field: finding.hint for finding in errors}
    assert "default" in hints["xla_gpu_enable_async_all_gather"]
    assert BUFFER in hints["xla_gpu_graph_level"]


def test_a_dropped_flag_is_named() -> None:
    finding = one(workload(f"{LHS} true --{LEVEL}=0 --xla_dump_to=/x"), "XLA101")
    assert f"--{LEVEL}, --xla_dump_to" in finding.message
    assert finding.message.endswith("2 flags after it never count: --" + LEVEL + ", --xla_dump_to")


def test_the_same_quoted_text_twice_is_no_fault() -> None:
    text = "--xla_dump_to='/data/a b'"
    assert codes(workload(f"{text} {text}")) == set()
    assert "XLA111" in codes(workload(f"{text} --xla_dump_to='/data/b c'"))


def test_a_value_after_a_blank_is_to_be_joined() -> None:
    assert f"--{LEVEL}=0" in one(workload(f"--{LEVEL} 0 {LHS}"), "XLA101").hint


def test_a_list_cut_by_blanks_is_written_whole() -> None:
    hint = one(workload(f"--{BUFFER}=FUSION CUBLAS, CUDNN {LHS}"), "XLA102").hint
    assert hint == f"write --{BUFFER}=FUSION,CUBLAS,CUDNN"


def test_a_unit_is_written_out() -> None:
    assert one(workload(f"--{BYTES}=1GiB"), "XLA205").hint == f"write --{BYTES}=1073741824"
    assert one(workload(f"--{BYTES}=0x10"), "XLA205").hint == f"write --{BYTES}=16"


@pytest.mark.parametrize(
    "text",
    [
        f"--{LEVEL}={MARK}",
        f"{MARK}--xla_bogus=1",
        f"{LHS} {MARK} --{LEVEL}=0",
        f"{MARK}",
        f"{LHS} {MARK}{MARK}",
        f"--{MARK}=0",
        f"{MARK}/flags.txt",
        f"--xla_dump_to={MARK}/x",
    ],
)
def test_what_only_the_running_file_knows_is_not_judged(text: str) -> None:
    assert codes(workload(text), "note") <= {"XLA346"}


def test_a_name_is_judged_although_its_value_is_not_known() -> None:
    assert one(workload(f"--xla_gpu_enable_async_all_gather={MARK}"), "XLA202").column == 20


def test_a_flag_in_another_piece_has_its_own_place() -> None:
    first = Piece(f"{LHS} ", Origin("script", "train.sh", 3, 12))
    second = Piece("--xla_gpu_bogus=1", Origin("script", "train.sh", 9, 5))
    w = Workload(
        kind="script", origin=PLACE, maxtext="0.2.5", jaxlib="0.12.0.1", flags=Text((first, second))
    )
    finding = one(w, "XLA201")
    assert (finding.line, finding.column) == (9, 5)


def image(date: str, **rest: Any) -> Image:
    return images.image(f"ghcr.io/nvidia/jax:maxtext-{date}", **rest)


def with_image(text: str | None, the_image: Image, **rest: Any) -> Workload:
    return workload(
        text,
        jaxlib=the_image.jaxlib,
        image=the_image,
        image_said=PLACE,
        container=True,
        **rest,
    )


def test_between_two_releases_only_what_both_refuse_is_an_error() -> None:
    between = image("2026-09-10")
    assert images.neighbours("jaxlib", "2026-09-10") == ("0.10.2", "0.11.2")
    newer = one(with_image("--xla_gpu_pipeline_all_gather=on", between), "XLA211")
    assert newer.severity == "warning"
    assert "0.10.2 and 0.11.2" in newer.message
    assert one(with_image("--xla_gpu_enable_async_all_gather=1", between), "XLA202").severity == (
        "error"
    )
    assert codes(with_image(RECIPE, between), "warning") == set()


def test_a_probed_image_is_judged_by_its_own_catalogue_alone() -> None:
    probed = image("2026-09-10", maxtext="0.2.5", jaxlib="0.10.2")
    assert one(with_image("--xla_gpu_pipeline_all_gather=on", probed), "XLA211").severity == "error"
    assert len(judges(with_image("", probed)).catalogues) == 1


def test_a_named_release_outside_the_dates_of_the_image_counts_alone() -> None:
    w = workload("", jaxlib="0.8.3", image=image("2026-09-10"))
    assert [c.release for c in judges(w).catalogues] == ["0.8.3"]


def test_a_release_between_two_catalogues_may_be_either() -> None:
    assert [c.release for c in judges(workload("", jaxlib="0.11.0")).catalogues] == [
        "0.10.2",
        "0.11.2",
    ]
    assert [c.release for c in judges(workload("", jaxlib="0.99")).catalogues] == ["0.12.0.1"]


def test_what_counts_is_the_images_own_flags_unless_the_text_replaces_them() -> None:
    baked = image("2026-10-10")
    name = "xla_gpu_enable_latency_hiding_scheduler"
    assert effective_flags(with_image(None, baked)).text(name) == "true"
    assert effective_flags(with_image(f"--{LEVEL}=0", baked)).text(name) == "false"
    assert effective_flags(with_image(f"{MARK} --{LEVEL}=0", baked)).text(name) is UNKNOWN
    assert effective_flags(with_image(f"{MARK} --{name}=false", baked)).text(name) == "false"
    assert effective_flags(with_image("", baked)).text(LEVEL) is not None


def test_flags_after_a_stray_word_do_not_count() -> None:
    flags = effective_flags(workload(f"--{LEVEL}=0 word {LHS}"))
    assert dict(flags.values) == {LEVEL: "0"}


def test_a_file_of_flags_leaves_all_of_them_open() -> None:
    assert codes(workload("/data/flags.txt")) == {"XLA103"}
    assert effective_flags(workload("/data/flags.txt")).text(LEVEL) is UNKNOWN


PAIRS: list[tuple[str, str | None, dict[str, str], dict[str, Any]]] = [
    ("XLA301", None, {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}, {"hardware": hardware("blackwell")}),
    ("XLA302", LHS, {}, {"hardware": hardware("hopper")}),
    ("XLA305", LHS, {}, {"hardware": hardware("blackwell-ultra")}),
    ("XLA304", f"--{BUFFER}=FUSION,CUSTOM_CALL", {}, {"keys": {"te_comm_gemm_overlap": "mlp"}}),
    ("XLA306", f"--{BUFFER}=FUSION", {"JAX_ENABLE_PGLE": "true"}, {}),
    ("XLA307", None, {"JAX_ENABLE_PGLE": "1"}, {
        "step": Step("srun", (), (Text.of("nsys", PLACE), Text.of("profile", PLACE)), PLACE)}),
    ("XLA307", None, {"JAX_ENABLE_PGLE": "1"}, {
        "keys": {"profiler": "nsys"}}),
    ("XLA308", None, {"JAX_ENABLE_PGLE": "on"}, {
        "layout": Layout(processes_per_node=Value(4, PLACE))}),
    ("XLA309", None, {"JAX_ENABLE_PGLE": "y"}, {"keys": {"compiled_trainstep_file": "a.pickle"}}),
    ("XLA310", "--xla_gpu_pgle_profile_file_or_directory_path=/p", {}, {}),
    ("XLA312", "--xla_gpu_enable_pipelined_all_gather=true", {}, {}),
    ("XLA313", f"--{BYTES}=8589934592", {}, {}),
    ("XLA314", f"--{BYTES}=8589934592 --xla_gpu_memory_limit_slop_factor=99",
     {"XLA_CLIENT_MEM_FRACTION": "0.94"}, {}),
    ("XLA315", f"--xla_gpu_experimental_enable_heuristic_collective_combining=1 --{BYTES}=1", {},
     {}),
    ("XLA316", "--xla_gpu_experimental_enable_nccl_symmetric_buffers=true",
     {"XLA_CLIENT_MEM_FRACTION": "0.92"}, {}),
    ("XLA317", "--xla_gpu_experimental_enable_nccl_symmetric_buffers=true",
     {"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"}, {}),
    ("XLA318", "--xla_gpu_experimental_enable_nccl_symmetric_buffers=true",
     {"NCCL_CUMEM_ENABLE": "0"}, {}),
    ("XLA320", "--xla_gpu_enable_nccl_user_buffers=true", {"NCCL_NVLS_ENABLE": "0"}, {}),
    ("XLA321", "--xla_gpu_enable_nccl_user_buffers=true",
     {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.95", "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB": "9"},
     {}),
    ("XLA321", "--xla_gpu_enable_nccl_user_buffers=true", {}, {}),
    ("XLA323", None, {"XLA_CLIENT_MEM_FRACTION": "0.94"}, {
        "keys": {"expert_parallel_size": 64, "sparse_matmul": True}}),
    ("XLA324", "--xla_gpu_memory_limit_slop_factor=98", {"XLA_CLIENT_MEM_FRACTION": ".93"}, {}),
    ("XLA325", "--xla_disable_hlo_passes=a,rematerialization", {}, {}),
    ("XLA326", LHS, {}, {"keys": {"scan_layers": False}}),
    ("XLA332", "--xla_gpu_experimental_parallel_collective_overlap_limit=4", {},
     {"jaxlib": "0.8.3"}),
    ("XLA333", "--xla_gpu_shard_autotuning=false", {}, {"layout": Layout(nodes=Value(4, PLACE))}),
    ("XLA334", "--xla_gpu_shard_autotuning=true", {}, {"step": Step(
        "python3", (), (Text.of("-m", PLACE),
                        Text.of("maxtext.trainers.pre_train.train_compile", PLACE)), PLACE)}),
    ("XLA337", "", {}, {}),
    ("XLA338", "--xla_gpu_experimental_ragged_all_to_all_use_device_kernel=true", {}, {}),
    ("XLA342", f"--{BUFFER}=FUSION", {}, {"keys": {"te_moe_block": True}}),
    ("XLA345", LHS, {}, {"keys": {"num_stages": 4}}),
    ("XLA346", f"--xla_dump_to=/x/{MARK}", {"JAX_COMPILATION_CACHE_DIR": "/c"}, {}),
    ("XLA347", None, {}, {"hardware": hardware("rubin"), "keys": {
        "attention": "cudnn_flash_te", "packing": True, "dataset_type": "hf"}}),
    ("XLA348", "--xla_gpu_enable_analytical_latency_estimator=true", {}, {}),
    ("XLA349", LHS, {"JAX_OPTIMIZATION_LEVEL": "O1"}, {}),
    ("XLA350", "--xla_disable_hlo_passes=a", {"JAX_COMPILER_ENABLE_REMAT_PASS": "false"},
     {"jaxlib": "0.10.2"}),
    ("XLA351", "--xla_gpu_enable_pipelined_p2p=true --xla_gpu_experimental_pipeline_parallelism_"
     "opt_level=PIPELINE_PARALLELISM_OPT_LEVEL_ENABLE", {}, {
         "keys": {"dcn_pipeline_parallelism": 2}}),
    ("XLA353", "--xla_gpu_enable_triton_gemm=false", {}, {}),
    ("XLA354", f"--{LEVEL}=0", {}, {
        "image": image("2026-10-10"), "image_said": PLACE, "container": True}),
    ("XLA212", None, {}, {
        "keys": {"compile_xla_flags": "--xla_gpu_enable_pipelined_all_gather=true"}}),
]  # fmt: skip


@pytest.mark.parametrize(("code", "flags", "variables", "rest"), PAIRS)
def test_a_combination_is_found_and_each_part_alone_is_not(
    code: str, flags: str | None, variables: dict[str, str], rest: dict[str, Any]
) -> None:
    finding = one(workload(flags, variables, **rest), code)
    assert finding.file == "train.sh"
    assert "{" not in finding.message
    parts = [bool(flags), bool(variables), bool(set(rest) - {"jaxlib"})]
    if sum(parts) > 1 and variables:
        assert code not in codes(workload(flags, {}, **rest), "warning") or code == "XLA321"
    # The release's own command buffers capture custom calls, too.
    if sum(parts) > 1 and flags and code != "XLA304":
        assert code not in codes(workload(None, variables, **rest), "warning")


@pytest.mark.parametrize(
    ("flags", "variables", "rest"),
    [
        (LHS, {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}, {"hardware": hardware("hopper")}),
        (LHS, {"CUDA_DEVICE_MAX_CONNECTIONS": "16"}, {"hardware": hardware("blackwell")}),
        (f"--{BUFFER}= {LHS}", {"JAX_ENABLE_PGLE": "true"}, {}),
        (f"{LHS} --xla_gpu_pgle_profile_file_or_directory_path=/p", {}, {}),
        (f"{LHS} --xla_gpu_enable_pipelined_all_gather=true", {}, {}),
        ("--xla_gpu_enable_pipelined_all_gather=true", {"JAX_OPTIMIZATION_LEVEL": "O2"}, {}),
        ("--xla_gpu_memory_limit_slop_factor=99", {"XLA_CLIENT_MEM_FRACTION": "0.88"}, {}),
        (f"{LHS} --xla_gpu_shard_autotuning=false", {}, {"layout": Layout(nodes=Value(1, PLACE))}),
        (LHS, {}, {"keys": {"scan_layers": True, "dump_hlo_xla_flags": ""}}),
        ("--xla_gpu_experimental_pipeline_parallelism_opt_level="
         "PIPELINE_PARALLELISM_OPT_LEVEL_ENABLE", {}, {"keys": {"num_stages": 2}}),
    ],
)  # fmt: skip
def test_a_right_combination_stays_clean(
    flags: str, variables: dict[str, str], rest: dict[str, Any]
) -> None:
    assert codes(workload(flags, variables, **rest), "warning") == set()


def test_the_release_tells_whether_parallel_collectives_may_deadlock() -> None:
    text = "--xla_gpu_experimental_parallel_collective_overlap_limit=4"
    assert one(workload(text, jaxlib="0.8.3"), "XLA332").severity == "warning"
    assert one(workload(text, jaxlib="0.12.0.1"), "XLA332").severity == "note"


def test_a_bare_text_of_flags_says_nothing_of_variables() -> None:
    text = "--xla_gpu_enable_nccl_user_buffers=true"
    assert "XLA321" in codes(workload(text))
    assert "XLA321" not in codes(workload(text, kind="flags"))


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        ("var A is 1", True), ("var A is 2", False), ("var B is 1", False), ("var B unset", True),
        ("var A ge 1", True), ("var A gt 1", False), ("var A in 2,1", True),
        ("var U is 1", None), ("var U set", True), ("key k is 1", None),
        ("layout nodes gt 1", None), ("layout nodes unknown", True), ("var B|A is 1", True),
        ("var A is 2 or var A is 1", True),
        ("var U is 1 or var A is 2", None), ("said xla_gpu_autotune_level is 3", True),
        ("flag xla_gpu_enable_triton_gemm on", True), ("flag xla_no_such on", False),
        ("said xla_dump_to unset", True), ("var A indivisible 2", True), ("var N unseen", True),
        ("jaxlib lt 0.10", False), ("jaxlib ge 0.12", True), ("word is nsys", None),
    ],
)  # fmt: skip
def test_a_condition_knows_three_answers(condition: str, answer: bool | None) -> None:
    w = workload(f"--{LEVEL}=3", {"A": "1", "U": MARK})
    assert holds(condition, View(w)) is answer


def test_a_condition_that_nobody_can_read_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown comparison"):
        holds("var A resembles 1", View(workload(None, {"A": "1"})))


ALPHABET = st.sampled_from([MARK, " ", "-", "--xla_", "=", "'", '"', ",", ":", "#", "\\", "\n",
                            "true", "gpu_autotune_level", "xla_gpu_enable_command_buffer", "+",
                            "FUSION", "\u2013", "é", "1GiB", "xla_dump_to"])  # fmt: skip


@given(st.lists(ALPHABET, max_size=12).map("".join), st.text(max_size=8))
def test_no_text_breaks_a_rule_and_every_finding_has_a_place(text: str, value: str) -> None:
    for finding in found(workload(text, {"NCCL_DEBUG": value, "XLA_CLIENT_MEM_FRACTION": value})):
        assert finding.message
        assert finding.line == 7
        assert (finding.column or 0) >= 20
    read = read_flags(Text.of(text, PLACE))
    assert all(text.startswith(token.source, token.offset) for token in read.kept)


def test_rules_are_quick_once_the_catalogue_is_loaded() -> None:
    texts = [f"{RECIPE} --{LEVEL}={number}" for number in range(20)]
    variables = {"XLA_CLIENT_MEM_FRACTION": "0.88", "NCCL_DEBUG": "WARN"}
    loads = [workload(text, variables, keys={"scan_layers": True}) for text in texts]
    found(loads[0])
    begin = time.process_time()
    for w in loads:
        found(w)
    assert (time.process_time() - begin) / len(loads) < 0.01
    assert xla.load("0.12.0.1").has(LEVEL)


def test_an_image_of_a_month_is_judged_by_its_month() -> None:
    def of(tag: str) -> Workload:
        the_image = images.image(f"nvcr.io/nvidia/jax:{tag}")
        return with_image("--xla_gpu_enable_split_k_autotuning=true", the_image)

    assert of("26.11-py3").jaxlib == "0.12.0.1"
    assert one(of("26.11-py3"), "XLA202").severity == "error"
    older = of("25.04-maxtext-py3")
    assert (older.jaxlib, codes(older, "error")) == ("0.8.3", set())
    assert images.image("nvcr.io/nvidia/jax:26.13-py3").date is None
    assert images.image("example.com/jax:26.04-py3").date is None


def test_what_an_image_older_than_every_catalogue_refuses_is_not_certain() -> None:
    finding = one(with_image(f"{LHS} --xla_gpu_nothing=1", image("2025-03-01")), "XLA201")
    assert finding.severity == "warning"
    assert "older than every catalogued jaxlib" in finding.message
