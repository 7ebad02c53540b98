"""All commands, in the order of the help."""

from __future__ import annotations

from moectl.cli.calibrate_commands import calibrate_commands
from moectl.cli.climb_commands import climb_commands
from moectl.cli.command import Argument, Command, Option, answer
from moectl.cli.diff_commands import diff_commands
from moectl.cli.estimate_commands import estimate_commands
from moectl.cli.launch_commands import launch_commands
from moectl.cli.plan_commands import plan_commands
from moectl.cli.prove_commands import prove_commands
from moectl.cli.rehearse_commands import rehearse_commands
from moectl.cli.report_commands import report_commands
from moectl.cli.trace_commands import trace_commands

_FORMAT = answer("json")
_JOB_OPTIONS = (
    Option("--gpus", "GPUs in all.", metavar="N"),
    Option("--hardware", "GPU platform, see `moectl hardware list`.", metavar="NAME"),
    Option(
        "--form",
        "Synthetic benchmark, or real training.",
        metavar="FORM",
        choices=("benchmark", "pretrain"),
    ),
    Option("--name", "Name of the run.", metavar="NAME"),
    Option(
        "--set",
        "Set a path of the run file or a MaxText key; may be repeated.",
        kind="many",
        metavar="KEY=VALUE",
    ),
    Option("--cluster", "Cluster profile: a file, or the name of one.", metavar="PROFILE"),
    Option(
        "--global-batch", "Sequences a step over all GPUs; keeps it when GPUs change.", metavar="N"
    ),
    Option("--image", "Container image.", metavar="REFERENCE"),
    Option(
        "--launcher",
        "What starts the processes.",
        metavar="NAME",
        choices=("slurm", "local", "kubernetes"),
    ),
    Option("--context", "Context of the kubeconfig.", metavar="NAME"),
    Option("--namespace", "Namespace of Kubernetes.", metavar="NAME"),
    Option("--cache", "Shared folder of compiled programs, on the nodes.", metavar="DIR"),
    Option("--debug", "NCCL logs and HLO by rank.", kind="flag"),
    Option(
        "--profile",
        "Profile some steps: with JAX's own profiler, or with Nsight Systems.",
        metavar="TOOL",
        choices=("xplane", "nsys"),
    ),
    Option("--profile-steps", "How many steps are profiled.", metavar="N"),
    Option("--profile-skip", "How many steps come before them.", metavar="N"),
    Option("--profile-ranks", "Processes nsys runs around, e.g. 0,8.", metavar="RANKS"),
    Option("--preflight", "Look at every process before it trains.", kind="flag"),
    Option(
        "--preflight-retry",
        "The same, and once more on spare nodes without those it names.",
        kind="flag",
    ),
    Option(
        "--allow", "Overrule a finding by its code; may be repeated.", kind="many", metavar="CODE"
    ),
)
_TARGET = Argument("target", "A preset, a run file, or the folder of a bundle.")

