"""Values of Slurm's options: what real sbatch takes is passed, what it refuses is an error."""

from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from moectl.rules.slurm_values import grammars, value_fault
from tests.support.components import require

# Blanks part the values; "''" is the empty value.
GOOD = {
    "gres": "gpu gpu:8 gpu:b200:8 gpu:8k gpu:0 gres:gpu:8 none gpu:8, gpu:b200=8 craynetwork:0 ''",
    "exclusive": "'' user mcs USER",
    "mail-type": "ALL all,begin NONE NONE,END END,FAIL, INVALID_DEPEND STAGE_OUT ARRAY_TASKS "
    "REQUEUE TIME_LIMIT TIME_LIMIT_90 TIME_LIMIT_80 TIME_LIMIT_50 END,FINISH",
    "signal": "USR1 SIGUSR1@60 B:USR1@60 R:USR1 RB:TERM@120 BR:TERM 10 10@ 64 b:usr1 HUP INT QUIT "
    "KILL STOP CONT TSTP TTIN TTOU URG XCPU ALRM ABRT USR1@65535 B:12@300 -1",
    "nodes": "1 0 1k 1m 1-4 1-1k +4 -4",
    "gpu-bind": "none closest CLOSEST verbose,closest verbose,none single:2 single: single:0 c n "
    "no per_task:1 map_gpu:0,1 map_gpu:0*2,1 map_gpu: mask_gpu:0x1,0x2 mask_gpu:1,2 "
    "closest,verbose none,foo verbose,single:1 Verbose,closest",
    "gpu-freq": "high low medium highm1 1200 memory=high memory=12 high,memory=low,verbose verbose "
    "high, ,high high,low",
    "distribution": "block cyclic plane=4 Plane=2 block:cyclic block:fcyclic block:block:cyclic "
    "* *:block block:* block:*:fcyclic *:*:* Pack NoPack block,Pack block,pack block,NoPack BLOCK "
    "cyclic:cyclic,Pack block: :block block, block::cyclic",
    "open-mode": "append truncate a t A Append app",
    "hint": "compute_bound memory_bound multithread nomultithread nomultithread,memory_bound "
    "Multithread COMPUTE_BOUND,memory_bound",
    "wait-all-nodes": "0 1 00 01 ''",
    "threads-per-core": "1 2 +1 01",
    "cores-per-socket": "4",
    "sockets-per-node": "2",
    "mincpus": "4",
    "extra-node-info": "2 2:4 2:4:1 2:* * 2-4:2 0 ''",
    "profile": "none All all Energy,Task task,lustre,network energy:task task,foo",
    "begin": "now NOW now+1hour now+60 now+3days now+3weeks now+10seconds now-3 16:00 16:00:00 "
    "fika 04:00pm 4:00PM 2030-01-01 2030-01-20T12:34:00 010130 01/01/30 01/01 01.01.30 "
    "today tomorrow noon NOON midnight teatime uts1700000000",
    "deadline": "now+1hour 2030-01-01 23:00",
    "delay-boot": "5 1:00 1-0 UNLIMITED -1",
    "switches": "1 02 1@5:00 1@x 2@",
    "acctg-freq": "30 0 task=30 task=30,energy=30 30,energy=30 filesystem=30,network=5 Task=3 ''",
    "gres-flags": "enforce-binding disable-binding Enforce-Binding",
    "mem-bind": "local none no rank verbose,local v,local q,none prefer,local p,local sort nosort "
    "map_mem:0,1 mask_mem:0x3",
    "cpu-freq": "high low lo highm1 1200 1.2GHz low-high performance ondemand 1200-2000:userspace",
    "propagate": "STACK ALL NONE NOFILE,MEMLOCK RLIMIT_STACK '' "
    "AS,CORE,CPU,DATA,FSIZE,MEMLOCK,NOFILE,NPROC,RSS,STACK",
    "kill-on-invalid-dep": "yes no",
    "no-kill": "'' off OFF",
    "get-user-env": "'' 5 5L 10s S",
    "array": "1-4 0-15:4 1,3,5 1-4%2 0",
    "dependency": "singleton afterok:1 afterok:1:2 after:1+5 afterok:1,afterany:2 "
    "afterok:1?afterok:2",
    "time": "30 30:00 1-0 1-12:30 04:00:00 UNLIMITED 0 -1",
    "mem": "0 64G 64GB 64gb 1024",
}
BAD = {
    "gres": "8 :8 gpus:8 gpus GPU:8 gpu: gpu:a: gpu:b200:8:x gpu:8(S:0)",
    "exclusive": "yes true 0 no 1 all",
    "mail-type": "FINISH TIMEOUT TIME_LIMIT_70 END|FAIL '' COMPLETED me@example.com",
    "signal": "FOO B:USR1@x USR1@65536 USR1@99999 USR1@-1 USR1@1:00 B: '' 0 1x @60 X:USR1@60 WINCH "
    "SEGV RTMIN PROF SIGFOO",
    "nodes": "all n1 4x 4.0 1g 4:2 1- ''",
    "gpu-bind": "foo quiet,none single per_task map_gpu map_gpu:x map_gpu:0x1 mask_gpu:0xZ map:0 "
    "verbose verbose, gpu:closest verbosex v,none ''",
    "gpu-freq": "foo max HIGHEST 1200mhz memory=foo foo=3 gpu:high gpu=high 12x ''",
    "distribution": "foo fcyclic lllp plane plane=0 plane=x plane=4x unknown block:foo block,foo "
    "block:block:foo block:block:block:block block,pack,nopack ''",
    "open-mode": "overwrite w ''",
    "hint": "foo none foo,multithread multithread, ''",
    "wait-all-nodes": "2 x yes",
    "core-spec": "x -1 1.5",
    "thread-spec": "0 x",
    "threads-per-core": "0 x -1 1.5 ''",
    "cores-per-socket": "0 x",
    "sockets-per-node": "0 x",
    "mincpus": "0 x",
    "extra-node-info": "x 2,4 2:x",
    "profile": "foo Filesystem ''",
    "begin": "yesterdayx yesterday friday elevenses 4pm 4PM now+1h now+1min now+3foo ''",
    "deadline": "foo soon",
    "delay-boot": "x 10s",
    "switches": "x 0 -1 1x ''",
    "acctg-freq": "x foo=30 task=x task= energy:30 task=30,foo=3",
    "gres-flags": "foo enforce ''",
    "mem-bind": "foo locality ldoms local,foo map_mem map_mem: map_mem:x rank_ldom ''",
    "cpu-freq": "foo foo-high p ''",
    "propagate": "foo STACK,foo LOCKS",
    "kill-on-invalid-dep": "y 1 foo true",
    "no-kill": "foo on",
    "get-user-env": "x",
    "time": "1h abc 1:00:00:00 ''",
    "mem": "64GiB 1.5G -1 all MaxMemPerNode",
    "ntasks": "1k 1e3 x 0",
}
# Options of srun alone.
GOOD_OF_SRUN = {
    "kill-on-bad-exit": "0 1 2 ''",
    "wait": "0 60 +5 ''",
    "msg-timeout": "5",
    "het-group": "0 0,1 0-1 [0-1]",
    "accel-bind": "g gv gn mgnv",
    "send-libs": "yes no y",
    "cpu-bind": "none no cores core Cores sockets socket threads ldoms rank rank_ldom quiet q "
    "verbose verbose,cores v,none map_cpu:0,1 mask_cpu:0x3,0xc map_ldom:0 mask_ldom:0x1 one_thread",
}
BAD_OF_SRUN = {
    "kill-on-bad-exit": "x yes -1 1x",
    "wait": "x -1 1:00",
    "msg-timeout": "x",
    "threads": "0 x",
    "het-group": "x",
    "accel-bind": "x ''",
    "send-libs": "foo true",
    "cpu-bind": "foo off yes auto gpu closest per_task map_cpu map_cpu:x ''",
}
# What the controller refuses, or only an older release.
BAD_LATER = {
    "array": "a-b 1-4%x 1..4 1-4-8",
    "dependency": "foo:1 after: afterok: afterok:x afterok:1,,afterok:2",
    "nodes": "4,8 1,2,3 1-10:3 1-4:2",
    "gres": "gpu=8 gres/gpu:8 gres/gpu=8",
    "segment": "abc 1.5",
    "oom-kill-step": "yes 2",
}


