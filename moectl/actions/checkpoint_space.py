"""What checkpoints take on the disk, against what is free there."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from moectl.errors import UsageError
from moectl.estimate.memory import arguments
from moectl.job import Job

_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"))


@dataclass(frozen=True, slots=True)
class Space:
    """Room for checkpoints.

    Attributes:
        each: bytes of one, weights and moments; None where no table tells.
        keep: how many are kept, None for all of them.
        folder: where they lie.
        free: free bytes there; None where the folder cannot be seen from here.
    """

    each: int | None
    keep: int | None
    folder: str
    free: int | None

    @property
    def needed(self) -> int | None:
        """Return the bytes that must be free: the newest is written before an old one goes."""
        return self.each * ((self.keep or 1) + 1) if self.each is not None else None

    def __str__(self) -> str:
        kept = "all are kept" if self.keep is None else f"{self.keep} are kept"
        each = "of unknown size" if self.each is None else f"{amount(self.each)} each"
        free = "cannot be seen from here" if self.free is None else f"has {amount(self.free)} free"
        return f"{kept}, {each}; {self.folder} {free}"


def space(job: Job, bundle: Path | None) -> Space:
    """Return the room that a job's checkpoints have.

    Args:
        job: the job.
        bundle: where its bundle lies or will lie, for output folders that are relative to it.
    """
    each = arguments(job.effective, {}, job.container.image.maxtext)
    said = job.effective.get("max_num_checkpoints_to_keep")
    keep = said if isinstance(said, int) and not isinstance(said, bool) and said > 0 else None
    output = job.output_directory
    folder = bundle / output if bundle and not output.startswith("/") else Path(output)
    seen = None if "://" in output else free(folder)
    return Space(each, keep, output if "://" in output else str(folder), seen)


def free(folder: Path) -> int | None:
    """Return the free bytes where a folder is or would be; None for one not seen from here."""
    for place in (folder, *folder.parents):
        if place == Path(place.anchor):
            return None  # whatever is mounted there on the nodes is not mounted here
        try:
            if place.is_dir():
                return shutil.disk_usage(place).free
        except OSError:
            return None
    return None


def require_space(room: Space) -> None:
    """Refuse a run whose checkpoints do not fit where they would be written.

    Raises:
        UsageError: with both sizes.
    """
    if room.needed is None or room.free is None or room.needed <= room.free:
        return
    many = f"{room.keep} checkpoints and the one that is being written"
    told = many if room.keep else "two checkpoints, the least there will be,"
    raise UsageError(
        f"{told} take {amount(room.needed)}, and {room.folder} has {amount(room.free)} free: keep "
        "fewer (checkpoints.keep), or set output_directory to a folder with room"
    )


def amount(count: int) -> str:
    """Return a number of bytes in the largest unit of which there is one."""
    for size, unit in _UNITS:
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