COMMANDS: tuple[Command, ...] = (
    Command(
        "render",
        "Turn a preset or run file into everything a job needs.",
        "moectl.cli.render:run",
        (_TARGET,),
        (
            *_JOB_OPTIONS,
            Option("--output", "Folder of the bundle; the default is NAME-Ngpus.", metavar="DIR"),
            Option("--force", "Overwrite files of a folder that holds others too.", kind="flag"),
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
            ),
        ),
        (
            Option("--xla-flags", "Check a text of XLA_FLAGS.", metavar="TEXT"),
            Option("--gpus", "GPUs in all, where a file does not say.", metavar="N"),
            Option("--gpus-per-node", "GPUs a node, where a file does not say.", metavar="N"),
            Option("--hardware", "GPU platform, where a file does not say.", metavar="NAME"),
            Option("--image", "Container image, where a file does not say.", metavar="REFERENCE"),
            Option("--maxtext", "MaxText release to judge against.", metavar="RELEASE"),
            Option("--jaxlib", "jaxlib release to judge against.", metavar="RELEASE"),
            Option("--probe", "What `moectl probe` said of the image.", metavar="FILE"),
            Option(
                "--select",
                "Report these codes or families only, comma separated; may be repeated.",
                kind="many",
                metavar="CODES",
            ),
            Option(
                "--ignore",
                "Leave these codes or families out, comma separated; may be repeated.",
                kind="many",
                metavar="CODES",
            ),
            Option("--strict", "Warnings fail the check as well.", kind="flag"),
            Option("--fix", "Make the remedies that are safe; shows them and asks.", kind="flag"),
            Option("--diff", "Show what --fix would change, and change nothing.", kind="flag"),
            Option("--yes", "Answer the question of --fix.", kind="flag"),
            Option(
                "--format",
                "How the report is written.",
                metavar="FORMAT",
                choices=("text", "json", "github", "sarif", "junit"),
                default="text",
            ),
            Option("--output", "Write the report to a file.", metavar="FILE"),
            Option("--quiet", "Findings only, without remarks and summary.", kind="flag"),
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
            Option("--output", "File to write the profile to.", metavar="FILE"),
            Option("--force", "Replace the file when it exists.", kind="flag"),
            Option(
                "--launcher",
                "What to look at; the default is this machine and its Slurm.",
                metavar="NAME",
                choices=("slurm", "local", "kubernetes"),
            ),
            Option("--context", "Context of the kubeconfig.", metavar="NAME"),
            Option("--namespace", "Namespace of Kubernetes.", metavar="NAME"),
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
            ),
        ),
        (
            Option(
                "--arch",
                "Architecture of the nodes; else the profile's, else this machine's.",
                metavar="NAME",
                choices=("aarch64", "x86_64"),
            ),
            Option("--to", "Folder of the files; else the profile's, else here.", metavar="DIR"),
            Option("--cluster", "Cluster profile: a file, or the name of one.", metavar="PROFILE"),
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
    Command(
        "schema",
        "Print the JSON Schema of run files, cluster profiles or presets.",
        "moectl.cli.schema:run",
        (
            Argument(
                "kind",
                "run, cluster or preset; without one, run.",
                many=True,
                required=False,
            ),
        ),
        (Option("--output", "Write to a file.", metavar="FILE"),),
        ("moectl schema", "moectl schema preset --output preset.schema.json"),
        detail="For editors (yaml-language-server) and other checkers; JSON Schema 2020-12.",
    ),
    Command(
        "probe",
        "Print the program that catalogues an image, for `validate --probe`.",
        "moectl.cli.probe:run",
        options=(
            Option(
                "--python",
                "Run it with this interpreter and print its JSON instead.",
                metavar="PATH",
            ),
            Option("--output", "Write to a file.", metavar="FILE"),
        ),
        examples=("moectl probe --output probe.py",),
        detail="One standard-library file; in the image: `docker run --rm IMAGE python3 - < "
        "probe.py > image.json`, or with srun --container-image. It needs no GPU and tells no "
        "secrets.",
    ),
    Command(
        "presets list",
        "List the presets.",
        "moectl.cli.catalogues:presets_list",
        options=(_FORMAT,),
        examples=("moectl presets list",),
    ),
    Command(
        "presets show",
        "Show a preset: its values, its path and the reasons.",
        "moectl.cli.catalogues:presets_show",
        (Argument("name", "A preset."),),
        (_FORMAT,),
        ("moectl presets show kimi-k2-1t",),
    ),
    Command(
        "hardware list",
        "List the GPU platforms.",
        "moectl.cli.catalogues:hardware_list",
        options=(_FORMAT,),
        examples=("moectl hardware list",),
    ),
    Command(
        "hardware show",
        "Show a GPU platform and the sources of its figures.",
        "moectl.cli.catalogues:hardware_show",
        (Argument("name", "A platform."),),
        (_FORMAT,),
        ("moectl hardware show gb200-nvl72",),
    ),
    Command(
        "facts list",
        "List the fact tables with their releases.",
        "moectl.cli.facts:facts_list",
        options=(_FORMAT,),
        examples=("moectl facts list",),
    ),
    Command(
        "facts maxtext",
        "Read the key catalogue of a MaxText wheel or folder.",
        "moectl.cli.facts:maxtext",
        (Argument("source", "A wheel, a source tree, or a site-packages folder."),),
        (Option("--output", "Folder to write the catalogue to.", metavar="DIR"),),
        ("moectl facts maxtext maxtext-0.2.5-py3-none-any.whl --output catalogue",),
    ),
    Command(
        "facts xla",
        "Ask an installed jaxlib for its XLA flags.",
        "moectl.cli.facts:xla",
        options=(
            Option(
                "--python",
                "Interpreter that has the jaxlib; the default is this one.",
                metavar="PATH",
            ),
            Option("--output", "File to write the catalogue to.", metavar="FILE"),
        ),
        examples=("moectl facts xla --output xla.tsv",),
    ),
    Command(
        "facts weights",
        "Ask MaxText itself for the weights of its models (minutes).",
        "moectl.cli.facts:weights",
        (Argument("models", "Model names, comma separated."),),
        (Option("--output", "File to write the table to.", metavar="FILE"),),
        ("moectl facts weights deepseek3-671b --output weights.json",),
    ),
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
            "  --version             Print the version.",
            "  --install-completion  Install completion for the current shell.",
            "  --show-completion     Print completion for the current shell.",
            "  --help                Print this text; `moectl COMMAND --help` says more.",
            "",
            "Start here:",
            "  moectl render deepseek3-671b --gpus 128",
            "",
        ]
    )
