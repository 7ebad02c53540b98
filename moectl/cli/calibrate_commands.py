"""Declaration of the command that fits the step model."""

from __future__ import annotations

from moectl.cli.command import Argument, Command, Option


def calibrate_commands(answer: Option) -> tuple[Command, ...]:
    """Return the commands.

    Args:
        answer: how the answer is printed.
    """
    return (
        Command(
            "calibrate",
            "Fit predicted step times to a run that was measured.",
            "moectl.cli.calibrate:run",
            (Argument("run", "A run by its id or name, or a bundle with its logs.", of="runs"),),
            (
                Option(
                    "--trace",
                    "A profile of the run, which tells parts of a step by themselves; may be "
                    "repeated.",
                    kind="many",
                    metavar="FILE",
                    of="files",
                ),
                answer,
            ),
            ("moectl calibrate deepseek3-671b", "moectl calibrate run --trace host.xplane.pb"),
            "Keeps the efficiencies by platform and image beside the records of runs. From then "
            "on `moectl estimate` and `moectl plan` use them and say so. Without a profile one "
            "factor on all efficiencies is fitted.",
        ),
    )
