"""Looks at the cluster this machine belongs to; asks Slurm's own programs, changes nothing."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moectl.errors import ValueUsageError
from moectl.hostlist import expand
from moectl.launch.slurm_call import plain, refusal

SECONDS = 20
UNKNOWN = "unknown"
PROGRAMS = ("enroot", "apptainer")
# Where people of a site keep what every node sees; the first that is writable is proposed.
FOLDERS = ("MOECTL_RUNS", "SCRATCH", "WORK", "PROJECT", "HOME")
# File systems that several machines share (mount(8) and the clients' own manuals).
SHARED_KINDS = frozenset(
    {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "fuse.ceph-fuse", "wekafs", "panfs"}
    | {"orangefs", "cifs", "smb3", "afs", "fuse.glusterfs", "fuse.dfuse", "fuse.juicefs"}
)
_PYXIS = re.compile(r"--((?:no-)?container-[a-z-]+)")
_GPU = re.compile(r"(?:^|,)gpu(?::([A-Za-z][\w.-]*))?:(\d+)")


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: its time limit as Slurm writes it, and its nodes that are there."""

    name: str
    default: bool
    up: bool
    time: str
    nodes: int


@dataclass(frozen=True, slots=True)
class Node:
    """A node as Slurm's controller knows it."""

    name: str
    architecture: str
    cpus: int
    gpus: int
    gpu_type: str
    partitions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of this person: which variable names it, its file system, whether it takes files."""

    variable: str
    path: str
    kind: str
    writable: bool

    @property
    def shared(self) -> bool:
        """Whether its file system is one that several machines share."""
        return self.kind in SHARED_KINDS


@dataclass(frozen=True, slots=True)
class Site:
    """What was seen.

    Attributes:
        release: of Slurm, e.g. "24.11.5"; UNKNOWN where its programs are without a
            configuration, empty where they are not.
        fault: why Slurm does not answer, its own words below; empty when it does.
        partitions, nodes: of the controller.
        config: names to values of `scontrol show config`.
        blocks: names of the blocks of topology/block, and their nodes.
        pyxis: options of pyxis that srun has.
        accounts: accounts of this person, the default one first.
        accounting: why sacct gives nothing; empty when it answers.
        folders: folders this person has.
        credentials: registries a credential is kept for, by name only.
        programs: of `PROGRAMS`, those on this machine.
        architecture: of this machine.
    """

    release: str = ""
    fault: str = ""
    partitions: tuple[Partition, ...] = ()
    nodes: tuple[Node, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict)
    blocks: Mapping[str, int] = field(default_factory=dict)
    pyxis: frozenset[str] = frozenset()
    accounts: tuple[str, ...] = ()
    accounting: str = ""
    folders: tuple[Folder, ...] = ()
    credentials: tuple[str, ...] = ()
    programs: frozenset[str] = frozenset()
    architecture: str = ""


def look() -> Site:
    """Return what can be seen from here; nothing that is missing is an error."""
    here = Site(
        folders=tuple(folders(os.environ)),
        credentials=tuple(credentials(os.environ)),
        programs=frozenset(name for name in PROGRAMS if shutil.which(name)),
        architecture=platform.machine(),
    )
    release = _ask("sinfo", "--version")
    if release.missing:
        return here
    known = {name: getattr(here, name) for name in Site.__dataclass_fields__}
    known["release"] = release.out.split()[-1] if release.out.split() else UNKNOWN
    if release.fault:
        return Site(**known | {"fault": release.fault})
    rows = _ask("sinfo", "--noheader", "--format=%P|%a|%l|%D")
    if rows.fault:
        return Site(**known | {"fault": rows.fault})
    config = settings(_ask("scontrol", "show", "config").out)
    topology = ""
    if "block" in config.get("TopologyPlugin", "") or "topology" in config.get("TopologyParam", ""):
        topology = _ask("scontrol", "show", "topology").out
    known |= {
        "partitions": tuple(partitions(rows.out)),
        "nodes": tuple(nodes(_ask("scontrol", "--oneliner", "show", "nodes").out)),
        "config": config,
        "blocks": blocks(topology),
        "pyxis": frozenset(_PYXIS.findall(_ask("srun", "--help").out)),
        "accounts": _accounts(config),
        "accounting": _ask("sacct", "--noheader", "--allocations", "--starttime=now").fault,
    }
    return Site(**known)


def _accounts(config: Mapping[str, str]) -> tuple[str, ...]:
    if "slurmdbd" not in config.get("AccountingStorageType", ""):
        return ()
    user = os.environ.get("USER") or _user()
    plain = ("sacctmgr", "--noheader", "--parsable2", "show")
    usual = _ask(*plain, "user", user, "format=defaultaccount").out.split()
    known = _ask(*plain, "assoc", f"user={user}", "format=account").out.split()
    return tuple(dict.fromkeys(name for name in (*usual, *known) if name in known))


@dataclass(frozen=True, slots=True)
class _Answer:
    out: str = ""
    fault: str = ""
    missing: bool = False


def _ask(*words: str) -> _Answer:
    """Run a program that only tells; a failure is an answer as well."""
    try:
        done = subprocess.run(
            words,
            env=plain(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except FileNotFoundError:
        return _Answer(fault=f"{words[0]} is not on this machine", missing=True)
    except subprocess.TimeoutExpired:
        return _Answer(fault=f"{words[0]} gave no answer in {SECONDS} s")
    except OSError as error:
        return _Answer(fault=f"{words[0]} cannot be run: {error.strerror}")
    if done.returncode:
        return _Answer(done.stdout, refusal(words[0], done.stderr or done.stdout))
    return _Answer(done.stdout)


def _user() -> str:
    import pwd  # noqa: PLC0415 - only where USER is not set

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def settings(text: str) -> dict[str, str]:
    """Return the names and values of `scontrol show config`."""
    rows = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, equals, value in rows if equals}


def partitions(text: str) -> Iterator[Partition]:
    """Yield the partitions of `sinfo --format=%P|%a|%l|%D`, whose rows may repeat a name."""
    found: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for line in text.splitlines():
        row = [part.strip() for part in line.split("|")]
        if len(row) == 4:
            found.setdefault(row[0], row)
            counts[row[0]] = counts.get(row[0], 0) + (int(row[3]) if row[3].isdigit() else 0)
    for name, row in found.items():
        yield Partition(
            name.removesuffix("*"), name.endswith("*"), row[1] == "up", row[2], counts[name]
        )


def nodes(text: str) -> Iterator[Node]:
    """Yield the nodes of `scontrol --oneliner show nodes`."""
    for line in text.splitlines():
        pairs = dict(re.findall(r"(?:^|\s)([A-Za-z]+)=(\S*)", line))
        if not pairs.get("NodeName"):
            continue
        found = _GPU.findall(re.sub(r"\([^)]*\)", "", pairs.get("Gres", "")))
        cpus = pairs.get("CPUEfctv") or pairs.get("CPUTot", "")
        yield Node(
            name=pairs["NodeName"],
            architecture=pairs.get("Arch", ""),
            cpus=int(cpus) if cpus.isdigit() else 0,
            gpus=sum(int(count) for _, count in found),
            gpu_type=next((kind for kind, _ in found), ""),
            partitions=frozenset(pairs.get("Partitions", "").split(",")) - {""},
        )


def blocks(text: str) -> dict[str, int]:
    """Return the blocks of `scontrol show topology`, and how many nodes each has."""
    found = {}
    for name, listed in re.findall(r"BlockName=(\S+).*?\sNodes=(\S+)", text):
        try:
            found[name] = len(set(expand(listed)))
        except ValueUsageError:
            continue
    return found


def folders(environment: Mapping[str, str]) -> Iterator[Folder]:
    """Yield the folders of `FOLDERS` that are there."""
    mounts = _mounts()
    seen: set[str] = set()
    for variable in FOLDERS:
        path = environment.get(variable, "")
        if not path.startswith("/") or path in seen or not Path(path).is_dir():
            continue
        seen.add(path)
        yield Folder(variable, path, _kind(path, mounts), _takes_files(path))


def _takes_files(path: str) -> bool:
    try:
        with tempfile.TemporaryFile(dir=path):
            return True
    except OSError:
        return False


def _mounts() -> list[tuple[str, str]]:
    """Return (mount point, kind of file system), the latest mount first."""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    rows = [line.split() for line in lines]
    found = [(row[4], row[row.index("-") + 1]) for row in rows if "-" in row[5:-1]]
    return [(re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), at), kind) for at, kind in found][
        ::-1
    ]


def _kind(path: str, mounts: Sequence[tuple[str, str]]) -> str:
    """Return the file system of the mount that is nearest above a path."""
    real = os.path.realpath(path)
    above = [
        (len(at), kind)
        for at, kind in mounts
        if real == at or real.startswith(f"{at.rstrip('/')}/")
    ]
    return max(above, key=lambda row: row[0], default=(0, ""))[1]


def credentials(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield where a credential is kept, as "REGISTRY (program)"; no user, no value."""
    home = Path(environment.get("HOME") or "/")
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    enroot = Path(environment.get("ENROOT_CONFIG_PATH") or config / "enroot") / ".credentials"
    for name in re.findall(r"(?m)^\s*machine\s+(\S+)", _text(enroot)):
        yield f"{name} (enroot)"
    for program, path in (
        ("docker", home / ".docker" / "config.json"),
        ("apptainer", home / ".apptainer" / "docker-config.json"),
    ):
        try:
            held = json.loads(_text(path) or "{}")
        except ValueError:
            continue
        registries = held.get("auths") if isinstance(held, dict) else None
        for name in registries if isinstance(registries, dict) else ():
            yield f"{name} ({program})"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(1 << 20).decode("utf-8", "replace")
    except OSError:
        return ""
