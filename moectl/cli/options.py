"""Options that several commands have: one name, one meaning, one wording."""

from __future__ import annotations

from moectl.cli.command import Option


def answer(*forms: str, default: str | None = "text") -> Option:
    """Return the option that says how an answer is printed; text where nobody says it."""
    return Option(
        "--format",
        "How the answer is printed.",
        metavar="FORMAT",
        choices=("text", *forms),
        default=default,
    )


def output(what: str, *, folder: bool = False, default: str = "") -> Option:
    """Return the option that says where something is written.

    Args:
        what: what is written, e.g. "the answer".
        folder: whether it is a folder.
        default: where it goes when nothing is said, if it goes anywhere.
    """
    kind = "folder" if folder else "file"
    return Option(
        "--output",
        f"Write {what} to this {kind}{f'; the default is {default}' if default else ''}.",
        metavar="DIR" if folder else "FILE",
        of=f"{kind}s",
    )


ANSWER = answer("json")
FORCE = Option("--force", "Replace files that are there already.", kind="flag")
YES = Option("--yes", "Answer its question with yes.", kind="flag")
EXPLAIN = Option("--explain", "Name formula and source of every figure.", kind="flag")
FOLLOW = Option("--follow", "Go on, and print what it gains.", kind="flag", short="-f")
CHAIN = Option("--chain", "This many jobs, each after the one before.", metavar="N")

# Every command has these two; `moectl.cli.manner` does what they say.
QUIET = Option("--quiet", "Only answer, findings and errors: no progress, no remarks.", kind="flag")
COLOUR = Option(
    "--color",
    "Colours; auto is on a terminal without NO_COLOR.",
    metavar="WHEN",
    choices=("auto", "always", "never"),
    default="auto",
)

GPUS = Option("--gpus", "GPUs in all.", metavar="N")
HARDWARE = Option(
    "--hardware", "GPU platform, see `moectl hardware list`.", metavar="NAME", of="hardware"
)
IMAGE = Option("--image", "Container image.", metavar="REFERENCE", of="images")
LAUNCHER = Option(
    "--launcher",
    "What starts the processes.",
    metavar="NAME",
    choices=("slurm", "local", "kubernetes"),
)
CONTEXT = Option("--context", "Context of the kubeconfig.", metavar="NAME")
NAMESPACE = Option("--namespace", "Namespace of Kubernetes.", metavar="NAME")
CLUSTER = Option(
    "--cluster",
    "Cluster profile: a file, or the name of one.",
    metavar="PROFILE",
    of="profiles",
)

# What a file that is read may leave out.
GPUS_UNSAID = Option("--gpus", "GPUs in all, where no file says it.", metavar="N")
HARDWARE_UNSAID = Option(
    "--hardware", "GPU platform, where no file says it.", metavar="NAME", of="hardware"
)
IMAGE_UNSAID = Option(
    "--image", "Container image, where no file says it.", metavar="REFERENCE", of="images"
)

JOB_OPTIONS = (
    GPUS,
    HARDWARE,
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
        of="settings",
    ),
    CLUSTER,
    Option(
        "--global-batch", "Sequences a step over all GPUs; keeps it when GPUs change.", metavar="N"
    ),
    IMAGE,
    LAUNCHER,
    CONTEXT,
    NAMESPACE,
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
        "--allow",
        "Overrule a finding by its code; may be repeated.",
        kind="many",
        metavar="CODE",
        of="codes",
    ),
)
