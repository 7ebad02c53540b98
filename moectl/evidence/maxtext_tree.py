"""Open a MaxText wheel, source tree or site-packages folder, and read single files of it.

Nothing of MaxText is imported: its files are text here.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from moectl.errors import SourceError

TYPES = "configs/types.py"
_PACKAGES = ("", "maxtext", "src/maxtext", "MaxText", "src/MaxText")
_LARGEST_FILE = 16 * 1024 * 1024
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError)


@dataclass(frozen=True)
class Tree:
    """The `maxtext` package inside a wheel or folder; paths are relative to that package."""

    label: str
    _root: Path | None
    _archive: zipfile.ZipFile | None = None
    _prefix: str = ""
    _digests: dict[str, str] = field(default_factory=dict)

    def exists(self, path: str) -> bool:
        """Tell whether there is such a file."""
        if self._archive is not None:
            return self._prefix + path in self._archive.NameToInfo
        return self._root is not None and (self._root / path).is_file()

    def names(self, folder: str, suffix: str) -> list[str]:
        """Return the names, without suffix, of the files right in `folder`, sorted."""
        if self._archive is not None:
            start = f"{self._prefix}{folder}/"
            names = [n[len(start) :] for n in self._archive.namelist() if n.startswith(start)]
            found = {name for name in names if name.endswith(suffix) and "/" not in name}
        else:
            path = (self._root or Path()) / folder
            found = {p.name for p in path.glob(f"*{suffix}") if p.is_file()}
        return sorted(name.removesuffix(suffix) for name in found)

    def read(self, path: str) -> str:
        """Return the text of a file.

        Raises:
            SourceError: it is missing, too large, damaged or not UTF-8.
        """
        raw = self._bytes(path)
        self._digests[path] = hashlib.sha256(raw).hexdigest()
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise SourceError(self.place(path), None, "is not UTF-8 text") from None

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file that was read."""
        return self._digests[path]

    def place(self, path: str) -> str:
        """Return how to name a file of this tree in a message."""
        return f"{self.label}/{self._prefix}{path}"

    def _bytes(self, path: str) -> bytes:
        if not self.exists(path):
            raise SourceError(self.place(path), None, "is missing from this MaxText")
        try:
            if self._archive is not None:
                size = self._archive.getinfo(self._prefix + path).file_size
            else:
                size = ((self._root or Path()) / path).stat().st_size
            if size > _LARGEST_FILE:
                raise SourceError(
                    self.place(path), None, f"is {size} bytes; {_LARGEST_FILE} is the most read"
                )
            if self._archive is not None:
                return self._archive.read(self._prefix + path)
            return ((self._root or Path()) / path).read_bytes()
        except (OSError, *_BROKEN_ZIP) as error:
            raise SourceError(self.place(path), None, f"cannot be read: {error}") from None


@contextmanager
def opened(source: Path) -> Iterator[Tree]:
    """Open a wheel, a source tree, a site-packages folder, a venv or the package itself.

    Raises:
        SourceError: there is no MaxText of a known layout in it.
    """
    if source.is_dir():
        yield _folder(source)
        return
    if not source.exists():
        raise SourceError(str(source), None, "does not exist")
    try:
        archive = zipfile.ZipFile(source)
    except (OSError, *_BROKEN_ZIP) as error:
        raise SourceError(
            str(source), None, f"is neither a folder nor a readable wheel ({error})"
        ) from None
    with archive:
        yield _wheel(source, archive)


def _folder(source: Path) -> Tree:
    places = [source / package for package in _PACKAGES]
    places += sorted(source.glob("lib/python3*/site-packages/maxtext"))
    for root in places:
        if (root / TYPES).is_file():
            return Tree(str(root), root)
    raise _none_in(source)


def _wheel(source: Path, archive: zipfile.ZipFile) -> Tree:
    for package in _PACKAGES:
        prefix = f"{PurePosixPath(package)}/" if package else ""
        if prefix + TYPES in archive.NameToInfo:
            return Tree(str(source), None, archive, prefix)
    raise _none_in(source)


def _none_in(source: Path) -> SourceError:
    return SourceError(
        str(source),
        None,
        f"holds no maxtext/{TYPES}: name a MaxText wheel, a source tree or a site-packages folder",
    )
