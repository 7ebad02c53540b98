"""The grammars of image names: pyxis and enroot write `registry#path:tag`, docker `registry/path`.

Sources: NVIDIA/pyxis README and args.c (0.21); NVIDIA/enroot src/docker.sh (3.4; from 4.0 on a
first part with a dot or colon is a registry to enroot, too); the distribution reference grammar
for docker, podman and apptainer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

FILE_ENDINGS: Final = (".sqsh", ".squashfs", ".sqfs", ".sqs", ".squash")
SIF: Final = ".sif"
SCHEMES: Final = ("docker://", "dockerd://", "podman://")
"""What enroot imports from (src/docker.sh, docker::import and docker::daemon::import)."""

_ANY_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_FILE_SCHEME = "file://"
_PATH = re.compile(r"[a-z0-9/._-]+", re.ASCII)
_TAG = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class NameFault:
    """What is wrong with an image's name, what to write, and whether it fails everywhere."""

    message: str
    hint: str = ""
    certain: bool = True


def is_registry(first: str) -> bool:
    """Return whether the first part of a name is a registry, by docker's own rule."""
    return "." in first or ":" in first or first == "localhost"


def pyxis_fault(text: str) -> NameFault | None:
    """Return what is wrong with a value of --container-image; None when nothing is."""
    if not text or text != text.strip() or any(char.isspace() for char in text):
        return NameFault("is no name of an image")
    if text.startswith("~"):
        return NameFault("begins with ~, which nobody expands here", home_written_out(text))
    if text.startswith(("/", ".")):
        return _sif(text)
    scheme = _ANY_SCHEME.match(text)
    is_file = text.lower().endswith((*FILE_ENDINGS, SIF))
    if is_file and (scheme is None or scheme[0].lower() == _FILE_SCHEME):
        path = text[len(scheme[0]) :] if scheme is not None else text
        if scheme is not None:
            return NameFault(
                f"has the scheme {scheme[0]}; a file is named by its path alone",
                path if path.startswith("/") else f"./{path}",
            )
        return NameFault(
            "is a file, but without / or ./ in front it is looked for on Docker Hub", f"./{path}"
        )
    if scheme is not None and scheme[0].lower() not in SCHEMES:
        return NameFault(f"has the scheme {scheme[0]}, which enroot does not know", "registry#path")
    if scheme is not None and scheme[0] != "docker://":
        return None
    return _hub_fault(text, text[len(scheme[0]) :] if scheme else text)


def home_written_out(text: str) -> str:
    """Return what to write for a path that begins with ~; a shell expands $HOME, not ~user."""
    user, slash, rest = text[1:].partition("/")
    if not user:
        return f"$HOME{slash}{rest}"
    return f"/<home of {user}>{slash}{rest}"


def _sif(text: str) -> NameFault | None:
    if text.lower().endswith(SIF):
        return NameFault("is an image of apptainer; enroot reads squashfs files (.sqsh)")
    return None


def _hub_fault(text: str, name: str) -> NameFault | None:
    """Judge a name after its scheme, in enroot's grammar."""
    before, mark, after = name.partition("#")
    if mark:
        host = before.rpartition("@")[2]
        if "/" in host:
            first, _, rest = host.partition("/")
            return NameFault(
                "has # in its path; it belongs after the registry", f"{first}#{rest}/{after}"
            )
        if not host or not after:
            return NameFault("has nothing on one side of #", "registry#path:tag")
        return _path_fault(after)
    first, slash, rest = name.rpartition("@")[2].partition("/") if "@sha256" not in name else (
        name.partition("/")
    )  # fmt: skip
    if slash and is_registry(first):
        scheme = text[: len(text) - len(name)]
        return NameFault(
            f"has no # after the registry: enroot before 4.0, if its credentials do not name that "
            f"registry, asks Docker Hub for an image whose name begins with {first}/",
            f"{scheme}{name.replace(f'{first}/', f'{first}#', 1)}",
            certain=first == "localhost",
        )
    return _path_fault(name) if not first.count("@") else None


