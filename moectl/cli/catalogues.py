"""moectl presets and moectl hardware."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from moectl.cli.text import say, say_json
from moectl.facts import hardware
from moectl.settings.emit import flow
from moectl.settings.files import preset, preset_names


def presets_list(format: str) -> int:  # noqa: A002 - the option's name
    """Print one line a preset."""
    rows = []
    for name in preset_names():
        found = preset(name)
        rows.append(
            {
                "name": name,
                "path": found.path["name"],
                "gpus": found.gpus,
                "hardware": found.hardware,
                "renderable": found.estimate_only is None,
                "title": found.title,
            }
        )
    if format == "json":
        say_json(rows)
    else:
        _say_table(
            rows,
            {
                "name": "preset",
                "path": "MoE path",
                "gpus": "GPUs",
                "hardware": "hardware",
                "title": "title",
            },
        )
    return 0


def presets_show(name: str, format: str) -> int:  # noqa: A002
    """Print a preset with its reasons."""
    found = preset(name)
    data: dict[str, Any] = {
        "name": found.name,
        "title": found.title,
        "source": found.source,
        "path": dict(found.path),
        "defaults": {"gpus": found.gpus, "hardware": found.hardware},
        "notes": list(found.notes),
        "accept": list(found.accept),
        "estimate_only": found.estimate_only,
        "run": found.run,
        "forms": found.forms,
        "for_hardware": found.for_hardware,
    }
    if format == "json":
        say_json(data)
    else:
        _say_tree({key: value for key, value in data.items() if value not in (None, [], {})})
    return 0


def hardware_list(format: str) -> int:  # noqa: A002
    """Print one line a platform."""
    rows = []
    for name in hardware.names():
        found = hardware.platform(name)
        rows.append(
            {
                "name": name,
                "gpus_per_node": found.gpus_per_node,
                "domain_gpus": found.domain_gpus,
                "usable_domain_gpus": found.usable_domain_gpus,
                "figures": "known" if found.figures else "unknown",
                "title": found.title,
            }
        )
    if format == "json":
        say_json(rows)
    else:
        _say_table(
            rows,
            {
                "name": "hardware",
                "gpus_per_node": "GPUs a node",
                "domain_gpus": "a domain",
                "usable_domain_gpus": "used",
                "figures": "figures",
                "title": "title",
            },
        )
    return 0


def hardware_show(name: str, format: str) -> int:  # noqa: A002
    """Print a platform with the sources of its figures."""
    found = hardware.details(name)
    if format == "json":
        say_json(found)
    else:
        _say_tree(found)
    return 0


def _say_table(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in columns.values():
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*(str(row[key]) for key in columns))
    width = Console().width if sys.stdout.isatty() else 160  # a pipe keeps a row on its line
    text = io.StringIO()
    Console(file=text, width=width).print(table, markup=False)
    say("\n".join(line.rstrip() for line in text.getvalue().strip("\n").splitlines()))


def _say_tree(tree: Mapping[str, Any], depth: int = 0) -> None:
    for key, value in tree.items():
        pad = "  " * depth
        if isinstance(value, Mapping) and value:
            say(f"{pad}{key}:")
            _say_tree(value, depth + 1)
        elif isinstance(value, list) and any(isinstance(item, str | Mapping) for item in value):
            say(f"{pad}{key}:")
            for item in value:
                say(f"{pad}  - {item if isinstance(item, str) else flow(item, omegaconf=False)}")
        else:
            say(f"{pad}{key}: {value if isinstance(value, str) else flow(value, omegaconf=False)}")
