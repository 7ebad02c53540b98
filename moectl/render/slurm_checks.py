"""What a launch script cannot say, found before anything is written.

sbatch, srun, pyxis and the shell each read the same values in a grammar of their own. Quoting
carries most of them; what no quoting can carry is refused here, with where it would break.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moectl.errors import SeveralUsageErrors, UsageError, ValueUsageError
from moectl.job import Job
from moectl.render import container
from moectl.render.variables import value_text
from moectl.settings.bundle_names import MOUNTED

# Options the script writes itself, and the setting that decides each.
OWN_OPTIONS: Mapping[str, str] = {
    "array": "nothing; every run is a job of its own",
    "account": "cluster.account",
    "cpus-per-task": "cluster.cpus_per_task",
    "error": "the script, which keeps one log a rank",
    "exclusive": "cluster.exclusive",
    "export": "the script, which lets nothing undeclared in",
    "export-file": "the script, which lets nothing undeclared in",
    "gpus": "cluster.gpu_request",
    "gpus-per-node": "cluster.gpu_request",
    "gpus-per-task": "cluster.gpu_request",
    "gres": "cluster.gpu_request",
    "job-name": "name",
    "mem": "cluster.memory",
    "nodes": "gpus and hardware",
    "ntasks": "gpus",
    "ntasks-per-node": "hardware",
    "output": "the script, which keeps one log a rank",
    "partition": "cluster.partition",
    "qos": "cluster.qos",
    "reservation": "cluster.reservation",
    "segment": "parallelism and cluster.segment",
    "time": "cluster.time",
}

# pyxis splits mounts at commas and colons, and writes each into a bash file between double
# quotes (pyxis_slurmstepd.c, enroot_create_start_config), where bash expands these.
_MOUNT_SEPARATORS = ",:"
_SHELL_ACTIVE = '"$`\\'


def check(job: Job) -> list[UsageError]:
    """Return everything the launch script of `job` could not say, in the order of the script."""
    return [
        *_scheduler(job),
        *_directives(job),
        *_variables(job),
        *_arguments(job),
        *(_container(job) if container.contained(job) else _bare(job)),
        *_folders(job),
    ]


def require(job: Job) -> None:
    """Raise what `check` found, all of it at once.

    Raises:
        UsageError: something was found.
    """
    errors = check(job)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise SeveralUsageErrors(errors)


def _scheduler(job: Job) -> Iterator[UsageError]:
    cluster = job.cluster
    if not job.name or "%" in job.name:
        yield ValueUsageError("name", job.name, "a job name without %, which Slurm would replace")
    fields = {
        "name": job.name,
        "cluster.partition": cluster.partition,
        "cluster.account": cluster.account,
        "cluster.qos": cluster.qos,
        "cluster.reservation": cluster.reservation,
        "cluster.time": cluster.time,
        "cluster.memory": cluster.memory,
        "cluster.gres": cluster.gres,
    }
    for name, text in fields.items():
        if not _one_line(text):
            yield ValueUsageError(name, text, "one line of printable characters")


def _directives(job: Job) -> Iterator[UsageError]:
    for directive in job.cluster.directives:
        option, _, _ = directive.removeprefix("--").partition("=")
        name = option.strip().lower()
        if not _one_line(directive) or not directive.startswith("--") or not _is_option(option):
            yield ValueUsageError(
                "cluster.directives", directive, "one line each, --option or --option=value"
            )
        elif name in OWN_OPTIONS:
            yield ValueUsageError(
                "cluster.directives", directive, f"--{name} is decided by {OWN_OPTIONS[name]}"
            )
        elif "$" in directive:
            yield ValueUsageError(
                "cluster.directives", directive, "sbatch expands no variables; write the value"
            )


def _variables(job: Job) -> Iterator[UsageError]:
    pyxis = container.contained(job)
    for name, value in job.environment.items():
        text = value_text(value.value)
        if not _is_variable(name):
            yield ValueUsageError("environment", name, "a name of letters, digits, underscores")
        elif "\0" in text:
            yield ValueUsageError(f"environment.{name}", text, "text without a NUL character")
        elif pyxis and "\n" in text:
            # enroot keeps variables as lines of a file, so the rest would be other variables
            yield ValueUsageError(
                f"environment.{name}", text, "one line; pyxis cannot carry a line break"
            )
    for name in job.secrets:
        if not _is_variable(name):
            yield ValueUsageError("secrets", name, "a name of letters, digits, underscores")
        elif name in job.environment:
            yield ValueUsageError("secrets", name, "it is a variable of the environment as well")


def _arguments(job: Job) -> Iterator[UsageError]:
    for key, value in job.arguments.items():
        if not _is_variable(key) or "\0" in str(value.value):
            yield ValueUsageError(f"maxtext.{key}", value.value, "a key of letters and digits")


def _container(job: Job) -> Iterator[UsageError]:
    image = job.container.image
    if not _is_image(image.reference):
        yield ValueUsageError(
            "container.image",
            image.reference,
            "registry/path:tag, or the absolute path of a .sqsh file",
        )
    mounts = container.mounts(job)
    for path in dict.fromkeys(path for mount in mounts for path in (mount.source, mount.target)):
        if fault := _mount_fault(path):
            yield ValueUsageError("the path of a mount", path, fault)
    targets = [mount.target for mount in mounts]
    for target in dict.fromkeys(t for t in targets if targets.count(t) > 1):
        yield ValueUsageError("the target of a mount", target, "said once; it stands twice")
    for mount in job.container.mounts:
        if mount.target.rstrip("/") in {MOUNTED, ""}:
            yield ValueUsageError("the target of a mount", mount.target, "the bundle is there")


def _mount_fault(path: str) -> str:
    """Return what pyxis cannot carry of a path, as what would be legal; empty if it can."""
    if not path.startswith("/"):
        return "an absolute path"
    if {".", ".."} & set(path.split("/")):
        return "a path without . and .. in it"
    if any(character in path for character in _MOUNT_SEPARATORS):
        return "a path without comma and colon, at which pyxis splits mounts"
    if any(character in path for character in _SHELL_ACTIVE):
        return 'a path without " $ ` and \\, which a shell of pyxis would act on'
    return "" if _one_line(path) else "one line of printable characters"


def _bare(job: Job) -> Iterator[UsageError]:
    if not _one_line(job.cluster.python) or not job.cluster.python.strip():
        yield ValueUsageError("cluster.python", job.cluster.python, "a program or its path")
    for checkout in job.container.checkouts:
        if not checkout.path.startswith("/") or ":" in checkout.path or "\0" in checkout.path:
            yield ValueUsageError(
                f"container.{checkout.package}.path",
                checkout.path,
                "an absolute path without colon, at which PYTHONPATH is split",
            )


def _folders(job: Job) -> Iterator[UsageError]:
    folders = {"output_directory": job.output_directory, "compilation_cache": job.cache_directory}
    for name, path in folders.items():
        if not _one_line(path):
            yield ValueUsageError(name, path, "one line of printable characters")


def _one_line(text: str) -> bool:
    """Whether a text has only printable characters, blanks included."""
    return text.isprintable()


def _is_variable(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def _is_option(name: str) -> bool:
    return name.isascii() and name[:1].isalpha() and name.replace("-", "").isalnum()


def _is_image(reference: str) -> bool:
    """Whether a reference is one enroot can read: a path, or Docker's own characters."""
    if reference.startswith("/"):
        return _one_line(reference)
    plain = reference.replace("/", "").replace(":", "").replace(".", "").replace("@", "")
    words = plain.replace("-", "").replace("_", "")
    return (
        words.isascii()
        and words.isalnum()
        and reference[:1].isalnum()
        and not reference.endswith(".sqsh")
    )
