"""What nobody sets has its default, what may be no word is none: as doubts, and only there."""

from __future__ import annotations

from textwrap import dedent

import pytest

from moectl.findings import Finding, Severity
from moectl.settings.shell import (
    CERTAIN,
    LIKELY,
    Doubts,
    MaxTextStart,
    Reading,
    World,
    maxtext_commands,
    read,
    soften,
)
from moectl.workload import MARK

TRAIN = "python3 -m maxtext.trainers.pre_train.train base.yml run_name=r"


def reading(text: str, world: World = CERTAIN) -> Reading:
    return read(dedent(text).lstrip("\n"), "job.sh", world=world)


def starts(found: Reading) -> list[MaxTextStart]:
    return [start for step in found.batch.steps for start in maxtext_commands(step)]


def words(text: str, world: World = CERTAIN) -> list[list[str]]:
    return [[word.text for word in start.words] for start in starts(reading(text, world))]


def test_a_default_is_unknown_where_certain_and_the_value_where_likely() -> None:
    script = f"""
    EP=${{EP:-8}}
    : "${{BS:=4}}"
    srun {TRAIN} ici_expert_parallelism=$EP per_device_batch_size=$BS attention=${{ATT-dot}}
    """
    assert words(script) == [
        ["base.yml", "run_name=r", f"ici_expert_parallelism={MARK}",
         f"per_device_batch_size={MARK}", f"attention={MARK}"]
    ]  # fmt: skip
    assert words(script, LIKELY) == [
        ["base.yml", "run_name=r", "ici_expert_parallelism=8", "per_device_batch_size=4",
         "attention=dot"]
    ]  # fmt: skip
    found = reading(script)
    assert found.assumed == {"EP", "BS", "ATT"}
    assert found.doubts.worlds == (LIKELY,)


@pytest.mark.parametrize(
    "name", ["SLURM_NNODES", "HOME", "OMPI_COMM_WORLD_SIZE", "CUDA_VISIBLE_DEVICES"]
)
def test_a_variable_that_slurm_or_a_launcher_sets_has_no_default(name: str) -> None:
    found = reading(f"srun {TRAIN} steps=${{{name}:-1}}", LIKELY)
    assert starts(found)[0].words[2].text == f"steps={MARK}"
    assert found.assumed == frozenset()


def test_what_the_script_itself_says_is_no_doubt() -> None:
    found = reading(f"EP=4\nsrun {TRAIN} ici_expert_parallelism=${{EP:-8}}")
    assert starts(found)[0].words[2].text == "ici_expert_parallelism=4"
    assert found.doubts.worlds == ()


def test_an_argument_with_a_default_is_likely_the_default() -> None:
    script = f"NODES=$1\nsrun {TRAIN} steps=${{NODES:-2}} log_period=${{2:-7}}"
    assert words(script)[0][2:] == [f"steps={MARK}", f"log_period={MARK}"]
    assert words(script, LIKELY)[0][2:] == ["steps=2", "log_period=7"]


def test_a_value_computed_outside_stays_unknown_whatever_is_assumed() -> None:
    assert words(f"N=$(nproc)\n{TRAIN} steps=${{N:-2}}", LIKELY)[0][2] == f"steps={MARK}"


@pytest.mark.parametrize("word", ['"$@"', "$@", "$*", "$EXTRA", "${EXTRA_ARGS}", "${MORE[@]}"])
def test_words_that_may_be_none_are_none_where_likely(word: str) -> None:
    script = f"srun {TRAIN} steps=2 {word}"
    assert words(script)[0][-1] == MARK
    assert words(script, LIKELY) == [["base.yml", "run_name=r", "steps=2"]]
    assert reading(script).doubts.worlds == (LIKELY,)


@pytest.mark.parametrize("word", ["$(cat args.txt)", "steps=$N", "$KEY=2", "prefix$X"])
def test_words_that_certainly_say_something_stay(word: str) -> None:
    assert MARK in words(f"srun {TRAIN} {word}", LIKELY)[0][-1]


