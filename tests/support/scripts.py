"""Workloads made of script texts, for the tests of rules about scripts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moectl.findings import Finding
from moectl.rules.rule import Rules
from moectl.settings.layout import script_layout
from moectl.settings.shell import maxtext_commands, read_script
from moectl.settings.sources.commands import is_alone
from moectl.values import Hardware, Origin, Value
from moectl.workload import UNKNOWN, Layout, Workload

NAME = "job $(touch /tmp/never).sh"

# What MaxText 0.2.5 takes for the keys these rules read, where nobody says anything.
DEFAULTS: dict[str, Any] = {
    "hardware": "tpu",
    "enable_checkpointing": True,
    "enable_emergency_checkpoint": False,
    "base_output_directory": "",
    "local_checkpoint_directory": "",
    "skip_jax_distributed_system": False,
    "jax_distributed_initialization_timeout": 300,
    "te_moe_block": False,
    "dcn_fsdp_parallelism": 1,
    "dcn_data_parallelism": 1,
}


def script(
    text: str,
    *,
    layout: Layout | None = None,
    hardware: Hardware | None = None,
    **effective: Any,
) -> Workload:
    """Return the workload of the first MaxText command of a script, or of the script alone."""
    batch = read_script(text, NAME)
    starts = [start for step in batch.steps for start in maxtext_commands(step)]
    start = starts[0] if starts else None
    arguments = {}
    for word in start.words[1:] if start else ():
        key, equals, value = word.text.partition("=")
        if equals:
            arguments[key] = Value(_typed(value) if word.known else UNKNOWN, word.origin)
    launched = (step for step in batch.steps if step.program == "srun")
    step = start.step if start else next(launched, None)
    alone = start is not None and batch.scheduled and is_alone(start.steps)
    found = layout or script_layout(batch, step, alone=alone)
    return Workload(
        kind="script",
        origin=Origin("script", NAME, 1, 1),
        maxtext="0.2.5",
        jaxlib="0.12.0.1",
        is_maxtext=start is not None,
        arguments=arguments,
        effective=DEFAULTS | {key: said.value for key, said in arguments.items()} | effective,
        environment=start.environment if start else batch.environment,
        layout=found,
        hardware=hardware,
        batch=batch,
        step=step,
        alone=alone,
    )


def _typed(value: str) -> Any:
    if value in {"true", "True", "false", "False"}:
        return value.lower() == "true"
    return int(value) if value.lstrip("-").isdigit() else value


def config(nodes: int | None = None, *, line: int = 3, **said: Any) -> Workload:
    """Return the workload of a MaxText config; `nodes` as the command line would give them."""
    origin = Origin("config", "conf $HOME.yml", line, 1)
    return Workload(
        kind="MaxText config",
        origin=replace(origin, line=1),
        maxtext="0.2.5",
        jaxlib="0.12.0.1",
        is_maxtext=True,
        config={key: Value(value, origin) for key, value in said.items()},
        effective=DEFAULTS | said,
        layout=Layout(nodes=Value(nodes, Origin("--gpus"))) if nodes else Layout(),
    )


def found(rules: Rules, w: Workload) -> list[Finding]:
    """Return what a module's rules find in a workload."""
    return [finding for rule in rules.all for finding in rule.findings(w)]


def seen(rules: Rules, w: Workload) -> list[tuple[str, str, int | None]]:
    """Return (code, severity, line) of what is found, notes left out."""
    return [(f.code, f.severity, f.line) for f in found(rules, w) if f.severity != "note"]


TRAIN = "python3 -m maxtext.trainers.pre_train.train"

HOSTILE = (
    "",
    "#SBATCH",
    "#SBATCH \u2013\u2013nodes=2 '\n\0 --x\n#SBATCH --=\n#SBATCH -\n#SBATCH --\nsrun",
    "#SBATCH --nodes= --gpus=: --gres=:,: --mem= --time=-- -N\nsrun -N -n --export= -- \n",
    "#SBATCH --container-image= --container-mounts=:::,,: --container-env=,\nsrun \\\n",
    f"srun --container-image='' --export='' '' \"\" \\\n\t{TRAIN} '' =\n",
    "export NNODES= NODE_RANK=' ' JAX_COORDINATOR_IP= JAX_COORDINATOR_PORT=x\n"
    "export CUDA_VISIBLE_DEVICES=\n"
    f"srun -N2 -n2 --gpus-per-node=2 {TRAIN} base.yml hardware=gpu\n",
    "export JAX_LOCAL_DEVICE_IDS=, JAX_COORDINATOR_ADDRESS=: JAX_PARTITION_INDEX=''\n"
    f"srun -N2 -n2 {TRAIN} b.yml hardware=gpu_multiprocess base_output_directory= "
    "te_moe_block=true\n",
    "#SBATCH --gpus=99999999999999999999999 --nodes=99999999999999999999999\n" * 3,
    "enroot import\nenroot import ''\ndocker run\napptainer pull '#' '#'\n"
    "srun --container-mounts=~\n",
    "x=$SLURM_JOB_NODELIST\necho ${x%%,*} | cut\necho $x |" + "cut|" * 5000 + "\n",
)
"""Scripts that nobody meant, to be read and judged without an exception."""
