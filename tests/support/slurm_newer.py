"""A newer real Slurm than this machine's, for `--segment` and topology/block.

It comes from Debian's next release into a root file system of its own, and runs in there in a
mount namespace of its own; nothing of the machine is changed, and what was mounted is gone with
the daemons. Needs root, mmdebstrap, unshare and nsenter, and the archive that this machine's apt
uses. The root file system is kept for the next time, where MOECTL_NEWER_SLURM says, else below
/var/tmp.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.slurm import (
    ADMIN_PATH,
    COMPILE,
    STUB,
    Slurm,
    configuration,
    plugin,
    stop,
    wait_for_nodes,
)

SUITE = "trixie"
PACKAGES = "slurm-wlm,munge,libslurm-dev,gcc,libc6-dev,python3"
# What a job sees of this machine; bundles lie in /tmp.
SHARED = ("/proc", "/sys", "/dev", "/tmp")  # noqa: S108 - the machine's own, on purpose


@dataclass(frozen=True)
class NewerSlurm(Slurm):
    """A running cluster whose programs are those of another root file system.

    Attributes:
        files: the root file system.
        process: a process in its mount namespace.
    """

    files: Path = Path("/")
    process: int = 0

    def run(
        self, *words: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run one of its programs, in there."""
        inside = self.environment | dict(environment or {})
        return subprocess.run(
            [
                *("nsenter", f"--mount=/proc/{self.process}/ns/mnt"),
                *("chroot", str(self.files), "/usr/bin/env", "-i"),
                *(f"{name}={value}" for name, value in inside.items()),
                *("/bin/sh", "-c", 'cd "$0" && exec "$@"', str(cwd or self.root), *words),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @property
    def environment(self) -> dict[str, str]:
        """Return a bare submitting environment."""
        return {
            "SLURM_CONF": str(self.root / "slurm.conf"),
            "PATH": ADMIN_PATH,
            "HOME": "/tmp",  # noqa: S108
        }


def root_file_system() -> Path:
    """Return the root file system with the newer Slurm, made when it is not there."""
    folder = Path(os.environ.get("MOECTL_NEWER_SLURM") or f"/var/tmp/moectl-slurm-{SUITE}")  # noqa: S108
    if (folder / "usr/sbin/slurmctld").exists() and (folder / "usr/bin/python3").exists():
        return folder
    if shutil.which("mmdebstrap", path=ADMIN_PATH) is None:
        raise RuntimeError("mmdebstrap is not installed")
    sites = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    command = ("mmdebstrap", "--quiet", "--variant=apt", "--mode=root", f"--include={PACKAGES}")
    subprocess.run([*command, SUITE, part, sites[0]], check=True)
    part.rename(folder)
    return folder


def _start(root: Path, files: Path, nodes: int) -> int:
    """Start the daemons; return a process of their mount namespace."""
    names = [f"gpu{index:03d}" for index in range(nodes)]
    for name in names:
        (root / "spool" / name).mkdir(parents=True)
    for name in ("run", "log", "state"):
        (root / name).mkdir()
    own = Path("/etc/hosts").read_text("utf-8")
    (root / "hosts").write_text(own + "".join(f"127.0.0.1 {name}\n" for name in names))
    (root / "munge.key").write_bytes(os.urandom(1024))
    (root / "munge.key").chmod(0o600)
    at, within = shlex.quote(str(root)), shlex.quote(str(files))
    inner = f"""
set -e
{shlex.join([*COMPILE, str(plugin(root)), str(root / STUB.name)])}
munged --force --key-file={at}/munge.key --socket={at}/munge.socket --num-threads=2 \\
  --pid-file={at}/run/munged.pid --log-file={at}/log/munged.log --seed-file={at}/munge.seed
slurmctld
for node in {" ".join(names)}; do slurmd -N "$node"; done
"""
    outer = f"""
set -e
for name in {" ".join(SHARED)}; do mkdir -p {within}$name; mount --rbind $name {within}$name; done
touch {within}/etc/hosts
mount --bind {at}/hosts {within}/etc/hosts
exec chroot {within} /bin/sh -c {shlex.quote(inner)}
"""
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", outer],
        env={"PATH": ADMIN_PATH, "SLURM_CONF": str(root / "slurm.conf")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the newer Slurm did not start: {done.stderr.strip()}")
    # A daemon writes its process id a little after it went to the background.
    left = [root / "run" / f"{name}.pid" for name in ("slurmctld", *(f"slurmd-{n}" for n in names))]
    deadline = time.monotonic() + 60
    while not all(path.exists() and path.read_text().strip() for path in left):
        if time.monotonic() > deadline:
            raise RuntimeError("the newer Slurm left no process ids")
        time.sleep(0.05)
    return int(left[0].read_text())


@contextlib.contextmanager
def newer(
    blocks: int, nodes_per_block: int, *, sizes: Sequence[int] = (), gpus: int = 4, cpus: int = 144
) -> Iterator[NewerSlurm]:
    """Start a Slurm with topology/block and stop it again.

    Args:
        blocks: blocks in all.
        nodes_per_block: pretend nodes each, gpu000 onwards.
        sizes: BlockSizes of topology.conf; that of one block when left out.
        gpus: pretend GPUs a node.
        cpus: CPUs each node claims to have.
    """
    files = root_file_system()
    nodes = blocks * nodes_per_block
    said = subprocess.run(
        ["chroot", files, "/usr/sbin/slurmctld", "-V"], capture_output=True, text=True, check=True
    )
    version = said.stdout.split()[-1]
    root = Path(tempfile.mkdtemp(prefix="moectl-newer-", dir="/tmp"))  # a short path
    root.chmod(0o755)
    (root / "image.env").write_text("")
    (root / STUB.name).write_text(STUB.read_text("utf-8"))
    lines = [
        f"BlockName=block{block} Nodes=gpu[{block * nodes_per_block:03d}-"
        f"{(block + 1) * nodes_per_block - 1:03d}]"
        for block in range(blocks)
    ]
    told = ",".join(map(str, sizes or [nodes_per_block]))
    (root / "topology.conf").write_text("\n".join([*lines, f"BlockSizes={told}", ""]))
    slurm = None
    try:
        configuration(
            root,
            version,
            nodes=nodes,
            gpus=gpus,
            cpus=cpus,
            extra="TopologyPlugin=topology/block",
            accounting=False,
        )
        process = _start(root, files, nodes)
        slurm = NewerSlurm(root, version, root / "image.env", files, process)
        wait_for_nodes(slurm, nodes)
        yield slurm
    finally:
        if slurm is not None:
            slurm.run("scancel", "--user=0")
        stop(root)
        shutil.rmtree(root, ignore_errors=True)
