"""Every requirement of MaxText is refused by its code, cites its line, and passes when mended."""

from __future__ import annotations

import re
from typing import Any

import pytest

from moectl.actions.plan import Wishes, plan
from moectl.facts.yaml_facts import read
from moectl.findings import Finding
from moectl.rules.requirements import holds

RULES = {rule["code"]: rule for rule in read("requirements.yaml")["rules"]}
BLOCK = "deepseek3-671b"
# code: (preset, what breaks the rule, what mends it, the line of MaxText that is cited)
CASES: dict[str, tuple[str, list[str], list[str], str]] = {
    "TE101": (BLOCK, ["sparse_matmul=false"], ["sparse_matmul=true"], "configs/types.py:5018"),
    "TE102": (
        BLOCK, ["prefuse_moe_weights=false"], ["prefuse_moe_weights=true"], "configs/types.py:5020",
    ),
    "TE103": (
        BLOCK, ["routed_bias_update_rate=0.001"], ["routed_bias_update_rate=0"],
        "configs/types.py:5022",
    ),
    "TE104": (BLOCK, ["norm_topk_prob=true"], ["norm_topk_prob=false"], "configs/types.py:5024"),
    "TE105": (
        BLOCK, ["use_random_routing=true"], ["use_random_routing=false"], "configs/types.py:5026",
    ),
    "TE106": (
        "llama4-17b-16e", ["te_moe_block=true"], ["te_moe_block=false"], "configs/types.py:5028",
    ),
    "TE107": (
        BLOCK, ["te_gmm_quantization="], ["te_gmm_quantization=te_no_quant"],
        "configs/types.py:5031",
    ),
    "TE108": (
        BLOCK, ["ragged_buffer_factor=0.5"], ["ragged_buffer_factor=1"], "configs/types.py:3888",
    ),
    "TE110": (
        "mixtral-8x7b", ["te_moe_block=true"], ["te_moe_block=false"],
        "trainers/pre_train/train.py:379",
    ),
    "TE111": (
        "deepseek2-16b", ["te_moe_block=true"], ["te_moe_block=false"], "layers/moe.py:704",
    ),
    "TE112": (
        "deepseek2-16b", ["model.overrides.routed_score_func=sigmoid"], [], "layers/moe.py:708",
    ),
    "TE116": (BLOCK, ["training.hardware=gpu"], ["training.hardware=gpu_multiprocess"],
              "utils/max_utils.py:1289"),
    "TE120": (BLOCK, ["moe_mlpwi_0=offload"], ["moe_mlpwi_0=remat"], "layers/moe.py:4450"),
    "IDX101": (
        "deepseek3.2-671b", ["indexer_sparse_training=false"], ["indexer_sparse_training=true"],
        "trainers/pre_train/train.py:222",
    ),
    "RMT101": (
        "mixtral-8x7b", ["remat_policy=bogus"], ["remat_policy=full"],
        "layers/nnx_decoders.py:1284",
    ),
    "RUN101": (
        "mixtral-8x7b", ["training.hardware=gpu"], ["training.hardware=gpu_multiprocess"],
        "utils/max_utils.py:235",
    ),
    "ENV101": (
        "mixtral-8x7b", ["dump_hlo_xla_flags=--a"], ["dump_hlo_xla_flags="],
        "configs/types.py:4310",
    ),
}  # fmt: skip


def found(preset: str, sets: list[str], code: str) -> list[Finding]:
    return [f for f in plan(preset, Wishes(sets=sets)).findings if f.code == code]


def test_every_rule_of_the_table_has_a_case_here() -> None:
    assert sorted(CASES) == sorted(RULES)


@pytest.mark.parametrize("code", CASES)
def test_a_broken_requirement_is_refused_by_its_code_with_the_line_cited(code: str) -> None:
    preset, broken, _, line = CASES[code]
    findings = found(preset, broken, code)
    assert len(findings) == 1
    assert line in findings[0].message
    assert findings[0].severity == RULES[code].get("severity", "error")
    assert findings[0].hint
    assert findings[0].file


@pytest.mark.parametrize("code", CASES)
def test_a_mended_requirement_is_accepted(code: str) -> None:
    preset, _, mended, _ = CASES[code]
    assert found(preset, mended, code) == []


@pytest.mark.parametrize("code", [code for code in CASES if code != "TE112"])
def test_typing_the_hint_mends_the_requirement(code: str) -> None:
    preset, broken, _, _ = CASES[code]
    hint = found(preset, broken, code)[0].hint
    if hint.startswith("--set "):
        assert found(preset, [*broken, hint.removeprefix("--set ")], code) == []
    else:
        assert " must be " in hint


@pytest.mark.parametrize("code", RULES)
def test_a_rule_cites_maxtext_by_release_file_and_line(code: str) -> None:
    assert re.match(r"MaxText 0\.2\.5 [\w/]+\.py:\d+", RULES[code]["source"])


def test_a_rule_without_the_block_is_silent() -> None:
    assert found(BLOCK, ["te_moe_block=false", "sparse_matmul=false"], "TE101") == []


@pytest.mark.parametrize(
    ("value", "condition", "met"),
    [
        (1, 1, True),
        (2, [1, 2], True),
        (3, [1, 2], False),
        (2, {"gt": 1}, True),
        (1, {"gt": 1}, False),
        (1, {"ge": 1, "le": 1}, True),
        (0.5, {"lt": 0.5}, False),
        ("x", {"gt": 1}, False),
        (None, {"le": 1}, False),
        (True, {"ge": 1}, False),
        ("a", {"not": "b"}, True),
        ("a", {"in": ["a"]}, True),
        ("kimi-k2-1t", {"starts": ["kimi"]}, True),
        (5, {"starts": ["5"]}, False),
        (0, {"outside": [0, 1]}, True),
        (0.01, {"outside": [0, 1]}, False),
        (1, {"outside": [0, 1]}, True),
    ],
)
def test_a_condition_means_what_it_says(value: Any, condition: Any, met: bool) -> None:
    assert holds(value, condition) is met


def test_an_unknown_comparison_is_a_fault_of_the_table() -> None:
    with pytest.raises(ValueError, match="unknown comparison"):
        holds(1, {"near": 1})
