"""Declaration of `moectl prove`."""

from __future__ import annotations

from moectl.cli.command import Argument, Command, Option


def prove_commands(
    target: Argument, job_options: tuple[Option, ...], answer: Option
) -> tuple[Command, ...]:
    """Return the command.

    Args:
        target: what is proved.
        job_options: options of a job.
        answer: how the answer is printed.
    """
    return (
        Command(
            "prove",
            "Compile the real training step for the real GPU, without one (minutes).",
            "moectl.cli.prove:run",
            (target,),
            (
                *job_options,
                Option(
                    "--layers",
                    "Compile models of N (2 or more) and 2N layers and extrapolate.",
                    metavar="N",
                ),
                Option("--fresh", "Compile again what is known already.", kind="flag"),
                Option("--timeout", "Seconds a compile may take.", metavar="SECONDS"),
                answer,
            ),
            (
                "moectl prove deepseek2-16b --gpus 8 --hardware h200",
                "moectl prove deepseek3-671b --gpus 128 --layers 2",
                "moectl prove run.yaml --format json",
            ),
            "The CUDA plugin of JAX holds descriptions of GPUs and compiles for them. It and "
            "MaxText go to an environment of their own at the first use. Memory is a verdict "
            "(exit code 1 when it does not fit) on MaxText's own MoE path; for Transformer "
            "Engine's something else stands in, and it is information. The answer says what it "
            "does not cover.",
        ),
    )
