"""JSON Schema (2020-12) of the files people write: runs, clusters, presets."""

from __future__ import annotations

from typing import Any

from moectl.errors import UnknownNameError

KINDS = {"run": "RunSpec", "cluster": "ClusterSpec", "preset": "PresetSpec"}
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TITLES = {
    "run": "moectl run file",
    "cluster": "moectl cluster profile",
    "preset": "moectl preset",
}
# A preset holds parts of a run file: everything in them is optional, as in a run file.
_PARTS = {"run": False, "forms": True, "for_hardware": True}


def schema(kind: str = "run") -> dict[str, Any]:
    """Return the JSON Schema of a kind of file: "run", "cluster" or "preset".

    Raises:
        UnknownNameError: there is no such kind.
    """
    if kind not in KINDS:
        raise UnknownNameError("kind of file", kind, KINDS)
    document = _of(kind)
    if kind == "preset":
        # The models leave these parts to the reader of presets, which takes them for run files.
        run = _of("run")
        definitions = document.setdefault("$defs", {})
        definitions |= run.pop("$defs", {})
        definitions[KINDS["run"]] = run
        part = {"$ref": f"#/$defs/{KINDS['run']}"}
        for name, many in _PARTS.items():
            held = document["properties"][name]
            known = {key: held[key] for key in ("title", "description") if key in held}
            shape = {"type": "object", "additionalProperties": part} if many else part
            document["properties"][name] = known | shape
    return {"$schema": DIALECT, **document, "title": _TITLES[kind]}


def _of(kind: str) -> dict[str, Any]:
    from pydantic import BaseModel  # noqa: PLC0415

    from moectl.spec import cluster, preset, run  # noqa: PLC0415 - pydantic is slow to import

    models: dict[str, type[BaseModel]] = {
        "run": run.RunSpec,
        "cluster": cluster.ClusterSpec,
        "preset": preset.PresetSpec,
    }
    made: dict[str, Any] = _tidy(models[kind].model_json_schema())
    return made


def _tidy(part: Any) -> Any:
    """Drop the titles pydantic makes of names: an editor shows the description instead."""
    if isinstance(part, list):
        return [_tidy(item) for item in part]
    if not isinstance(part, dict):
        return part
    made = {key: _tidy(value) for key, value in part.items()}
    if isinstance(made.get("title"), str):
        del made["title"]
    return made
