"""All commands, in the order of the help."""

from __future__ import annotations

from dataclasses import replace

from moectl.cli.calibrate_commands import calibrate_commands
from moectl.cli.catalogue_commands import catalogue_commands
from moectl.cli.climb_commands import climb_commands
from moectl.cli.command import Argument, Command, Option
from moectl.cli.completion_commands import completion_commands
from moectl.cli.diff_commands import diff_commands
from moectl.cli.estimate_commands import estimate_commands
from moectl.cli.launch_commands import launch_commands
from moectl.cli.options import (
    ANSWER,
    CLUSTER,
    COLOUR,
    CONTEXT,
    FORCE,
    GPUS_UNSAID,
    HARDWARE_UNSAID,
    IMAGE_UNSAID,
    JOB_OPTIONS,
    NAMESPACE,
    QUIET,
    YES,
    answer,
    output,
)
from moectl.cli.plan_commands import plan_commands
from moectl.cli.prove_commands import prove_commands
from moectl.cli.rehearse_commands import rehearse_commands
from moectl.cli.report_commands import report_commands
from moectl.cli.trace_commands import trace_commands

_FORMAT = ANSWER
_JOB_OPTIONS = JOB_OPTIONS
_TARGET = Argument("target", "A preset, a run file, or the folder of a bundle.", of="targets")

