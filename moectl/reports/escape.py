"""Text of a stranger as it may be shown: one line, nothing a terminal would act on."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return `text` on one line, with escapes for what is not meant to be seen.

    Control and format characters, odd blanks, and surrogates are written as Python would
    write them; a byte of a file name that is no UTF-8 becomes \xNN. What is printable stays.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def printable_lines(text: str) -> str:
    r"""Return `text` with every line printable; its line breaks stay."""
    return "\n".join(map(printable, text.split("\n")))


def _shown(letter: str) -> str:
    if letter.isprintable():
        return letter
    point = ord(letter)
    if 0xDC80 <= point <= 0xDCFF:  # a byte that os.fsdecode could not decode
        return f"\\x{point - 0xDC00:02x}"
    return ascii(letter)[1:-1]
