"""Lines as real processes of MaxText 0.2.5 wrote them on CPU (jaxlib 0.12.0.1), made anew."""

from __future__ import annotations

from pathlib import Path

ABSL = "I1130 15:26:{second:02d}.461972 140264779340672 {place}] "
CONFIG = ABSL.format(second=14, place="pyconfig.py:591") + "Config param {key}: {value}\n"
PARAMETERS = (
    ABSL.format(second=47, place="metric_logger.py:425") + "number parameters: 0.007 billion\n"
)
RAMPUP = (
    ABSL.format(second=42, place="metric_logger.py:265")
    + "[Rampup Batch Size Phase], completed step: 0, seconds: 6.954, total_weights: 128, "
    "loss: 7.516, lm_loss: 7.516, perplexity: 1836.447, moe_lb_loss: 0.000000\n"
)
BOUNDARY = (
    ABSL.format(second=53, place="metric_logger.py:265")
    + "completed profiler activation/deactivation step: 3, total_weights: 256, loss: 7.383, "
    "lm_loss: 7.383, perplexity: 1608.816, moe_lb_loss: 0.000000\n"
)
NAN = (
    ABSL.format(second=11, place="metric_logger.py:265")
    + "completed step: 3, seconds: 0.211, TFLOP/s/device: 0.008, Tokens/s/device: 607.407, "
    "total_weights: 128, loss: nan, lm_loss: nan, perplexity: nan, moe_lb_loss: 0.000000\n"
)
ABORT = (
    ABSL.format(second=11, place="metric_logger.py:349") + "Aborting training due to NaN loss.\n"
)
EVALUATION = (
    ABSL.format(second=54, place="metric_logger.py:322")
    + "Completed eval step: 1, seconds: 0.400, running loss=7.4\n"
    + ABSL.format(second=55, place="metric_logger.py:299")
    + "Completed eval after train step 1, loss=7.424, perplexity=1675.3, total_weights=256\n"
)
STOPPED = (
    ABSL.format(second=10, place="train.py:1454")
    + "Training stopped: Job received termination signal (SIGTERM).\n"
)
REFUSED = (
    "E1130 15:27:39.777212 139804900285312 pyconfig.py:393] MAXTEXT CONFIG ERROR: 1 validation "
    "error for MaxTextConfig\nsteps\n  Input should be a valid integer\n"
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for MaxTextConfig\n"
)
UNMET = (
    "I1130 15:30:23.549932   11441 coordination_service_agent.cc:169] Coordination service agent "
    "failed to register with the leader (attempt #1, will try again after 263us). Error status: "
    "DEADLINE_EXCEEDED: Deadline Exceeded\n"
)
VICTIM = (
    "F1130 15:30:23.550510   11441 client.h:86] Terminating process because the JAX distributed "
    "service detected fatal errors. This most likely indicates that another task died; see the "
    "other task logs for more details.\n"
)
SILENT = (
    "E1130 15:33:21.928808   11979 coordination_service.cc:1148] Barrier(Shutdown::0) has passed "
    "with status: INTERNAL: Barrier failed because: task is set to ERROR: UNAVAILABLE: Task 1 "
    "heartbeat timeout. This indicates that the remote task has failed, got preempted, or "
    "crashed unexpectedly.\n"
)
STACKS = 'Fatal Python error: Aborted\n\nCurrent thread 0x00007f9f18d05b80:\n  File "train.py"\n'
MEMORY = (
    "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
    "34359738368 bytes.\n"
)


def step(number: int, seconds: float = 0.5, loss: str = "7.402", tokens: float = 1000.0) -> str:
    """Return the line of a step."""
    return (
        ABSL.format(second=number % 60, place="metric_logger.py:265")
        + f"completed step: {number}, seconds: {seconds:.3f}, TFLOP/s/device: 412.125, "
        f"Tokens/s/device: {tokens:.3f}, total_weights: 256, loss: {loss}, lm_loss: {loss}, "
        "perplexity: 1637.990, moe_lb_loss: 0.015625\n"
    )


def config(**values: object) -> str:
    """Return MaxText's echo of keys."""
    return "".join(CONFIG.format(key=key, value=value) for key, value in values.items())


def steps(count: int, first: int = 0) -> str:
    """Return a run of that many steps, as its log says it: the first are slow."""
    slow = {first: 44.9, first + 1: 0.3}
    return "".join(step(number, slow.get(number, 5.0)) for number in range(first, first + count))


def folder(bundle: Path, job: str, logs: dict[int, str]) -> Path:
    """Write logs of ranks into a bundle and return their folder."""
    path = bundle / "logs" / job
    path.mkdir(parents=True, exist_ok=True)
    for rank, text in logs.items():
        (path / f"rank-{rank}.log").write_text(text)
    return path
