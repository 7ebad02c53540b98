"""The JSON Schema takes what moectl writes and ships, and refuses a misspelt key."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from moectl.actions.plan import Wishes
from moectl.actions.render import render
from moectl.actions.schema import KINDS, schema
from moectl.cli import schema as command
from moectl.errors import LocalFilesError, UnknownNameError, UsageError
from moectl.resources import shipped
from moectl.settings.files import preset, preset_names
from moectl.settings.yaml_source import read_mapping

NAMES = preset_names()
RENDERED = [name for name in NAMES if preset(name).estimate_only is None]
ROOT = Path(__file__).parent.parent
CLUSTER = {
    "name": "alpha & omega",
    "partition": "batch",
    "gpu_request": "gres",
    "mounts": [{"source": "/scratch", "target": "/scratch", "read_only": True}],
    "environment": {"NCCL_IB_HCA": "mlx5_0,mlx5_1"},
    "directives": ["--comment=moe"],
    "nodes_per_domain": 16,
}


def validator(kind: str) -> Draft202012Validator:
    document = schema(kind)
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


def faults(kind: str, document: object) -> list[str]:
    found = validator(kind).iter_errors(document)
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in found]


def read(name: str) -> dict[str, Any]:
    text = shipped("presets").joinpath(f"{name}.yaml").read_text("utf-8")
    return read_mapping(text, name).data


@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_preset_is_valid(name: str) -> None:
    assert faults("preset", read(name)) == []


@pytest.mark.parametrize("name", RENDERED)
@pytest.mark.parametrize("form", ["benchmark", "pretrain"])
def test_every_rendered_lock_is_a_valid_run_file(name: str, form: str) -> None:
    rendered = render(name, Wishes(options={"form": (form, "--form")}))
    text = rendered.files["moectl.lock.yaml"]
    assert faults("run", read_mapping(text, "lock").data) == []


def examples() -> Iterator[Any]:
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text("utf-8")
        for number, found in enumerate(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)):
            if re.search(r"^(preset|moectl):", found, re.MULTILINE):
                yield pytest.param(found, id=f"{path.name} {number}")


@pytest.mark.parametrize("text", list(examples()))
def test_every_run_file_of_the_documentation_is_valid(text: str) -> None:
    assert faults("run", read_mapping(text, "example").data) == []


def test_a_cluster_profile_is_valid() -> None:
    assert faults("cluster", CLUSTER) == []
    assert faults("cluster", {}) == []


@pytest.mark.parametrize(
    ("kind", "document", "says"),
    [
        ("run", {"presett": "deepseek3-671b"}, "presett"),
        ("run", {"batch": {"globl": 768}}, "globl"),
        ("run", {"container": {"mounts": [{"sorce": "/a", "target": "/b"}]}}, "sorce"),
        ("run", {"switches": {"pgle": {"enable": True}}}, "enable"),
        ("cluster", {**CLUSTER, "partiton": "batch"}, "partiton"),
        ("cluster", {**CLUSTER, "mounts": [{"source": "/a", "target": "/b", "rw": 1}]}, "rw"),
    ],
)
def test_a_misspelt_key_is_refused_at_every_depth(
    kind: str, document: dict[str, Any], says: str
) -> None:
    assert any(f"'{says}' was unexpected" in fault for fault in faults(kind, document))


@pytest.mark.parametrize(
    "path", [(), ("run",), ("forms", "pretrain"), ("for_hardware", "gb200-nvl72"), ("run", "batch")]
)
def test_a_misspelt_key_in_any_part_of_a_preset_is_refused(path: tuple[str, ...]) -> None:
    document = copy.deepcopy(read("deepseek3-671b"))
    place = document
    for key in path:
        place = place.setdefault(key, {})
    place["trainnig"] = {}
    (fault,) = faults("preset", document)
    assert "trainnig" in fault


@pytest.mark.parametrize(
    "document",
    [
        {"gpus": 0},
        {"gpus": "many"},
        {"form": "bench"},
        {"name": "it's; $(bad)"},
        {"moectl": 2},
        {"container": {"image": "two words"}},
        {"switches": {"pgle": {"percentile": 101}}},
        {"secrets": "HF_TOKEN"},
    ],
    ids=str,
)
def test_a_value_that_moectl_refuses_the_schema_refuses(document: dict[str, Any]) -> None:
    assert len(faults("run", document)) >= 1


def fields(part: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(part, dict):
        for name, held in part.get("properties", {}).items():
            yield f"{path}.{name}", held
        for key, inner in part.items():
            yield from fields(inner, f"{path}/{key}")


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_has_a_description_for_the_editor_and_no_unknown_key_is_let_in(
    kind: str,
) -> None:
    document = schema(kind)
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    found = list(fields(document))
    assert len(found) > 10
    named = {f"#/$defs/{name}": held for name, held in document.get("$defs", {}).items()}
    silent = [
        path
        for path, held in found
        if not {**named.get(str(held.get("$ref")), {}), **held}.get("description")
    ]
    assert silent == []
    closed = [document, *document.get("$defs", {}).values()]
    assert [
        p for p in closed if "properties" in p and p.get("additionalProperties") is not False
    ] == []


def test_the_command_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run([]) == 0
    assert json.loads(capsys.readouterr().out) == schema("run")
    assert command.run(["preset"]) == 0
    assert json.loads(capsys.readouterr().out) == schema("preset")


def test_the_command_writes_the_schema_or_says_why_not(tmp_path: Path) -> None:
    file = tmp_path / "it's a schema.json"
    assert command.run(["cluster"], str(file)) == 0
    assert json.loads(file.read_text()) == schema("cluster")
    with pytest.raises(LocalFilesError, match="cannot write"):
        command.run([], str(tmp_path / "no" / "folder.json"))


def test_another_kind_or_two_are_usage_errors() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'cluster'"):
        command.run(["clusters"])
    with pytest.raises(UsageError, match="one kind at a time"):
        command.run(["run", "preset"])
    for path in ("", "/", "."):
        with pytest.raises(UsageError, match="the path of a file"):
            command.run([], path)
