"""Logs of a made-up run of DeepSeek-V3's size, in the words of MaxText 0.2.5.

The lines are those that real processes wrote (`training_logs`); only the numbers are drawn.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from math import floor
from pathlib import Path

FLOPS, TOKENS = 6155.06, 24576  # TFLOP and tokens a GPU and step: batch 6 of 4,096 tokens
CAPACITY = 196608
CONFIG = {
    "attention": "cudnn_flash_te",
    "capacity_factor": "-1.0",
    "gradient_accumulation_steps": "1",
    "ici_expert_parallelism": "8",
    "ici_fsdp_parallelism": "8",
    "max_target_length": "4096",
    "model_name": "deepseek3-671b",
    "num_experts": "256",
    "num_experts_per_tok": "8",
    "per_device_batch_size": "6.0",
    "profiler": "ProfilerType.NONE",
    "quantization": "QuantizationType.NONE",
    "ragged_buffer_factor": "2.0",
    "remat_policy": "custom",
    "run_name": "dsv3",
    "steps": "200",
    "te_gmm_quantization": "TEGroupedGemmQuantizationType.TE_MXFP8",
    "use_random_routing": "False",
}


def clock(seconds: float) -> str:
    """Return absl's time so many seconds after the morning of 30 November."""
    whole = floor(seconds)
    day, rest = divmod(whole + 8 * 3600, 86400)
    parts = (30 + day, rest // 3600, rest // 60 % 60, rest % 60, int((seconds - whole) * 1e6))
    return "11{:02d} {:02d}:{:02d}:{:02d}.{:06d}".format(*parts)


def absl(seconds: float, place: str, text: str, thread: int = 140264779340672) -> str:
    """Return a line as absl writes it."""
    return f"I{clock(seconds)} {thread} {place}] {text}\n"


def step_text(
    step: int, seconds: float, loss: float, balance: float = 0.012, batch: float = 1.0
) -> str:
    """Return the message of a step; `batch` is its share of the usual one."""
    flops, tokens = batch * FLOPS / seconds, batch * TOKENS / seconds
    return (
        f"completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: {flops:.3f}, "
        f"Tokens/s/device: {tokens:.3f}, total_weights: 3145728, loss: {loss:.3f}, "
        f"lm_loss: {loss:.3f}, perplexity: {2.718281828**loss:.3f}, moe_lb_loss: {balance:.6f}"
    )


def beginning(
    at: float,
    gpus: int = 128,
    thread: int = 140264779340672,
    *,
    said: Mapping[str, str] | None = None,
) -> str:
    """Return what a process writes before its first step."""
    lines = [
        absl(at, "pyconfig.py:591", f"Config param {key}: {value}", thread)
        for key, value in sorted({**CONFIG, **(said or {})}.items())
    ]
    lines += [
        absl(at + 9, "max_utils.py:836", "System Information: Jaxlib Version: 0.11.2", thread),
        absl(at + 10, "maxtext_utils.py:2098", f"Num_devices: {gpus}, shape (2, 8, 8)", thread),
        absl(
            at + 60, "max_utils.py:823", "[train] Total estimated memory size: 137.2 GB, x", thread
        ),
        absl(at + 61, "metric_logger.py:425", "number parameters: 671.026 billion", thread),
        f"Per train step:\n Total TFLOPs: {FLOPS:.2f} \n split as 87.74% learnable weight flops\n",
        f"I{clock(at + 62)} {thread} max_utils.py:780] \nMemstats: After params initialized:\n",
        absl(
            at + 62, "max_utils.py:786", "\tUsing (GB) 31.44 / 163.5 (19.229358%) on cuda:0", thread
        ),
    ]
    return "".join(lines)


def times(count: int, seconds: float = 5.763, seed: int = 1, noise: float = 0.01) -> list[float]:
    """Return step times: the first wrong as those of real runs are, the others around a median."""
    draw = random.Random(seed)  # noqa: S311 - repeatable, not secret
    steady = [seconds * (1 + noise * draw.gauss(0, 1)) for _ in range(count)]
    return [44.903, 0.319, *steady][:count]


def steps(
    spent: Iterable[float],
    at: float,
    first: int = 0,
    thread: int = 140264779340672,
    batch: float = 1.0,
) -> str:
    """Return the lines of steps that took so long, from a moment on."""
    draw = random.Random(first)  # noqa: S311 - repeatable, not secret
    lines = []
    for step, seconds in enumerate(spent, first):
        at += seconds
        loss = 12.1 * (step + 2) ** -0.28 + 0.03 * draw.gauss(0, 1)
        balance = 0.012 + 0.001 * draw.gauss(0, 1)
        text = step_text(step, seconds, loss, balance, batch)
        lines.append(absl(at, "metric_logger.py:265", text, thread))
    return "".join(lines)


def log(
    count: int = 60, *, seconds: float = 5.763, seed: int = 1, gpus: int = 128, **said: str | int
) -> str:
    """Return a whole log of a process: its start and so many steps."""
    start = beginning(0.0, gpus, said={key: str(value) for key, value in said.items()})
    return start + steps(times(count, seconds, seed), 70.0)


def metrics(path: Path, spent: list[float]) -> None:
    """Write the metrics file of such a run, with the counts of Transformer Engine's MoE."""
    draw = random.Random(7)  # noqa: S311 - repeatable, not secret
    log_draw = random.Random(0)  # noqa: S311 - the losses of `steps`
    with path.open("w") as stream:
        for step, seconds in enumerate(spent):
            loss = 12.1 * (step + 2) ** -0.28 + 0.03 * log_draw.gauss(0, 1)
            balance = 0.012 + 0.001 * log_draw.gauss(0, 1)
            demand = int(131000 + 9000 * draw.random() + 30000 * 2.718 ** (-step / 15))
            record = {
                "learning/loss": loss,
                "learning/lm_loss": loss,
                "learning/moe_lb_loss": balance,
                "learning/grad_norm": 1.0 + draw.random() / 10,
                "learning/te_moe_capacity_overflow": 0.0,
                "learning/te_moe_max_total_recv_tokens": float(demand),
                "learning/te_moe_recv_capacity_per_rank": float(CAPACITY),
                "perf/step_time_seconds": seconds,
                "perf/per_device_tflops": FLOPS,
                "perf/per_device_tflops_per_sec": FLOPS / seconds,
                "perf/per_device_tokens": float(TOKENS),
                "perf/per_device_tokens_per_sec": TOKENS / seconds,
                "step": float(step),
                "run_name": "dsv3",
            }
            stream.write(json.dumps(record) + "\n")


def folder(path: Path, count: int = 80, ranks: int = 16) -> Path:
    """Write a run of many ranks with a straggler, a restart and a metrics file."""
    path.mkdir(parents=True, exist_ok=True)
    spent = times(count)
    for rank in range(ranks):
        slow = 1.04 if rank == 11 else 1.0
        draw = random.Random(rank)  # noqa: S311 - repeatable, not secret
        own = [seconds * slow * (1 + 0.001 * draw.random()) for seconds in spent]
        if rank == 0:
            own = spent
        thread = 140264779340672 + rank * 4096
        again = 70.0 + sum(spent) + 300
        text = beginning(0.0, thread=thread) + steps(own, 70.0, thread=thread)
        text += beginning(again, thread=thread)
        later = [44.1, 0.4, *own[20:50]]
        text += steps(later, again + 70, first=count - 10, thread=thread)
        (path / f"rank-{rank}.log").write_text(text)
    metrics(path / "metrics.jsonl", spent)
    return path
