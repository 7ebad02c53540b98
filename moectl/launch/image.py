"""Imports a container image into a file, once for all: whole or not at all, by one at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from moectl.errors import BackendError, LocalFilesError
from moectl.facts.images import image
from moectl.image_names import squashfs_name
from moectl.launch.whole_file import sync, write
from moectl.render.container import pyxis_image

ENROOT = "enroot"
FORMAT = 1
UNKNOWN = "unknown"
# Asking a registry for a digest is one request; the import itself may take as long as it likes.
DIGEST_SECONDS = 120
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LAST_LINES = 12


@dataclass(frozen=True, slots=True)
class Pulled:
    """An image file, as noted down beside it in FILE.json.

    Attributes:
        file: path of the .sqsh.
        image: the reference it was made from.
        digest: of the image, or "unknown" where neither the reference nor enroot told it.
        architecture: "aarch64" or "x86_64".
        pulled: when, UTC.
        enroot: its version.
        bytes: size of the file.
        there: whether it was there already and nothing was imported.
    """

    file: str
    image: str
    digest: str
    architecture: str
    pulled: str
    enroot: str
    bytes: int
    there: bool = False

    def as_dict(self) -> dict[str, object]:
        """Return the JSON form of the note."""
        values = asdict(self)
        del values["there"]
        return {"format": FORMAT, **values}


def target(reference: str, architecture: str, folder: Path) -> Path:
    """Return the file that an image becomes; the one a rendered job looks for."""
    found = image(reference)
    return folder / squashfs_name(found.reference, found.digest, architecture)


def available(reference: str, architecture: str, folder: Path) -> bool:
    """Return whether an image can be had here: its file is there, or enroot is."""
    return target(reference, architecture, folder).is_file() or shutil.which(ENROOT) is not None


def command(reference: str, architecture: str, file: Path, digest: str = "") -> list[str]:
    """Return the command line of enroot; its `#` after a registry is read by every release.

    Args:
        reference: registry/path:tag, with or without @sha256:...
        architecture: "aarch64" or "x86_64"; enroot makes arm64 and amd64 of them.
        file: what it writes.
        digest: what the reference stands for at this moment, where it is known.
    """
    uri = f"docker://{_named(reference, digest)}"
    return [ENROOT, "import", "--arch", architecture, "--output", str(file), uri]


def on_a_node(reference: str, architecture: str, file: Path, options: Sequence[str]) -> str:
    """Return the line that imports an image on a compute node, whole or not at all.

    Args:
        reference: as for `command`.
        architecture: as for `command`.
        file: as for `command`.
        options: of srun, e.g. "--partition=batch".
    """
    part = file.with_name(f".{file.stem[:200]}.part{file.suffix}")
    inner = f"{shlex.join(command(reference, architecture, part))} && "
    inner += shlex.join(["mv", str(part), str(file)])
    words = ["srun", "--nodes=1", "--ntasks=1", "--time=02:00:00", *options]
    return shlex.join([*words, "sh", "-c", inner])


def _named(reference: str, digest: str = "") -> str:
    found = image(reference)
    return pyxis_image(replace(found, digest=found.digest or digest))


def pull(reference: str, architecture: str, folder: Path) -> Pulled:
    """Import an image, unless its file is there already.

    Args:
        reference: registry/path:tag, with or without @sha256:...
        architecture: of the nodes, not of this machine.
        folder: absolute folder of the file.

    Raises:
        BackendError: enroot is not here, refuses, or fails; nothing is left behind.
        LocalFilesError: somebody pulls the same file at this moment, or the file system
            refuses.
    """
    file = target(reference, architecture, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalFilesError(f"{error.filename or folder}: {error.strerror or error}") from None
    with _alone(file):
        if file.is_file():
            return _noted(file, reference, architecture)
        if shutil.which(ENROOT) is None:
            raise BackendError(f"{ENROOT} is not on this machine")
        return _import(reference, architecture, file)


def _import(reference: str, architecture: str, file: Path) -> Pulled:
    digest = image(reference).digest or _asked(reference, architecture)
    # The name ends in .sqsh, as some releases of enroot want it, and is nobody else's.
    part = file.with_name(f".{file.stem[:200]}.part-{os.getpid()}{file.suffix}")
    for left in file.parent.glob(f".{file.stem[:200]}.part-*"):  # of a pull that died
        left.unlink(missing_ok=True)
    try:
        _run(command(reference, architecture, part, digest))
        with part.open("rb") as stream:
            os.fsync(stream.fileno())
        size = part.stat().st_size
        if not size:
            raise BackendError(f"{ENROOT} made an empty file")
        part.replace(file)
        sync(file.parent)
    except OSError as error:
        raise LocalFilesError(f"{error.filename or file}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
    done = Pulled(
        file=str(file),
        image=reference,
        digest=digest or UNKNOWN,
        architecture=architecture,
        pulled=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        enroot=_version(),
        bytes=size,
    )
    write(note(file), json.dumps(done.as_dict(), indent=1) + "\n")
    return done


def note(file: Path) -> Path:
    """Return where the digest and the architecture of an image file are written down."""
    return file.with_name(f"{file.name}.json")


def _noted(file: Path, reference: str, architecture: str) -> Pulled:
    """Return what is written down about a file; what is not is unknown."""
    try:
        held = json.loads(note(file).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        held = {}
    known = held if isinstance(held, dict) else {}
    texts = {
        name: known[name] if isinstance(known.get(name), str) else UNKNOWN
        for name in ("digest", "pulled", "enroot")
    }
    return Pulled(
        file=str(file),
        image=reference,
        architecture=architecture,
        bytes=file.stat().st_size,
        there=True,
        **texts,
    )


@contextlib.contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Hold the lock of a file's import; a process that died holds none.

    Raises:
        LocalFilesError: somebody else holds it, or it cannot be made.
    """
    path = file.with_name(f".{file.name}.lock")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise LocalFilesError(f"{path}: {error.strerror or error}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.read(descriptor, 200).decode("utf-8", "replace").strip()
            raise LocalFilesError(
                f"{file.name} is being pulled at this moment{f' by {who}' if who else ''}; "
                "wait for it"
            ) from None
        except OSError as error:
            raise LocalFilesError(f"{path} cannot be locked: {error.strerror or error}") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {os.uname().nodename}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)  # frees the lock


