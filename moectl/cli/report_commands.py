"""Declarations of the commands that turn logs into numbers and pictures."""

from __future__ import annotations

from moectl.cli.command import Argument, Command, Option
from moectl.cli.options import EXPLAIN, FOLLOW, GPUS_UNSAID, HARDWARE_UNSAID, answer, output

_MAXTEXT = Option(
    "--maxtext", "MaxText release that wrote the logs.", metavar="RELEASE", of="maxtexts"
)
_PRECISION = Option(
    "--precision",
    "Precision whose dense peak MFU divides by.",
    metavar="NAME",
    choices=("bf16", "fp8", "mxfp8", "nvfp4"),
)
_OUTPUT = output("the answer")
_PLOTS = Option(
    "--plots",
    "Write every plot as SVG, and with matplotlib as PNG.",
    metavar="DIR",
    of="folders",
)
_ALLOW = Option(
    "--allow",
    "Compare in spite of a difference: flops, denominator, sequence or routing; may be repeated.",
    kind="many",
    metavar="KIND",
    of="differences",
)
_RUNS = Argument(
    "inputs",
    "Runs, logs, metrics files, event files, or folders of them.",
    many=True,
    of="logs",
)


def report_commands() -> tuple[Command, ...]:
    """Return the commands."""
    return (
        Command(
            "report",
            "Report on a run: speed, loss, experts, processes, time.",
            "moectl.cli.report:run",
            (
                Argument(
                    "inputs",
                    "A run; or files of one run: logs of all ranks, metrics_file, TensorBoard "
                    "events, output of `sacct --parsable2`, or a folder of them.",
                    many=True,
                    of="logs",
                ),
            ),
            (
                HARDWARE_UNSAID,
                _PRECISION,
                GPUS_UNSAID,
                _MAXTEXT,
                answer("json", "csv", "csv-figures", "html", default=None),
                _OUTPUT,
                _PLOTS,
                Option("--open", "Write the page and open it in a browser.", kind="flag"),
                EXPLAIN,
                FOLLOW,
            ),
            (
                "moectl report run.log --hardware gb200",
                "moectl report run.log metrics.jsonl --format html --output report.html",
            ),
            "Exit code 1 when nothing tells of a step. The page is one file without scripts and "
            "requests. The first 3 steps of every start, and steps that a profile or a batch "
            "ramp-up disturbs, do not count for speed. docs/report.md has every figure.",
        ),
        Command(
            "compare",
            "Compare runs with the first one; exit code 1 on a regression.",
            "moectl.cli.report:compare",
            (_RUNS,),
            (
                Option(
                    "--threshold",
                    "Percent of time that may be lost; the default is 2.",
                    metavar="PERCENT",
                ),
                _ALLOW,
                HARDWARE_UNSAID,
                _PRECISION,
                _MAXTEXT,
                answer("json"),
                _OUTPUT,
            ),
            ("moectl compare run.log other.log --threshold 3",),
            "Compared is the time a token takes on a GPU, with a 95 % interval; a regression is "
            "slower by more than the threshold with all of the interval. Refused, with the "
            "reason, is what measures different things (exit 2).",
        ),
        Command(
            "scaling",
            "Say how throughput grows with GPUs: efficiency, and a fit.",
            "moectl.cli.report:scaling",
            (_RUNS,),
            (
                _ALLOW,
                HARDWARE_UNSAID,
                _PRECISION,
                _MAXTEXT,
                answer("json", "html"),
                _OUTPUT,
                _PLOTS,
            ),
            ("moectl scaling 128=run.log 256=other.log",),
            "GPUS=PATH says how many GPUs a log had that does not say it itself.",
        ),
    )
