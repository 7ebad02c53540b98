"""Every requirement of MaxText is refused by its code, cites its line, and passes when mended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from moectl.actions.plan import Wishes, plan
from moectl.facts import maxtext
from moectl.facts.yaml_facts import read
from moectl.findings import Finding
from moectl.resolve.derived import derived
from moectl.resolve.effective import effective
from moectl.rules.maxtext_condition import holds
from moectl.rules.maxtext_verdict import workload as maxtext_workload
from moectl.rules.requirements import RULES as DECLARED
from moectl.rules.requirements import rows
from moectl.spec.table import table
from moectl.values import Origin, Value
from moectl.workload import UNKNOWN, Text, Workload

RULES = {rule["code"]: rule for rule in read("requirements.yaml")["rules"]}
CATALOGUE = maxtext.load("0.2.5")
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
    "TE109": (
        BLOCK, ["eval_ragged_buffer_factor=1.5"], ["eval_ragged_buffer_factor=-1"],
        "configs/types.py:3888",
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
    "RUN102": (
        "mixtral-8x7b", ["dump_hlo_xla_flags=--a"], ["dump_hlo_xla_flags="],
        "configs/types.py:4310",
    ),
    "OPT101": ("mixtral-8x7b", ["opt_type=muon"], ["opt_type=adamw"], "configs/types.py:5459"),
    "CTX167": ("mixtral-8x7b", ["attention=flash3"], ["attention=dot_product"],
               "layers/attention_op.py:1655"),
    "QNT101": (
        "mixtral-8x7b", ["quantization=fp8", "gradient_accumulation_steps=2"],
        ["quantization=fp8", "gradient_accumulation_steps=1"], "configs/types.py:4976",
    ),
}  # fmt: skip
# Rows whose condition on a key is what they refuse: only leaving it out mends them.
NEVER_MET = ("CTX166", "OPT111", "MOE120", "TE120")
CANDIDATES: list[Any] = [
    *(4, 0, 1, 2, 3, 8, 9, 64, -1, 0.5, 2.0, -2),
    *(True, False, None, "", "x", "default", "dot_product", "a;b"),
    *([1], [], ["context"], ["context", "context_usp_ulysses"]),
]


def found(preset: str, sets: list[str], code: str) -> list[Finding]:
    return [f for f in plan(preset, Wishes(sets=sets)).findings if f.code == code]


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
def test_a_rule_cites_its_source(code: str) -> None:
    source = RULES[code]["source"]
    assert re.match(r"MaxText 0\.2\.5 [\w/]+\.py:\d+", source) or re.match(r"\w+-\w+/\w+", source)


@pytest.mark.parametrize("code", RULES)
def test_a_rule_of_the_config_check_cites_maxtext_by_release_file_and_line(code: str) -> None:
    if RULES[code]["stage"] == "config":
        assert re.match(r"MaxText 0\.2\.5 [\w/]+\.py:\d+", RULES[code]["source"])


def test_a_rule_without_the_block_is_silent() -> None:
    assert found(BLOCK, ["te_moe_block=false", "sparse_matmul=false"], "TE101") == []


def test_every_row_becomes_one_rule_with_its_words() -> None:
    declared = {rule.code: rule for rule in DECLARED.all}
    assert len(declared) == len(DECLARED.all)
    for code, row in RULES.items():
        rule = declared[code]
        assert (rule.title, rule.stage, rule.source) == (row["title"], row["stage"], row["source"])
        assert rule.severity == row.get("severity", "error")
        assert rule.reason
        assert rule.remedy


# --- every row, broken and mended ---------------------------------------------------------------


def named(condition: Any) -> Iterator[str]:
    """Yield the keys that a condition refers to."""
    for bound in condition.values() if isinstance(condition, Mapping) else ():
        if isinstance(bound, Mapping):
            (_, names), *_ = bound.items()
            several = names if isinstance(names, list) else [names]
            yield from (name for name in several if isinstance(name, str))


def words(condition: Any) -> list[Any]:
    """Return the words of a condition as candidates for a value."""
    if isinstance(condition, list):
        return condition
    if not isinstance(condition, Mapping):
        return [condition]
    return [
        item
        for name, bound in condition.items()
        if name != "set"
        for item in (bound if isinstance(bound, list) else [bound])
        if not isinstance(item, Mapping)
    ]


def choose(wants: list[tuple[Any, bool]], values: dict[str, Any]) -> Any:
    """Return a value that meets conditions, or does not, as each wants it."""
    pool = [word for condition, _ in wants for word in words(condition)]
    for value in (*pool, *CANDIDATES):
        answers = ((holds(value, condition, values.get), met) for condition, met in wants)
        if all(answer is met for answer, met in answers):
            return value
    raise LookupError(wants)


def workload(values: dict[str, Any], kinds: list[str]) -> Workload:
    """Return a workload in which line n says the n-th value."""
    said = {
        key: Value(value, Origin("file", "a.yml", line, 1))
        for line, (key, value) in enumerate(values.items(), 1)
    }
    return Workload(
        kind=kinds[0],
        origin=Origin("file", "a.yml", 99, 1),
        maxtext="0.2.5",
        jaxlib="",
        is_maxtext=True,
        config=said,
        effective=values,
        flags=Text.of(str(values.get("XLA_FLAGS", "")), Origin("here")),
    )


def assigned(row: Mapping[str, Any], broken: str) -> dict[str, Any]:
    """Return values that meet a row but for the requirement `broken`; empty means none."""
    wants: dict[str, list[tuple[Any, bool]]] = {}
    values: dict[str, Any] = {}
    needs = row.get("need") or {}
    for key, condition in row["when"].items():
        wants.setdefault(key.split("*")[0], []).append((condition, True))
        values |= dict.fromkeys(key.split("*")[1:], 1)
    for key, condition in needs.items():
        wants.setdefault(key.split("*")[0], []).append((condition, key != broken))
        values |= dict.fromkeys(key.split("*")[1:], 1)
    for conditions in list(wants.values()):
        for condition, _ in conditions:
            values |= {name: 4 for name in named(condition) if name not in wants}
    for key in sorted(wants, key=lambda key: any(list(named(c)) for c, _ in wants[key])):
        values[key] = choose(wants[key], values)
    return values


DERIVED = read("requirements.yaml")["derived"]


def test_a_finding_names_a_key_that_one_can_type() -> None:
    for row in RULES.values():
        for key in row.get("need") or row["need_any"][0]:
            name = key.split("*")[0]
            known = CATALOGUE.key(DERIVED.get(name, name))
            assert name == "XLA_FLAGS" or (known is not None and not known.derived), (row, name)


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("num_vocab_tiling: 3\nper_device_batch_size: 1\n", "MODEL110",
         "per_device_batch_size: 3"),
        ("num_vocab_tiling: 3\nper_device_batch_size: 1\n", "MODEL110",
         "max_target_length: 2049"),
        ("use_dpo: true\n", "DATA109", "use_dpo: false"),
        ("enable_multi_tier_checkpointing: true\n", "CKPT104",
         "local_checkpoint_directory: /local/checkpoints"),
        ("sliding_window_size: 0\nattention_type: local_sliding\n", "CTX125",
         "sliding_window_size: 1"),
    ],
)  # fmt: skip
def test_what_a_hint_proposes_mends_the_row(text: str, code: str, hint: str) -> None:
    rule = next(rule for rule in DECLARED.all if rule.code == code)

    def said(*lines: str) -> list[Finding]:
        made = maxtext_workload("\n".join(["base_config: base.yml", *lines]), (), 8, 1)
        return list(rule.findings(made))

    lines = text.splitlines()
    (fault, *_) = said(*lines)
    assert f"write {hint}" in fault.hint
    key = hint.partition(":")[0]
    kept = [line for line in lines if not line.startswith(f"{key}:")]
    assert fault.field not in [again.field for again in said(*kept, hint)]


def pairs() -> Iterator[tuple[str, str]]:
    for code, row in RULES.items():
        yield from ((code, key) for key in row.get("need") or {})


def faults(code: str, values: dict[str, Any]) -> list[Finding]:
    rule = next(rule for rule in DECLARED.all if rule.code == code)
    return list(rule.findings(workload(values, RULES[code].get("kinds", ["MaxText config"]))))


@pytest.mark.parametrize(("code", "key"), list(pairs()))
def test_each_requirement_of_a_row_is_found_alone_at_a_line_of_the_row(code: str, key: str) -> None:
    values = assigned(RULES[code], key)
    findings = faults(code, values)
    name = key.split("*", maxsplit=1)[0]
    assert len(findings) == 1
    assert findings[0].field in {DERIVED.get(name, name), table().owners.get(name)}
    assert (findings[0].file, findings[0].line) == ("a.yml", list(values).index(name) + 1)
    assert findings[0].hint


@pytest.mark.parametrize("code", RULES)
def test_a_row_that_is_met_is_silent_and_so_is_one_that_is_unknown(code: str) -> None:
    row = RULES[code]
    values: dict[str, Any] = {}
    if any(key in row["when"] for key in row.get("need", {})) and code in NEVER_MET:
        values = {key: choose([(want, False)], {}) for key, want in row["when"].items()}
    else:
        values = assigned(row, "")
    for key, want in row.get("need_any", [{}])[0].items():
        values[key] = choose([(want, True)], values)
    assert faults(code, values) == []
    assert faults(code, dict.fromkeys(values, UNKNOWN)) == []


def test_none_of_several_ways_is_found_and_any_of_them_is_enough() -> None:
    said = ("grain_train_files", "grain_train_mixture_config_path", "hf_path", "dataset_path")
    values = dict.fromkeys((*said, "dataset_name", "train_split"), "")
    values |= {"dataset_type": "grain", "grain_file_type": "arrayrecord"}
    assert len(faults("DATA103", values)) == 1
    assert faults("DATA103", {**values, "grain_train_files": "/d/*"}) == []
    assert faults("DATA103", {**values, "hf_path": "c4", "grain_file_type": "parquet"}) == []
    assert len(faults("DATA103", {**values, "hf_path": "c4"})) == 1
    assert faults("DATA103", {**values, "hf_path": UNKNOWN, "grain_file_type": "parquet"}) == []


@pytest.mark.parametrize("code", RULES)
def test_a_row_speaks_of_keys_that_exist_and_of_values_they_take(code: str) -> None:
    row = RULES[code]
    computed = derived(effective({}, {}, CATALOGUE), None, None)
    conditions = [*row["when"].items(), *(row.get("need") or {}).items()]
    for alternative in row.get("need_any", []):
        conditions += alternative.items()
    for key, condition in [*conditions, *row.get("suggest", {}).items()]:
        for name in [*key.split("*"), *named(condition)]:
            assert CATALOGUE.key(name) is not None or name in computed or name == "XLA_FLAGS"
        known = CATALOGUE.key(key)
        if known is None or (isinstance(condition, Mapping) and "not" not in condition):
            continue
        for word in words(condition):
            assert word is None or word == "" or CATALOGUE.check(key, word) is None


def test_the_table_stays_small_enough_to_be_read_at_every_start() -> None:
    assert len(json.dumps(rows())) < 120_000
