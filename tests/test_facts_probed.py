"""The answer of a probe is believed only when its form is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.errors import SourceError
from moectl.facts.probed import FORMAT, read_probe
from moectl.facts.xla import COLUMNS

NAME = "gb200 image's $(probe).json"


def document() -> dict[str, Any]:
    return {
        "moectl_probe": FORMAT,
        "python": "3.12.3",
        "architecture": "aarch64",
        "versions": {"jaxlib": "0.11.2.dev20260909", "maxtext": "0.2.5"},
        "libraries": {"nccl": "2.30.7", "driver": "580.65"},
        "environment": {"XLA_FLAGS": "--xla_gpu_enable_latency_hiding_scheduler=true"},
        "labels": {},
        "gpus": [
            {"name": "NVIDIA GB200", "memory_mib": 189471},
            {"name": "NVIDIA GB200", "memory_mib": 189470},
        ],
        "devices": {"platform": "gpu", "count": 2, "kinds": ["NVIDIA GB200"], "slice_indices": [0]},
        "maxtext": {
            "release": "0.2.5",
            "commit": "0123abc",
            "keys": {
                "steps": {"type": "int", "gt": 0, "default": 5, "where": "configs/types.py:1"},
                "attention": {"type": "enum", "choices": ["dot_product", "cudnn_flash_te"]},
                "lora": {"type": "dict", "nested": ["lora_rank"], "closed": True},
            },
            "nested": {"lora": {"lora_rank": {"type": "int", "default": 0}}},
            "axes": {"fsdp": {"ici": "ici_fsdp_parallelism", "dcn": "dcn_fsdp_parallelism"}},
            "base": {"steps": 150001, "mesh_axes": ["fsdp"]},
            "models": {"deepseek3-671b": {"num_experts": 256}},
        },
        "xla": {
            "release": "0.11.2.dev20260909",
            "columns": list(COLUMNS[1:]),
            "flags": {"xla_gpu_new": ["bool", "false", "bool optional", "", "", ""]},
        },
        "missing": {},
    }


def read(data: object) -> Any:
    return read_probe(json.dumps(data), NAME)


def test_keys_flags_versions_and_devices_are_those_of_the_image() -> None:
    probed = read(document())
    assert probed.versions["jaxlib"] == "0.11.2.dev20260909"
    assert probed.maxtext.keys() == ("steps", "attention", "lora")
    assert probed.maxtext.default("steps") == 150001
    assert probed.maxtext.check("steps", 0) == "a whole number, above 0"
    assert probed.maxtext.check("stepz", 1).startswith("MaxText 0.2.5 has no such key")
    assert probed.maxtext.key("lora.lora_rank").parent == "lora"
    assert probed.maxtext.model("deepseek3-671b") == {"num_experts": 256}
    assert probed.maxtext.mesh_axes == ("fsdp",)
    assert probed.maxtext_commit == "0123abc"
    assert probed.xla.has("xla_gpu_new")
    assert probed.xla.check("xla_gpu_new", "off") == "takes true, false, 1 or 0, not 'off'"
    assert probed.memory_bytes == 189470 * 1024 * 1024
    assert probed.baked_flags == "--xla_gpu_enable_latency_hiding_scheduler=true"
    assert probed.devices["count"] == 2


def test_an_image_without_maxtext_and_gpu_says_so_and_no_more() -> None:
    data = document() | {"maxtext": None, "xla": None, "devices": None, "gpus": []}
    data["missing"] = {"maxtext": "there is none"}
    probed = read(data)
    assert probed.maxtext is None
    assert probed.xla is None
    assert probed.memory_bytes is None
    assert probed.devices == {}
    assert probed.missing == {"maxtext": "there is none"}


def change(*path: str, to: object) -> Callable[[dict[str, Any]], None]:
    def apply(data: dict[str, Any]) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = to

    return apply


DAMAGE = {
    "another format": (change("moectl_probe", to=2), "has probe format 2, and this moectl reads 1"),
    "a boolean format": (change("moectl_probe", to=True), "has probe format True"),
    "versions as a list": (change("versions", to=["jax"]), "versions is no mapping"),
    "a version that is a number": (change("versions", "jaxlib", to=0.11), "text of 'jaxlib'"),
    "a variable that is a list": (change("environment", "XLA_FLAGS", to=[]), "'XLA_FLAGS'"),
    "python as a number": (change("python", to=3.12), "python is no text"),
    "no keys": (change("maxtext", "keys", to={}), "maxtext has no keys"),
    "keys as a list": (change("maxtext", "keys", to=["steps"]), "has no mapping keys"),
    "a key without type": (change("maxtext", "keys", "steps", to={}), "key 'steps'"),
    "a key of a later form": (
        change("maxtext", "keys", "steps", to={"type": "int", "unit": "s"}),
        "key 'steps' in no known way (unit)",
    ),
    "a key with a word as bound": (
        change("maxtext", "keys", "steps", to={"type": "int", "ge": "0"}),
        "in no known way (ge)",
    ),
    "a key that is a text": (change("maxtext", "keys", "steps", to="int"), "key 'steps'"),
    "choices that are lists": (
        change("maxtext", "keys", "attention", to={"type": "enum", "choices": [[1]]}),
        "(choices)",
    ),
    "nested under nothing": (change("maxtext", "nested", "nobody", to={}), "under 'nobody'"),
    "a nested list": (change("maxtext", "nested", "lora", to=[]), "under 'lora'"),
    "an axis with three sizes": (change("maxtext", "axes", "fsdp", to={"x": "y"}), "axis 'fsdp'"),
    "an axis sized by a number": (change("maxtext", "axes", "fsdp", to={"ici": 1}), "axis 'fsdp'"),
    "a model that is a text": (change("maxtext", "models", "m", to="x"), "the model 'm'"),
    "no release": (change("maxtext", "release", to=None), "does not say its release"),
    "no base": (change("maxtext", "base", to=None), "has no mapping base"),
    "other columns": (change("xla", "columns", to=["type"]), "xla has other columns than"),
    "no flags": (change("xla", "flags", to=None), "xla has no release or no flags"),
    "a short row": (change("xla", "flags", "xla_gpu_new", to=["bool"]), "flag 'xla_gpu_new'"),
    "a tab in a cell": (
        change("xla", "flags", "xla_gpu_new", to=["bool\t", "", "", "", "", ""]),
        "flag 'xla_gpu_new'",
    ),
    "a GPU without memory": (change("gpus", to=[{"name": "B200"}]), "gpus has a row"),
    "a GPU that is a text": (change("gpus", to=["B200"]), "gpus has a row"),
    "devices without count": (change("devices", to={"platform": "gpu"}), "devices has not"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_probe_is_refused_in_one_sentence_that_names_the_file(damage: str) -> None:
    apply, says = DAMAGE[damage]
    data = document()
    apply(data)
    with pytest.raises(SourceError) as caught:
        read(data)
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{NAME}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "moectl_probe: 1", "[]", "null", "{}", '{"moectl_probe": NaN}', "[" * 100_000, "\0"],
)
def test_what_is_no_probe_at_all_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match="is no output of `moectl probe`"):
        read_probe(text, NAME)


def test_a_text_too_large_for_a_probe_is_not_even_parsed() -> None:
    with pytest.raises(SourceError, match="is larger than"):
        read_probe("{" + " " * 17_000_000, NAME)


def said(data: object) -> str:
    try:
        read(data)
    except SourceError as error:
        return str(error)
    return ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(st.sampled_from(sorted(document())), JSON)
def test_no_content_of_a_section_ends_in_anything_but_a_probe_or_a_sentence(
    section: str, value: object
) -> None:
    data = document()
    data[section] = value
    assert "\n" not in said(data)


@given(st.sampled_from(["keys", "nested", "axes", "base", "models", "release", "commit"]), JSON)
def test_nor_does_any_content_of_its_maxtext_tables(table: str, value: object) -> None:
    data = document()
    data["maxtext"][table] = value
    assert "\n" not in said(data)
