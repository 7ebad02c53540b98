"""Declarations of the commands that run things on this machine."""

from __future__ import annotations

from moectl.cli.command import Argument, Command, Option

_NAME = Argument("name", "An environment, see `moectl env list`.", of="environments")


_UNUSED = frozenset({"--launcher", "--cache", "--debug", "--global-batch"})


def rehearse_commands(
    target: Argument, job_options: tuple[Option, ...], answer: Option
) -> tuple[Command, ...]:
    """Return the commands.

    Args:
        target: what is rehearsed.
        job_options: options of a job.
        answer: how the answer is printed.
    """
    return (
        Command(
            "rehearse",
            "Train the same run made small on this machine, and judge it.",
            "moectl.cli.rehearse:run",
            (target,),
            (
                *(option for option in job_options if option.flag not in _UNUSED),
                Option("--steps", "Steps to train; the default is 8.", metavar="N"),
                Option(
                    "--against",
                    "Compare with native, dense, sparse, capacity, or KEY=VALUE[,...].",
                    metavar="PATH",
                ),
                answer,
            ),
            (
                "moectl rehearse deepseek3-671b",
                "moectl rehearse mixtral-8x7b --against sparse",
                "moectl rehearse run.yaml --against routed_scaling_factor=1.0",
            ),
            "With real MaxText in a managed environment, on this machine's GPUs or on its CPU; "
            "what it cannot run is said, and what stands in for it. Judged are: it starts, the "
            "loss is finite and falls, the log is read, a checkpoint is written and resumed to "
            "the same loss. --against trains both paths from the same seed on the same data, in "
            "float32, and compares the losses of every step. Exit code 1 when one does not hold.",
        ),
        Command(
            "env list",
            "List the managed environments with real MaxText and jaxlib.",
            "moectl.cli.env:listed",
            options=(answer,),
            examples=("moectl env list",),
        ),
        Command(
            "env install",
            "Build a managed environment: pinned packages, about 1.2 GB for MaxText.",
            "moectl.cli.env:install",
            (_NAME,),
            (answer,),
            ("moectl env install maxtext-0.2.5",),
            "Uses uv and a Python of the release the set is pinned for; whole or not at all. What "
            "needs one builds it by itself. They lie in $MOECTL_HOME/environments, else in "
            "~/.cache/moectl/environments.",
        ),
        Command(
            "env remove",
            "Remove a managed environment.",
            "moectl.cli.env:remove",
            (_NAME,),
            (answer,),
            ("moectl env remove maxtext-0.2.5",),
        ),
    )
