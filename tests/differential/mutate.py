"""Draws configurations for the differential test by mutation; the same seed, the same cases.

A draw starts from what moectl renders for a preset, or from a plain MaxText file that names a
model and little else, and changes one to four things. What is changed is weighted so that each
cross-field check of MaxText is met now and then, and about half of the draws are accepted.
Values are kept as the text that stands in YAML or on the command line, because reading that text
is a part of what is compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from moectl.facts import maxtext
from tests.differential.case import Case
from tests.differential.draft import DCN, RELEASE, Draft, fit, fragment, keys, started
from tests.differential.values import ODD, value_of

TOPICS = Path(__file__).with_name("topics.yaml")
# Keys whose mere value makes a judgement slow, or dependent on the machine that judges.
LEFT_ALONE = {
    "elastic_enabled",
    "elastic_timeout_seconds",
    "elastic_min_slice_count",
    "base_config",
    "log_config",
    "inference_benchmark_test",
    "dump_hlo_xla_flags",
    "internal_compile_num_devices",
}


@cache
def topics() -> dict[str, dict[str, Any]]:
    """Return the topics, each value as text."""
    return dict(yaml.load(TOPICS.read_text(encoding="utf-8"), yaml.BaseLoader))  # noqa: S506


def alternatives(text: str) -> list[str]:
    """Return what a topic says a key may be."""
    return [one.strip() for one in text.split(" | ")]


def on_topic(draft: Draft, rng: random.Random) -> None:
    """Write a few keys that MaxText checks together."""
    name = rng.choice(list(topics()))
    topic = topics()[name]
    if topic.get("models") and rng.random() < 0.85:
        draft.put("model_name", rng.choice(topic["models"]))
    draft.did.append(name)
    written = {key: rng.choice(alternatives(text)) for key, text in topic.get("set", {}).items()}
    vary: Mapping[str, str] = topic.get("vary", {})
    most = 2 if written else 3
    for key in rng.sample(list(vary), min(len(vary), rng.randint(0 if written else 1, most))):
        written[key] = rng.choice(alternatives(vary[key]))
    on_line = rng.random() < 0.3
    for key, value in written.items():
        draft.put(key, value, on_line=on_line)
        draft.did.append(f"{key}={value}")
    if name in NEEDS_FIT:
        fit(draft)


NEEDS_FIT = {
    "ring of experts",
    "fallbacks of the ring",
    "retried first steps",
    "tokens gathered quantized",
    "embedding chunks",
    "pipeline",
    "ring attention on TPU",
    "Ulysses on TPU",
    "context on GPU",
    "Transformer Engine MoE block",
}


def any_key(draft: Draft, rng: random.Random) -> None:
    """Write any key of MaxText with a value of its type, or nearly."""
    catalogue = maxtext.load(RELEASE)
    name = rng.choice([key for key in keys() if key not in LEFT_ALONE])
    key = catalogue.key(name)
    assert key is not None
    legal = rng.random() < 0.7
    text = value_of(key, rng) if legal else rng.choice(ODD)
    draft.put(name, text, on_line=rng.random() < 0.3)
    draft.did.append(f"{name}={text}")


def known_key(draft: Draft, rng: random.Random) -> None:
    """Write a key that is already said anew: another value, or another way to write it."""
    catalogue = maxtext.load(RELEASE)
    name = rng.choice([*draft.yaml, *draft.words])
    key = catalogue.key(name)
    if key is None or name == "base_config":
        return
    text = value_of(key, rng) if rng.random() < 0.75 else rng.choice(ODD)
    draft.put(name, text)
    draft.did.append(f"{name}={text}")


def odd_key(draft: Draft, rng: random.Random) -> None:
    """Write a key that MaxText does not have, or has elsewhere."""
    name = rng.choice(keys())
    where = rng.randrange(max(1, len(name) - 1))
    misspelt = rng.choice(
        (
            name[:where] + name[where + 1 :],
            name[:where] + name[where] + name[where:],
            name.upper(),
            name.replace("_", "-", 1),
            f"{name}_",
            f" {name}".strip(),
            rng.choice(ELSEWHERE),
            rng.choice(ELSEWHERE),
            rng.choice(ELSEWHERE),
        )
    )
    draft.put(misspelt, rng.choice(("1", "true", "abc", "0.5")), on_line=rng.random() < 0.3)
    draft.did.append(f"key {misspelt}")


# Of other releases and forks, nested ones without their parent, derived ones, and none at all.
ELSEWHERE = (
    *(
        "pgle",
        "zero_one",
        "nodes",
        "use_segment",
        "custom_remat_enabled",
        "enable_nnx",
        "lora_rank",
    ),
    *("dpo_beta", "dpo", "lora", "num_target_devices", "emb_dim", "mlp_dim", "num_query_heads"),
    *("global_batch_size_to_train_on", "learning_rates", "remat", "expert_parallelism", "rl"),
    *("image_placeholder", "vision_output_dim_for_vit", "attn_dp", "ici_attn_dp_parallelism"),
    *("max_prompt_length", "orpo_lambda", "lora_alpha", "enable_lora", "debug", "model", "5", "''"),
)


def mesh_degree(draft: Draft, rng: random.Random) -> None:
    """Write one or two mesh degrees."""
    degrees = [k for k in keys() if k.startswith(("ici_", "dcn_")) and "_par" in k]
    weights = [6 if any(w in k for w in ("fsdp_p", "expert", "data")) else 1 for k in degrees]
    for _ in range(rng.choice((1, 1, 2))):
        key = rng.choices(degrees, weights)[0]
        values = ("-1", "1", "2", "2", "4", "8", "3", "0", "-2", "16", "2.0", '"2"', "1.5", "null")
        text = rng.choice(values)
        draft.put(key, text, on_line=rng.random() < 0.2)
        draft.did.append(f"{key}={text}")
    if rng.random() < 0.4:
        fit(draft)


def mesh_size(draft: Draft, rng: random.Random) -> None:
    """Give the same configuration other devices or slices."""
    what = rng.choice(("devices", "slices", "both", "num_slices"))
    if what in {"devices", "both"}:
        draft.devices = rng.choice((1, 2, 4, 8, 12, 16, 24, 32, 64, 72, 128, 256, 512))
    if what in {"slices", "both"}:
        draft.slices = rng.choice([n for n in (1, 2, 3, 4, 8, 16) if draft.devices % n == 0])
    if what == "num_slices":
        draft.put("num_slices", rng.choice(("1", "2", "-1", "4", "0", "3")))
        draft.did.append(f"num_slices={draft.get('num_slices')}")
    if draft.devices % draft.slices:
        draft.slices = 1
    if draft.slices > 1 and rng.random() < 0.6:
        key = rng.choice((DCN, "dcn_fsdp_parallelism", "dcn_pipeline_parallelism"))
        draft.put(key, str(draft.slices))
    draft.did.append(f"{draft.devices} devices in {draft.slices} slices")


def move(draft: Draft, rng: random.Random) -> None:
    """Say keys of the file on the command line, or the other way round."""
    keys = list(draft.yaml)
    for key in rng.sample(keys, min(len(keys), rng.randint(1, 3))):
        if key != "base_config":
            draft.words[key] = draft.yaml.pop(key)
            draft.did.append(f"{key} on the command line")


def against_model_file(draft: Draft, rng: random.Random) -> None:
    """Set a key that the model file also sets, in the file or on the command line."""
    catalogue = maxtext.load(RELEASE)
    name = draft.get("model_name", "default").strip('"')
    file = catalogue.model(name)
    if not file:
        return
    key = rng.choice(list(file))
    row = catalogue.key(key)
    same = rng.random() < 0.3
    text = fragment(file[key]) if same or row is None else value_of(row, rng)
    draft.put(key, text, on_line=rng.random() < 0.6)
    draft.did.append(f"{key}={text} against the model file")
    if rng.random() < 0.5:
        draft.put("override_model_config", rng.choice(("true", "true", "false", '"true"')))
        draft.did.append("override_model_config")


def yaml_trap(draft: Draft, rng: random.Random) -> None:
    """Put something into the file that YAML or OmegaConf reads in its own way."""
    line = rng.choice(
        (
            "steps: 5\nsteps: 6",
            "steps: ${profiler_steps}",
            "steps: ${nowhere}",
            "steps: ???",
            "learning_rate: 3e-4",
            "packing: off",
            "dropout_rate: 1:30",
            "? steps",
            "steps:\n  - 1",
            "steps:",
            "run_name: 2024-01-01",
            "run_name: 1e5",
            "x: &a 1\nsteps: *a",
            "? [a, b]\n: 1",
            "<<: {steps: 7}",
            "steps: 0o17",
            "steps: 1_0",
            "\tsteps: 5",
            "steps: !!int '5'",
            "steps: !!float 5",
            "run_name: @a",
            "run_name: a: b",
            "run_name: '${oc.env:HOME}'",
            "lora: {lora_rank: 4}",
            "lora:\n  lora_rank: four",
            "dpo: {max_prompt_length: 5}",
            "lora: {nothing: 1}",
            "dpo: 5",
            "lora: null",
            "profiler: ''",
            "5: 5",
            "true: 5",
            "null: 5",
            "---",
            "...",
            "# only a comment",
            "run_name: |\n  two\n  lines",
            "tokenizer_path: &p a\nhf_path: *p",
        )
    )
    draft.raw.append(line)
    for key in ("steps", "run_name", "learning_rate", "profiler", "packing", "dropout_rate"):
        if line.startswith(f"{key}:"):
            draft.yaml.pop(key, None)
    draft.did.append(f"line {line!r}")


def odd_word(draft: Draft, rng: random.Random) -> None:
    """Put something on the command line that OmegaConf reads in its own way."""
    word = rng.choice(
        (
            "steps",
            "steps=",
            "steps==5",
            "steps=5 ",
            "lora.lora_rank=4",
            "lora.nothing=4",
            "dpo.max_prompt_length=7",
            "steps=${profiler_steps}",
            "--steps=5",
            "+steps=5",
            "mlp_activations=[silu,linear]",
            "mesh_axes=[data,fsdp]",
            "mesh_axes[0]=data",
            "run_name=a=b",
            "run_name='a b'",
            "run_name=null",
            "run_name=1e5",
            "run_name=a: b",
            "learning_rate=3e-4",
            "steps=1:30",
            "packing=off",
            "steps.inner=3",
            "=5",
            "logical_axis_rules=[[embed,[fsdp]]]",
        )
    )
    key, equals, value = word.partition("=")
    draft.words[key] = value if equals else ""
    draft.did.append(f"argument {word!r}")


def slip(text: str, rng: random.Random) -> str:
    """Return the file with one wrong keystroke in it."""
    lines = text.split("\n")
    line, where = rng.randrange(len(lines)), rng.randrange(len(text) + 1)
    kind = rng.randrange(5)
    if kind == 0:
        return text[:where] + text[where + 1 :]
    if kind == 1:
        return text[:where] + rng.choice(KEYS_PRESSED) + text[where:]
    if kind == 2:
        lines[line] = rng.choice((" ", "  ", "\t", "- ", "#")) + lines[line]
    if kind == 3:
        lines.insert(line, rng.choice(lines))
    if kind == 4:
        lines[line] += rng.choice((" # why", "#", ":", " :", ",", "  ", "\\", "'", '"'))
    return "\n".join(lines)


KEYS_PRESSED = "abz019_:#-?,[]{}&*!|>'\"%@`= ~<.\\/+$\n"
SLIPS = 0.03  # of the cases


Change = Callable[[Draft, random.Random], None]
CHANGES: tuple[tuple[Change, int], ...] = (
    (on_topic, 40),
    (any_key, 16),
    (known_key, 10),
    (mesh_degree, 8),
    (mesh_size, 8),
    (against_model_file, 7),
    (move, 6),
    (odd_key, 2),
    (yaml_trap, 3),
    (odd_word, 2),
)


def draw(seed: int, index: int) -> Case:
    """Return case `index` of `seed`."""
    rng = random.Random(f"{seed}:{index}")  # noqa: S311 - reproducible
    draft = started(rng)
    for _ in range(rng.choices((1, 2, 3, 4), (55, 27, 12, 6))[0]):
        change = rng.choices([c for c, _ in CHANGES], [weight for _, weight in CHANGES])[0]
        change(draft, rng)
    if rng.random() < 0.6:
        fit(draft)
    text = draft.text()
    if rng.random() < SLIPS:
        text = slip(text, rng)
        draft.did.append("a slip of the keyboard")
    return Case(
        id=f"{seed}:{index}",
        text=text,
        arguments=draft.arguments(),
        devices=draft.devices,
        slices=draft.slices,
        title="; ".join(draft.did),
    )
