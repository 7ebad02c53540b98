"""The templates that ship with moectl, and how they are filled.

A variable a template names and nobody gives is an error, never an empty text; nothing is
escaped on its own, so every value goes through the filter of the language it is written into:

* `quote`: one word of a POSIX shell, whatever it holds;
* `sbatch`: one value of an `#SBATCH` line, in the quoting sbatch reads;
* `comment`: the tail of a comment line, control characters shown as escapes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from moectl.resources import shipped

if TYPE_CHECKING:
    import jinja2


_PAGE = ".html.j2"  # of a report, and no part of a bundle


def source(name: str) -> str:
    """Return the text of the template file `name`."""
    return shipped("templates").joinpath(name).read_text(encoding="utf-8")


def render(name: str, values: dict[str, object]) -> str:
    """Fill the template `name`.

    Args:
        name: file name under `templates/`.
        values: what the template may name; a name it uses and that is missing here raises.
    """
    return _environment().get_template(name).render(values)


@cache
def digest() -> str:
    """Return a digest of all templates: the same templates and job give the same bytes."""
    import hashlib  # noqa: PLC0415 - start-up time

    names = sorted(entry.name for entry in shipped("templates").iterdir())
    found = hashlib.sha256()
    for name in names:
        if not name.startswith((".", "__")) and not name.endswith(_PAGE):
            found.update(name.encode() + b"\0" + source(name).encode() + b"\0")
    return f"sha256:{found.hexdigest()}"


def quote(text: str) -> str:
    """Return `text` as one word of a POSIX shell."""
    import shlex  # noqa: PLC0415 - start-up time

    return shlex.quote(text)


def sbatch(text: str) -> str:
    r"""Return `text` as one value of an `#SBATCH` line.

    Inside double quotes sbatch takes everything literally but `\\` and `\"` (opt.c,
    `_get_argument`; tried on 22.05 and 24.11). It expands nothing.
    """
    import re  # noqa: PLC0415 - start-up time

    if re.fullmatch(r"[A-Za-z0-9@%_+=:,./\[\]-]+", text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def comment(text: str) -> str:
    """Return `text` as the tail of a comment line: printable, on one line."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


@cache
def _environment() -> jinja2.Environment:
    """Return the one template environment."""
    import jinja2  # noqa: PLC0415 - start-up time

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(source),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - shell, not HTML; see the filters
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        optimized=False,  # each template is used once: folding its constants costs more
    )
    environment.filters.update(quote=quote, sbatch=sbatch, comment=comment)
    return environment
