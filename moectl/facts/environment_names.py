"""Names of variables that exist, beyond those of which more is known, and slips of them.

The programs never report a name they do not read. Where all names of a program are known, one
that is nearly one of them is a slip.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache

from moectl.resources import fact

# Likeness from which a name is taken for a slip: about one letter in ten.
_SLIP = 0.9


@cache
def _table() -> tuple[Mapping[str, tuple[str, str, str]], tuple[str, ...]]:
    """Return name -> owner, type, source; and the names that are families and end in *."""
    lines = fact("environment_names.tsv").read_text("utf-8").splitlines()
    found: dict[str, tuple[str, str, str]] = {}
    for line in lines[2:]:
        owner, kind, source, names = line.split("\t")
        for name in names.split(" "):
            found.setdefault(name, (owner, kind, source))
    return found, tuple(name for name in found if name.endswith("*"))


def other(name: str) -> tuple[str, str, str] | None:
    """Return owner, type and source of a name that exists, or None."""
    found, families = _table()
    exact = found.get(name)
    return exact or next((found[f] for f in families if name.startswith(f[:-1])), None)


@cache
def _prefixes() -> frozenset[str]:
    """Return the prefixes of programs whose names are known, e.g. "NCCL_"."""
    return frozenset(name.partition("_")[0] + "_" for name in _table()[0])


def slip(name: str, more: tuple[str, ...]) -> str | None:
    """Return the name that one which does not exist was probably meant to be, or None.

    Args:
        name: the name.
        more: names that exist besides those of this table.
    """
    prefix = name.partition("_")[0] + "_"
    return _near(name, prefix, more) if prefix in _prefixes() else None


@lru_cache(maxsize=1024)
def _near(name: str, prefix: str, more: tuple[str, ...]) -> str | None:
    import difflib  # noqa: PLC0415 - only an unknown name pays for it

    known = [known for known in (*more, *_table()[0]) if known.startswith(prefix)]
    close = difflib.get_close_matches(name[:100], known, n=1, cutoff=_SLIP)
    if not close or close[0].endswith("*"):
        return None
    rest = name.removeprefix(close[0])
    own = rest != name and (rest[:1] == "_" or rest.isdigit())
    return None if own else close[0]
