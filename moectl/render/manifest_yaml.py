"""Objects of Kubernetes as YAML: text that could be taken for something else is always quoted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
# What YAML 1.1, which Kubernetes reads, takes for something else than text.
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def text(documents: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """Return documents as one file.

    Args:
        documents: (comment, object) each; lines of the comment stand above the object.
    """
    return "---\n".join(
        "".join(f"# {line}\n" if line else "#\n" for line in comment.splitlines()) + _dump(found)
        for comment, found in documents
    )


def _dump(document: Mapping[str, Any]) -> str:
    import yaml  # noqa: PLC0415 - start-up time

    written: str = yaml.dump(
        document, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=1_000_000
    )
    return written


@cache
def _dumper() -> Any:
    import yaml  # noqa: PLC0415 - start-up time

    class Dumper(yaml.SafeDumper):  # type: ignore[misc,unused-ignore]
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
            return True

    def text_node(dumper: Any, value: str) -> Any:
        plain = _PLAIN.fullmatch(value) and value.casefold() not in _WORDS
        style = None if plain else "|" if "\n" in value else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text_node)
    return Dumper
