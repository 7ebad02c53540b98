"""moectl image."""

from __future__ import annotations

from moectl.actions import image
from moectl.cli.text import say, say_json


def pull(
    images: list[str],
    arch: str | None,
    to: str | None,
    cluster: str | None,
    format: str,  # noqa: A002 - the option's name
) -> int:
    """Import images of a registry into .sqsh files."""
    planned = image.plan(images, arch, to, cluster)
    if format == "text" and planned.told == "this machine":
        say(f"for {planned.architecture}, as this machine is; --arch takes another")
    done = []
    for pulled in image.pull(planned):
        done.append({**pulled.as_dict(), "there": pulled.there})
        if format == "text":
            say(f"{'there already' if pulled.there else 'pulled'}: {pulled.file}")
            say(f"  image   {pulled.image}")
            say(f"  digest  {pulled.digest}")
            say(f"  for     {pulled.architecture}, {pulled.bytes / 2**30:.1f} GiB")
    if format == "json":
        say_json({"images": done})
    return 0
