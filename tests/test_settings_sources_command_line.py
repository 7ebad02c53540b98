"""The words of a MaxText command are read as OmegaConf's from_cli reads them."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.facts.maxtext import load, releases
from moectl.settings.sources.command_line import Arguments, read_arguments
from moectl.settings.sources.maxtext_variables import read_variables
from moectl.values import Origin, Value
from moectl.workload import MARK, UNKNOWN, Text
from tests.support import components

CATALOGUE = load(releases()[-1])


def words(*texts: str) -> list[Text]:
    return [Text.of(text, Origin("script", "a.sh", 3, 10)) for text in texts]


def read(*texts: str) -> Arguments:
    return read_arguments(words(*texts), CATALOGUE)


def plain(arguments: Arguments) -> dict[str, Any]:
    return {key: value.value for key, value in arguments.values.items()}


def codes(arguments: Arguments) -> list[tuple[str, str]]:
    return [(found.code, found.severity) for found in arguments.findings]


def test_the_first_word_is_the_config_and_the_others_are_values() -> None:
    found = read("conf/a.yml", "steps=3", "learning_rate=3e-4", "run_name=a=b", "scan_layers=off")
    assert found.config is not None
    assert found.config.text == "conf/a.yml"
    assert plain(found) == {
        "steps": 3,
        "learning_rate": 3e-4,
        "run_name": "a=b",
        "scan_layers": False,
    }
    assert found.findings == ()


def test_a_value_stands_where_its_key_does() -> None:
    origin = read("a.yml", "steps=3").values["steps"].origin
    assert (origin.file, origin.line, origin.column) == ("a.sh", 3, 10)
    origin = read("a.yml", "--steps=3").values["steps"].origin
    assert (origin.line, origin.column) == (3, 12)


SAME = ["steps=3", "x=", "x=a=b", "x=1:30", "x=off", "x=null", "x={a: 1}", "x=[1, 2]", "x= 1",
        "x=a # c", "x='a'", "x=gs://b/c", "x=010", "x=1_000", "x=.5", "x=- a", "x=~",
        "x=2026-01-02"]  # fmt: skip


def test_omegaconf_reads_the_same_values() -> None:
    python = components.require("maxtext")
    program = (
        "import json, sys\nfrom omegaconf import OmegaConf\n"
        "for word in json.load(sys.stdin):\n"
        "    print(json.dumps(OmegaConf.to_container(OmegaConf.from_cli([word]))))\n"
    )
    done = subprocess.run(
        [str(python), "-c", program], input=json.dumps(SAME), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    assert [plain(read("a.yml", word)) for word in SAME] == theirs


def test_a_dotted_key_is_a_nested_one() -> None:
    assert plain(read("a.yml", "lora.lora_rank=4", "lora[lora_alpha]=2")) == {
        "lora.lora_rank": 4,
        "lora.lora_alpha": 2,
    }


def test_of_two_equal_keys_the_last_wins_and_that_is_said() -> None:
    found = read("a.yml", "steps=3", "steps=4")
    assert plain(found) == {"steps": 4}
    assert codes(found) == [("ARG106", "warning")]
    assert [value for value, _ in found.values["steps"].overrode] == [3]
    assert codes(read("a.yml", "steps=3", "steps=3")) == []


@pytest.mark.parametrize(
    ("texts", "fix"),
    [
        (["--steps=3"], ("--steps=3", "steps=3")),
        (["--steps", "3"], None),
        (["--ici-fsdp-parallelism=8"], ("--ici-fsdp-parallelism=8", "ici_fsdp_parallelism=8")),
        (["--no_such=3"], None),
        (["-v"], None),
    ],
)
def test_an_option_is_no_form_of_maxtext(texts: list[str], fix: tuple[str, str] | None) -> None:
    found = read("a.yml", *texts)
    assert codes(found) == [("ARG101", "error")]
    assert found.findings[0].fix == fix


def test_what_an_option_means_is_judged_all_the_same() -> None:
    assert plain(read("a.yml", "--steps", "3", "run_name=r")) == {"steps": 3, "run_name": "r"}


@pytest.mark.parametrize(
    ("texts", "code", "severity"),
    [
        (["a.yml", "steps"], "ARG102", "error"),
        (["a.yml", "stepz"], "ARG102", "error"),
        (["a.yml", "quantization"], "ARG102", "warning"),
        (["a.yaml", "steps=3"], "ARG103", "error"),
        (["steps=3", "a.yml"], "ARG103", "error"),
        (["a.yml", "x=[1,2"], "ARG104", "error"),
        (["a.yml", "x=*a"], "ARG104", "error"),
    ],
)
def test_a_word_that_maxtext_refuses_is_found(texts: list[str], code: str, severity: str) -> None:
    assert codes(read(*texts)) == [(code, severity)]


def test_what_is_not_known_stays_unknown() -> None:
    found = read("a.yml", f"steps={MARK}", f"run_name=a{MARK}b")
    assert plain(found) == {"steps": UNKNOWN, "run_name": UNKNOWN}
    assert not found.open
    assert read("a.yml", MARK).open
    assert read("a.yml", f"{MARK}=3").open
    config = read(MARK, "steps=3").config
    assert config is not None
    assert not config.known


def test_no_config_is_no_fault() -> None:
    assert read("steps=3").config is None
    assert codes(read("steps=3")) == []


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(alphabet="ab.=[]-{}:'\"\\\0 \n", max_size=12), max_size=5))
def test_any_words_are_read(texts: list[str]) -> None:
    assert isinstance(read(*texts), Arguments)


def variables(
    environment: dict[str, str], config: dict[str, Any] | None = None, **arguments: Any
) -> tuple[dict[str, Any], list[str]]:
    origin = Origin("script", "a.sh", 1, 1)
    values, findings = read_variables(
        {name: Text.of(text, origin) for name, text in environment.items()},
        {key: Value(value, origin) for key, value in (config or {}).items()},
        {key: Value(value, origin) for key, value in arguments.items()},
        CATALOGUE,
    )
    return {key: value.value for key, value in values.items()}, [f.code for f in findings]


@pytest.mark.parametrize(
    ("environment", "values"),
    [
        ({"M_STEPS": "7"}, {"steps": 7}),
        ({"M_LEARNING_RATE": "3e-4"}, {"learning_rate": 3e-4}),
        ({"M_ENABLE_CHECKPOINTING": "no"}, {"enable_checkpointing": False}),
        ({"M_RUN_NAME": "007"}, {"run_name": "007"}),
        ({"M_STEPS": f"{MARK}"}, {"steps": UNKNOWN}),
        ({"M_NO_SUCH_KEY": "7"}, {}),
        ({"STEPS": "7"}, {}),
        ({"M_": "7"}, {}),
    ],
)
def test_an_m_variable_is_read_by_the_type_it_replaces(
    environment: dict[str, str], values: dict[str, Any]
) -> None:
    assert variables(environment) == (values, [])


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("M_steps", "M_STEPS"),
        ("M_Steps", "M_STEPS"),
        ("M_ici_fsdp_parallelism", "M_ICI_FSDP_PARALLELISM"),
        ("M_PER_DEVICE_BATCHSIZE", "M_PER_DEVICE_BATCH_SIZE"),
    ],
)
def test_an_m_variable_that_maxtext_ignores_is_found_with_its_right_name(
    name: str, right: str
) -> None:
    values, findings = read_variables(
        {name: Text.of("7", Origin("e", "x", 3, 4))}, {}, {}, CATALOGUE
    )
    assert values == {}
    (found,) = findings
    assert (found.code, found.severity, found.line) == ("ARG110", "warning", 3)
    assert found.hint == f"write {right}"


@pytest.mark.parametrize(
    "environment",
    [{"M_STEPS": "1e3"}, {"M_ENABLE_CHECKPOINTING": "maybe"}, {"M_LEARNING_RATE": "fast"}],
)
def test_an_m_variable_that_cannot_be_read_is_found(environment: dict[str, str]) -> None:
    assert variables(environment) == ({}, ["ARG109"])


def test_the_type_is_that_of_the_file() -> None:
    assert variables({"M_RUN_NAME": "7"}, {"run_name": 3}) == ({"run_name": 7}, [])


def test_a_variable_beside_an_argument_is_left_to_its_rule() -> None:
    assert variables({"M_STEPS": "7"}, steps=3) == ({}, [])
