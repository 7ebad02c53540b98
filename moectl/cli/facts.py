"""moectl facts: what is catalogued, and how each table is renewed."""

from __future__ import annotations

import sys
from pathlib import Path

from moectl.cli.manner import remark
from moectl.cli.text import say, say_json


def facts_list(format: str) -> int:  # noqa: A002 - the option's name
    """Print the fact tables with their releases."""
    from moectl.facts import maxtext as maxtext_facts  # noqa: PLC0415
    from moectl.facts import weights as weight_facts  # noqa: PLC0415
    from moectl.facts import xla as xla_facts  # noqa: PLC0415
    from moectl.facts.yaml_facts import read  # noqa: PLC0415

    tables = {
        "maxtext": [
            {
                "release": r,
                "keys": len(maxtext_facts.load(r).keys()),
                "renew": "moectl facts maxtext SOURCE",
            }
            for r in maxtext_facts.releases()
        ],
        "xla": [
            {
                "release": r,
                "flags": len(xla_facts.load(r)),
                "renew": "moectl facts xla --python PATH",
            }
            for r in xla_facts.releases()
        ],
        "weights": [
            {
                "release": r,
                "models": len(weight_facts.load(r).models),
                "renew": "moectl facts weights MODELS",
            }
            for r in weight_facts.releases()
        ],
        "by hand": [
            {"release": read(name)["release"], "file": name}
            for name in (
                "hardware.yaml",
                "images.yaml",
                "launch.yaml",
                "requirements.yaml",
                "switches.yaml",
            )
        ],
    }
    if format == "json":
        say_json(tables)
        return 0
    for name, rows in tables.items():
        say(f"{name}:")
        for row in rows:
            say("  " + ", ".join(f"{key} {value}" for key, value in row.items()))
    return 0


def maxtext(source: str, output: str | None, format: str) -> int:  # noqa: A002
    """Read the catalogue of a MaxText statically; nothing of it is imported."""
    from moectl.evidence.maxtext_write import write_catalogue  # noqa: PLC0415

    folder = Path(output or "maxtext-catalogue")
    tally = write_catalogue(Path(source), folder)
    if format == "json":
        say_json({"output": str(folder), "catalogue": str(tally)})
    else:
        say(str(tally))
        say(f"wrote {folder}")
    return 0


def xla(python: str | None, output: str | None, format: str) -> int:  # noqa: A002
    """Ask an installed jaxlib for its flags; its own parser decides."""
    from moectl.evidence.xla_flags import write_catalogue  # noqa: PLC0415

    file = Path(output or "xla.tsv")
    count = write_catalogue(python or sys.executable, file)
    if format == "json":
        say_json({"output": str(file), "flags": count})
    else:
        say(f"wrote {count} flags to {file}")
    return 0


def weights(models: str, output: str | None, format: str) -> int:  # noqa: A002
    """Ask MaxText itself, in an environment of its own, for the weights of its models."""
    from moectl.environments import managed  # noqa: PLC0415
    from moectl.evidence.maxtext_weights import table, text_of  # noqa: PLC0415

    file = Path(output or "weights.json")
    environment = managed("maxtext-0.2.5", say=remark)
    found = table(str(environment.python), [name for name in models.split(",") if name])
    file.write_text(text_of(found), encoding="utf-8")
    if format == "json":
        say_json({"output": str(file), "models": [name for name in models.split(",") if name]})
    else:
        say(f"wrote {file}")
    return 0
