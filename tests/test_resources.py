"""The files that ship are found from a source tree and from a zipped one."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from moectl.resources import fact, package, shipped

REPOSITORY = Path(__file__).parent.parent


def test_presets_templates_and_facts_are_found() -> None:
    assert shipped("presets").joinpath("deepseek3-671b.yaml").is_file()
    assert any(entry.name.endswith(".j2") for entry in shipped("templates").iterdir())
    assert fact("hardware.yaml").is_file()
    assert fact("maxtext", "0.2.5").is_dir()
    assert package().joinpath("spec", "spec.json").is_file()


@pytest.mark.parametrize("inside", ["", "moectl-main/"])
def test_a_zipped_source_tree_renders_the_same_bytes(inside: str, tmp_path: Path) -> None:
    archive = tmp_path / "tree.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for folder in ("moectl", "presets", "templates"):
            for path in sorted((REPOSITORY / folder).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    target.write(path, f"{inside}{path.relative_to(REPOSITORY)}")
    zipped = f"sys.path.insert(0, {str(archive / inside)!r}); import moectl; print(moectl.__file__)"
    said = []
    for before in (zipped, "import moectl; print(moectl.__file__)"):
        program = (
            f"import sys; {before}; from moectl.__main__ import main\n"
            "sys.exit(main(['render', 'deepseek3-671b', '--stdout', 'launch']))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.partition("\n"))
    assert ["tree.zip" in where for where, _, _ in said] == [True, False]
    assert said[0][2] == said[1][2]
    assert "#SBATCH" in said[0][2]
