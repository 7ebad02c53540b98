"""moectl explain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moectl.actions.explain import Answer, explain, families
from moectl.cli.text import say, say_json
from moectl.reports.columns import columns
from moectl.settings.emit import flow


def run(names: Sequence[str], format: str) -> int:  # noqa: A002 - the option's name
    """Say what names stand for; without one, the families of codes."""
    if not names:
        _say_families(families(), as_json=format == "json")
        return 0
    answers = [answer for name in dict.fromkeys(names) for answer in explain(name)]
    if format == "json":
        say_json(answers)
        return 0
    for number, answer in enumerate(answers):
        if number:
            say()
        _say_answer(answer)
    return 0


def _say_families(rows: list[Answer], *, as_json: bool) -> None:
    if as_json:
        say_json(rows)
        return
    head = ("family", "codes", "errors", "warnings", "notes")
    cells = [[str(row["name"]), *(str(row[name]) for name in head[1:])] for row in rows]
    for line in columns(head, cells, range(1, 5)):
        say(line)
    say()
    say("`moectl explain FAMILY` lists its codes, `moectl explain CODE` explains one.")


def _say_answer(answer: Answer) -> None:
    say(f"{answer['name']}: {answer['kind']}")
    rows = [
        row
        for label, value in answer.items()
        if label not in {"name", "kind"}
        for row in _rows(label, value)
    ]
    width = max((len(label) for label, _ in rows), default=0)
    for label, text in rows:
        say(f"  {label:<{width}}  {text}".rstrip())


def _rows(label: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        for number, row in enumerate(value):
            yield (label if not number else ""), "  ".join(map(str, row.values()))
    elif isinstance(value, list) and label != "default":
        yield label, ", ".join(map(str, value))
    elif isinstance(value, Mapping) and label in {"default", "since"}:
        by_value: dict[str, list[str]] = {}
        for name, one in value.items():
            by_value.setdefault(_text(one), []).append(name)
        for number, (text, its) in enumerate(by_value.items()):
            yield (label if not number else ""), f"{text}  ({', '.join(its)})"
    else:
        yield label, _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value else flow(value, omegaconf=False)
