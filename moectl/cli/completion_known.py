"""What completion knows: presets, runs, keys and their values, flags, platforms, codes.

Everything is read from tables and from names of folders; nothing heavy is imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from moectl.errors import MoectlError

Candidates: TypeAlias = Iterable[tuple[str, str]]

# The end of a run's id, after its name.
_MOMENT = re.compile(r"-[0-9]{8}-[0-9]{6}-[0-9a-f]{4}\Z")
_XLA = "xla_flags."


def known(kind: str, current: str) -> Iterator[tuple[str, str]]:
    """Yield candidates of a kind, each with what it is; what cannot be read yields none.

    Args:
        kind: a name of `KNOWN`.
        current: the word so far, without quotes.
    """
    try:
        yield from KNOWN[kind](current)
    except (MoectlError, OSError):
        return


def _shells(_: str) -> Candidates:
    from moectl.cli.completion import SHELLS  # noqa: PLC0415

    return ((name, "") for name in SHELLS)


def _schemas(_: str) -> Candidates:
    return (("run", "run files"), ("cluster", "cluster profiles"), ("preset", "presets"))


def _presets(_: str) -> Candidates:
    from moectl.settings.files import preset_names  # noqa: PLC0415

    return ((name, "preset") for name in preset_names())


def _runs(_: str) -> Candidates:
    """Return ids and names by the names of folders: records need not be read."""
    from moectl.launch.store import default_root  # noqa: PLC0415

    return _folders(default_root())


def _climbs(_: str) -> Candidates:
    from moectl.campaign.ladder import root  # noqa: PLC0415
    from moectl.launch.store import default_root  # noqa: PLC0415

    return _folders(root(default_root()))


def _folders(root: os.PathLike[str]) -> Candidates:
    with os.scandir(root) as entries:
        ids = sorted(e.name for e in entries if not e.name.startswith(".") and e.is_dir())
    names = {_MOMENT.sub("", one): "the newest of this name" for one in ids}
    return (names | dict.fromkeys(reversed(ids), "run")).items()


def _targets(current: str) -> Candidates:
    return _presets(current)


def _jobs(current: str) -> Candidates:
    yield from _presets(current)
    yield from known("runs", current)


def _hardware(_: str) -> Candidates:
    from moectl.facts import hardware  # noqa: PLC0415

    names = set(hardware.names())
    return ((name, "platform" if name in names else "alias") for name in hardware.known())


def _images(_: str) -> Candidates:
    from moectl.facts.images import default_image  # noqa: PLC0415

    return ((default_image(), "moectl's own"),)


def _profiles(_: str) -> Candidates:
    from moectl.settings.profiles import names  # noqa: PLC0415

    return ((name, "cluster profile") for name in names(os.environ))


def _differences(_: str) -> Candidates:
    from moectl.report.compare import KINDS  # noqa: PLC0415

    return ((name, "") for name in KINDS)


def _environments(_: str) -> Candidates:
    from moectl.environments import recipes  # noqa: PLC0415

    return ((name, recipe.purpose) for name, recipe in recipes().items())


def _maxtexts(_: str) -> Candidates:
    from moectl.facts.maxtext import releases  # noqa: PLC0415

    return ((name, "MaxText") for name in releases())


def _jaxlibs(_: str) -> Candidates:
    from moectl.facts.xla import releases  # noqa: PLC0415

    return ((name, "jaxlib") for name in releases())


def _models(current: str) -> Candidates:
    from moectl.facts.maxtext import load, releases  # noqa: PLC0415

    before, comma, _ = current.rpartition(",")
    return ((f"{before}{comma}{name}", "model") for name in load(releases()[-1]).models())


def _codes(current: str) -> Candidates:
    """Return codes; of a list with commas its last one is completed."""
    from moectl.suppress import known_codes  # noqa: PLC0415

    before, comma, _ = current.rpartition(",")
    codes = known_codes()
    families = dict.fromkeys(code.rstrip("0123456789") for code in codes)
    yield from ((f"{before}{comma}{family}", "family") for family in families)
    yield from ((f"{before}{comma}{code}", "rule") for code in codes if code not in families)


def _xla(current: str) -> Candidates:
    """Return flags as a text of XLA_FLAGS has them; the last one is completed."""
    before, blank, _ = current.rpartition(" ")
    return ((f"{before}{blank}--{name}=", "XLA flag") for name in _xla_names())


def _xla_names() -> Iterable[str]:
    from moectl.facts.xla import load, releases  # noqa: PLC0415

    return load(releases()[-1]).names()


def _names(current: str) -> Candidates:
    """Return what `moectl explain` explains."""
    from moectl.facts import environment  # noqa: PLC0415

    yield from known("codes", current)
    yield from ((name.removesuffix("="), about) for name, about in _keys(current))
    yield from ((name, "variable") for name in environment.load().names())
    yield from known("presets", current)
    yield from known("hardware", current)
    yield from ((name, "XLA flag") for name in _xla_names())


def _settings(current: str) -> Candidates:
    """Return paths of a run file and MaxText keys, or the values of the one that is named."""
    key, equals, _ = current.partition("=")
    return ((f"{key}={value}", "") for value in _legal(key)) if equals else _keys(current)


def _keys(current: str) -> Candidates:
    """Return keys with their "="; sections first, and what stands in one when it is named."""
    from moectl.facts.maxtext import load, releases  # noqa: PLC0415
    from moectl.spec.table import table  # noqa: PLC0415

    if current.startswith(_XLA):
        yield from ((f"{_XLA}{name}=", "XLA flag") for name in _xla_names())
        return
    depth = current.count(".")
    sections: set[str] = set()
    for path, field in table().fields.items():
        parts = path.split(".")
        if len(parts) > depth + 1:
            section = f"{'.'.join(parts[: depth + 1])}."
            if section not in sections:
                sections.add(section)
                yield section, "section"
        elif "*" not in parts:
            yield f"{path}=", field.doc
    if current and not depth:
        names = load(releases()[-1]).keys()
        yield from ((f"{name}=", "MaxText key") for name in names)


def _legal(key: str) -> Iterable[str]:
    """Return the values of a key, where they are few and known."""
    from moectl.facts.maxtext import load, releases  # noqa: PLC0415
    from moectl.spec.table import table  # noqa: PLC0415

    if key.startswith(_XLA):
        return _BOOL
    rows = table()
    field = rows.fields.get(key) or rows.fields.get(rows.owners.get(key, ""))
    if field is not None and (field.choices or field.kind == "bool"):
        return map(str, field.choices or _BOOL)
    if field is not None and field.path in _VALUES:
        return (value for value, _ in known(_VALUES[field.path], ""))
    found = load(releases()[-1]).key(key)
    if found is None:
        return ()
    return map(str, found.choices or (_BOOL if found.type == "bool" else ()))


_BOOL = ("true", "false")
# Paths whose values have names of their own.
_VALUES = {
    "hardware": "hardware",
    "preset": "presets",
    "model.name": "models",
    "container.image": "images",
}
KNOWN: dict[str, Callable[[str], Candidates]] = {
    "climbs": _climbs,
    "codes": _codes,
    "differences": _differences,
    "environments": _environments,
    "hardware": _hardware,
    "images": _images,
    "jaxlibs": _jaxlibs,
    "jobs": _jobs,
    "logs": _runs,
    "maxtexts": _maxtexts,
    "models": _models,
    "names": _names,
    "presets": _presets,
    "profiles": _profiles,
    "runs": _runs,
    "schemas": _schemas,
    "settings": _settings,
    "shells": _shells,
    "targets": _targets,
    "xla": _xla,
}
