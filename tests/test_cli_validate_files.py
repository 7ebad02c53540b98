"""moectl validate over real files: hostile names, standard input, suppressions, and --fix."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from moectl.__main__ import main
from moectl.reports import FORMATS

FAULTY = 'base_config: base.yml\nenable_checkpointing: "false"  # keep\n'
HOSTILE = os.fsdecode(b"a\x1b[31m\n \"'%,:\xff\xe2\x80\xae.yml")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def findings(*words: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    main(["validate", "--format", "json", *words])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
    return found


def test_a_fault_is_found_where_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.yml").write_text(FAULTY)
    [found] = findings("run.yml", capsys=capsys)
    assert (found["code"], found["file"], found["line"]) == ("YAML122", "run.yml", 2)
    assert FAULTY.splitlines()[1][found["column"] - 1 :].startswith('"false"')


@pytest.mark.parametrize("form", FORMATS)
def test_a_hostile_name_is_said_in_every_format_without_harm(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(HOSTILE).write_text(FAULTY)
    assert main(["validate", HOSTILE, "--strict", "--format", form]) == 1
    said = capsys.readouterr().out
    said.encode()
    assert all(line.isprintable() for line in said.split("\n"))
    if form == "json":
        written = json.loads(said)["findings"][0]["file"]
        assert written == HOSTILE.replace("\udcff", "\\xff")
        written.encode()  # no half of a surrogate pair
    elif form == "junit":
        case = next(ET.fromstring(said).iter("testcase"))  # noqa: S314
        assert "\\x1b" in (case.get("name") or "")
    elif form == "sarif":
        [artifact] = json.loads(said)["runs"][0]["artifacts"]
        assert artifact["location"]["uri"] == "a%1B%5B31m%0A%20%22%27%25%2C%3A%FF%E2%80%AE.yml"


def test_standard_input_is_checked(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "moectl", "validate", "-", "--strict"],
        input=FAULTY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("-:2:")
    assert "warning[YAML122]" in done.stdout
    assert done.stderr == ""


def test_a_comment_takes_a_finding_away_and_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.yml").write_text(FAULTY.replace("# keep", "# moectl: ignore[YAML122]"))
    assert main(["validate", "run.yml", "--strict"]) == 0
    assert capsys.readouterr().out.endswith("no faults in 1 file; 1 suppressed\n")


def test_a_comment_of_no_use_is_noted_even_where_its_code_is_not_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("run.yml").write_text("base_config: base.yml\n# moectl: ignore[YAML122]\nsteps: 5\n")
    assert [found["code"] for found in findings("run.yml", capsys=capsys)] == ["SUP102"]
    assert findings("run.yml", "--select", "KEY", capsys=capsys) == []
    Path("run.yml").write_text(FAULTY.replace("# keep", "# moectl: ignore[YAML122]"))
    assert findings("run.yml", "--select", "SUP", capsys=capsys) == []


def test_select_and_ignore_choose_codes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.yml").write_text(FAULTY)
    assert len(findings("run.yml", "--select", "YAML1", capsys=capsys)) == 1
    assert findings("run.yml", "--select", "XLA", capsys=capsys) == []
    assert findings("run.yml", "--ignore", "yaml122", capsys=capsys) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (FAULTY.encode(), FAULTY.replace('"false"', "false").encode()),
        (
            ("\ufeff# é日本\r\n" + FAULTY.replace("\n", "\r\n")).encode(),
            (
                "\ufeff# é日本\r\n" + FAULTY.replace('"false"', "false").replace("\n", "\r\n")
            ).encode(),
        ),
    ],
)
def test_fix_mends_the_value_and_leaves_all_else(
    before: bytes, after: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("run.yml").write_bytes(before)
    Path("run.yml").chmod(0o640)
    assert main(["validate", "run.yml", "--diff"]) == 0
    assert Path("run.yml").read_bytes() == before
    assert main(["validate", "run.yml", "--fix", "--yes", "--strict"]) == 0
    assert Path("run.yml").read_bytes() == after
    assert Path("run.yml").stat().st_mode & 0o777 == 0o640
    assert capsys.readouterr().out.endswith("no faults in 1 file\n")


def test_a_file_that_cannot_be_read_is_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "gone\x1b.yml"]) == 4
    said = capsys.readouterr().out
    assert "error[FILE101]" in said
    assert "\x1b" not in said


COLD = """
import sys
from moectl.__main__ import main
code = main(["validate", "run.yml"])
heavy = {"typer", "click", "rich", "pydantic", "jinja2", "difflib", "tempfile", "jax"}
print(sorted(heavy & set(sys.modules)), code)
"""


def test_a_plain_check_of_a_sound_file_loads_nothing_heavy() -> None:
    Path("run.yml").write_text("base_config: base.yml\nsteps: 5\n")
    done = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[] 0"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("job.sh", "export HF_TOKEN=hf_thesecretitself0123456789 NCCL_DEBUG=NOISY\nsrun true\n"),
        (
            "pod.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: t\n"
            "    image: r.example.com/jax:1\n    env:\n"
            "    - {name: WANDB_API_KEY, value: hf_thesecretitself0123456789}\n",
        ),
    ],
)
@pytest.mark.parametrize("form", ["text", "json", "github", "sarif", "junit"])
def test_a_secret_in_a_checked_file_is_told_and_never_shown(
    name: str, text: str, form: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    main(["validate", str(path), "--format", form])
    said = "".join(capfd.readouterr())
    assert "thesecretitself" not in said
    assert "ENV106" in said or "K8S115" in said


def test_a_binary_file_is_a_finding_and_not_unreadable() -> None:
    Path("run.yml").write_bytes(b"\xff\xfe\x00steps")
    assert main(["validate", "run.yml"]) == 1


def test_gpus_that_do_not_divide_over_nodes_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["validate", "--xla-flags", "--xla_gpu_autotune_level=2", "--gpus", "12",
                 "--gpus-per-node", "8"]) == 2  # fmt: skip
    assert "a multiple of --gpus-per-node 8" in capsys.readouterr().err
