"""MaxText's checks between keys that stand in no table."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isfinite
from typing import Any

from moectl.errors import nearest, shown
from moectl.facts.yaml_facts import read
from moectl.mesh import nearest_legal
from moectl.resolve.derived import scales
from moectl.resolve.effective import based_on, model_file
from moectl.rules.maxtext_words import catalogue, real, typed, whole
from moectl.rules.rule import Fault, rules
from moectl.workload import UNKNOWN, Workload

RULES = rules()
_CODE = "maxtext_code.yaml"
# When this key has this value, MaxText looks at that default as if it were no text.
_TEXT_DEFAULTS: tuple[tuple[str, Any, str], ...] = (
    ("check_vma", True, "shard_mode"),
    ("opt_type", "muon", "decoder_block"),
    ("shard_mode", "explicit", "decoder_block"),
)
_SOURCE = "MaxText 0.2.5 "
_TYPES = _SOURCE + "configs/types.py:"
# Ways to shard experts over FSDP of which one may be on (configs/types.py:1341).
_EXPERT_SHARDING = ("shard_exp_on_fsdp", "use_2d_fsdp_sharding", "shard_embed_moe_on_fsdp")
_GRID = ("video_max_grid_t", "video_max_grid_h", "video_max_grid_w")


@RULES.rule(
    "MOE134",
    "several ways to shard experts",
    reason="Experts are sharded over FSDP in one way.",
    remedy="leave one of them on",
    source=_TYPES + "1341",
    stage="config",
)
def expert_sharding(w: Workload) -> Iterator[Fault]:
    """Find more than one of the three flags."""
    on = [key for key in _EXPERT_SHARDING if w.value(key) is True]
    if len(on) > 1:
        where = w.where(*reversed(on))
        yield Fault(on[-1], f"{' and '.join(on)} are all true; one may be", where)


@RULES.rule(
    "DATA110",
    "video grid in part",
    reason="A grid has three sizes.",
    remedy="set all three, or none",
    source=_TYPES + "2986",
    stage="config",
)
def video_grid(w: Workload) -> Iterator[Fault]:
    """Find one or two of the three sizes."""
    sizes = [w.value(key) for key in _GRID]
    if UNKNOWN in sizes:
        return
    missing = [key for key, size in zip(_GRID, sizes, strict=True) if size is None]
    if 0 < len(missing) < len(_GRID):
        said = [key for key in _GRID if key not in missing]
        sentence = f"{' and '.join(said)} without {' and '.join(missing)}"
        yield Fault(missing[0], sentence, w.where(*said))


@RULES.rule(
    "DATA111",
    "chat template that does not parse",
    reason="MaxText parses it when it starts.",
    remedy="mend the template",
    source=_TYPES + "4257",
    stage="config",
)
def chat_template(w: Workload) -> Iterator[Fault]:
    """Find a template with a syntax error."""
    text = w.value("chat_template")
    if not isinstance(text, str) or not text:
        return
    from jinja2 import Environment, TemplateSyntaxError  # noqa: PLC0415 - few files have one

    try:
        Environment(autoescape=True).parse(text)
    except TemplateSyntaxError as error:
        sentence = f"chat_template does not parse: {error.message}"
        yield Fault("chat_template", sentence, w.where("chat_template"))


@RULES.rule(
    "OPT102",
    "warm-up and decay longer than the schedule",
    reason="The two are shares of one schedule.",
    remedy="let the two fractions sum to 1 at most",
    source=_TYPES + "4286",
    stage="config",
)
def wsd(w: Workload) -> Iterator[Fault]:
    """Find a warmup-stable-decay schedule whose parts exceed it."""
    keys = ("warmup_steps_fraction", "wsd_decay_steps_fraction")
    warm, decay = (w.value(key) for key in keys)
    if w.value("lr_schedule_type") == "wsd" and real(warm, decay) and warm + decay > 1.0:
        sentence = f"{keys[0]} {warm} + {keys[1]} {decay} = {warm + decay:g}, above 1"
        yield Fault(keys[0], sentence, w.where(*reversed(keys), "lr_schedule_type"))


@RULES.rule(
    "MODEL112",
    "parameter scale that is no power of two",
    reason="It is split into powers of two for width, heads and layers.",
    remedy="a power of two, or the base_ keys themselves",
    source=_TYPES + "3633",
    stage="config",
)
def parameter_scale(w: Workload) -> Iterator[Fault]:
    """Find a scale of 0, below, or between powers."""
    scale = w.value("global_parameter_scale")
    if whole(scale) and scales(scale) is None:
        near = nearest_legal(scale, [2**power for power in range(13)], 1)
        yield Fault(
            "global_parameter_scale",
            f"global_parameter_scale is {scale}, and must be a power of two",
            w.where("global_parameter_scale"),
            f"write {' or '.join(map(str, near))}",
        )


@RULES.rule(
    "BAT101",
    "batch size that is no number of sequences",
    reason="MaxText multiplies it by the devices and makes it whole.",
    remedy="a number",
    source=_TYPES + "4437",
    stage="config",
)
def finite_batch(w: Workload) -> Iterator[Fault]:
    """Find infinite batch sizes and such that are no number.

    A batch size of evaluation that nobody says is that of training, and is at fault there.
    """
    keys = ["per_device_batch_size", "eval_per_device_batch_size", "expansion_factor_real_data"]
    if w.value("enable_rampup_batch_size"):
        keys += ["per_device_batch_size_start", "per_device_batch_size_increment"]
    for key in keys:
        value = w.value(key)
        harmless = key.startswith("expansion") and value != inf  # MaxText asks whether it is > 0
        follows = key.startswith("eval") and w.said(key) is None
        if real(value) and not isfinite(value) and not harmless and not follows:
            yield Fault(key, f"{key} is {value}", w.where(key))


@RULES.rule(
    "MODEL113",
    "engram vocabularies",
    reason="There is one vocabulary for every length of n-gram from 2 on.",
    remedy="give engram_max_ngram_size - 1 numbers",
    source=_TYPES + "4985",
    stage="config",
)
def engram_sizes(w: Workload) -> Iterator[Fault]:
    """Find engram_vocab_bases of another length."""
    bases, size = w.value("engram_vocab_bases"), w.value("engram_max_ngram_size")
    layers = w.value("engram_layers")
    if layers in (UNKNOWN, []) or not isinstance(bases, list) or not whole(size):
        return
    if layers and len(bases) != size - 1:
        sentence = f"engram_vocab_bases has {len(bases)} numbers, and must have {size} - 1"
        yield Fault("engram_vocab_bases", sentence, w.where("engram_vocab_bases", "engram_layers"))


@RULES.rule(
    "QNT111",
    "type of the first moment",
    reason="mu_dtype is the name of a type.",
    remedy="bfloat16 or float32",
    source="MaxText 0.2.5 configs/pyconfig.py:352",
    stage="config",
)
def moment_type(w: Workload) -> Iterator[Fault]:
    """Find a mu_dtype that numpy knows no type of."""
    name = w.value("mu_dtype")
    if isinstance(name, str) and name and not _is_type(name):
        near = nearest(name, read(_CODE)["moments"])
        hint = f"did you mean {' or '.join(near)}?" if near else ""
        sentence = f"mu_dtype is {shown(name)}, which is no type"
        yield Fault("mu_dtype", sentence, w.where("mu_dtype"), hint)


@RULES.rule(
    "QNT112",
    "type that keeps no moment",
    reason="Moments of the optimizer are numbers with a fraction.",
    remedy="bfloat16 or float32",
    source="MaxText 0.2.5 optimizers/optimizers.py",
    stage="later",
)
def moment_kept(w: Workload) -> Iterator[Fault]:
    """Find a mu_dtype of whole numbers, text or the like."""
    name = w.value("mu_dtype")
    if isinstance(name, str) and name and _is_type(name) and name not in read(_CODE)["moments"]:
        sentence = f"mu_dtype is {name}, which is no type of a moment"
        yield Fault("mu_dtype", sentence, w.where("mu_dtype"))


def _is_type(name: str) -> bool:
    """Whether numpy takes a name: of a type, a code with a length, or several with commas."""
    table = read(_CODE)
    parts = name.split(",")
    for part in parts:
        code = part.strip() if len(parts) > 1 else part
        if code[:1] in set("<>=|") and code[1:]:
            code = code[1:]
        text = code[:1] in set("SUVa") and code[1:].isdigit()
        if code not in table["dtype_codes"] and code not in table["dtypes"] and not text:
            return False
    return True


@RULES.rule(
    "MODEL115",
    "default of the code that its own checks cannot read",
    reason="Without base.yml two defaults stay texts, which MaxText compares with names of its "
    "code, and the check fails whatever they are.",
    remedy="add base_config: base.yml",
    source="MaxText 0.2.5 configs/types.py:1668, :3790, :5459, :5126",
    stage="config",
)
def unread_default(w: Workload) -> Iterator[Fault]:
    """Find the checks that meet a default nobody said."""
    keys = catalogue(w)
    if keys is None or based_on(w.config) is not None:
        return
    for key, wanted, default in _TEXT_DEFAULTS:
        model = model_file(w.config, w.arguments, keys)
        if model is UNKNOWN or default in model or w.said(default) is not None:
            continue
        if w.value(key) == wanted:
            sentence = f"{key} is {typed(wanted)}, and {default} is left to the code"
            yield Fault(default, sentence, w.where(key))