def test_the_config_is_never_taken_for_none() -> None:
    script = "python3 -m maxtext.trainers.pre_train.train $CONFIG run_name=r"
    assert words(script, LIKELY) == [[MARK, "run_name=r"]]


def test_a_key_with_an_empty_default_is_no_null() -> None:
    script = f"P=${{P:-}}\n{TRAIN} dataset_path=$P"
    assert words(script, LIKELY)[0][-1] == f"dataset_path={MARK}"


def test_arguments_that_a_script_gives_itself_are_certain() -> None:
    script = f"""bash -c '{TRAIN} "$@"' x steps=3"""
    assert words(script)[0][-1] == "steps=3"
    assert reading(script).doubts.worlds == ()


def test_a_test_for_a_variable_that_nobody_sets_is_answered_where_likely() -> None:
    script = f"""
    if [ -z "$EP" ]; then EP=8; fi
    [[ -n $DEBUG ]] && MORE=steps=1
    {TRAIN} ici_expert_parallelism=$EP $MORE
    """
    assert words(script)[0][2] == f"ici_expert_parallelism={MARK}"
    assert words(script, LIKELY) == [["base.yml", "run_name=r", "ici_expert_parallelism=8"]]


@pytest.mark.parametrize(
    "guard",
    [
        '[ -z "$DATA" ] && exit 1',
        'if [[ -z $DATA ]]; then echo "set DATA" >&2; exit 2; fi',
        '[ -z "$DATA" ] && { echo usage; exit 1; }',
        '[ -n "$DATA" ] || exit 1',
    ],
)
def test_a_script_that_ends_without_a_variable_counts_on_somebody_who_sets_it(guard: str) -> None:
    assert words(f"{guard}\n{TRAIN} dataset_path=$DATA", LIKELY)[0][-1] == f"dataset_path={MARK}"


def test_branches_are_taken_one_after_the_other() -> None:
    script = f"""
    if [ "$Q" = fp8 ]; then
      A=quantization=fp8x
    elif grep -q x y; then
      A=quantization=int8
    else
      A=quantization=int4
    fi
    {TRAIN} $A
    """
    certain = reading(script)
    assert words(script)[0][-1].startswith("quantization=")
    branches = [world.branch for world in certain.doubts.worlds if world.branch is not None]
    assert branches == [0, 1, 2]
    taken = [words(script, World(assumes=True, branch=n))[0][-1] for n in branches]
    assert taken == ["quantization=fp8x", "quantization=int8", "quantization=int4"]
    possible = reading(script, World(assumes=True, branch=0)).doubts.possible
    assert ("job.sh", 2, 2) in possible
    assert all(line != 4 for _, line, _ in reading(script).doubts.possible)


def test_what_follows_an_open_and_is_a_branch() -> None:
    script = f'[ -n "$DBG" ] && export NCCL_DEBUG=WARNN\n{TRAIN}'
    taken = reading(script, World(assumes=True, branch=0))
    assert starts(taken)[0].environment["NCCL_DEBUG"].text == "WARNN"
    assert taken.doubts.possible == (("job.sh", 1, 1),)


def test_a_script_without_a_setting_of_a_job_is_read_once() -> None:
    assert reading("N=${N:-2}\nif foo; then rm x; fi\necho $N\n").doubts.worlds == ()


def test_both_ways_of_an_array_keep_what_they_begin_with() -> None:
    script = f"""
    ARGS=(steps=2 log_period=1)
    if foo; then ARGS+=(quantization=int8); fi
    {TRAIN} "${{ARGS[@]}}"
    """
    assert words(script) == [["base.yml", "run_name=r", "steps=2", "log_period=1", MARK]]
    assert words(script, LIKELY) == [["base.yml", "run_name=r", "steps=2", "log_period=1"]]


