"""Declaration of the command that climbs."""

from __future__ import annotations

from moectl.cli.command import Argument, Command, Option

_OWN = frozenset({"--gpus", "--name", "--chain"})


def climb_commands(job_options: tuple[Option, ...], answer: Option) -> tuple[Command, ...]:
    """Return the commands.

    Args:
        job_options: options of a job.
        answer: how the answer is printed.
    """
    return (
        Command(
            "climb",
            "Run a ladder of sizes; each starts only when the one below passed its gate.",
            "moectl.cli.climb:run",
            (
                Argument(
                    "target",
                    "A preset or run file; none with --resume and --show.",
                    required=False,
                    of="targets",
                ),
            ),
            (
                Option("--rungs", "GPUs of the rungs, e.g. 8,64,128.", metavar="N,N"),
                Option(
                    "--resume",
                    "Go on with a climb, from its failed rung.",
                    metavar="CLIMB",
                    of="climbs",
                ),
                Option("--show", "Say where a climb stands.", metavar="CLIMB", of="climbs"),
                Option(
                    "--min-efficiency",
                    "Tokens a second and GPU, of the first rung's, at least.",
                    metavar="SHARE",
                ),
                Option("--min-tflops", "TFLOP/s a GPU at least.", metavar="NUMBER"),
                Option(
                    "--loss-tolerance",
                    "Relative difference of the loss from the rung below at most.",
                    metavar="SHARE",
                ),
                Option(
                    "--straggler",
                    "Step time of a process over the median of all at most.",
                    metavar="FACTOR",
                ),
                *(option for option in job_options if option.flag not in _OWN),
                answer,
            ),
            (
                "moectl climb deepseek3-671b --rungs 64,128,256 --cluster site.yaml",
                "moectl climb --show deepseek3-671b",
                "moectl climb --resume deepseek3-671b --set batch.per_device=4",
            ),
            "The gates are jobs that depend on the end of a rung, and the next rung depends on "
            "its gate, so nothing has to stay awake. A gate fails a rung that did not finish, "
            "overflowed, has another loss than the rung below, is too slow, or has a straggler. "
            "Exit code 1 when a rung failed.",
        ),
    )
