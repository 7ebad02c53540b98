"""Environment variables and XLA flags as the text the processes read."""

from __future__ import annotations

from moectl.facts import xla
from moectl.facts.yaml_facts import read
from moectl.job import Job
from moectl.values import Plain

COORDINATOR = ("JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_PORT")
LOGS = "MOECTL_LOGS"
FLAGS = "XLA_FLAGS"
DUMP_FLAG = "xla_dump_to"
NCCL_LEVEL = "NCCL_DEBUG"

# XLA reads an XLA_FLAGS without a flag as the name of a file, and MaxText dumps HLO when it is
# unset or empty (0.2.5, configs/types.py:4311), so a job without flags says this one, its default.
NO_FLAGS = f"--{DUMP_FLAG}="


def value_text(value: Plain) -> str:
    """Return a scalar as a variable says it: `true`, not `True`; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def flag_tokens(job: Job) -> list[tuple[str, str]]:
    """Return (token, origin) of every flag, in the order of XLA_FLAGS.

    Raises:
        UsageError: a value cannot stand in XLA_FLAGS.
    """
    catalogue = xla.load(job.container.image.jaxlib)
    facts = read("local.yaml") if job.on_cpu else {}
    dropped = tuple(facts.get("cpu_dropped_flags", ()))
    tokens = [
        (catalogue.emit({name: said.value}), str(said.origin))
        for name, said in job.xla_flags.items()
        if not name.startswith(dropped)
    ]
    if job.on_cpu:
        count = job.gpus // job.processes
        tokens.append((facts["cpu_device_flag"].format(count=count), "CPU devices"))
    return tokens


def xla_flags_text(job: Job) -> str:
    """Return the whole of XLA_FLAGS; never empty."""
    return " ".join(token for token, _ in flag_tokens(job)) or NO_FLAGS


def declared(job: Job) -> dict[str, tuple[str, str]]:
    """Return every declared variable but XLA_FLAGS: name to (value, origin)."""
    said = {
        name: (value_text(value.value), str(value.origin))
        for name, value in job.environment.items()
    }
    if job.debug and said.get(NCCL_LEVEL, ("",))[0].upper() not in {"INFO", "TRACE"}:
        said[NCCL_LEVEL] = ("INFO", "debug")
    return said


def environment(job: Job) -> dict[str, str]:
    """Return every variable whose value is known when the job is rendered, XLA_FLAGS last.

    Not in it, because only the running job knows them: JAX_COORDINATOR_ADDRESS and
    JAX_COORDINATOR_PORT, JAX_PARTITION_INDEX, and the values of the secrets.
    """
    values = {name: value for name, (value, _) in declared(job).items()}
    return values | {FLAGS: xla_flags_text(job)}


def container_names(job: Job) -> list[str]:
    """Return the variables that must win over what the image bakes, secrets not included.

    pyxis keeps the image's value of a variable unless `--container-env` names it.
    """
    return [*declared(job), FLAGS, *COORDINATOR, LOGS]