_OWN: tuple[Command, ...] = (
    Command(
        "render",
        "Turn a preset or run file into everything a job needs.",
        "moectl.cli.render:run",
        (_TARGET,),
        (
            *_JOB_OPTIONS,
            output("the bundle", folder=True, default="NAME-Ngpus"),
            FORCE,
            Option(
                "--stdout",
                "Print one part and write nothing.",
                metavar="PART",
                choices=("config", "launch", "env", "lock"),
            ),
            _FORMAT,
        ),
        (
            "moectl render deepseek3-671b --gpus 128",
            "moectl render deepseek3-671b --gpus 256 --global-batch 768 --set steps=50",
            "moectl render run.yaml --cluster site.yaml --stdout launch",
        ),
        "Findings of severity error stop it (exit 1) unless --allow names their code.",
    ),
    Command(
        "show",
        "Print the effective values of a job and where each came from.",
        "moectl.cli.show:run",
        (_TARGET,),
        (
            *_JOB_OPTIONS,
            Option(
                "--sources", "Say where each value came from and what it overrode.", kind="flag"
            ),
            _FORMAT,
        ),
        ("moectl show deepseek3-671b --gpus 128 --sources",),
    ),
    Command(
        "validate",
        "Find what would fail on the cluster, in any file that starts training.",
        "moectl.cli.validate:run",
        (
            Argument(
                "paths",
                "Run files, bundles, MaxText YAML, scripts, manifests, folders; - is standard "
                "input.",
                many=True,
                required=False,
                of="files",
            ),
        ),
        (
            Option("--xla-flags", "Check a text of XLA_FLAGS.", metavar="TEXT", of="xla"),
            GPUS_UNSAID,
            Option("--gpus-per-node", "GPUs a node, where no file says it.", metavar="N"),
            HARDWARE_UNSAID,
            IMAGE_UNSAID,
            Option(
                "--maxtext", "MaxText release to judge against.", metavar="RELEASE", of="maxtexts"
            ),
            Option("--jaxlib", "jaxlib release to judge against.", metavar="RELEASE", of="jaxlibs"),
            Option("--probe", "What `moectl probe` said of the image.", metavar="FILE", of="files"),
            Option(
                "--select",
                "Report these codes or families only, comma separated; may be repeated.",
                kind="many",
                metavar="CODES",
                of="codes",
            ),
            Option(
                "--ignore",
                "Leave these codes or families out, comma separated; may be repeated.",
                kind="many",
                metavar="CODES",
                of="codes",
            ),
            Option("--strict", "Warnings fail the check as well.", kind="flag"),
            Option("--fix", "Make the remedies that are safe; shows them and asks.", kind="flag"),
            Option("--diff", "Show what --fix would change, and change nothing.", kind="flag"),
            YES,
            answer("json", "github", "sarif", "junit"),
            output("the answer"),
        ),
        (
            "moectl validate run.yaml",
            "moectl validate run.yaml --strict --format json",
            "moectl validate --xla-flags=--xla_gpu_enable_latency_hiding_scheduler=true",
        ),
        "Exit code 1 when something is found that fails: an error, or with --strict a warning. "
        "A comment `# moectl: ignore[CODE]` in a file takes findings of its line away. "
        "Nothing in a checked file is run.",
    ),
    Command(
        "explain",
        "Explain a finding's code, a MaxText key, an XLA flag or a variable.",
        "moectl.cli.explain:run",
        (
            Argument(
                "names",
                "A code or family, MaxText key, run-file path, XLA flag or variable; without "
                "one, the families of codes.",
                many=True,
                required=False,
                of="names",
            ),
        ),
        (_FORMAT,),
        (
            "moectl explain",
            "moectl explain ici_fsdp_parallelism",
            "moectl explain NCCL_IB_SL --format json",
        ),
        takes_flags=True,
    ),
    Command(
        "doctor",
        "Look at the cluster of this machine, and write a cluster profile of it.",
        "moectl.cli.doctor:run",
        options=(
            output("the profile"),
            FORCE,
            Option(
                "--launcher",
                "What to look at; the default is this machine and its Slurm.",
                metavar="NAME",
                choices=("slurm", "local", "kubernetes"),
            ),
            CONTEXT,
            NAMESPACE,
            _FORMAT,
        ),
        examples=("moectl doctor", "moectl doctor --output site.yaml"),
        detail="Asks Slurm's own programs, or an API server of Kubernetes; submits nothing. Exit "
        "code 1 when something is missing that a launch needs; each has its cause and remedy. "
        "docs/cluster.md has every key.",
    ),
    Command(
        "image pull",
        "Import images into .sqsh files, once for all nodes.",
        "moectl.cli.image:pull",
        (
            Argument(
                "images",
                "Images of a registry; without one, the profile's or moectl's own.",
                many=True,
                required=False,
                of="images",
            ),
        ),
        (
            Option(
                "--arch",
                "Architecture of the nodes; else the profile's, else this machine's.",
                metavar="NAME",
                choices=("aarch64", "x86_64"),
            ),
            Option(
                "--to",
                "Folder of the files; else the profile's, else here.",
                metavar="DIR",
                of="folders",
            ),
            CLUSTER,
            _FORMAT,
        ),
        (
            "moectl image pull ghcr.io/nvidia/jax:maxtext-2026-09-09 --arch aarch64",
            "moectl image pull --cluster site.yaml",
        ),
        "Uses enroot; where it is not, the line that does it on a compute node is printed. The "
        "file is there whole or not at all, with digest and architecture in FILE.json beside it.",
    ),
    *plan_commands(_TARGET, _JOB_OPTIONS, _FORMAT),
    *prove_commands(_TARGET, _JOB_OPTIONS, _FORMAT),
    *estimate_commands(_TARGET, _JOB_OPTIONS, _FORMAT),
    *launch_commands(_TARGET, _JOB_OPTIONS, _FORMAT),
    *report_commands(),
    *rehearse_commands(_TARGET, _JOB_OPTIONS, _FORMAT),
    *calibrate_commands(_FORMAT),
    *climb_commands(_JOB_OPTIONS, _FORMAT),
    *trace_commands(_FORMAT),
    *diff_commands(_FORMAT),
    *completion_commands(),
    *catalogue_commands(),
)
# Every command can be told to be quiet, and when to use colours.
COMMANDS: tuple[Command, ...] = tuple(
    replace(command, options=(*command.options, QUIET, COLOUR)) for command in _OWN
)


def find(words: list[str]) -> tuple[Command, list[str]] | None:
    """Return the command that `words` begins with, and the words after it."""
    for command in COMMANDS:
        name = command.name.split()
        if words[: len(name)] == name:
            return command, words[len(name) :]
    return None


def overview() -> str:
    """Return the text of `moectl --help`."""
    from moectl.version import __version__  # noqa: PLC0415

    width = max(len(command.name) for command in COMMANDS) + 2
    rows = [f"  {command.name:<{width}}{command.summary}" for command in COMMANDS]
    return "\n".join(
        [
            f"moectl {__version__}: MaxText configs and launch scripts for MoE training on "
            "NVIDIA GPUs.",
            "",
            "Usage: moectl COMMAND [OPTIONS]",
            "",
            "Commands:",
            *rows,
            "",
            "Options:",
            "  --version  Print the version.",
            "  --help     Print this text; `moectl COMMAND --help` says more.",
            "",
            "Start here:",
            "  moectl render deepseek3-671b --gpus 128",
            "",
        ]
    )
