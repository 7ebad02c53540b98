"""What the file of an imported image is called, so that a job finds it without looking."""

from __future__ import annotations

SUFFIX = ".sqsh"
_KEPT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_SPELLED = {"/": "+", ":": "="}
_SHORT = 12


def squashfs_name(reference: str, digest: str, architecture: str) -> str:
    """Return the file name of an image.

    The same image and architecture give the same name everywhere; a pinned image has the
    beginning of its digest in it, so that another digest is another file.

    Args:
        reference: "registry/path:tag" as Docker writes it.
        digest: "sha256:..." when pinned, else empty.
        architecture: "aarch64" or "x86_64".
    """
    words = "".join(
        char if char in _KEPT else _SPELLED.get(char, "_") for char in reference
    ).lstrip(".-")
    pinned = digest.rpartition(":")[2][:_SHORT]
    return "+".join(word for word in (words, pinned, architecture) if word) + SUFFIX
