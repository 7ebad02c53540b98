"""What `moectl doctor` sees, with a real Slurm, without one, and in texts of other Slurms."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moectl.actions.doctor import Diagnosis, diagnose
from moectl.actions.doctor_checks import Check, checks
from moectl.actions.doctor_profile import profile
from moectl.cli import doctor as command
from moectl.errors import LocalFilesError, ValueUsageError
from moectl.launch import doctor
from moectl.launch.doctor import Folder, Node, Partition, Site
from moectl.settings.files import cluster_profile
from tests.support.components import require
from tests.support.slurm import Slurm, cluster

SECRET = "S3CRET"  # noqa: S105 - what must be shown nowhere


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    require("slurm-cluster")
    extra = "PartitionName=debug Nodes=gpu[000-001] MaxTime=00:30:00 State=UP\n"
    extra += "PartitionName=old Nodes=gpu003 State=DOWN\n"
    with cluster(nodes=4, gpus=4, cpus=64, extra="") as found:
        # partitions come after the nodes they name
        with (found.root / "slurm.conf").open("a") as stream:
            stream.write(extra)
        assert found.run("scontrol", "reconfigure").returncode == 0
        yield found


def on(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], home: Path) -> None:
    """Make the environment of this process that of a person with nothing else."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in {**environment, "HOME": str(home)}.items():
        monkeypatch.setenv(name, value)


def by_name(found: Diagnosis, name: str) -> Check:
    return next(check for check in found.checks if check.name == name)


def keys(site: Site) -> dict[str, Any]:
    return {key.name: key.value for key in profile(site)}


def said(site: Site, name: str) -> Check:
    return next(check for check in checks(site) if check.name == name)