def finding(line: int, column: int, name: str = "k", severity: Severity = "error") -> Finding:
    message, fix = "it is wrong.", ("a", "b")
    return Finding("KEY102", severity, name, message, "do", "job.sh", line, column, fix=fix)


def test_a_finding_that_rests_on_a_default_is_a_warning_with_its_variable() -> None:
    script = f"EP=${{EP:-3}}\nsrun {TRAIN} ici_expert_parallelism=$EP steps=1\n"
    doubts = reading(script, LIKELY).doubts
    column = script.split("\n")[1].index("ici") + 1
    (found,) = soften([], [finding(2, column, "ici_expert_parallelism")], doubts)
    assert found.severity == "warning"
    assert found.message == "it is wrong, unless EP is set otherwise."
    assert found.fix is None


def test_what_is_found_anyway_is_not_said_twice_and_notes_are_left_out() -> None:
    doubts = reading(f"EP=${{EP:-3}}\n{TRAIN} x=$EP", LIKELY).doubts
    known = finding(2, 1)
    assert soften([known], [known], doubts) == []
    assert soften([], [finding(2, 1, severity="note")], doubts) == []


def test_a_flag_in_a_default_is_named_by_its_own_place() -> None:
    script = f'export XLA_FLAGS="--xla_a=1 ${{MORE:---xla_b=2 --xla_c=3}}"\n{TRAIN}\n'
    doubts = reading(script, LIKELY).doubts
    line = script.partition("\n")[0]
    places = [line.index(flag) + 1 for flag in ("--xla_b", "--xla_c")]
    found = soften([], [finding(1, at, "xla_c") for at in places[1:]], doubts)
    assert [f.message for f in found] == ["it is wrong, unless MORE is set otherwise."]


def test_words_taken_for_none_leave_nothing_said_about_what_is_absent() -> None:
    script = f'{TRAIN} steps=1 "$@"\n'
    doubts = reading(script, LIKELY).doubts
    module = script.index("maxtext.") + 1
    assert soften([], [finding(1, module, "dataset_path")], doubts) == []
    (found,) = soften([], [finding(1, script.index("steps") + 1, "steps")], doubts)
    assert found.message == "it is wrong, unless the arguments say otherwise."


def test_of_a_branch_only_what_stands_in_it_is_said() -> None:
    script = f"if foo; then\n  A=steps=x\nfi\n{TRAIN} $A\n"
    doubts = reading(script, World(assumes=True, branch=0)).doubts
    found = soften([], [finding(2, 5), finding(4, 1)], doubts)
    assert [(f.line, f.message) for f in found] == [(2, "it is wrong, if this branch is taken.")]


def test_a_certain_reading_has_no_doubts_to_soften_with() -> None:
    assert reading("srun true").doubts == Doubts()


def test_hostile_defaults_end() -> None:
    deep = "${A:-" * 30 + "x" + "}" * 30
    found = reading(f"export XLA_FLAGS={deep}\n{TRAIN}\n", LIKELY)
    assert starts(found)[0].environment["XLA_FLAGS"].text in {"x", MARK}
    many = "".join(f"if foo{n}; then X{n}=${{Y{n}:-1}}; fi\n" for n in range(200))
    assert len(reading(f"{many}{TRAIN}").doubts.worlds) <= 5


def test_what_a_default_was_given_to_is_filled_although_nobody_knows_with_what() -> None:
    script = f': "${{BS:=4}}"\nsrun {TRAIN} ${{BS:+batch=$BS}} ${{OTHER:+other=$OTHER}}'
    (found,) = words(script)
    assert f"batch={MARK}" in found
    assert not any(word.startswith("other=") for word in found)
    (empty,) = words(f': "${{BS:=}}"\nsrun {TRAIN} ${{BS:+batch=$BS}}')
    assert not any(word.startswith("batch=") for word in empty)
