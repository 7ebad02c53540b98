"""The Python API: exactly the documented names, loaded when used, each doing what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import moectl
from tests.support import report_logs

PRESET = "deepseek3-671b"
ROOT = Path(__file__).parent.parent


def test_the_public_names_are_the_documented_ones() -> None:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    functions = {name for row in rows for name in re.findall(r"`(\w+)\(", row)}
    others = {"Asks", "__version__"}
    errors = {"BackendError", "FindingsError", "LocalFilesError", "MoectlError", "UsageError"}
    assert set(moectl.__all__) == functions | errors | others
    assert all(name in page for name in (errors | others) - {"__version__"})
    assert set(moectl.__all__) <= set(dir(moectl))


def test_importing_it_loads_nothing_else() -> None:
    program = "import sys, moectl; print([n for n in sys.modules if n.startswith('moectl.')])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", moectl.__all__)
def test_every_name_can_be_had(name: str) -> None:
    assert getattr(moectl, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = moectl.nothing


def test_jobs_are_shown_rendered_estimated_and_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert moectl.show(PRESET, gpus=128, settings={"steps": 7}).gpus == 128
    rendered = moectl.render(PRESET, tmp_path / "b", gpus=128, settings={"steps": 7})
    assert (tmp_path / "b" / "config.yml").read_text("utf-8") == rendered.files["config.yml"]
    assert moectl.estimate(PRESET, gpus=128, tokens=14.8e12).target == PRESET
    assert len(moectl.plan(PRESET, gpus=128, top=2).rows) == 2
    assert not moectl.verify(tmp_path / "b").drifted
    assert moectl.diff(PRESET, tmp_path / "b").changes
    assert moectl.explain("steps")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


def test_files_are_validated_imported_and_reported(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(f"preset: {PRESET}\ngpus: 64\n", "utf-8")
    assert not [f for f in moectl.validate(tmp_path / "run.yaml").findings if f.stops]
    moectl.render(PRESET, tmp_path / "b", gpus=128)
    assert moectl.import_(tmp_path / "b" / "config.yml", gpus=128, hardware="gb200-nvl72").text
    log, other = tmp_path / "a.log", tmp_path / "b.log"
    for path in (log, other):
        path.write_text(report_logs.log(40), "utf-8")
    assert len(moectl.report(log).series.steps) == 40
    assert [one.regression for one in moectl.compare(log, other)] == [False]
    assert len(moectl.scaling(f"128={log}", f"256={other}").rungs) == 2


def test_what_is_refused_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOECTL_RUNS", str(tmp_path))
    with pytest.raises(moectl.FindingsError) as found:
        moectl.render(PRESET, settings={"sparse_matmul": False})
    assert found.value.exit_code == 1
    with pytest.raises(moectl.UsageError, match="did you mean 'gpus'"):
        moectl.show(PRESET, gpu=8)  # type: ignore[call-arg]
    for run in (moectl.status, moectl.cancel, moectl.resume):
        with pytest.raises(moectl.UsageError):
            run("nobody")
    assert moectl.runs().rows == ()