def test_a_real_slurm_is_seen_as_it_is(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    on(monkeypatch, slurm.environment, tmp_path)
    site = doctor.look()
    assert site.release == slurm.version
    assert site.fault == ""
    assert {p.name: (p.default, p.up, p.time, p.nodes) for p in site.partitions} == {
        "batch": (True, True, "infinite", 4),
        "debug": (False, True, "30:00", 2),
        "old": (False, False, "infinite", 1),
    }
    assert [node.name for node in site.nodes] == ["gpu000", "gpu001", "gpu002", "gpu003"]
    assert site.nodes[0].partitions == {"batch", "debug"}
    assert {(node.gpus, node.gpu_type, node.cpus) for node in site.nodes} == {(4, "", 64)}
    assert site.nodes[0].architecture == site.architecture
    assert "container-env" in site.pyxis
    assert "accounting storage is disabled" in site.accounting


def test_a_profile_of_a_real_slurm_renders(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    on(monkeypatch, slurm.environment, tmp_path)
    found = diagnose()
    path = tmp_path / "site.yaml"
    found.save(path, force=False)
    values = {s.path.removeprefix("cluster."): s.value for s in cluster_profile(path)}
    assert values == {key.name: key.value for key in found.profile}
    expected = {
        "name": "moectl",
        "launcher": "slurm",
        "slurm_release": slurm.version,
        "partition": "batch",
        "time": "01:00:00",
        "gpu_request": "gpus-per-node",
        "cpus_per_task": 16,
        "block_topology": False,
        "runtime": "pyxis",
    }
    assert expected.items() <= values.items()
    assert by_name(found, "pyxis").state == "found"
    assert by_name(found, "accounting").state == "absent"
    assert by_name(found, "GPUs").said.startswith("4 a node, without a type")


def test_a_controller_that_does_not_answer_is_told_with_slurms_own_words(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dead = (slurm.root / "slurm.conf").read_text().replace("SlurmctldPort=", "SlurmctldPort=1#")
    (tmp_path / "slurm.conf").write_text(f"{dead}\nMessageTimeout=2\n")
    environment = {**slurm.environment, "SLURM_CONF": str(tmp_path / "slurm.conf")}
    on(monkeypatch, environment, tmp_path)
    found = diagnose()
    check = by_name(found, "Slurm")
    assert check.state == "missing"
    assert "does not answer" in check.said
    assert "\n  " in check.said
    assert found.missing
    assert [(key.name, key.value) for key in found.profile] == [("launcher", "slurm")]


def test_without_slurm_a_launch_runs_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on(monkeypatch, {"PATH": str(tmp_path)}, tmp_path)
    assert command.run(None, False, "text") == 0
    printed = capsys.readouterr().out
    assert "--  Slurm: Slurm's programs are not on this machine, so a launch runs here" in printed
    assert "    try: run `moectl doctor` on a login node of the cluster" in printed
    assert 'launcher: "local"' in printed
    assert 'runtime: "none"' in printed


def test_slurms_programs_without_a_configuration_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "sinfo"
    tool.write_text(
        "#!/bin/sh\necho 'sinfo: fatal: Could not establish a configuration' >&2\nexit 1\n"
    )
    tool.chmod(0o755)
    on(monkeypatch, {"PATH": f"{tmp_path}:/bin"}, tmp_path)
    found = diagnose()
    check = by_name(found, "Slurm")
    assert check.state == "missing"
    assert "its programs are here (release unknown)" in check.said
    assert "Could not establish a configuration" in check.said
    assert found.missing


def test_a_program_that_hangs_ends_the_look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "sinfo"
    tool.write_text(
        '#!/bin/sh\n[ "$1" != --version ] || { echo slurm 24.11.5; exit; }\nexec sleep 9\n'
    )
    tool.chmod(0o755)
    on(monkeypatch, {"PATH": f"{tmp_path}:/bin"}, tmp_path)
    monkeypatch.setattr(doctor, "SECONDS", 0.2)
    check = by_name(diagnose(), "Slurm")
    assert (check.state, check.remedy[:15]) == ("missing", "`scontrol ping`")
    assert "sinfo gave no answer in 0.2 s" in check.said


ACCOUNTS = """#!/bin/sh
case "$*" in
  *"user me format=defaultaccount"*) echo second ;;
  *"assoc user=me format=account"*) printf 'first\\nsecond\\nfirst\\n' ;;
esac
"""


def test_the_default_account_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "sacctmgr"
    tool.write_text(ACCOUNTS)
    tool.chmod(0o755)
    for name, text in (
        ("sinfo", '[ "$1" = --version ] && echo slurm 24.11.5 || echo "b*|up|1:00|2"'),
        (
            "scontrol",
            '[ "$2" = config ] && echo "AccountingStorageType = accounting_storage/slurmdbd"',
        ),
        ("srun", "exit 0"),
        ("sacct", "exit 0"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    on(monkeypatch, {"PATH": f"{tmp_path}:/bin", "USER": "me"}, tmp_path)
    assert doctor.look().accounts == ("second", "first")


def test_the_report_is_json_and_the_profile_goes_to_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on(monkeypatch, {"PATH": str(tmp_path)}, tmp_path)
    path = tmp_path / "new folder" / "site.yaml"
    assert command.run(str(path), False, "json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["profile"] == {"launcher": "local", "runtime": "none"}
    assert printed["output"] == str(path)
    assert {"name", "state", "said"} <= printed["checks"][0].keys()
    before = path.read_text()
    with pytest.raises(LocalFilesError, match="exists; --force replaces it"):
        command.run(str(path), False, "text")
    assert path.read_text() == before
    assert command.run(str(path), True, "text") == 0
    assert f"wrote {path}" in capsys.readouterr().out
    assert [entry.name for entry in path.parent.iterdir()] == ["site.yaml"]
    with pytest.raises(ValueUsageError):
        command.run("", False, "text")
    with pytest.raises(LocalFilesError, match="is a folder"):
        command.run(str(tmp_path), True, "text")


NODE = (
    "NodeName=gb-{n:02d} Arch=aarch64 CoresPerSocket=72 CPUAlloc=0 CPUEfctv=142 CPUTot=144 "
    "Gres=gpu:gb200:4(S:0-1),nvme:2 NodeAddr=10.0.0.{n} State=IDLE Partitions=gb200,all "
    "RealMemory=900000"
)
TOPOLOGY = (
    "BlockName=b0 BlockIndex=0 Nodes=gb-[00-17] BlockSize=18\n"
    "BlockName=b1 BlockIndex=1 Nodes=gb-[18-35] BlockSize=18\n"
    "AggregatedBlock=b[0-1] BlockIndex=2 Nodes=gb-[00-35] BlockSize=36\n"
    "BlockName=broken BlockIndex=3 Nodes=gb-[36 BlockSize=18\n"
)
RACKS = Site(
    release="24.11.5",
    partitions=(
        Partition("cpu", default=True, up=True, time="1-00:00:00", nodes=10),
        Partition("gb200", default=False, up=True, time="45:00", nodes=36),
        Partition("h100", default=False, up=False, time="infinite", nodes=90),
    ),
    nodes=tuple(doctor.nodes("\n".join(NODE.format(n=n) for n in range(36)))),
    config={
        "ClusterName": "alpha",
        "TopologyPlugin": "topology/block",
        "SelectType": "select/cons_tres",
        "AccountingStorageEnforce": "associations,limits",
    },
    blocks=doctor.blocks(TOPOLOGY),
    pyxis=frozenset({"container-image", "container-mounts", "container-workdir", "container-env"})
    | {"no-container-mount-home", "no-container-entrypoint"},
    accounts=("team", "other"),
    folders=(
        Folder("SCRATCH", "/lustre/me", "lustre", writable=False),
        Folder("WORK", "/scratch/me", "nfs4", writable=True),
        Folder("HOME", "/home/me", "nfs4", writable=True),
    ),
    credentials=("nvcr.io (enroot)",),
    programs=frozenset({"enroot"}),
    architecture="x86_64",
)


def test_a_rack_with_another_architecture_than_the_login_node() -> None:
    assert RACKS.blocks == {"b0": 18, "b1": 18}
    assert keys(RACKS) == {
        "name": "alpha",
        "launcher": "slurm",
        "slurm_release": "24.11.5",
        "partition": "gb200",
        "time": "45:00",
        "gpu_request": "gpus-per-node",
        "gres": "gpu:gb200",
        "cpus_per_task": 35,
        "node_architecture": "aarch64",
        "account": "team",
        "block_topology": True,
        "runtime": "pyxis",
        "runs_folder": "/scratch/me",
    }
    assert not any(check.state == "missing" for check in checks(RACKS))
    assert said(RACKS, "GPUs").said == "4 a node of type gb200; that is hardware gb200-nvl72"
    assert said(RACKS, "block topology").said == "--segment; blocks: 2 of 18 nodes"
    assert "nodes are aarch64, this machine is x86_64" in said(RACKS, "architecture").said
    assert said(RACKS, "shared folder").said == "/scratch/me (nfs4), writable"


def test_blocks_smaller_than_the_platforms_domain_are_said() -> None:
    assert keys(replace(RACKS, blocks={"a": 9, "b": 9, "c": 8}))["nodes_per_domain"] == 9
    assert "nodes_per_domain" not in keys(replace(RACKS, blocks={"a": 36}))


@pytest.mark.parametrize(
    ("changes", "name", "state", "words"),
    [
        ({"partitions": ()}, "partition", "missing", "no partition is up that you may see"),
        ({"accounts": ()}, "account", "missing", "you have no account"),
        ({"accounting": "sacct refused\n  no"}, "accounting", "absent", "sacct refused: no"),
        ({"release": "23.02.7"}, "block topology", "absent", "came with 23.11"),
        (
            {"blocks": {}, "config": {"TopologyPlugin": "topology/tree"}},
            "block topology",
            "absent",
            "the topology is topology/tree",
        ),
        ({"pyxis": frozenset()}, "pyxis", "absent", "srun has no --container-image"),
        (
            {"pyxis": RACKS.pyxis - {"container-env"}},
            "pyxis",
            "missing",
            "this pyxis has no --container-env",
        ),
        ({"programs": frozenset()}, "enroot", "absent", "not on this machine"),
        ({"programs": frozenset({"apptainer"})}, "apptainer", "found", "on this machine"),
        ({"credentials": ()}, "registry credentials", "absent", "none are kept"),
        (
            {"folders": (Folder("HOME", "/root", "ext4", writable=True),)},
            "shared folder",
            "missing",
            "/root is writable and on ext4",
        ),
        ({"folders": ()}, "shared folder", "missing", "none is there"),
    ],
)
def test_each_thing_that_is_missing_has_its_cause_and_a_remedy(
    changes: dict[str, Any], name: str, state: str, words: str
) -> None:
    site = replace(RACKS, **changes)
    found = [check for check in checks(site) if check.name == name and check.state == state]
    assert len(found) == 1
    assert words in found[0].said
    assert found[0].remedy or state == "found"


def test_nodes_without_gpus_in_slurm_are_told_and_not_asked_for_any() -> None:
    bare = tuple(replace(node, gpus=0, gpu_type="") for node in RACKS.nodes)
    site = replace(RACKS, nodes=bare, partitions=RACKS.partitions[1:2])
    assert said(site, "GPUs").state == "missing"
    assert keys(site)["gpu_request"] == "none"
    assert "cpus_per_task" not in keys(site)


def test_gpus_are_asked_for_by_gres_without_cons_tres() -> None:
    site = replace(RACKS, config={"SelectType": "select/cons_res"})
    assert (keys(site)["gpu_request"], keys(site)["gres"]) == ("gres", "gpu:gb200")


@pytest.mark.parametrize(
    ("limit", "time"),
    [
        ("infinite", "01:00:00"),
        ("1-00:00:00", "01:00:00"),
        ("2:00:00", "01:00:00"),
        ("30:00", "30:00"),
        ("10", "10"),
        ("0-00:20:00", "0-00:20:00"),
        ("n/a", "01:00:00"),
    ],
)
def test_the_time_is_an_hour_or_what_the_partition_allows(limit: str, time: str) -> None:
    partition = replace(RACKS.partitions[1], time=limit)
    assert keys(replace(RACKS, partitions=(partition,)))["time"] == time


def test_every_profile_can_be_read_again(tmp_path: Path) -> None:
    sites = [
        RACKS,
        Site(),
        Site(release="22.05.8", fault="sinfo refused"),
        replace(RACKS, config={"ClusterName": "a: 'b' # {"}, accounts=("on",)),
        Site(release="26.05.0", partitions=RACKS.partitions),
    ]
    for number, site in enumerate(sites):
        found = Diagnosis(tuple(checks(site)), tuple(profile(site)))
        path = tmp_path / f"{number}.yaml"
        found.save(path, force=False)
        values = {s.path.removeprefix("cluster."): s.value for s in cluster_profile(path)}
        assert values == keys(site)


def test_odd_answers_of_slurm_are_no_crash() -> None:
    assert list(doctor.nodes("rubbish\n\nNodeName=\nNodeName=x Gres=(null) CPUTot=?")) == [
        Node("x", "", 0, 0, "", frozenset())
    ]
    assert list(doctor.partitions("a|b\n|||\nx*|up|1:00|?\nx*|up|1:00|3\n")) == [
        Partition("", default=False, up=False, time="", nodes=0),
        Partition("x", default=True, up=True, time="1:00", nodes=3),
    ]
    assert doctor.settings("Configuration data\nA = b = c\n\n") == {"A": "b = c"}
    assert doctor.blocks("BlockName=x\nSwitchName=s0 Level=0 Nodes=a[1-2]") == {}


def test_credentials_are_told_by_the_name_of_the_registry_only(tmp_path: Path) -> None:
    enroot = tmp_path / "config" / "enroot"
    enroot.mkdir(parents=True)
    (enroot / ".credentials").write_text(
        f"machine nvcr.io login $oauthtoken password {SECRET}\n"
        f"# machine not.this login x\nmachine auth.docker.io login me password {SECRET}\n"
    )
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(
        json.dumps({"auths": {"ghcr.io": {"auth": SECRET}}, "credsStore": SECRET})
    )
    (tmp_path / ".apptainer").mkdir()
    (tmp_path / ".apptainer" / "docker-config.json").write_text('{"auths": [')
    found = list(
        doctor.credentials({"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")})
    )
    assert found == ["nvcr.io (enroot)", "auth.docker.io (enroot)", "ghcr.io (docker)"]


def test_folders_are_tried_once_and_by_their_file_system(tmp_path: Path) -> None:
    environment = {"SCRATCH": str(tmp_path), "HOME": str(tmp_path), "WORK": "relative"}
    (found,) = doctor.folders(environment)
    assert (found.variable, found.path, found.writable) == ("SCRATCH", str(tmp_path), True)
    assert found.kind
    assert list(tmp_path.iterdir()) == []
    (proc,) = doctor.folders({"WORK": "/proc"})
    assert (proc.kind, proc.writable, proc.shared) == ("proc", False, False)
