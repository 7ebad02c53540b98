"""Reads YAML exactly as MaxText does (OmegaConf's loader), with the place of every value.

OmegaConf reads numbers such as `3e-4` that plain PyYAML takes for text, refuses duplicate
keys, and knows no dates. Nothing here constructs Python objects from tags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from moectl.errors import SourceError, shown
from moectl.settings.text_file import MAX_BYTES

Node: TypeAlias = Any  # yaml.nodes.Node, whose stubs lack `id`

MAX_NODES = 60_000
MAX_DEPTH = 64
_DIGITS = "[0-9]+(?:_[0-9]+)*"
TAB = "not YAML: a tab stands where YAML wants spaces"
_PLAIN_TAGS = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands: line and column from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML mapping: the plain data, and the place of every key and value by path."""

    data: dict[str, Any]
    places: dict[tuple[str | int, ...], Place]

    def place(self, *path: str | int) -> Place | None:
        """Return where `path` stands, or the nearest parent that is known."""
        for end in range(len(path), 0, -1):
            if found := self.places.get(path[:end]):
                return found
        return None


def read_mapping(text: str, path: str) -> Document:
    """Read one YAML document that is a mapping with text keys.

    Args:
        text: the file's content.
        path: its name, for messages.

    Raises:
        SourceError: the text is no such YAML: syntax, duplicate or self-referencing keys,
            an unknown tag, something too large or too deep. File, line, one sentence.
    """
    node = _compose(text, path)
    if node is None:
        return Document({}, {})
    if node.id != "mapping":
        raise SourceError(path, node.start_mark.line + 1, "a mapping of keys is wanted here")
    reader = Reader(path)
    data = reader.construct(node, ())
    assert isinstance(data, dict)  # noqa: S101 - the node is a mapping
    return Document(data, reader.places)


def read_scalar(text: str, what: str) -> Any:
    """Read one value as MaxText's command line reads it, e.g. "3e-4", "[a, b]", "off".

    Args:
        text: the text after the equals sign.
        what: who said it, for messages.
    """
    if not text:
        return ""
    node = _compose(text, what)
    return None if node is None else Reader(what).construct(node, ())


def _compose(text: str, path: str) -> Node | None:
    return _guarded(text, path, _composer)


def nodes(text: str, path: str) -> Iterator[Node]:
    """Yield the node of every document that is not empty; they are composed one by one."""
    loader = _guarded(text, path, _loader_class())
    try:
        while _guarded(text, path, lambda _: loader.check_node()):
            yield _guarded(text, path, lambda _: loader.get_node())
    finally:
        loader.dispose()


def _guarded(text: str, path: str, compose: Callable[[str], Any]) -> Any:
    """Call PyYAML; whatever it raises becomes a sentence."""
    from yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415

    if len(text) > MAX_BYTES:
        raise SourceError(path, None, f"it is larger than {MAX_BYTES >> 20} MiB")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SourceError(path, None, "it is not UTF-8 text") from None
    try:
        return compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        sentence = f"not YAML: {' '.join(str(error.problem or error.context).split())}"
        if mark and _stands_tab(text, mark.line, mark.column):
            sentence = TAB
        if mark is None:
            raise SourceError(path, None, sentence) from None
        last = text.rstrip().count("\n")
        if mark.line > last and error.context_mark and error.context_mark.line <= last:
            # The text ends inside something; where that begins is what has to be mended.
            sentence += f" {error.context} from line {error.context_mark.line + 1} on"
        raise SourceError(path, min(mark.line, last) + 1, sentence) from None
    except YAMLError as error:
        reason = getattr(error, "reason", "") or "it has characters YAML does not allow"
        raise SourceError(path, None, f"not YAML: {reason}") from None
    except RecursionError:
        raise SourceError(path, None, "it is nested too deeply") from None


def _stands_tab(text: str, line: int, column: int) -> bool:
    """Whether a tab is at a place, counted from 0, or in the indentation before it."""
    lines = text.splitlines()
    here = lines[line] if line < len(lines) else ""
    indentation = here[: len(here) - len(here.lstrip())]
    return here[column : column + 1] == "\t" or "\t" in indentation


def _composer(text: str) -> Node | None:
    loader = _loader_class()(text)
    try:
        node: Node | None = loader.get_single_node()
    finally:
        loader.dispose()
    return node


