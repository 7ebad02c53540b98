"""Declarations of the commands that say what a run will take."""

from __future__ import annotations

from moectl.cli.command import Argument, Command, Option
from moectl.cli.options import EXPLAIN


def estimate_commands(
    target: Argument, job_options: tuple[Option, ...], answer: Option
) -> tuple[Command, ...]:
    """Return the commands.

    Args:
        target: what is estimated.
        job_options: options of a job.
        answer: how the answer is printed.
    """
    return (
        Command(
            "estimate",
            "Say what a run takes: memory, FLOPs, step time, cost. No GPU, no JAX.",
            "moectl.cli.estimate:run",
            (target,),
            (
                *job_options,
                EXPLAIN,
                Option(
                    "--verify",
                    "Have JAX lay out every weight, and compare.",
                    kind="flag",
                ),
                Option("--tokens", "Tokens to train on, e.g. 14.8T.", metavar="NUMBER"),
                Option("--price", "Price of a GPU-hour, with --tokens.", metavar="NUMBER"),
                answer,
            ),
            (
                "moectl estimate deepseek3-671b --gpus 128 --hardware gb200",
                "moectl estimate deepseek3-671b --tokens 14.8T --price 2 --explain",
                "moectl estimate qwen3-30b-a3b --gpus 64 --set per_device_batch_size=2 "
                "--format json",
            ),
            "Exit code 1 when it does not fit for certain, or a rule refuses the run. Weights "
            "and moments are exact; the rest of the memory, and the time, are ranges "
            "(docs/estimates.md). --hardware also takes a YAML file that describes a GPU.",
        ),
    )
