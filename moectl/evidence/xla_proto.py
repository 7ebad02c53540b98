"""Reads the protobuf descriptors that a compiled XLA carries inside its library.

jaxlib has no Python descriptor for `xla.DebugOptions`, the message that holds the effective
value of every XLA flag. The library does: protobuf embeds each .proto file as a serialized
FileDescriptorProto. Found by its file name and walked by the wire format, it tells the
fields, types and enum values of exactly that release. No protobuf runtime is needed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from moectl.errors import BackendError

XLA_PROTO = "xla/xla.proto"
DEBUG_OPTIONS = ".xla.DebugOptions"
# CompileOptionsProto.executable_build_options and ExecutableBuildOptionsProto.debug_options
# (xla/pjrt/proto/compile_options.proto); the numbers of fields in use are never changed.
PATH_TO_DEBUG_OPTIONS = (3, 3)

Scalar: TypeAlias = bool | int | float | str
Value: TypeAlias = Scalar | list[Scalar] | dict[str, Scalar]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# google/protobuf/descriptor.proto: FieldDescriptorProto.Type
_TYPES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32",
    8: "bool", 9: "string", 10: "group", 11: "message", 12: "bytes", 13: "uint32", 14: "enum",
    15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip
_REPEATED = 3
# FileDescriptorProto has these field numbers; any other ends a carved descriptor.
_FILE_FIELDS = frozenset({*range(1, 13), 14})
_LARGEST_FILE_DESCRIPTOR = 1 << 20


class WireError(ValueError):
    """Bytes that are no protobuf message."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    Attributes:
        name: field name, e.g. "xla_gpu_enable_command_buffer".
        number: its tag.
        kind: scalar type of descriptor.proto, or "enum" or "message".
        type_name: full name of an enum or message, with a leading dot.
        repeated: whether it holds a list (or, for a map entry, a map).
    """

    name: str
    number: int
    kind: str
    type_name: str
    repeated: bool

    @property
    def shown(self) -> str:
        """Return the type as the catalogues write it, e.g. "enum optional:ShapeChecks"."""
        label = f"repeated {self.kind}" if self.repeated else f"{self.kind} optional"
        return f"{label}:{self.type_name.rpartition('.')[2]}" if self.type_name else label


@dataclass(frozen=True, slots=True)
class Schema:
    """Messages and enums of one library.

    Attributes:
        messages: full name -> tag -> field.
        enums: full name -> number -> value name, in the order of the .proto file.
    """

    messages: Mapping[str, Mapping[int, Field]]
    enums: Mapping[str, Mapping[int, str]]

    def options(self) -> Mapping[str, Field]:
        """Return the fields of DebugOptions by name."""
        return {field.name: field for field in self.messages[DEBUG_OPTIONS].values()}

    def enum_values(self, field: Field) -> tuple[str, ...]:
        """Return the value names of an enum field, in the order of the .proto file."""
        return tuple(self.enums.get(field.type_name, {}).values())


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Walk one serialized message.

    Yields:
        (field number, wire type, value): an int for varints, bytes for everything else.

    Raises:
        WireError: the bytes end inside a field or have an impossible tag.
    """
    for number, wire, value, _ in _walk(data):
        yield number, wire, value


