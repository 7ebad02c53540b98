"""Names of the kinds of YAML files that are told apart."""

from __future__ import annotations

from typing import Final

CONFIG: Final = "MaxText config"
MODEL_FILE: Final = "MaxText model file"
RUN_FILE: Final = "run file"
PROFILE: Final = "cluster profile"
UNKNOWN_KIND: Final = "unknown"