def _run(words: Sequence[str]) -> None:
    """Run enroot, its progress shown as it comes.

    Raises:
        BackendError: it fails; the last it said below.
    """
    said: list[str] = []
    try:
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as running:
            assert running.stderr is not None  # noqa: S101 - it is a pipe
            try:
                for line in running.stderr:
                    said = [*said[1 - _LAST_LINES :], line.rstrip()]
                code = running.wait()
            except BaseException:
                running.terminate()
                raise
    except OSError as error:
        raise BackendError(f"{words[0]} cannot be run: {error.strerror or error}") from None
    if code:
        own = "\n".join(f"  {line}" for line in said if line)
        cause = _cause("\n".join(said))
        raise BackendError(f"{ENROOT} could not import the image{cause}; nothing was kept\n{own}")


# What the words of enroot and of the programs it calls mean; the first that fits counts.
_CAUSES = (
    (r"Command not found|command not found|Missing command", "a program that it needs is not here"),
    (r"No space left|quota", "the disk is full, or your quota is (ENROOT_TEMP_PATH counts too)"),
    (r"40[13]|[Uu]nauthori[sz]ed|denied", "the registry wants a credential for it, in "
     "~/.config/enroot/.credentials"),
    (r"404|[Nn]ot [Ff]ound|manifest unknown", "the registry has no such image"),
    (r"[Cc]ould not resolve|[Cc]onnection|timed out", "the registry cannot be reached from here"),
)  # fmt: skip


def _cause(said: str) -> str:
    return next((f": {meaning}" for says, meaning in _CAUSES if re.search(says, said)), "")


def _asked(reference: str, architecture: str) -> str:
    """Return the digest that enroot tells, or an empty text.

    `enroot digest` came with 4.0 (NVIDIA/enroot 4.1.2 src/docker.sh `docker::digest`): that of
    the manifest of one architecture. The image is then imported by it, so that the file is
    what is noted down even if somebody moves the tag meanwhile.
    """
    uri = f"docker://{_named(reference)}"
    found = _DIGEST.findall(_output([ENROOT, "digest", "--arch", architecture, uri]))
    return found[-1] if found else ""


def _version() -> str:
    return _output([ENROOT, "version"]).strip()[:40] or UNKNOWN


def _output(words: Sequence[str]) -> str:
    """Return what a program printed; nothing if it failed."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=DIGEST_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""
