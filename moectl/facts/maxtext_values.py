"""Whether MaxText takes a value: what its loader does first, then pydantic's lax mode.

Plain values are judged here; the odd ones by pydantic's own core with the schema that the
key's annotation makes, so that its rules ('6' is 6, 15.0 is 15, yes is true) are not retold.
"""

from __future__ import annotations

import operator

from moectl.facts.maxtext_key import Key, split_type

_COMPARE = {"ge": operator.ge, "gt": operator.gt, "le": operator.le, "lt": operator.lt}
_PLAIN: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}
_EXACT = 2**53  # whole numbers up to here are floats without a loss


def prepare(key: Key, value: object) -> object:
    """Do to a top-level value what MaxText's loader does before pydantic sees it."""
    if isinstance(value, str) and value.lower() == "none":
        value = None
    if "text_is_list" in key.prepared and isinstance(value, str):
        value = _as_list(value)
    if "empty_is_none" in key.prepared and value == "":
        value = None
    if "none_is_empty" in key.prepared and value is None:
        value = ""
    return value


def accepts(key: Key, value: object) -> bool:
    """Tell whether pydantic takes a prepared value for a key that has no nested keys."""
    if value is None:
        return key.nullable or key.opaque
    return _plainly(key, value) or _laxly(key, value)


def _plainly(key: Key, value: object) -> bool:
    """Whether a value is so plainly legal that pydantic's core need not be imported."""
    return key.opaque or any(_fits(kind, key, value) for kind in split_type(key.type))


def _fits(kind: str, key: Key, value: object) -> bool:
    if kind == "any":
        return True
    if kind == "enum":
        return isinstance(value, str) and value in key.choices
    if isinstance(value, list):
        inner = _PLAIN.get(kind[5:-1]) if kind.startswith("list[") else None
        limited = inner is None or key.bounds or key.choices
        return not limited and all(type(entry) is inner for entry in value)
    if isinstance(value, dict):
        return kind == "dict[str]" and all(isinstance(name, str) for name in value)
    whole = kind == "float" and type(value) is int and abs(value) <= _EXACT
    if whole or type(value) is _PLAIN.get(kind):
        named = kind == "int" and bool(key.choices)
        return _within(key, value) and (not named or value in key.choices)
    return False


def _within(key: Key, value: object) -> bool:
    if not isinstance(value, int | float):
        return True
    return all(_COMPARE[name](value, bound) for name, bound in key.bounds.items())


def _laxly(key: Key, value: object) -> bool:
    from pydantic_core import SchemaValidator, ValidationError  # noqa: PLC0415 - few values need it

    validator = SchemaValidator(_schemas(key.type, key))
    try:
        accepted = validator.validate_python(value)
    except ValidationError:
        return False
    # An int-valued enum turns '1' and 1.0 into 1 before it looks the member up.
    return key.type != "int" or not key.choices or accepted in key.choices


def _schemas(text: str, key: Key) -> dict[str, object]:
    choices = [_schema(kind, key) for kind in split_type(text)]
    return choices[0] if len(choices) == 1 else {"type": "union", "choices": choices}


def _schema(kind: str, key: Key) -> dict[str, object]:
    if kind.startswith("list["):
        return {"type": "list", "items_schema": _schemas(kind[5:-1], key)}
    if kind == "dict[str]":
        return {"type": "dict", "keys_schema": {"type": "str"}}
    if kind == "enum":
        return {"type": "literal", "expected": list(key.choices)}
    if kind in {"int", "float"}:
        return {"type": kind, **key.bounds}
    return {"type": kind}


def _as_list(text: str) -> object:
    """Read one text given for a list of texts, as MaxText's loader does."""
    stripped = text.strip()
    if (stripped[:1], stripped[-1:]) not in {("[", "]"), ("(", ")")}:
        return [text]
    import ast  # noqa: PLC0415 - a handful of keys needs it
    import warnings  # noqa: PLC0415

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes, which change nothing here
            parsed = ast.literal_eval(stripped)
    except (ValueError, SyntaxError):
        return [text]
    except (MemoryError, RecursionError):
        return text  # MaxText stops here too; text is no list
    return list(parsed) if isinstance(parsed, list | tuple) else [str(parsed)]