def _walk(data: bytes) -> Iterator[tuple[int, int, int | bytes, int]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        value: int | bytes
        if wire == _VARINT:
            value, position = _varint(data, position)
        else:
            if wire == _BYTES:
                length, position = _varint(data, position)
            elif wire in {_FIXED64, _FIXED32}:
                length = 8 if wire == _FIXED64 else 4
            else:
                raise WireError(f"wire type {wire} at byte {position}")
            end = position + length
            if end > len(data):
                raise WireError(f"field {number} runs past the end")
            value, position = data[position:end], end
        if number == 0:
            raise WireError(f"field number 0 at byte {position}")
        yield number, wire, value, position


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise WireError(f"unfinished number at byte {position}")
        byte = data[position]
        result |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return result, position


def carve(window: bytes) -> bytes:
    """Cut the FileDescriptorProto that begins at the start of `window`.

    A descriptor has no length in front of it: it ends where the next bytes are no field of a
    FileDescriptorProto, or where a second file name begins.
    """
    end = 0
    try:
        for number, _, _, position in _walk(window):
            if number not in _FILE_FIELDS or (number == 1 and end):
                break
            end = position
    except WireError:
        pass
    return window[:end]


@lru_cache(maxsize=4)
def schema(library: Path) -> Schema:
    """Read the descriptor of xla/xla.proto, and of the files it needs, out of a library.

    Args:
        library: the shared library that holds XLA's parser, e.g. jaxlib/libjax_common.so.

    Raises:
        BackendError: the file cannot be read or holds no such descriptor.
    """
    import mmap  # noqa: PLC0415 - only evidence pays for it

    messages: dict[str, dict[int, Field]] = {}
    enums: dict[str, dict[int, str]] = {}
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as m:
            needed = _read_file(_find(m, XLA_PROTO), messages, enums)
            options = messages.get(DEBUG_OPTIONS, {}).values()
            known = messages.keys() | enums.keys()
            if any(field.type_name and field.type_name not in known for field in options):
                for name in needed:
                    _read_file(_find(m, name), messages, enums)
    except (OSError, ValueError) as error:
        raise BackendError(f"cannot read the descriptors in {library}: {error}") from error
    if DEBUG_OPTIONS not in messages:
        raise BackendError(f"{library} holds no descriptor of {XLA_PROTO}; is it XLA's library?")
    return Schema(messages, enums)


def _find(image: object, name: str) -> bytes:
    """Return the carved descriptor of the .proto file `name`; empty when it is not there."""
    import mmap  # noqa: PLC0415

    assert isinstance(image, mmap.mmap)  # noqa: S101 - typing only
    encoded = name.encode()
    if len(encoded) >= 0x80:
        return b""
    start = image.find(b"\n" + bytes([len(encoded)]) + encoded + b"\x12")
    return carve(image[start : start + _LARGEST_FILE_DESCRIPTOR]) if start >= 0 else b""


def _read_file(
    data: bytes, messages: dict[str, dict[int, Field]], enums: dict[str, dict[int, str]]
) -> list[str]:
    """Add a FileDescriptorProto's types; return the names of the files it imports."""
    parts = list(fields(data))
    package = "".join(_text(value) for number, _, value in parts if number == 2)
    prefix = f".{package}" if package else ""
    for number, _, value in parts:
        if number == 4:
            _read_message(_bytes(value), prefix, messages, enums)
        elif number == 5:
            _read_enum(_bytes(value), prefix, enums)
    return [_text(value) for number, _, value in parts if number == 3]


def _read_message(
    data: bytes,
    prefix: str,
    messages: dict[str, dict[int, Field]],
    enums: dict[str, dict[int, str]],
) -> None:
    parts = list(fields(data))
    name = f"{prefix}.{''.join(_text(value) for number, _, value in parts if number == 1)}"
    found = [_read_field(_bytes(value)) for number, _, value in parts if number == 2]
    messages[name] = {field.number: field for field in found}
    for number, _, value in parts:
        if number == 3:
            _read_message(_bytes(value), name, messages, enums)
        elif number == 4:
            _read_enum(_bytes(value), name, enums)


def _read_field(data: bytes) -> Field:
    seen: dict[int, int | bytes] = {number: value for number, _, value in fields(data)}
    kind = seen.get(5, 0)
    return Field(
        name=_text(seen.get(1, b"")),
        number=_signed(seen.get(3, 0)),
        kind=_TYPES.get(kind if isinstance(kind, int) else 0, "unknown"),
        type_name=_text(seen.get(6, b"")),
        repeated=seen.get(4) == _REPEATED,
    )


def _read_enum(data: bytes, prefix: str, enums: dict[str, dict[int, str]]) -> None:
    parts = list(fields(data))
    name = f"{prefix}.{''.join(_text(value) for number, _, value in parts if number == 1)}"
    values: dict[int, str] = {}
    for number, _, value in parts:
        if number == 2:
            entry = {inner: content for inner, _, content in fields(_bytes(value))}
            values.setdefault(_signed(entry.get(2, 0)), _text(entry.get(1, b"")))
    enums[name] = values


def debug_options(serialized: bytes, known: Schema) -> dict[str, Value]:
    """Decode the DebugOptions inside a serialized CompileOptionsProto.

    Args:
        serialized: `CompileOptions.SerializeAsString()` of a process that has parsed XLA_FLAGS.
        known: the schema of the same library.

    Returns:
        Flag name -> effective value, for every field that is set; a list field that holds
        nothing is an empty list.

    Raises:
        WireError: the bytes are no such message.
    """
    for wanted in PATH_TO_DEBUG_OPTIONS:
        serialized = b"".join(
            _bytes(value) for number, _, value in fields(serialized) if number == wanted
        )
    return _decode(serialized, DEBUG_OPTIONS, known)


def _decode(data: bytes, name: str, known: Schema) -> dict[str, Value]:
    tags = known.messages[name]
    result: dict[str, Value] = {}
    lists: dict[str, list[Scalar]] = {
        f.name: [] for f in tags.values() if f.repeated and f.kind != "message"
    }
    for number, wire, value in fields(data):
        field = tags.get(number)
        if field is None:
            continue
        if field.kind == "message":
            if field.type_name in known.messages:
                entry = _decode(_bytes(value), field.type_name, known)
                held = result.setdefault(field.name, {})
                if isinstance(held, dict):
                    held[str(entry.get("key", ""))] = _scalar(entry.get("value", ""))
        elif not field.repeated:
            result[field.name] = _value(field, value, known)
        elif wire == _BYTES and field.kind not in {"string", "bytes"}:
            lists[field.name] += [_value(field, item, known) for item in _packed(field, value)]
        else:
            lists[field.name].append(_value(field, value, known))
    maps = (f.name for f in tags.values() if f.repeated and f.kind == "message")
    return {**{key: {} for key in maps}, **lists, **result}


def _packed(field: Field, value: int | bytes) -> Iterator[int | bytes]:
    data, position = _bytes(value), 0
    size = {"double": 8, "fixed64": 8, "sfixed64": 8, "float": 4, "fixed32": 4, "sfixed32": 4}
    while position < len(data):
        if width := size.get(field.kind):
            yield data[position : position + width]
            position += width
        else:
            number, position = _varint(data, position)
            yield number


def _value(field: Field, value: int | bytes, known: Schema) -> Scalar:
    if field.kind in {"double", "float"}:
        return float(struct.unpack("<d" if field.kind == "double" else "<f", _bytes(value))[0])
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if field.kind == "bool":
        return bool(value)
    if field.kind == "enum":
        number = _signed(value)
        return known.enums.get(field.type_name, {}).get(number, str(number))
    return value if field.kind.startswith("uint") else _signed(value)


def _scalar(value: Value) -> Scalar:
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _signed(value: int | bytes) -> int:
    """Read a varint as the two's complement number that int32, int64 and enums use."""
    if isinstance(value, bytes):
        raise WireError("a number was expected")
    return value - (1 << 64) if value >= 1 << 63 else value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise WireError("bytes were expected")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode("utf-8", "replace")
