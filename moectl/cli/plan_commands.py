"""Declaration of the command that searches meshes."""

from __future__ import annotations

from moectl.cli.command import Argument, Command, Option
from moectl.cli.options import FORCE, output

# Options of a job that matter most to a search.
_OWN = frozenset({"--gpus", "--hardware", "--global-batch"})


def plan_commands(
    target: Argument, job_options: tuple[Option, ...], answer: Option
) -> tuple[Command, ...]:
    """Return the commands.

    Args:
        target: what is planned.
        job_options: options of a job.
        answer: how the answer is printed.
    """
    return (
        Command(
            "plan",
            "Rank every legal mesh, micro-batch and remat policy by predicted speed.",
            "moectl.cli.plan:run",
            (target,),
            (
                *(option for option in job_options if option.flag in _OWN),
                Option("--seq", "Tokens a sequence.", metavar="N"),
                Option("--top", "How many meshes are shown; 5 if left out.", metavar="N"),
                Option(
                    "--why-not",
                    "Say why meshes with these degrees are not first.",
                    metavar="DEGREES",
                ),
                Option("--sweep", "The best mesh of each of these numbers of GPUs.", metavar="N,N"),
                output("the run file of a rank"),
                Option("--choose", "Which rank is written; 1 if left out.", metavar="RANK"),
                FORCE,
                *(option for option in job_options if option.flag not in _OWN),
                answer,
            ),
            (
                "moectl plan deepseek3-671b --gpus 128 --hardware gb200-nvl72",
                "moectl plan deepseek3-671b --gpus 128 --why-not ici_expert=16",
                "moectl plan qwen3-30b-a3b --gpus 64 --output planned.yaml",
                "moectl plan deepseek3-671b --sweep 128,256,512,1024,2048",
            ),
            "Every mesh counts once, with its best micro-batch and remat policy and the slices "
            "that suit it best. What a rule refuses or memory forbids is left out; --why-not says "
            "why. Rates are predictions (docs/estimates.md). No GPU, no JAX.",
        ),
    )
