"""What is wrong with the form of a MaxText config, in words."""

from __future__ import annotations

from typing import Any, Final

from moectl.errors import shown
from moectl.facts.maxtext import Catalogue
from moectl.findings import Finding
from moectl.settings.sources.nesting import flat_keys
from moectl.settings.sources.source import finding
from moectl.settings.sources.templated import Plain
from moectl.settings.sources.yaml_loose import Trouble
from moectl.values import Origin

LAYER: Final = "MaxText config"
_CODES: Final = {
    "syntax": "YAML101",
    "duplicate": "YAML102",
    "tab": "YAML103",
    "form": "YAML110",
    "size": "YAML110",
}
_HINTS: Final = {
    "syntax": "mend the line",
    "duplicate": "keep one of the two lines",
    "tab": "indent with spaces",
    "form": "write the value out as plain YAML",
    "size": "split it, or write it without aliases of aliases",
}


def of_template(plain: Plain, path: str) -> Finding:
    """Return the note on a config that is a template."""
    return finding(
        "YAML112",
        "note",
        "template",
        f"this is {plain.tool}: what is filled in later is not known.",
        "render it and check the result",
        Origin(LAYER, path, plain.line, 1),
    )


def of_trouble(trouble: Trouble, path: str) -> Finding:
    """Return the finding of what a strict reader would stop at."""
    origin = Origin(LAYER, path, trouble.line, trouble.column)
    return finding(
        _CODES[trouble.kind],
        "error",
        trouble.key or "YAML",
        f"{trouble.sentence[0].upper()}{trouble.sentence[1:]}.",
        _HINTS[trouble.kind],
        origin,
    )


def of_section(section: str, value: Any, origin: Origin, catalogue: Catalogue) -> Finding:
    """Return the finding of a section that holds MaxText keys."""
    flat = dict(flat_keys(value, catalogue))
    known = [keys for keys in flat if catalogue.key(str(keys[-1])) is not None]
    odd = [str(keys[-1]) for keys in flat if catalogue.key(str(keys[-1])) is None]
    lines = ", ".join(str(keys[-1]) for keys in known[:8])
    more = f" and {len(known) - 8} more" if len(known) > 8 else ""
    unknown = f" (no key of MaxText: {', '.join(map(shown, odd[:4]))})" if odd else ""
    return finding(
        "YAML109",
        "error",
        section,
        f"{shown(section)} is a section, which is no form of MaxText {catalogue.release}: its "
        f"keys are flat, and it stops at a name it does not know.",
        f"move to the left margin: {lines}{more}{unknown}",
        origin,
    )
