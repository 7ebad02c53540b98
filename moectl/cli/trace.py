"""moectl trace."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.cli.text import say, say_json
from moectl.report.kernels import Breakdown
from moectl.reports.columns import columns
from moectl.reports.escape import printable

_HEAD = ("CLASS", "TIME", "OF WINDOW", "EXPOSED", "KERNELS", "MEDIAN", "P95", "LONGEST")
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def run(paths: list[str], format: str) -> int:  # noqa: A002 - the option's name
    """Say where the time of profiles went."""
    from moectl.actions.trace import trace  # noqa: PLC0415

    found = trace(paths)
    if format == "json":
        say_json({"traces": [one.as_dict() for one in found]})
        return 0
    for number, one in enumerate(found):
        if number:
            say()
        say(printable(one.path))
        for device in one.devices:
            for line in _about(device):
                say(line)
    return 0


def _about(device: Breakdown) -> Iterator[str]:
    from moectl.report.kernel_classes import layers  # noqa: PLC0415
    from moectl.report.traced import unknown_share  # noqa: PLC0415

    steps = f" over {device.steps} step{'s' if device.steps > 1 else ''}" if device.steps else ""
    yield f"\n{printable(device.device)}: {_time(device.window)}{steps}"
    rows: list[tuple[str, ...]] = [
        (
            one.title,
            _time(one.busy),
            _share(one.busy, device.window),
            _time(one.exposed) if one.kind == "moving" else "",
            str(one.kernels),
            *(
                (_time(one.latency.median), _time(one.latency.p95), _time(one.latency.longest))
                if one.latency
                else ("", "", "")
            ),
        )
        for one in device.classes
    ]
    rows.append(("idle", _time(device.idle), _share(device.idle, device.window), *[""] * 5))
    yield from columns(_HEAD, rows, range(1, len(_HEAD)), indent="  ")
    yield (
        f"  communication and copies {_time(device.moving)}, of which {_time(device.exposed)} "
        f"({_share(device.exposed, device.window)} of the window) is not hidden by compute"
    )
    titles = dict(layers())
    whole = sum(taken for _, taken in device.layers)
    told = ", ".join(f"{titles[name]} {_share(taken, whole)}" for name, taken in device.layers)
    yield f"  by part of the model: {told}"
    if device.unknown:
        yield f"  {unknown_share(device):.1%} of the kernels' time is of names no class knows:"
        yield from (f"    {_time(taken)}  {printable(name)}" for name, taken in device.unknown)


def _time(seconds: float) -> str:
    for unit, name in _UNITS:
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}" if seconds < 1000 * unit else f"{seconds:.0f} s"
    return f"{seconds * 1e6:.2g} us" if seconds else "0"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else "-"
