"""Names of the objects of a run in Kubernetes: legal, unique and short whatever it is called."""

from __future__ import annotations

import hashlib
import re

# JobSet names its pods JOBSET-JOB-INDEX-PODINDEX-HASH, of which a DNS label has 63 characters:
# "-node-0-", five digits, "-" and five characters leave 44, three of them for "-99".
LONGEST = 41
REPLICATED_JOB = "node"
_DIGEST = 8


def object_name(text: str, *, unique: str = "") -> str:
    """Return a DNS label that begins with a letter (RFC 1035, as JobSet demands).

    Args:
        text: what a person calls the run.
        unique: what tells it from others of the name, e.g. the run's id; its digest ends the
            name. Without it the digest is left out where nothing of `text` was lost.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not plain[:1].isalpha():
        plain = f"run-{plain}".strip("-")
    if not unique and plain == text and len(plain) <= LONGEST:
        return plain
    digest = hashlib.sha256((unique or text).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{plain[: LONGEST - _DIGEST - 1].rstrip('-')}-{digest}"


def channel_name(name: str) -> str:
    """Return the name of the resource claim template of a run's ComputeDomain."""
    return f"{name}-channel"