def _cases(table: dict[str, str]) -> list[tuple[str, str]]:
    return [
        (f"--{name}", "" if value == "''" else value)
        for name, values in table.items()
        for value in values.split()
    ]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    """What real sbatch says of every case; empty where it read them all."""
    require("slurm")
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "slurm.conf").write_text(
        "ClusterName=x\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort=1\n"
        f"AuthType=auth/none\nCredType=cred/none\nPlugStackConfig={folder}/plugstack.conf\n"
        "MessageTimeout=1\nGresTypes=gpu\nTaskPlugin=task/affinity\n"
        "NodeName=a CPUs=1\nPartitionName=batch Nodes=a\n"
    )
    (folder / "plugstack.conf").write_text("")
    cases = [*_cases(GOOD), *_cases(BAD), *_cases(GOOD_OF_SRUN), *_cases(BAD_OF_SRUN)]
    with ThreadPoolExecutor(4) as pool:
        said = pool.map(lambda pair: _asked(folder, *pair), enumerate(cases))
        return dict(zip(cases, said, strict=True))


# Said after every option was read, when nobody answers.
_READ_ALL = re.compile("Unable to contact|allocation failure|unsupported by configured SelectType")


def _asked(folder: Path, index: int, case: tuple[str, str]) -> str:
    job = folder / f"job{index}.sh"
    name, value = case
    job.write_text(f"#!/bin/bash\n#SBATCH {name}={value}\ntrue\n", "utf-8")
    of_srun = name[2:] in {*GOOD_OF_SRUN, *BAD_OF_SRUN}
    done = subprocess.run(
        ["srun", f"{name}={value}", "true"] if of_srun else ["sbatch", "--test-only", job],
        env={"SLURM_CONF": str(folder / "slurm.conf"), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return "" if _READ_ALL.search(done.stderr) else done.stderr


def test_sbatch_takes_every_value_that_is_passed(
    verdicts: dict[tuple[str, str], str],
) -> None:
    later = {"--array", "--dependency"}  # read by the controller, which is not there
    good = [*_cases(GOOD), *_cases(GOOD_OF_SRUN)]
    refused = {case: verdicts[case] for case in good if verdicts[case]}
    assert not {case: said for case, said in refused.items() if case[0] not in later}


def test_sbatch_refuses_every_value_that_is_an_error(
    verdicts: dict[tuple[str, str], str],
) -> None:
    bad = [*_cases(BAD), *_cases(BAD_OF_SRUN)]
    assert [case for case in bad if not verdicts[case]] == []


@pytest.mark.parametrize(("name", "value"), [*_cases(GOOD), *_cases(GOOD_OF_SRUN)])
def test_a_value_that_sbatch_takes_is_passed(name: str, value: str) -> None:
    assert value_fault(name, value) is None


@pytest.mark.parametrize(
    ("name", "value"), [*_cases(BAD), *_cases(BAD_OF_SRUN), *_cases(BAD_LATER)]
)
def test_a_value_that_slurm_refuses_is_found(name: str, value: str) -> None:
    fault = value_fault(name, value)
    assert fault is not None
    assert fault.legal


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("--exclusive", "topo"),
        ("--gres-flags", "one-task-per-sharing"),
        ("--gres-flags", "multiple-tasks-per-sharing,enforce-binding"),
        ("--signal", "B:PIPE@60"),
        ("--segment", "16"),
        ("--oom-kill-step", "1"),
    ],
)
def test_what_only_newer_releases_know_is_passed(name: str, value: str) -> None:
    assert value_fault(name, value) is None


@pytest.mark.parametrize(
    ("value", "instead", "since"),
    [
        ("gpu=8", "gpu:8", "23.11"),
        ("gpu=b200:8", "gpu:b200:8", "23.11"),
        ("gres/gpu:8", "gpu:8", "23.11"),
        ("gpus:8", "gpu:8", ""),
        ("GPU:h100:8", "gpu:h100:8", ""),
        ("gpus=8,nvme", "gpu:8,nvme", ""),
    ],
)
def test_what_is_meant_by_a_gres_is_told(value: str, instead: str, since: str) -> None:
    fault = value_fault("--gres", value)
    assert fault is not None
    assert (fault.instead, fault.since) == (instead, since)


@pytest.mark.parametrize("value", ["nvme:1", "tmpdisk:100G", "shard:4", "lscratch", "gpu:8,nvme"])
def test_a_resource_of_the_site_is_left_alone(value: str) -> None:
    assert value_fault("--gres", value) is None


def test_hostile_values_are_judged_in_no_time() -> None:
    for name in grammars():
        for value in ("1" * 20000, "a," * 10000, "1:" * 10000, "\x00", "é" * 5000, "-" * 9999):
            value_fault(name, value)
