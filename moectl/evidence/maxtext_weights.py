"""Renews the weight tables (`facts/data/weights/`) by asking a real MaxText for its weights.

    python -m moectl.evidence.maxtext_weights [MODEL ...]

Each model is asked for as its file says, and again with every size changed to an unusual one;
a dimension that followed is stored as the expression of MaxText keys that fits all answers, so
that overrides of an architecture can be followed without MaxText.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moectl.errors import BackendError, LocalFilesError

RELEASE = "0.2.5"
# Sizes for the second and third question: unusual products, so that what is equal in a model
# file (two sizes of 128, say) comes apart. Where MaxText wants sizes to agree they still do.
SIZES: dict[str, tuple[int, int]] = {
    "base_emb_dim": (64 * 37, 64 * 41),
    "base_num_query_heads": (3 * 14, 5 * 22),
    "base_num_kv_heads": (14, 22),
    "head_dim": (8 * 11, 8 * 13),
    "base_mlp_dim": (16 * 31, 16 * 43),
    "base_moe_mlp_dim": (16 * 29, 16 * 47),
    "num_experts": (8 * 13, 8 * 17),
    "vocab_size": (64 * 101, 64 * 103),
    "shared_experts": (3, 5),
    "q_lora_rank": (16 * 19, 16 * 23),
    "kv_lora_rank": (8 * 53, 8 * 59),
    "qk_nope_head_dim": (4 * 61, 4 * 67),
    "qk_rope_head_dim": (2 * 71, 2 * 73),
    "v_head_dim": (2 * 79, 2 * 83),
    "indexer_n_heads": (89, 97),
    "indexer_head_dim": (2 * 107, 2 * 109),
    "gdn_conv_kernel_dim": (7, 9),
    "gdn_key_head_dim": (2 * 113, 2 * 127),
    "gdn_value_head_dim": (2 * 131, 2 * 137),
    "gdn_num_key_heads": (6, 10),
    "gdn_num_value_heads": (6 * 5, 10 * 7),
}
LAYERS = {"base_num_decoder_layers": (5, 7), "first_num_dense_layers": (3, 4)}  # factors
# A model file that has these equal needs them so (full MoE, and MLA).
EQUAL = {"base_mlp_dim": "base_moe_mlp_dim", "base_num_kv_heads": "base_num_query_heads"}
# What decides which weights there are rather than how big: a table is good for one value.
FIXED = (
    "decoder_block attention_type scan_layers inhomogeneous_layer_cycle_interval"
    " interleave_moe_layer_step logits_via_embedding use_qk_norm attention_bias mlp_bias"
    " attention_sink routed_bias use_indexer mtp_num_layers use_multimodal"
    " global_parameter_scale param_scan_axis"
)
SWITCHES = ("prefuse_moe_weights", "shard_exp_on_fsdp", "use_2d_fsdp_sharding")
VARIANTS = ((), (0,), (1,), (0, 1), (2,), (0, 2))  # the last two switches exclude each other
COMMON = (
    "hardware=cpu dataset_type=synthetic enable_checkpointing=false attention=dot_product"
    " weight_dtype=bfloat16 override_model_config=true log_config=false"
    " use_mrope=false"  # adds no weight, and ties a section list to the head size
)
DIVISORS = range(2, 7)


@dataclass(frozen=True, slots=True)
class Term:
    """A candidate for a dimension: its text, and how far-fetched it is."""

    text: str
    cost: int


def table(python: str, models: Sequence[str]) -> dict[str, Any]:
    """Return the weight table of `models`, asked of the MaxText of `python`.

    Raises:
        BackendError: it cannot be run, refuses a model, or answers differently each time.
    """
    usual = ask(python, [_job([f"model_name={model}"]) for model in models])
    jobs, owners = [], []
    for model, answer in zip(models, usual, strict=True):
        _check(model, answer)
        for variant, which in itertools.product(VARIANTS, range(3)):
            changed = _changed(answer["keys"], which - 1) if which else {}
            words = [f"{SWITCHES[index]}=true" for index in variant]
            words += [f"{key}={value}" for key, value in changed.items()]
            jobs.append(_job([f"model_name={model}", *words]))
            owners.append((model, variant))
    answers: dict[tuple[str, tuple[int, ...]], list[dict[str, Any]]] = {}
    for (model, variant), answer in zip(owners, ask(python, jobs), strict=True):
        _check(f"{model} {variant}", answer)
        answers.setdefault((model, variant), []).append(answer)
    return {
        "release": RELEASE,
        "source": "every leaf of the abstract model that MaxText builds from its model file "
        "(utils/model_creation_utils.py); see moectl.evidence.maxtext_weights",
        "wanted_axes": usual[0]["wanted_axes"],
        "switches": list(SWITCHES),
        "variants": [list(variant) for variant in VARIANTS],
        "models": {
            model: _model([answers[model, variant] for variant in VARIANTS]) for model in models
        },
    }


def ask(python: str, jobs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Have one process answer all jobs of `maxtext_weights_child`.

    Raises:
        BackendError: the interpreter cannot be started, has no MaxText, or died.
    """
    import subprocess  # noqa: PLC0415

    from moectl.resources import package  # noqa: PLC0415

    program = package().joinpath("evidence", "maxtext_weights_child.py").read_text("utf-8")
    try:
        done = subprocess.run(
            [python, "-c", program],
            input="".join(json.dumps(job) + "\n" for job in jobs),
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise BackendError(f"{python} cannot be started: {error.strerror}") from error
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode or len(answers) != len(jobs):
        said = done.stderr.strip().splitlines()[-3:]
        raise BackendError(f"MaxText of {python} ended after {len(answers)} answers: {said}")
    return answers


def fitted(sizes: Sequence[int], keys: Sequence[Mapping[str, int]]) -> int | str | None:
    """Return the simplest expression of keys that has each size under its keys.

    It is a number, or up to two terms joined by + or -, each a product of up to two keys and a
    small factor, or one key divided by a small number. None if there is none.
    """
    wanted = tuple(sizes)
    if len(set(wanted)) == 1:
        return wanted[0]
    terms = _terms(keys)
    if wanted in terms:
        return terms[wanted].text
    best: Term | None = None
    for vector, term in terms.items():
        rest = tuple(want - have for want, have in zip(wanted, vector, strict=True))
        negative = tuple(-item for item in rest)
        for sign, other in (("+", terms.get(rest)), ("-", terms.get(negative))):
            if other is None:
                continue
            joined = Term(f"{term.text}{sign}{other.text}", term.cost + other.cost)
            if best is None or (joined.cost, joined.text) < (best.cost, best.text):
                best = joined
    return best.text if best else None


def _terms(keys: Sequence[Mapping[str, int]]) -> dict[tuple[int, ...], Term]:
    found: dict[tuple[int, ...], Term] = {}

    def add(vector: tuple[int, ...], text: str, cost: int) -> None:
        if vector not in found or (cost, text) < (found[vector].cost, found[vector].text):
            found[vector] = Term(text, cost)

    for count in (1, 2):
        for names in itertools.combinations(keys[0], count):
            for factor in (1, 2, 3, 4):
                text = "*".join([*names, *([str(factor)] if factor > 1 else [])])
                vector = tuple(factor * _product(row, names) for row in keys)
                add(vector, text, 10 * count + factor)
    for name in keys[0]:
        for divisor in DIVISORS:
            if all(row[name] % divisor == 0 for row in keys):
                vector = tuple(row[name] // divisor for row in keys)
                add(vector, f"{name}/{divisor}", 15 + divisor)
    return found


def _product(row: Mapping[str, int], names: Sequence[str]) -> int:
    product = 1
    for name in names:
        product *= row[name]
    return product


def _job(words: Sequence[str]) -> dict[str, Any]:
    keys = [*SIZES, *LAYERS, *FIXED.split()]
    return {"arguments": [*COMMON.split(), *words], "keys": keys}


def _check(what: str, answer: Mapping[str, Any]) -> None:
    if "error" in answer:
        raise BackendError(f"MaxText refuses {what}: {str(answer['error'])[:300]}")


def _changed(keys: Mapping[str, Any], which: int) -> dict[str, int]:
    """Return every size of a model changed, as the question `which` has it."""
    changed = {key: sizes[which] for key, sizes in SIZES.items() if keys[key] > 0}
    for key, other in EQUAL.items():
        if keys[key] == keys[other]:
            changed[key] = changed[other]
    for key, factors in LAYERS.items():
        if keys[key] > 0:
            changed[key] = keys[key] * factors[which]
    return changed


def _model(variants: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Fold the answers of all variants of one model into its entry."""
    first = variants[0][0]["keys"]
    used: set[str] = set()
    rows: dict[tuple[Any, ...], dict[str, list[int]]] = {}
    for index, answers in enumerate(variants):
        keys = [
            {
                key: answer["keys"][key]
                for key in [*SIZES, *LAYERS]
                if answer["keys"][key] > 0 and first.get(EQUAL.get(key, "")) != first[key]
            }
            for answer in answers
        ]
        for leaf in zip(*(answer["leaves"] for answer in answers), strict=True):
            path, _, dtype, axes, trained = leaf[0]
            if any(other[0] != path or other[3] != axes for other in leaf):
                raise BackendError(f"{path} is another weight when the sizes change")
            dims = []
            for position, size in enumerate(leaf[0][1]):
                text = fitted([other[1][position] for other in leaf], keys)
                if text is None:
                    raise BackendError(f"no expression fits dimension {position} of {path}")
                dims.append(text if isinstance(text, str) else size)
                used.update(_named(text, keys[0]))
            row = (tuple(axes), tuple(dims), dtype, trained)
            rows.setdefault(row, {}).setdefault(path, []).append(index)
    return {
        "keys": {key: first[key] for key in sorted(used)},
        "fixed": {key: first[key] for key in FIXED.split() if key in first},
        "groups": [
            _group(row, paths, members)
            for row, found in rows.items()
            for members, paths in _by_members(found).items()
        ],
    }


def _named(text: int | str, keys: Mapping[str, int]) -> set[str]:
    words = str(text).replace("+", "*").replace("-", "*").replace("/", "*").split("*")
    return {word for word in words if word in keys}


def _by_members(found: Mapping[str, list[int]]) -> dict[tuple[int, ...], list[str]]:
    grouped: dict[tuple[int, ...], list[str]] = {}
    for path, members in found.items():
        grouped.setdefault(tuple(members), []).append(path)
    return grouped


def _group(row: tuple[Any, ...], paths: list[str], members: tuple[int, ...]) -> dict[str, Any]:
    axes, dims, dtype, trained = row
    group: dict[str, Any] = {"axes": list(axes), "dims": list(dims), "paths": paths}
    if dtype != "bfloat16":
        group["dtype"] = dtype  # does not follow weight_dtype
    if not trained:
        group["trained"] = False
    if len(members) != len(VARIANTS):
        group["variants"] = list(members)
    return group


def text_of(found: Mapping[str, Any]) -> str:
    """Return a table as JSON text with one line a group of weights."""
    rest = {key: value for key, value in found.items() if key != "models"}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}," for key, value in rest.items()]
    models = []
    for name, model in found["models"].items():
        groups = ",\n".join(f"    {json.dumps(group)}" for group in model["groups"])
        models.append(
            f"  {json.dumps(name)}: {{\n"
            f'   "keys": {json.dumps(model["keys"])},\n'
            f'   "fixed": {json.dumps(model["fixed"])},\n'
            f'   "groups": [\n{groups}\n   ]\n  }}'
        )
    body = ",\n".join(models)
    return "{\n " + "\n ".join(lines) + f'\n "models": {{\n{body}\n }}\n}}\n'


def main(models: Sequence[str]) -> None:
    """Write the table of the models named, by default of those it has."""
    from pathlib import Path  # noqa: PLC0415

    from moectl.environments import managed  # noqa: PLC0415
    from moectl.resources import fact  # noqa: PLC0415

    path = Path(str(fact("weights", f"{RELEASE}.json")))
    wanted = models or list(json.loads(path.read_text("utf-8"))["models"])
    found = text_of(table(str(managed(f"maxtext-{RELEASE}").python), wanted))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(found, "utf-8")
        partial.replace(path)
    except OSError as error:
        raise LocalFilesError(f"{path} cannot be written: {error}") from error


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
