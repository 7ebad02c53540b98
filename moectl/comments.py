"""Where comments stand in YAML files and shell scripts, and where they do not.

Best effort over any text: quotes, here-documents and YAML block scalars are content.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_SHELL_NAMES = (".sh", ".bash", ".sbatch", ".slurm")
_DIRECTIVE = re.compile(r"\s*#(?:SBATCH|PBS|BSUB)\b")
_HEREDOC = re.compile(r"<<(?P<dash>-?)\s*(?P<quote>['\"\\]?)(?P<word>[A-Za-z_][A-Za-z0-9_]*)")
_BLOCK_SCALAR = re.compile(r"(?:^|[:\-?]\s+)(?:[&!]\S+\s+)*[|>][+-]?[0-9]?[+-]?\s*$")


@dataclass(frozen=True, slots=True)
class Comment:
    """What a line has of a comment.

    Attributes:
        at: index of its first character in the line, or None.
        alone: whether it is all of the line; a batch directive is not.
        start: index of the first line of the command that the line belongs to; a continued
            command has several lines.
    """

    at: int | None
    alone: bool
    start: int


def is_script(text: str, name: str = "") -> bool:
    """Whether a text is read as a shell script, and otherwise as YAML."""
    return text.startswith("#!") or name.endswith(_SHELL_NAMES) or "\n#SBATCH" in f"\n{text}"


def comments(lines: Sequence[str], *, script: bool) -> list[Comment]:
    """Return what each line of a script or YAML file has of a comment."""
    return list(_shell(lines) if script else _yaml(lines))


def _comment(line: str, at: int | None, start: int) -> Comment:
    alone = at is not None and not line[:at].strip() and not _DIRECTIVE.match(line)
    return Comment(at, alone, start)


def _shell(lines: Sequence[str]) -> Iterator[Comment]:
    """Yield the comment of every line of a script."""
    quote, start, continued = "", 0, False
    waiting: deque[tuple[str, bool]] = deque()
    inside: tuple[str, bool] | None = None
    for index, line in enumerate(lines):
        if inside is not None:
            yield Comment(None, False, index)
            if (line.lstrip("\t") if inside[1] else line) == inside[0]:
                inside = waiting.popleft() if waiting else None
            continue
        if not continued and not quote:
            start = index
        at, quote = _shell_line(line, quote)
        code = line if at is None else line[:at]
        if _DIRECTIVE.match(line):
            hash_at = line.find("#", line.index("#") + 1)
            at = hash_at if hash_at > 0 and line[hash_at - 1].isspace() else None
        yield _comment(line, at, start)
        if "<<" in code and not quote:
            waiting += [(m["word"], bool(m["dash"])) for m in _HEREDOC.finditer(code)]
        continued = at is None and not quote and code.endswith("\\")
        if waiting and not continued:
            inside = waiting.popleft()


def _shell_line(line: str, quote: str) -> tuple[int | None, str]:
    """Return where the comment of a line begins, and the quote that is open at its end."""
    index = 0
    while index < len(line):
        letter = line[index]
        if quote:
            if letter == "\\" and quote == '"':
                index += 1
            elif letter == quote:
                quote = ""
        elif letter == "\\":
            index += 1
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (index == 0 or line[index - 1] in " \t;&|()"):
            return index, ""
        index += 1
    return None, quote


def _yaml(lines: Sequence[str]) -> Iterator[Comment]:
    """Yield the comment of every line of a YAML file."""
    quote = ""
    block: int | None = None
    for index, line in enumerate(lines):
        indent = len(line) - len(line.lstrip(" "))
        if block is not None:
            if not line.strip() or indent > block:
                yield Comment(None, False, index)
                continue
            block = None
        at, quote = _yaml_line(line, quote)
        yield _comment(line, at, index)
        if not quote and _BLOCK_SCALAR.search(line if at is None else line[:at].rstrip()):
            block = indent


def _yaml_line(line: str, quote: str) -> tuple[int | None, str]:
    """Return where the comment of a line begins, and the quote that is open at its end."""
    index = 0
    before = ""  # the last letter that is no blank: a quote opens only where a value begins
    while index < len(line):
        letter = line[index]
        if quote:
            escaped = letter == "\\" if quote == '"' else line[index : index + 2] == "''"
            if escaped:
                index += 1
            elif letter == quote:
                quote = ""
        elif letter in "'\"" and before in ("", *":-,[{"):
            quote = letter
        elif letter == "#" and (index == 0 or line[index - 1] in " \t"):
            return index, ""
        if letter not in " \t":
            before = letter
        index += 1
    return None, quote
