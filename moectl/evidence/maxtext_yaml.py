"""Read MaxText's YAML files as MaxText does: with OmegaConf's loader, not plain YAML.

Measured against OmegaConf 2.4: YAML 1.1 scalars (yes is true, 10_000 is 10000, 017 is 15),
but 3e-4 and 1e5 are numbers, dates stay text, and a key said twice is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from moectl.errors import SourceError, shown

if TYPE_CHECKING:
    import yaml

_LARGEST = 10_000
_DEEPEST = 50
_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_FLOAT = rf"""
    [-+]? {_DIGITS} \. [0-9_]* (?: [eE] [-+]? [0-9]+ )?     # 1.5  1.  1.5e3
  | [-+]? {_DIGITS} [eE] [-+]? [0-9]+                       # 1e5
  | \. {_DIGITS} (?: [eE] [-+] [0-9]+ )?                    # .5  .5e-3
  | [-+]? {_DIGITS} (?: : [0-5]? [0-9] )+ \. [0-9_]*        # 1:30.5
  | [-+]? \. (?: inf | Inf | INF )
  | \. (?: nan | NaN | NAN )
"""


def load(text: str, place: str) -> dict[str, object]:
    """Read one YAML document that is a mapping with text keys.

    Args:
        text: the document.
        place: how to name the file in an error.

    Raises:
        SourceError: the text is no such YAML, with the line where that shows; or a value is
            one that a catalogue cannot hold (.inf, .nan, binary, keys that are not text).
    """
    import yaml  # noqa: PLC0415

    try:
        document = yaml.load(text, Loader=_loader())  # noqa: S506 - built on the safe loader
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise SourceError(place, line, f"is no YAML OmegaConf reads: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SourceError(place, None, f"is no YAML OmegaConf reads: {error}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise SourceError(place, None, "is not a mapping of keys to values")
    nodes = _Count()
    for key, value in document.items():
        if not _plain({key: value}, nodes):
            raise SourceError(place, None, f"key {shown(key)} has a value that JSON lacks")
        if nodes.seen > _LARGEST:
            raise SourceError(place, None, f"holds more than the {_LARGEST} nodes OmegaConf reads")
    return document


@cache
def _loader() -> type[yaml.SafeLoader]:
    import yaml  # noqa: PLC0415

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"key {key.value} stands here twice", key.start_mark
                    )
                seen.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
            return super().construct_mapping(node, deep=deep)

    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(f"^(?:{_FLOAT})$", re.VERBOSE),
        list("-+0123456789."),
    )
    Loader.yaml_implicit_resolvers = {
        first: [item for item in items if not item[0].endswith(":timestamp")]
        for first, items in Loader.yaml_implicit_resolvers.items()
    }
    return Loader


@dataclass
class _Count:
    seen: int = 0


def _plain(value: object, nodes: _Count, depth: int = 0) -> bool:
    """Whether a value is made of what JSON has too, with text keys.

    Aliases may make a short document endless, so the walk ends with the count of nodes.
    """
    nodes.seen += 1
    if nodes.seen > _LARGEST:
        return True
    if depth > _DEEPEST:
        return False
    if isinstance(value, dict):
        return all(isinstance(k, str) and _plain(v, nodes, depth + 1) for k, v in value.items())
    if isinstance(value, list):
        return all(_plain(item, nodes, depth + 1) for item in value)
    if isinstance(value, float):
        return value - value == 0
    return value is None or isinstance(value, bool | int | str)
