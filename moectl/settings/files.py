"""Reads run files, lock files, cluster profiles and presets into settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from moectl.errors import SourceError, UnknownNameError
from moectl.resources import shipped
from moectl.settings import preset_json
from moectl.settings.bundle_names import LOCK
from moectl.settings.flatten import flatten
from moectl.settings.setting import Layer, Setting
from moectl.settings.text_file import read_text
from moectl.settings.yaml_source import Document, read_mapping
from moectl.values import Hardware, Origin

LOCK_NAME = LOCK


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset as read; `run`, `forms` and `for_hardware` are partial run files."""

    name: str
    title: str
    source: str
    path: Mapping[str, str]
    gpus: int
    hardware: str
    notes: tuple[str, ...]
    accept: tuple[Mapping[str, str], ...]
    estimate_only: Mapping[str, Any] | None
    run: Mapping[str, Any]
    forms: Mapping[str, Mapping[str, Any]]
    for_hardware: Mapping[str, Mapping[str, Any]]

    def settings(self, form: str, hardware: Hardware) -> list[Setting]:
        """Return what the preset says for a form and a platform, weakest first."""
        origin = Origin(f"preset {self.name}")
        said = flatten(self.run, Layer.PRESET, lambda _: origin)
        by_form = Origin(f"preset {self.name}, {form} form")
        said += flatten(self.forms.get(form, {}), Layer.PRESET_FORM, lambda _: by_form)
        for key in (hardware.architecture, hardware.name):
            by_key = Origin(f"preset {self.name} for {key}")
            part = self.for_hardware.get(key, {})
            said += flatten(part, Layer.PRESET_HARDWARE, lambda _, o=by_key: o)  # type: ignore[misc]
        return said


@dataclass(frozen=True, slots=True)
class RunFile:
    """A run file as read.

    Attributes:
        path: the file.
        settings: what it says.
        preset: the preset it builds on, or "".
        form: the form it says, or "".
        accept: codes it accepts, each with its reason.
        lock: what a lock file adds (version, facts, templates); empty for a plain run file.
    """

    path: str
    settings: list[Setting]
    preset: str = ""
    form: str = ""
    accept: tuple[tuple[str, str], ...] = ()
    lock: Mapping[str, Any] = field(default_factory=dict)


def preset_names() -> list[str]:
    """Return the names of the shipped presets, sorted."""
    entries = shipped("presets").iterdir()
    return sorted(e.name.removesuffix(".yaml") for e in entries if e.name.endswith(".yaml"))


def preset(name: str, *, where: str = "") -> Preset:
    """Return a shipped preset.

    Raises:
        UnknownNameError: no such preset; the nearest are named.
    """
    if "/" in name or not shipped("presets").joinpath(f"{name}.yaml").is_file():
        raise UnknownNameError("preset", name, preset_names(), where=where)
    return _shipped_preset(name)


@cache
def _shipped_preset(name: str) -> Preset:
    """Read a preset once; nobody writes into what it holds."""
    data = preset_json.data(name)
    return Preset(
        name=data["name"],
        title=data["title"],
        source=data["source"],
        path=data["path"],
        gpus=data["defaults"]["gpus"],
        hardware=data["defaults"]["hardware"],
        notes=tuple(data.get("notes", ())),
        accept=tuple(data.get("accept", ())),
        estimate_only=data.get("estimate_only"),
        run=data.get("run", {}),
        forms=data.get("forms", {}),
        for_hardware=data.get("for_hardware", {}),
    )


def run_file(path: Path) -> RunFile:
    """Read a run file, a lock file, or a bundle's folder (its lock file)."""
    if path.is_dir():
        path = path / LOCK_NAME
    document = read_mapping(read_text(path), str(path))
    data = dict(document.data)
    lock = _lock(document, str(path)) if data.pop("lock", None) is not None else {}
    layers = _lock_layers(lock)
    locate = _locator(document, str(path), "run file", layers)
    settings = flatten(data, Layer.RUN_FILE, locate)
    said = {setting.path: setting.value for setting in settings}
    return RunFile(
        str(path),
        settings,
        preset=said.get("preset") or "",
        form=said.get("form") or "",
        accept=tuple((row["code"], row["reason"]) for row in said.get("accept") or ()),
        lock=lock,
    )


def cluster_profile(path: Path) -> list[Setting]:
    """Read a cluster profile; its keys are those of the run file's `cluster` section."""
    document = read_mapping(read_text(path), str(path))
    locate = _locator(document, str(path), f"cluster profile {path.name}", {})
    return flatten(document.data, Layer.CLUSTER, locate, prefix="cluster")


def _lock(document: Document, path: str) -> Mapping[str, Any]:
    """Return the lock section.

    Raises:
        SourceError: it is none, with the line.
    """
    lock = document.data["lock"]
    texts = {"version": str, "templates": str, "facts": Mapping, "sources": Mapping}
    fits = (
        isinstance(lock, Mapping)
        and texts.keys() >= lock.keys() >= {"version", "templates", "facts"}
        and all(isinstance(lock[name], kind) for name, kind in texts.items() if name in lock)
        and all(isinstance(release, str) for release in lock["facts"].values())
    )
    if not fits:
        spot = document.place("lock")
        raise SourceError(
            path,
            spot.line if spot else None,
            "the lock section is none that moectl wrote; remove it to make this a plain run file",
        )
    found: Mapping[str, Any] = lock
    return found


def _lock_layers(lock: Mapping[str, Any]) -> dict[str, str]:
    """Return path to the layer that decided it, from a lock's `sources`."""
    sources = lock.get("sources")
    if not isinstance(sources, Mapping):
        return {}
    return {
        str(path): str(layer)
        for layer, paths in sources.items()
        if isinstance(paths, list)
        for path in paths
    }


def _locator(document: Document, path: str, layer: str, layers: Mapping[str, str]) -> Any:
    def locate(keys: tuple[str, ...]) -> Origin:
        known = layers.get(".".join(keys))
        if known is not None:
            return Origin(known)
        spot = document.place(*keys)
        return Origin(layer, path, spot.line if spot else None, spot.column if spot else None)

    return locate
