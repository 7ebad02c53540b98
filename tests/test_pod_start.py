"""The pod start program with a stand-in for MaxText: how pods meet, how they end, what they say."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moectl.job import Job
from tests.support import jobs, pods
from tests.support.kubernetes_jobs import on

# Stands in for `python -m maxtext.trainers.pre_train.train`: runs the text in BEHAVIOUR.
MAXTEXT = """\
import json, os, signal, sys, time
rank = int(os.environ["SLURM_PROCID"])
with open(os.path.join(os.environ["NOTES"], f"rank-{rank}"), "w") as stream:
    json.dump([sys.argv[1:], dict(os.environ), os.getcwd()], stream)
exec(os.environ["BEHAVIOUR"])
"""
SMI = """\
#!/bin/sh
echo "    Fabric"
echo "        State                             : Completed"
echo "        CliqueId                          : $CLIQUE"
echo "        ClusterUUID                       : 11111111-2222-3333-4444-555555555555"
"""


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    package = tmp_path / "stub" / "maxtext" / "trainers" / "pre_train"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").write_text("")
    (package / "train.py").write_text(MAXTEXT)
    (tmp_path / "notes").mkdir()
    return tmp_path


def two_nodes(**changes: Any) -> Job:
    hardware = replace(jobs.GB200, gpus_per_node=2, domain_gpus=2, usable_domain_gpus=2)
    return replace(on(jobs.job(hardware, 2, slice_gpus=2)), **changes)


@contextlib.contextmanager
def started(
    stub: Path, behaviour: str, job: Job | None = None, **changes: Any
) -> Iterator[pods.Pods]:
    more = {
        "PYTHONPATH": str(stub / "stub"),
        "NOTES": str(stub / "notes"),
        "BEHAVIOUR": behaviour,
    }
    with pods.pods(
        stub, sys.executable, job or two_nodes(), changes={"end_seconds": 2, **changes}, more=more
    ) as found:
        yield found


def ran(stub: Path, behaviour: str, job: Job | None = None, **changes: Any) -> Any:
    """Run all pods; return (exit codes, pods)."""
    with started(stub, behaviour, job, **changes) as found:
        codes = found.run(60)
        return codes, found


def note(stub: Path, rank: int) -> Any:
    return json.loads((stub / "notes" / f"rank-{rank}").read_text("utf-8"))


def connected(found: pods.Pods) -> socket.socket:
    """Return a connection to where the pods meet, once pod 0 listens there."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(("localhost", found.plan["join_port"]))
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_every_process_is_told_who_it_is(stub: Path) -> None:
    arguments = jobs.said({"run_name": "a $(b) 'c'", "steps": 3})
    codes, found = ran(stub, "", two_nodes(arguments=arguments))
    assert codes == [0, 0], pods.outputs(found)
    for rank in range(4):
        words, values, folder = note(stub, rank)
        port = str(found.plan["coordinator_port"])
        assert words == [str(stub / "files" / "config.yml"), "run_name=\"a $(b) 'c'\"", "steps=3"]
        assert folder == str(found.work(rank // 2))
        expected = {
            "SLURM_NTASKS": "4",
            "SLURM_PROCID": str(rank),
            "SLURM_LOCALID": str(rank % 2),
            "SLURM_STEP_NODELIST": "localhost",
            "JAX_COORDINATOR_ADDRESS": f"localhost:{port}",
            "JAX_COORDINATOR_PORT": port,
            "JAX_PARTITION_INDEX": str(rank // 2),
            "PYTHONUNBUFFERED": "1",
            "XLA_FLAGS": "--xla_gpu_enable_latency_hiding_scheduler=true",
        }
        assert {name: values[name] for name in expected} == expected


def test_output_stands_behind_its_rank_and_in_its_log(stub: Path) -> None:
    codes, found = ran(stub, "print('hello', rank); sys.stderr.write('loud\\n')")
    assert codes == [0, 0]
    for rank in range(4):
        assert f"{rank}: hello {rank}\n" in found.output(rank // 2)
        assert f"{rank}: loud\n" in found.output(rank // 2)
        assert found.log(rank // 2, rank).read_text() in {
            f"hello {rank}\nloud\n", f"loud\nhello {rank}\n"
        }  # fmt: skip


def test_variables_of_another_launcher_are_kept_out(stub: Path) -> None:
    with started(stub, "") as found:
        found.start(0, OMPI_MCA_orte_hnp_uri="x", SLURM_NNODES="9")
        found.start(1)
        assert found.wait(60) == [0, 0]
    assert not {"OMPI_MCA_orte_hnp_uri", "SLURM_NNODES"} & set(note(stub, 0)[1])


ENDS: dict[str, tuple[str, int, str]] = {
    "an exit code": ("if rank == 1: sys.exit(7)\ntime.sleep(60)", 7, "rank 1 on node-0"),
    "a signal": ("if rank == 1: os.kill(os.getpid(), 11)\ntime.sleep(60)", 139, "rank 1"),
    "a refused configuration": (
        "if rank == 1: print('MAXTEXT CONFIG ERROR: steps'); sys.exit(2)\ntime.sleep(60)",
        78,
        "MaxText refuses its configuration",
    ),
    "a failed start": (
        "if rank == 1: print('MAXTEXT CONFIG ERROR: DEADLINE_EXCEEDED: Barrier'); sys.exit(2)\n"
        "time.sleep(60)",
        2,
        "the processes did not find each other",
    ),
    "a configuration refused after a failed start": (
        "if rank == 1:\n  print('MAXTEXT CONFIG ERROR: UNAVAILABLE')\n"
        "  print('MAXTEXT CONFIG ERROR: x'); sys.exit(2)\ntime.sleep(60)",
        2,
        "did not find each other",
    ),
    "a GPU without memory": (
        "if rank == 1: print('jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: x');"
        " sys.exit(1)\ntime.sleep(60)",
        79,
        "a GPU ran out of memory",
    ),
    "a loss that is no number": (
        "if rank == 1: print('Aborting training due to NaN loss.'); sys.exit(1)\ntime.sleep(60)",
        80,
        "the loss became NaN",
    ),
    "a faulty GPU": (
        "if rank == 1: print('CUDA_ERROR_ECC_UNCORRECTABLE'); sys.exit(1)\ntime.sleep(60)",
        1,
        "memory is faulty",
    ),
}


@pytest.mark.parametrize("what", ENDS)
def test_the_first_failure_ends_the_pod_with_the_code_that_decides_a_restart(
    what: str, stub: Path
) -> None:
    behaviour, code, text = ENDS[what]
    with started(stub, behaviour) as found:
        found.start(0)
        found.start(1)
        assert found.started[0].wait(60) == code, found.output(0)
        assert text in found.output(0)


def test_processes_that_will_not_end_are_ended(stub: Path) -> None:
    behaviour = (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nif rank == 0: sys.exit(3)\ntime.sleep(120)"
    )
    with started(stub, behaviour) as found:
        found.start(0)
        found.start(1)
        assert found.started[0].wait(60) == 3


def test_a_pod_that_is_told_to_end_does_not_count_as_done(stub: Path) -> None:
    behaviour = (
        "def end(*_): print('saved'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\nprint('ready')\ntime.sleep(60)"
    )
    with started(stub, behaviour) as found:
        found.start(0)
        found.start(1)
        deadline = time.monotonic() + 60
        while found.output(0).count("ready") < 2 or found.output(1).count("ready") < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for process in found.started:
            process.send_signal(signal.SIGTERM)
        assert found.wait(60) == [143, 143]
        assert found.output(0).count(": saved\n") == 2


def test_a_pod_that_waits_for_the_others_can_be_told_to_end(stub: Path) -> None:
    with started(stub, "") as found:
        process = found.start(0)
        time.sleep(2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\x00" * 70_000,
        b'{"index": 1}\n',
        b'{"index": "9", "jobset": "tiny", "restart": "0", "row": "a b"}\n',
        b'{"index": 0, "jobset": "tiny", "restart": "0", "row": "a b"}\n',
        b'{"index": 1, "jobset": "other", "restart": "0", "row": "a b"}\n',
        b'{"index": 1, "jobset": "tiny", "restart": "7", "row": "a b"}\n',
        b'{"index": 1e999, "jobset": "tiny", "restart": "0", "row": "a b"}\n',
        b"[" * 50_000 + b"\n",
    ],
)
def test_what_strangers_say_where_pods_meet_is_nothing(said: bytes, stub: Path) -> None:
    with started(stub, "") as found:
        found.start(0)
        with connected(found) as stranger, contextlib.suppress(OSError):
            stranger.sendall(said)
        found.start(1)
        assert found.wait(60) == [0, 0], pods.outputs(found)
        assert note(stub, 2)[1]["MOECTL_NODE"] == "node-1"


@pytest.mark.parametrize("alone", [0, 1])
def test_pods_that_never_come_are_named_and_another_try_is_left(alone: int, stub: Path) -> None:
    with started(stub, "", join_seconds=2) as found:
        assert found.start(alone).wait(60) == 75
        said = found.output(alone)
        assert ("1 of 2 pods did not come in 2 s: 1" if alone == 0 else "pod 0 (localhost)") in said


def test_a_pod_that_lost_its_answer_is_told_again(stub: Path) -> None:
    said = {"index": 1, "jobset": pods.JOBSET, "restart": "0", "row": "node-1 -"}
    with started(stub, "time.sleep(60)") as found:
        found.start(0)
        answers = []
        for _ in range(2):
            with connected(found) as pod, pod.makefile() as stream:
                pod.sendall(json.dumps(said).encode() + b"\n")
                answers.append(json.loads(stream.readline()))
    assert answers[0] == answers[1]
    assert answers[0]["order"] == [0, 1]


def test_a_pod_that_comes_twice_is_taken_as_it_came_last(stub: Path) -> None:
    said = {"index": 1, "jobset": pods.JOBSET, "restart": "0", "row": "node-1 -"}
    with started(stub, "", of_four("")) as found:
        found.start(0)
        with connected(found) as lost:
            lost.sendall(json.dumps(said).encode() + b"\n")
        for index in (1, 2, 3):
            found.start(index)
        assert found.wait(90) == [0, 0, 0, 0], pods.outputs(found)


def of_four(clique: str, **changes: Any) -> Job:
    """Return a job of four nodes in slices of two, of which a domain has room for two."""
    hardware = replace(jobs.GB200, gpus_per_node=1, domain_gpus=2, usable_domain_gpus=2)
    return replace(on(jobs.job(hardware, 4, slice_gpus=2)), **changes)


@pytest.mark.parametrize(
    ("cliques", "order"),
    [("1122", [0, 1, 2, 3]), ("1212", [0, 2, 1, 3]), ("1221", [0, 3, 1, 2])],
)
def test_ranks_follow_the_nvlink_domains(cliques: str, order: list[int], stub: Path) -> None:
    smi = stub / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(SMI)
    smi.chmod(0o755)
    with started(stub, "", of_four(cliques)) as found:
        path = f"{smi.parent}:/usr/bin:/bin"
        for index, clique in enumerate(cliques):
            found.start(index, CLIQUE=clique, PATH=path)
        assert found.wait(60) == [0, 0, 0, 0], pods.outputs(found)
        nodes = (found.work(0) / "logs" / pods.JOBSET / "nodes").read_text().splitlines()
    assert [line.split()[0] for line in nodes] == [f"node-{index}" for index in order]
    assert [line.split()[1] for line in nodes] == ["0", "0", "1", "1"]
    for rank, index in enumerate(order):
        assert note(stub, rank)[1]["MOECTL_NODE"] == f"node-{index}"


def test_domains_that_make_no_whole_slices_stop_all_pods_with_the_arithmetic(stub: Path) -> None:
    smi = stub / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(SMI)
    smi.chmod(0o755)
    with started(stub, "", of_four("")) as found:
        for index, clique in enumerate("1112"):
            found.start(index, CLIQUE=clique, PATH=f"{smi.parent}:/usr/bin:/bin")
        assert found.wait(60) == [78, 78, 78, 78]
        assert "3 = 1 x 2 + 1" in found.output(3)
        assert "cluster.kubernetes.domain_topology" in found.output(3)
        assert "--segment" not in found.output(3)


def test_a_hang_is_ended_by_the_watchdog(stub: Path) -> None:
    job = two_nodes()
    job = replace(job, cluster=replace(job.cluster, compile_limit=3))
    words = ["--settle=1", "--start=3", "--step=3", "--factor=1", "--end=3", "--grace=1"]
    words += ["--every=0.5", "--stacks=2", "--per-node=2"]
    codes, found = ran(stub, "time.sleep(120)", job, watchdog=words)
    assert codes == [124, 124], pods.outputs(found)
    assert "the watchdog ends this job: the first step did not come" in found.output(0)
    assert "the watchdog ended the pod: the first step did not come" in found.output(0)
    record = json.loads((found.log(1, 2).parent / "watchdog.json").read_text())
    assert [row["rank"] for row in record["ranks"]] == [2, 3]


def test_a_process_that_says_why_and_hangs_gets_the_code_of_that(stub: Path) -> None:
    words = ["--settle=1", "--start=60", "--step=60", "--factor=1", "--end=60", "--grace=1"]
    words += ["--every=0.5", "--stacks=2", "--per-node=2"]
    behaviour = "if rank == 2: print('Aborting training due to NaN loss.', flush=True)\n"
    with started(stub, f"{behaviour}time.sleep(120)", watchdog=words) as found:
        found.start(0)
        found.start(1)
        assert found.started[1].wait(60) == 80, found.output(1)
        assert "a known text, and the job went on; the loss became NaN, rank 2" in found.output(1)


def test_the_record_of_the_run_holds_no_secret(stub: Path) -> None:
    job = replace(two_nodes(), secrets=("HF_TOKEN",))
    job = on(job, secret="moectl")  # noqa: S106 - the name of a Secret
    with started(stub, "time.sleep(3)", job) as found:
        found.start(0, HF_TOKEN="hf_canary")  # noqa: S106
        found.start(1)
        assert found.wait(90) == [0, 0]
        text = (found.log(0, 0).parent / "as-run.json").read_text()
        (line,) = re.findall(r"^moectl: as-run.json: (.*)$", found.output(0), re.MULTILINE)
        assert "as-run.json" not in found.output(1)
    assert json.loads(line) == json.loads(text)
    assert "hf_canary" not in text
    assert json.loads(text)["withheld"] == ["HF_TOKEN"]


def test_debug_writes_what_nccl_says_and_the_hlo_by_rank(stub: Path) -> None:
    codes, _ = ran(stub, "", two_nodes(debug=True))
    assert codes == [0, 0]
    values = note(stub, 3)[1]
    assert values["NCCL_DEBUG_FILE"].endswith("/nccl/rank-3.log")
    assert values["XLA_FLAGS"].endswith("/hlo/rank-3")


@pytest.mark.parametrize("name", ["pod_meet.py", "pod_start.py"])
def test_it_runs_on_the_oldest_python_that_images_have(name: str) -> None:
    import ast  # noqa: PLC0415

    text = (Path(__file__).parent.parent / "templates" / name).read_text()
    assert ast.parse(text, feature_version=(3, 8))
