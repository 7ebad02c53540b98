"""Declarations of the commands that launch and look after runs."""

from __future__ import annotations

from moectl.cli.command import Argument, Command, Option
from moectl.cli.options import CHAIN, FOLLOW, YES

_RUN = Argument(
    "run", "A run's id, the beginning of one, its name (the newest), or a job's id.", of="runs"
)


def launch_commands(
    target: Argument, job_options: tuple[Option, ...], answer: Option
) -> tuple[Command, ...]:
    """Return the commands.

    Args:
        target: what is launched.
        job_options: options of a job.
        answer: how the answer is printed.
    """
    return (
        Command(
            "launch",
            "Render, submit and write down a run; a bundle is launched as it stands.",
            "moectl.cli.launch:run",
            (target,),
            (
                *job_options,
                Option(
                    "--dry-run",
                    "Print the whole plan; write nothing and submit nothing.",
                    kind="flag",
                ),
                Option("--wait", "Follow the run; exit 0 only when it is done.", kind="flag"),
                Option("--after", "Start when another run has ended.", metavar="RUN", of="runs"),
                Option("--again", "A live run of the same name is no obstacle.", kind="flag"),
                YES,
                CHAIN,
                Option(
                    "--until-step", "Make the run of as many jobs as it takes to S.", metavar="S"
                ),
                answer,
            ),
            (
                "moectl launch deepseek3-671b --gpus 128 --dry-run",
                "moectl launch run.yaml --cluster site.yaml --wait",
                "moectl launch deepseek3-671b-128gpus --after deepseek3-671b",
                "moectl launch deepseek3-671b --form pretrain --cluster site.yaml --chain 4",
            ),
            "Findings of severity error stop it (exit 1) unless --allow names their code. What "
            "Slurm refuses is exit code 3. Inside an allocation (salloc) the run starts there "
            "at once. Records of runs lie in $MOECTL_RUNS, or ~/.local/state/moectl/runs.",
        ),
        Command(
            "runs",
            "List the runs and what they do.",
            "moectl.cli.runs:runs",
            options=(answer,),
            examples=("moectl runs", "moectl runs --format json"),
            detail="The scheduler is asked once for all of them; exit code 3 when it cannot be.",
        ),
        Command(
            "status",
            "Say how runs are: state, step, rates, loss, and why they failed.",
            "moectl.cli.status:run",
            (Argument("run", "A run; without one, all.", many=True, required=False, of="runs"),),
            (Option("--watch", "Look again until nothing is live.", kind="flag"), answer),
            ("moectl status", "moectl status deepseek3-671b --watch"),
        ),
        Command(
            "logs",
            "Print the end of a rank's log, and follow it.",
            "moectl.cli.logs:run",
            (_RUN,),
            (
                FOLLOW,
                Option("--failed", "The rank that failed first.", kind="flag"),
                Option("--rank", "The rank; the default is 0.", metavar="N"),
                Option("--job", "A job's id, or 1234.1 for its restart.", metavar="JOB"),
                Option("--lines", "Lines of its end; the default is 50.", metavar="N"),
                answer,
            ),
            ("moectl logs deepseek3-671b --follow",),
        ),
        Command(
            "cancel",
            "End a run's jobs.",
            "moectl.cli.runs:cancel",
            (_RUN,),
            (answer,),
            ("moectl cancel deepseek3-671b",),
        ),
        Command(
            "resume",
            "Go on with a run: further jobs of the same bundle.",
            "moectl.cli.runs:resume",
            (_RUN,),
            (CHAIN, answer),
            ("moectl resume deepseek3-671b",),
            "MaxText goes on from its last checkpoint, where the run writes any. Of a run of "
            "several jobs, as many are submitted as have not trained yet.",
        ),
    )
