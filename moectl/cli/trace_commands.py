"""Declaration of the command that reads profiles."""

from __future__ import annotations

from moectl.cli.command import Argument, Command, Option


def trace_commands(answer: Option) -> tuple[Command, ...]:
    """Return the commands.

    Args:
        answer: how the answer is printed.
    """
    return (
        Command(
            "trace",
            "Say where the time of a profile went: by class of kernel, hidden or exposed.",
            "moectl.cli.trace:run",
            (
                Argument(
                    "paths",
                    "Profiles (*.xplane.pb), or folders that hold some.",
                    many=True,
                    of="files",
                ),
            ),
            (answer,),
            (
                "moectl trace tensorboard/plugins/profile",
                "moectl trace host.xplane.pb --format json",
            ),
            "Reads what MaxText's `profiler: xplane` writes. Of a folder the newest one counts. "
            "Time is the time in which at least one kernel of the class ran; exposed is the part "
            "of it in which nothing computed. Kernels that no class knows are named.",
        ),
    )