def _path_fault(path: str) -> NameFault | None:
    """Judge path:tag@digest."""
    if "#" in path:
        return NameFault("has # twice", path.replace("#", "/"))
    name, _, digest = path.partition("@")
    image, colon, tag = name.partition(":")
    if not _PATH.fullmatch(image):
        lower = path.replace(image, image.lower(), 1)
        return NameFault(
            "is no name enroot can read: a path has small letters, digits and / . _ -",
            lower if _PATH.fullmatch(image.lower()) else "",
        )
    if colon and not _TAG.fullmatch(tag):
        return NameFault("has a tag that is no tag")
    if digest and not digest.startswith("sha256:"):
        return NameFault("has a digest that does not begin with sha256:")
    return None


def enroot_fault(text: str) -> NameFault | None:
    """Return what is wrong with the argument of `enroot import`; None when nothing is."""
    if text.lower().startswith(SCHEMES):
        name = text.partition("://")[2]
        if "#" in name or not name:
            return _hub_fault(text, name) if text.startswith("docker://") else None
        return None
    if _ANY_SCHEME.match(text):
        return NameFault("has a scheme enroot does not know", " or ".join(SCHEMES))
    if text.startswith(("/", ".")) or text.lower().endswith(FILE_ENDINGS):
        return NameFault(
            "is a file, which enroot creates a container from", f"enroot create {text}"
        )
    return NameFault("has no scheme, and enroot import wants one", f"docker://{text}")


def docker_fault(text: str) -> NameFault | None:
    """Return what is wrong with an image of docker, podman or apptainer; None when nothing is."""
    scheme = _ANY_SCHEME.match(text)
    name = text[len(scheme[0]) :] if scheme else text
    if "#" in name and not name.startswith(("/", ".")):
        return NameFault(
            "has #, which only enroot and pyxis write after a registry",
            (scheme[0] if scheme else "") + name.replace("#", "/", 1),
        )
    return None


def floating(text: str) -> bool:
    """Return whether a name may mean another image tomorrow: no tag and no digest, or latest."""
    name = text.partition("://")[2] or text
    if "@sha256:" in name or name.startswith(("/", ".")) or name.lower().endswith(FILE_ENDINGS):
        return False
    last = name.rpartition("#")[2].rpartition("/")[2]
    _, colon, tag = last.partition(":")
    return not colon or tag == "latest"


def mount_fault(entry: str, unknown: str) -> NameFault | None:
    """Return what is wrong with one entry of --container-mounts: SRC[:DST[:FLAG+FLAG]].

    Args:
        entry: what stands between commas.
        unknown: the character that stands for a piece nobody knows; it may be anything.
    """
    if not entry:
        return NameFault("is empty", "source:target[:flags], joined by commas")
    parts = entry.split(":")
    source, target = parts[0], parts[1] if len(parts) > 1 else parts[0]
    if not source or not target:
        return NameFault("has nothing on one side of a colon", "source:target")
    if len(parts) > 3 and unknown not in entry:
        return NameFault("has more than two colons; flags are joined with +", "source:target:ro")
    if source.startswith("~"):
        return NameFault("begins with ~, which nobody expands here", home_written_out(entry))
    if not source.startswith(("/", ".", unknown)) and source not in {"tmpfs", "umount"}:
        if entry in _FLAGS:
            return NameFault("is a flag; flags are joined with +", f"source:target:...+{entry}")
        return NameFault("has a source that is no path", f"/{source} or ./{source}")
    if not target.startswith(("/", ".", unknown)):
        return NameFault("has a target that is no path", f"{source}:/{target.lstrip('~/')}")
    return None


_FLAGS = frozenset({
    "ro", "rw", "rbind", "bind", "private", "rprivate", "slave", "rslave", "shared", "rshared",
    "nosuid", "nodev", "noexec", "x-create=dir", "x-create=file", "x-create=auto",
})  # fmt: skip
