"""Declarations of the commands that compare jobs, with others and with themselves of before."""

from __future__ import annotations

from moectl.cli.command import Argument, Command, Option
from moectl.cli.options import FORCE, GPUS_UNSAID, HARDWARE_UNSAID, IMAGE_UNSAID, output


def diff_commands(answer: Option) -> tuple[Command, ...]:
    """Return the commands.

    Args:
        answer: how the answer is printed.
    """
    what = "A preset, run file, bundle, or a run by its id or name."
    return (
        Command(
            "diff",
            "Say what differs between two jobs by what they mean.",
            "moectl.cli.diff:run",
            (Argument("left", what, of="jobs"), Argument("right", what, of="jobs")),
            (answer,),
            ("moectl diff run.yaml run.yaml", "moectl diff run.yaml run.yaml --format json"),
            "Compares GPUs, mesh, batch, memory, every effective MaxText key, XLA flags, variables "
            "and the cluster profile. Exit code 1 when something differs.",
        ),
        Command(
            "verify",
            "Say whether a bundle or run can be reproduced today, and what drifted.",
            "moectl.cli.verify:run",
            (Argument("target", "A bundle's folder, or a run by its id or name.", of="jobs"),),
            (answer,),
            ("moectl verify deepseek3-671b-128gpus",),
            "Compares moectl, catalogues, templates, every file with what its lock renders now, "
            "the image's digest, and what the last job wrote down about itself. Exit code 1 when "
            "something drifted. Nothing is asked of the network.",
        ),
        Command(
            "import",
            "Take a script, config, manifest or flags over into a run file.",
            "moectl.cli.importing:run",
            (Argument("paths", "The files of one run.", many=True, of="files"),),
            (
                GPUS_UNSAID,
                HARDWARE_UNSAID,
                IMAGE_UNSAID,
                output("the run file"),
                FORCE,
                answer,
            ),
            ("moectl import job.sbatch --hardware gb200-nvl72 --output run.yaml",),
            "Nothing in the files is run. What has no place in a run file is named with its line. "
            "The run file is rendered and compared with the files, value by value.",
        ),
    )
