"""What a proof may find, as codes that `moectl explain` knows."""

from __future__ import annotations

from moectl.facts.yaml_facts import read
from moectl.rules.rule import Rule, Rules

_COMPILER = "the XLA of the CUDA plugin that compiled it"
REFUSED = Rule(
    "PRV101",
    "an XLA flag that the real compiler refuses",
    "XLA ends the process at a flag it does not know or a value it does not take.",
    "take the flag out, or name an image whose jaxlib knows it",
    _COMPILER,
    "error",
    "later",
)
CHANGED = Rule(
    "PRV102",
    "an XLA flag that the compiler holds with another value",
    "The compiler's own options were read back after the compile; what counts is what they hold.",
    "`moectl explain FLAG` says what it takes",
    _COMPILER,
    "warning",
    "silent",
)
EXCEEDS = Rule(
    "PRV111",
    "the compiled step needs more than the GPU's memory",
    "A compile does not fail for it; the job does, at its first step.",
    "a smaller batch.per_device, more GPUs, or a remat policy that keeps less",
    "XLA's buffer assignment against facts/data/hardware.yaml",
    "error",
    "later",
)
EXCEEDS_POOL = Rule(
    "PRV112",
    "the compiled step fits the GPU, and not XLA's pool on it",
    "XLA takes its pool at the start and lives in it; the rest of the memory is not its own.",
    f"raise {read('memory.yaml')['fractions'][0]}, or make the step smaller",
    "XLA's buffer assignment against the pool (facts/data/memory.yaml)",
    "warning",
    "later",
)
RULES = Rules([REFUSED, CHANGED, EXCEEDS, EXCEEDS_POOL])
