"""A configuration while it is changed, and what a draw starts from."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from moectl.actions.render import plan_job
from moectl.facts import maxtext
from moectl.render.config import arguments as told_arguments
from moectl.render.config import plain
from moectl.settings.files import preset, preset_names

RELEASE = "0.2.5"
SIZES = (8, 8, 16, 16, 32, 64, 64, 128, 256, 512)
ICI, DCN = "ici_fsdp_parallelism", "dcn_data_parallelism"


@dataclass
class Draft:
    """A configuration while it is changed: values are text as it stands in YAML.

    Attributes:
        yaml: what the file says, key by key.
        words: what the command line says.
        devices: devices of the job.
        slices: slices that the hardware shows.
        did: what was changed.
        raw: lines put at the end of the file as they are.
    """

    yaml: dict[str, str]
    words: dict[str, str] = field(default_factory=dict)
    devices: int = 8
    slices: int = 1
    did: list[str] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)

    def get(self, key: str, otherwise: str = "") -> str:
        """Return the text of a value, the command line first."""
        return self.words.get(key, self.yaml.get(key, otherwise))

    def put(self, key: str, text: str, *, on_line: bool = False) -> None:
        """Say a value in the file or on the command line, there also when it already is."""
        where = self.words if on_line or key in self.words else self.yaml
        where[key] = text

    def text(self) -> str:
        """Return the file."""
        return "".join(f"{key}: {value}\n" for key, value in self.yaml.items()) + "".join(
            f"{line}\n" for line in self.raw
        )

    def arguments(self) -> list[str]:
        """Return the command line."""
        return [f"{key}={value}" for key, value in self.words.items()]


def started(rng: random.Random) -> Draft:
    """Return what a draw starts from."""
    if rng.random() < 0.45:
        return from_preset(rng)
    return from_model(rng, rng.choice(models()))


@cache
def keys() -> tuple[str, ...]:
    """Return the names of all keys of the release."""
    return maxtext.load(RELEASE).keys()


@cache
def models() -> tuple[str, ...]:
    """Return the model names to start from: all with a file, and none."""
    return (*maxtext.load(RELEASE).models(), "default")


@cache
def runnable() -> tuple[str, ...]:
    """Return the presets that can be rendered."""
    return tuple(name for name in preset_names() if preset(name).estimate_only is None)


def from_preset(rng: random.Random) -> Draft:
    """Return what the processes of a rendered preset tell MaxText."""
    name, form = rng.choice(runnable()), rng.choice(("benchmark", "pretrain"))
    gpus = rng.choice((preset(name).gpus, 64, 128, 256, 512))
    job = plan_job(name, gpus=gpus, form=form)
    draft = Draft(
        {key: fragment(value) for key, value in plain(job.config).items()},
        dict(word.split("=", 1) for word in told_arguments(job)),
        job.gpus,
        job.mesh.slices,
    )
    draft.did.append(f"preset {name} {form} on {job.gpus}")
    return draft


def from_model(rng: random.Random, model: str) -> Draft:
    """Return a plain MaxText file that names a model."""
    draft = Draft({"base_config": "base.yml", "model_name": model}, devices=rng.choice(SIZES))
    if rng.random() < 0.7:
        draft.yaml["hardware"] = rng.choice(("gpu", "gpu_multiprocess", "gpu_multiprocess"))
    if rng.random() < 0.6:
        draft.yaml |= {"dataset_type": "synthetic", "enable_checkpointing": "false"}
    if rng.random() < 0.7:
        draft.yaml |= {"run_name": "drawn", "base_output_directory": "out"}
    if rng.random() < 0.2:
        draft.slices = rng.choice((2, 4))
    if rng.random() < 0.1:
        del draft.yaml["base_config"]
    if rng.random() < 0.2:
        draft.words["model_name"] = draft.yaml.pop("model_name")
    draft.did.append(f"model {model} on {draft.devices}")
    return draft


def fragment(value: Any) -> str:
    """Return a value as it stands in YAML, on one line."""
    if value is None:
        return "null"
    return json.dumps(value)


def fit(draft: Draft) -> None:
    """Leave the rest of the devices to FSDP, and the slices to data, where that can be."""
    catalogue = maxtext.load(RELEASE)
    for free, group, target in (
        (ICI, "ici_", draft.devices // draft.slices),
        (DCN, "dcn_", draft.slices),
    ):
        product = 1
        for key in keys():
            if key.startswith(group) and key.endswith("_parallelism") and key != free:
                default = str(catalogue.default(key))
                degree = draft.get(key, default if "base_config" in draft.yaml else "1")
                product *= int(degree) if degree.isdigit() else 1
        if product and target % product == 0:
            draft.put(free, str(target // product))
