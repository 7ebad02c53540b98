"""Write the catalogue of a MaxText release: three JSON files, one key a line.

The bytes depend on nothing but the source, so that two runs, or a review, can compare them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from moectl.errors import LocalFilesError, ValueUsageError
from moectl.evidence.maxtext_source import Tables, read_source
from moectl.facts.maxtext_key import Key

_RELEASE = re.compile(r"[0-9][0-9A-Za-z]*(?:[.+-][0-9A-Za-z]+)*\Z")


@dataclass(frozen=True)
class Summary:
    """What a catalogue holds and where it was written.

    Attributes:
        release: the MaxText release.
        folder: the folder of the three files.
        changed: whether the files differ from those that stood there.
        keys: number of top-level keys.
        nested: number of keys under others.
        derived: number of keys that MaxText computes.
        models: number of model files.
        opaque: keys whose legal values only running MaxText tells.
        strays: keys of the release's own YAML files that it would refuse.
    """

    release: str
    folder: Path
    changed: bool
    keys: int
    nested: int
    derived: int
    models: int
    opaque: tuple[str, ...]
    strays: tuple[str, ...]

    def __str__(self) -> str:
        """Say it in a few lines."""
        lines = [
            f"maxtext {self.release}: {self.keys} keys ({self.derived} of them derived),"
            f" {self.nested} nested keys, {self.models} models",
            f"{self.folder} {'written' if self.changed else 'holds just that already'}",
        ]
        if self.opaque:
            lines.append(f"only running MaxText can judge: {', '.join(self.opaque)}")
        if self.strays:
            lines.append(f"set by its own files, yet no keys: {', '.join(self.strays)}")
        return "\n".join(lines)


def write_catalogue(
    source: Path, out: Path, release: str | None = None, *, force: bool = False
) -> Summary:
    """Read a MaxText and write its catalogue to `out/<release>/`, whole or not at all.

    Args:
        source: see `maxtext_source.read_source`.
        out: the folder of all catalogues, e.g. `moectl/facts/data/maxtext`.
        release: what to call it; by default what its version.py says.
        force: replace a catalogue that stands there and differs.

    Raises:
        SourceError: the source is no MaxText that can be read.
        ValueUsageError: the release is no release number.
        LocalFilesError: the folder cannot be written, or holds something else.
    """
    if release is not None:
        _checked(release)
    tables = read_source(source, release)
    folder = out / _checked(tables.release)
    files = documents(tables)
    try:
        changed = _put(folder, files, force=force)
    except OSError as error:
        raise LocalFilesError(f"{folder}: cannot be written: {error.strerror or error}") from None
    inner = [key for keys in tables.nested.values() for key in keys.values()]
    return Summary(
        release=tables.release,
        folder=folder,
        changed=changed,
        keys=len(tables.keys),
        nested=len(inner),
        derived=sum(key.derived for key in tables.keys.values()),
        models=len(tables.models),
        opaque=tuple(key.path for key in [*tables.keys.values(), *inner] if key.opaque),
        strays=tables.strays,
    )


def documents(tables: Tables) -> dict[str, str]:
    """Return the text of the three files by name."""
    release = tables.release
    head = {
        "release": release,
        "source": f"maxtext {release} (Apache-2.0), {', '.join(tables.digests)}",
        "sha256": tables.digests,
    }
    axes = {a.name: {"ici": a.ici, "dcn": a.dcn} for a in tables.axes.values()}
    nested = {parent: _rows(keys) for parent, keys in tables.nested.items()}
    keys = {**head, "axes": axes, "nested": nested, "keys": _rows(tables.keys)}
    depths = {"sha256": 1, "axes": 1, "nested": 2, "keys": 1, "values": 1, "models": 2}
    return {
        "keys.json": _document(keys, depths),
        "base.json": _document({**head, "values": tables.base}, depths),
        "models.json": _document({**head, "models": tables.models}, depths),
    }


def _rows(keys: Mapping[str, Key]) -> dict[str, dict[str, object]]:
    return {name: key.row() for name, key in keys.items()}


def _checked(release: str) -> str:
    if not _RELEASE.match(release) or len(release) > 64:
        raise ValueUsageError("MaxText release", release, "a number such as 0.2.5 or 0.3.0.dev1")
    return release


def _document(sections: Mapping[str, object], depths: Mapping[str, int]) -> str:
    lines = [
        f"  {json.dumps(name)}: {_block(value, depths.get(name, 0), '  ')}"
        for name, value in sections.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _block(value: object, depth: int, indent: str) -> str:
    """Break mappings into lines `depth` levels down, and and a list of lists always."""
    deeper = f"{indent}  "
    if isinstance(value, Mapping) and depth and value:
        inner = [f"{json.dumps(k)}: {_block(v, depth - 1, deeper)}" for k, v in value.items()]
        return "{\n" + ",\n".join(deeper + line for line in inner) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, list) for item in value):
        inner = [json.dumps(item, allow_nan=False) for item in value]
        return "[\n" + ",\n".join(deeper + line for line in inner) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


def _put(folder: Path, files: Mapping[str, str], *, force: bool) -> bool:
    """Put a complete folder in place of what stands there; return whether that changed it."""
    if folder.exists() or folder.is_symlink():
        if _holds(folder, files):
            return False
        if not force:
            raise LocalFilesError(
                f"{folder} exists and differs: move it away, or write to another folder"
            )
        if not (folder / "keys.json").is_file() or folder.is_symlink():
            raise LocalFilesError(f"{folder} is no catalogue: move it away first")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as place:
        made = Path(place) / "new"
        made.mkdir()
        for name, text in files.items():
            (made / name).write_bytes(text.encode())
        if folder.exists():
            os.replace(folder, Path(place) / "old")  # noqa: PTH105 - replace is what is meant
        try:
            os.replace(made, folder)  # noqa: PTH105
        except OSError:
            if (Path(place) / "old").exists():
                shutil.move(Path(place) / "old", folder)
            raise
    return True


def _holds(folder: Path, files: Mapping[str, str]) -> bool:
    if not folder.is_dir() or {path.name for path in folder.iterdir()} != set(files):
        return False
    return all((folder / name).read_bytes() == text.encode() for name, text in files.items())
