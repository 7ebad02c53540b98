"""Host lists, judged by Slurm's own program."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.errors import ValueUsageError
from moectl.hostlist import LONGEST_RANGE, expand, is_compact
from tests.support.components import require


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration that lets scontrol expand names; no daemon runs."""
    require("slurm")
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "slurm.conf").write_text(
        "ClusterName=x\nSlurmctldHost=localhost(127.0.0.1)\nAuthType=auth/none\n"
        f"CredType=cred/none\nPlugStackConfig={folder}/plugstack.conf\n"
        "NodeName=a CPUs=1\nPartitionName=p Nodes=a\n"
    )
    (folder / "plugstack.conf").write_text("")
    return folder / "slurm.conf"


def _hostnames(conf: Path, text: str) -> list[str] | None:
    done = subprocess.run(
        ["scontrol", "show", "hostnames", text],
        env={"SLURM_CONF": str(conf), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return None if "nvalid" in done.stdout + done.stderr else done.stdout.split()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("node7", ["node7"]),
        ("nodeA,nodeB[001,003],nodeC", ["nodeA", "nodeB001", "nodeB003", "nodeC"]),
        ("a[001-004,7],b", ["a001", "a002", "a003", "a004", "a7", "b"]),
        ("a[9-11]", ["a9", "a10", "a11"]),
        ("a[08-11]", ["a08", "a09", "a10", "a11"]),
        ("b,a[3,1-2],a1", ["b", "a3", "a1", "a2", "a1"]),
        ("a b\tc\n", ["a", "b", "c"]),
        ("[1-2]", ["1", "2"]),
        ("dc1-a[1-2]-r[3]", ["dc1-a1-r3", "dc1-a2-r3"]),
        ("rack[1-2]-gpu[0-1]", ["rack1-gpu0", "rack1-gpu1", "rack2-gpu0", "rack2-gpu1"]),
    ],
)
def test_a_list_stands_for_these_names(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "a[1-2", "a[", "a[1-2,3", "a[]", "a[1-2,]", "a[,1]", "a[x]", "a[1-x]", "a[5-3]",
        "a[1-2-3]", "a[[1-2]]", "a[-1]", "a[1-2]b", "a.b[1-2].c", "a[1-2](x3)", "a[1_0]",
        "a[\uff11]", "a[0x1-0x2]", f"a[1-{LONGEST_RANGE + 1}]", "a[1-9]" + "b[1-9999]" * 3,
        "a[" + "9" * 5000 + "]", "a[1-" + "9" * 5000 + "]",
    ],
)  # fmt: skip
def test_a_broken_list_is_refused_with_what_is_legal(text: str) -> None:
    with pytest.raises(ValueUsageError, match="a host list cannot be"):
        expand(text)


def test_a_range_may_have_as_many_names_as_slurm_gives_it() -> None:
    assert len(expand(f"a[1-{LONGEST_RANGE}]")) == LONGEST_RANGE


def test_only_a_list_with_brackets_is_compact() -> None:
    assert is_compact("a[1-2]")
    assert not is_compact("a1,a2")


_NUMBER = st.integers(0, 120).flatmap(
    lambda number: st.sampled_from([f"{number}", f"{number:02d}", f"{number:04d}"])
)
_RANGE = st.tuples(st.integers(0, 99), st.integers(0, 12), st.integers(1, 4)).map(
    lambda drawn: f"{drawn[0]:0{drawn[2]}d}-{drawn[0] + drawn[1]}"
)
_BRACKET = st.lists(_NUMBER | _RANGE, min_size=1, max_size=3).map(lambda x: f"[{','.join(x)}]")
_WORD = st.text("abz09.-_", min_size=1, max_size=5).filter(lambda text: not text.startswith("-"))
_ENTRY = st.lists(st.tuples(_WORD, _BRACKET), max_size=3).map(
    lambda parts: "".join(map("".join, parts))
)
_LIST = st.lists(_ENTRY.filter(bool) | _WORD, min_size=1, max_size=4).map(",".join)


@given(st.lists(_LIST, min_size=1, max_size=1))
@settings(max_examples=60, deadline=None)
def test_every_drawn_list_is_expanded_as_scontrol_does(slurm: Path, lists: list[str]) -> None:
    assert expand(lists[0]) == _hostnames(slurm, lists[0])


@given(st.text("a1-[], ", max_size=12))
@settings(max_examples=60, deadline=None)
def test_a_list_that_scontrol_refuses_is_refused(slurm: Path, text: str) -> None:
    text = f"x,{text}"  # never an option of scontrol
    judged = _hostnames(slurm, text)
    try:
        mine = expand(text)
    except ValueUsageError:
        return  # stricter than scontrol, which guesses at open brackets
    assert judged == mine
