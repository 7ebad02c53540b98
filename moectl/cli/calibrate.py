"""moectl calibrate."""

from __future__ import annotations

from moectl.cli.text import say, say_json
from moectl.reports.escape import printable


def run(run: str, trace: list[str], format: str) -> int:  # noqa: A002 - the option's name
    """Fit the step model to a measured run."""
    from moectl.actions.calibrate import calibrate  # noqa: PLC0415
    from moectl.estimate.calibration import rates  # noqa: PLC0415

    found = calibrate(run, trace)
    if format == "json":
        say_json(found.as_dict())
        return 0
    say(
        f"{found.hardware} with {printable(found.image)}: {found.measured:.3f} s a step measured, "
        f"{found.predicted:.3f} s predicted before"
    )
    before = rates()
    for name, value in found.efficiencies.items():
        say(f"  {name:<14} {value:.3f}, was {before[name]:.3f}")
    say(f"kept in {printable(found.file)}; estimate and plan use it from now on")
    return 0
