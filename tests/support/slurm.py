"""A real Slurm of pretend GPU nodes on this machine, for tests.

One munged, one slurmctld and one slurmd a node, all under a temporary folder and in a mount
namespace of their own, where the node names resolve; nothing of the machine is changed.
Needs root, slurm-wlm, munge, and libslurm-dev with a C compiler for the pyxis stand-in; with
accounting also slurmdbd, its MySQL plugin and MariaDB.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "scontrol", "gcc", "unshare")
ACCOUNTING = ("slurmdbd", "sacct", "sacctmgr", "mariadbd", "mariadb", "mariadb-install-db")
ADMIN_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
STUB = Path(__file__).with_name("pyxis_stub.c")
COMPILE = ("gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o")
LIVE = {"PENDING", "CONFIGURING", "RUNNING", "SIGNALING", "STAGE_OUT", "COMPLETING", "SUSPENDED"}


def missing(*, accounting: bool = False) -> str:
    """Return what is missing here for a real Slurm, or an empty text."""
    names = (*PROGRAMS, *ACCOUNTING) if accounting else PROGRAMS
    absent = [name for name in names if shutil.which(name, path=ADMIN_PATH) is None]
    if absent:
        return f"Slurm's programs are not installed ({', '.join(absent)})"
    if not Path("/usr/include/slurm/spank.h").is_file():
        return "Slurm's headers are not installed (libslurm-dev)"
    if accounting and not list(Path("/usr/lib").glob("*/slurm*/accounting_storage_mysql.so")):
        return "slurmdbd's plugin for MariaDB is not installed (slurm-wlm-mysql-plugin)"
    return "" if os.geteuid() == 0 else "a real Slurm of several nodes needs root"


@dataclass(frozen=True)
class Finished:
    """A job that ended: Slurm's state, its exit code, and the batch script's own output."""

    job: int
    state: str
    exit_code: int
    output: str


@dataclass(frozen=True)
class Slurm:
    """A running cluster.

    Attributes:
        root: its folder: configuration, logs, spool.
        version: e.g. "22.05.8".
        image_environment: NAME=VALUE lines that the pretend image bakes.
    """

    root: Path
    version: str
    image_environment: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return a bare submitting environment."""
        return {
            "SLURM_CONF": str(self.root / "slurm.conf"),
            "PATH": f"{os.environ.get('PATH', '')}:{ADMIN_PATH}",
            "HOME": str(Path.home()),
        }

    def run(
        self, *words: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Slurm's programs."""
        return subprocess.run(
            words,
            cwd=cwd or self.root,
            env=self.environment | dict(environment or {}),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def submit(
        self,
        script: Path,
        *,
        options: Sequence[str] = (),
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> int:
        """Submit a script and return the job's id; a refusal raises with sbatch's words."""
        done = self.run(
            "sbatch", "--parsable", *options, str(script), cwd=cwd, environment=environment
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return int(done.stdout.split(";")[0])

    def wait(self, job: int, output: Path, limit: float = 90) -> Finished:
        """Wait until a job ended.

        Args:
            job: its id.
            output: the file of the batch script's output.
            limit: seconds after which it counts as stuck.
        """
        deadline = time.monotonic() + limit
        while True:
            record = self.run("scontrol", "show", "job", str(job)).stdout
            fields = dict(word.split("=", 1) for word in record.split() if "=" in word)
            state = fields.get("JobState", "")
            if state and state not in LIVE:
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {job} is {state or 'unknown'} after {limit} s: {record}")
            time.sleep(0.1)
        code, _, signalled = fields["ExitCode"].partition(":")
        text = output.read_text("utf-8", "surrogateescape") if output.is_file() else ""
        return Finished(
            job, state, int(code) or (128 + int(signalled) if signalled != "0" else 0), text
        )


def _free_ports(count: int) -> int:
    """Return the first of `count` consecutive ports nobody listens on."""
    for first in range(17100 + os.getpid() % 97 * 101, 32000, count + 1):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                held = stack.enter_context(socket.socket())
                held.bind(("127.0.0.1", port))
            return first
    raise RuntimeError(f"no {count} consecutive free ports")


def plugin(root: Path) -> Path:
    """Return where the pyxis stand-in of a cluster lies."""
    return root / "pyxis_stub.so"


def configuration(
    root: Path, version: str, *, nodes: int, gpus: int, cpus: int, extra: str, accounting: bool
) -> None:
    """Write slurm.conf and its companions; the pyxis stand-in is to be `plugin(root)`."""
    port = _free_ports(nodes + 3)
    accounts = "AccountingStorageType=accounting_storage/none"
    if accounting:
        accounts = f"""\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={port + nodes + 1}
AccountingStoragePass={root}/munge.socket
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos"""
        (root / "slurmdbd.conf").write_text(f"""\
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
DbdHost=localhost
DbdPort={port + nodes + 1}
SlurmUser=root
PidFile={root}/run/slurmdbd.pid
LogFile={root}/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={port + nodes + 2}
StorageUser=slurm
StoragePass=x
StorageLoc=slurm_acct_db
""")
        (root / "slurmdbd.conf").chmod(0o600)
        (root / "mariadb.port").write_text(str(port + nodes + 2))
    host = socket.gethostname().split(".")[0]
    names = f"gpu[{0:03d}-{nodes - 1:03d}]"
    devices = root / "dev"
    devices.mkdir()
    for index in range(gpus):
        # gres.conf wants character devices; nobody opens them
        os.mknod(devices / f"nvidia{index}", 0o20666, os.makedev(1, 3))
    (root / "plugstack.conf").write_text(
        f"required {plugin(root)} image_environment={root / 'image.env'}\n"
    )
    (root / "gres.conf").write_text(
        f"NodeName={names} Name=gpu File={devices}/nvidia[0-{gpus - 1}]\n"
    )
    old = int(version.partition(".")[0]) < 24
    (root / "cgroup.conf").write_text(
        f"CgroupPlugin=cgroup/v1\nCgroupMountpoint={root}/cgroup\n"
        if old
        else "CgroupPlugin=disabled\n"
    )
    (root / "slurm.conf").write_text(f"""\
ClusterName=moectl
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket
CredType=cred/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/run/slurmctld.pid
SlurmdPidFile={root}/run/slurmd-%n.pid
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdLogFile={root}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=50000,batch_sched_delay=0,bf_interval=1
ReturnToService=2
KillWait=2
MinJobAge=600
SlurmdTimeout=300
MessageTimeout=60
TreeWidth=64
GresTypes=gpu
{accounts}
JobCompType=jobcomp/none
PlugStackConfig={root}/plugstack.conf
{extra}
NodeName={names} NodeHostName={host} NodeAddr=127.0.0.1 \
Port=[{port + 1}-{port + nodes}] CPUs={cpus} RealMemory=100000 Gres=gpu:{gpus} State=UNKNOWN
PartitionName=batch Nodes={names} Default=YES MaxTime=INFINITE State=UP
""")


# Quick rather than safe: the database dies with the test.
_DATABASE = """
mariadb-install-db --no-defaults --user=root --datadir={at}/mysql --skip-test-db \\
  --auth-root-authentication-method=normal --innodb-log-file-size=8M >{at}/log/install.log 2>&1
setsid mariadbd --no-defaults --user=root --datadir={at}/mysql --socket={at}/mysql.socket \\
  --pid-file={at}/run/mariadbd.pid --port={port} --bind-address=127.0.0.1 \\
  --innodb-buffer-pool-size=64M --innodb-log-file-size=8M --innodb-lock-wait-timeout=900 \\
  --innodb-flush-log-at-trx-commit=0 --skip-innodb-doublewrite \\
  --log-error={at}/log/mariadbd.log </dev/null >/dev/null 2>&1 &
sql() {{ mariadb --no-defaults -uroot --socket={at}/mysql.socket -e "$1"; }}
tries=0
until sql 'select 1' >/dev/null 2>&1; do
  tries=$((tries + 1)); [ $tries -lt 300 ]; sleep 0.1
done
sql "create database slurm_acct_db; create user slurm@'%' identified by 'x';
  grant all on slurm_acct_db.* to slurm@'%'"
slurmdbd
tries=0
until sacctmgr -n -i add cluster moectl >/dev/null 2>&1; do
  tries=$((tries + 1)); [ $tries -lt 300 ]; sleep 0.1
done
sacctmgr -n -i add account moectl cluster=moectl >/dev/null
sacctmgr -n -i add user root account=moectl >/dev/null
"""


def _start(root: Path, nodes: int) -> None:
    """Start the daemons in one mount namespace in which every node name is this machine."""
    names = [f"gpu{index:03d}" for index in range(nodes)]
    lines = [f"127.0.0.1 {name}" for name in names]
    hosts = root / "hosts"
    hosts.write_text(Path("/etc/hosts").read_text() + "\n".join(lines) + "\n")
    for name in names:
        (root / "spool" / name).mkdir(parents=True)
    for name in ("run", "log", "state"):
        (root / name).mkdir()
    key = root / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    at = shlex.quote(str(root))
    database = root / "mariadb.port"
    accounts = _DATABASE.format(at=at, port=database.read_text()) if database.is_file() else ""
    script = f"""
set -e
mount --bind {at}/hosts /etc/hosts 2>/dev/null || true
munged --force --key-file={at}/munge.key --socket={at}/munge.socket --num-threads=2 \
  --pid-file={at}/run/munged.pid --log-file={at}/log/munged.log --seed-file={at}/munge.seed
{accounts}
slurmctld
for node in {" ".join(names)}; do slurmd -N "$node"; done
"""
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        env={"PATH": ADMIN_PATH, "SLURM_CONF": str(root / "slurm.conf")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"Slurm did not start: {done.stderr.strip()}")


def stop(root: Path) -> None:
    """Stop what was started, by the process ids it left."""
    numbers = []
    for name in ("slurmctld", "slurmd-*", "slurmdbd", "mariadbd", "munged"):
        for file in (root / "run").glob(f"{name}.pid"):
            text = file.read_text().strip()
            if text.isdigit():
                numbers.append(int(text))
    for number in numbers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGTERM)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(_alive(number) for number in numbers):
        time.sleep(0.05)
    for number in numbers:
        if _alive(number):
            os.kill(number, signal.SIGKILL)


def _alive(number: int) -> bool:
    """Whether a process runs; one that waits for its parent to reap it does not."""
    try:
        status = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def wait_for_nodes(slurm: Slurm, nodes: int) -> None:
    """Wait until all nodes are idle."""
    deadline = time.monotonic() + 60
    while True:
        states = slurm.run("sinfo", "-h", "-r", "-N", "-o", "%N %t").stdout.splitlines()
        if sum(line.endswith(" idle") for line in set(states)) == nodes:
            return
        if time.monotonic() > deadline:
            log = (slurm.root / "log" / "slurmctld.log").read_text()[-2000:]
            raise RuntimeError(f"Slurm did not come up: {states[:4]} {log}")
        time.sleep(0.1)


@contextlib.contextmanager
def cluster(
    nodes: int = 32, gpus: int = 4, cpus: int = 64, extra: str = "", *, accounting: bool = False
) -> Iterator[Slurm]:
    """Start a Slurm and stop it again.

    Args:
        nodes: pretend nodes, gpu000 onwards.
        gpus: pretend GPUs a node.
        cpus: CPUs each node claims to have.
        extra: further lines of slurm.conf.
        accounting: whether it keeps accounts (`sacct`) and enforces them; the account is
            "moectl".
    """
    version = subprocess.run(
        ["slurmctld", "-V"], env={"PATH": ADMIN_PATH}, capture_output=True, text=True, check=True
    ).stdout.split()[-1]
    root = Path(tempfile.mkdtemp(prefix="moectl-slurm-", dir="/tmp"))  # a short path, for sockets
    root.chmod(0o755)
    slurm = Slurm(root, version, root / "image.env")
    slurm.image_environment.write_text("")
    try:
        subprocess.run([*COMPILE, plugin(root), STUB], check=True)
        configuration(
            root, version, nodes=nodes, gpus=gpus, cpus=cpus, extra=extra, accounting=accounting
        )
        _start(root, nodes)
        wait_for_nodes(slurm, nodes)
        yield slurm
    finally:
        slurm.run("scancel", f"--user={os.geteuid()}")
        stop(root)
        shutil.rmtree(root, ignore_errors=True)