@cache
def _loader_class() -> Any:
    """Return PyYAML's C composer (or the Python one) with OmegaConf's idea of a number."""
    import re  # noqa: PLC0415

    import yaml  # noqa: PLC0415

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    number = re.compile(
        rf"""^(?:
         [-+]?{_DIGITS}\.[0-9_]*(?:[eE][-+]?[0-9]+)?       # 1.5  1.  1.5e3
        |[-+]?{_DIGITS}[eE][-+]?[0-9]+                     # 1e5
        |\.{_DIGITS}(?:[eE][-+][0-9]+)?                    # .5  .5e-3
        |[-+]?{_DIGITS}(?::[0-5]?[0-9])+\.[0-9_]*          # 1:30.5
        |[-+]?\.(?:inf|Inf|INF)
        |\.(?:nan|NaN|NAN))$""",
        re.VERBOSE,
    )
    resolvers = {
        first: [
            (tag, pattern)
            for tag, pattern in found
            if tag not in {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:float"}
        ]
        for first, found in base.yaml_implicit_resolvers.items()
    }
    for first in "-+0123456789.":
        resolvers.setdefault(first, []).append(("tag:yaml.org,2002:float", number))
    return type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})


class Reader:
    """Builds plain data from nodes, keeping places; aliases are shared, never repeated."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.places: dict[tuple[str | int, ...], Place] = {}
        self.open: set[int] = set()
        self.done: set[int] = set()
        self.repeats = False
        self.count = 0

    def construct(self, node: Node, at: tuple[str | int, ...]) -> Any:
        """Return the plain data of a node that stands at the path `at`."""
        self.count += 1
        if self.count > MAX_NODES:
            what = "its aliases unfold to too many" if self.repeats else f"more than {MAX_NODES}"
            raise self.fault(node, f"{what} values")
        if len(at) > MAX_DEPTH:
            raise self.fault(node, "it is nested too deeply")
        if id(node) in self.open:
            raise self.fault(node, "an alias refers to what it stands in")
        self.places.setdefault(at, Place(node.start_mark.line + 1, node.start_mark.column + 1))
        if node.id == "scalar":
            return self.scalar(node)
        if node.tag not in _PLAIN_TAGS:
            raise self.fault(node, f"the tag {shown(node.tag)} is not read")
        self.repeats = self.repeats or id(node) in self.done
        self.open.add(id(node))
        self.done.add(id(node))
        try:
            if node.id == "sequence":
                return [self.construct(item, (*at, index)) for index, item in enumerate(node.value)]
            return dict(self.pairs(node, at))
        finally:
            self.open.discard(id(node))

    def pairs(self, node: Node, at: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:
        """Yield the keys and values of a mapping, its merge keys unfolded."""
        seen: dict[str, int] = {}
        own: list[tuple[str, Node]] = []
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.id != "scalar":
                raise self.fault(key_node, "a key must be a word")
            if key_node.tag == "tag:yaml.org,2002:merge":
                yield from self.merged(value_node, at)
                continue
            key = key_node.value
            if key in seen:
                sentence = f"the key {shown(key)} stands twice (first in line {seen[key]})"
                self.twice(key_node, sentence)
            seen[key] = line
            self.places[(*at, key)] = Place(line, key_node.start_mark.column + 1)
            own.append((key, value_node))
        for key, value_node in own:  # they win over what was merged
            yield key, self.construct(value_node, (*at, key))

    def twice(self, node: Node, sentence: str) -> None:
        """Refuse a key that stands twice."""
        raise SourceError(self.path, node.start_mark.line + 1, sentence)

    def merged(self, node: Node, at: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:
        """Yield what `<<: *alias` brings in; of several mappings the first wins."""
        for source in reversed(node.value) if node.id == "sequence" else [node]:
            if source.id != "mapping" or id(source) in self.open:
                raise self.fault(node, "<< wants a mapping, or a list of mappings")
            self.open.add(id(source))
            yield from self.pairs(source, at)
            self.open.discard(id(source))

    def scalar(self, node: Node) -> Any:
        """Return the value of a scalar by its tag."""
        from yaml.constructor import ConstructorError, SafeConstructor  # noqa: PLC0415

        kind = node.tag.rpartition(":")[2]
        if kind == "str" or node.tag == "!":
            return node.value
        try:
            constructor = SafeConstructor()
            match kind:
                case "null":
                    return None
                case "bool":
                    return bool(constructor.construct_yaml_bool(node))
                case "int":
                    return int(constructor.construct_yaml_int(node))
                case "float":
                    return float(constructor.construct_yaml_float(node))
                case _:
                    pass
        except (ConstructorError, ValueError, KeyError, IndexError):
            raise self.fault(node, f"{shown(node.value)} is not a {kind}") from None
        raise self.fault(node, f"the tag {shown(node.tag)} is not read")

    def fault(self, node: Node, sentence: str) -> SourceError:
        """Return the error of a node."""
        return SourceError(self.path, node.start_mark.line + 1, sentence)
