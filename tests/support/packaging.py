"""Builds the tree's wheel and sdist, installs them into environments, and runs commands there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from moectl.interpreters import find_uv

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("moectl", "templates", "presets", "tests", "docs", "benchmarks", ".ci", "requirements")
FILES = ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", "artefacts")


@dataclass(frozen=True, slots=True)
class Built:
    """What a build gave."""

    wheel: Path
    sdist: Path


def copied(target: Path) -> Path:
    """Copy what a release holds, as it stands in the working tree."""
    target.mkdir(parents=True)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, target / name, ignore=LEFT_OUT)
    for name in FILES:
        shutil.copy(ROOT / name, target / name)
    return target


def built(tree: Path, out: Path, settings: Mapping[str, str] | None = None) -> Built:
    """Build the sdist of a tree, and the wheel of that sdist."""
    words = [str(find_uv()), "build", "--quiet", "--out-dir", str(out)]
    done(words, cwd=tree, settings=settings)
    return Built(next(out.glob("*.whl")), next(out.glob("*.tar.gz")))


def environment(folder: Path, wanted: Sequence[str], python: Path | None = None) -> Path:
    """Make an empty environment, install what is wanted, and return its moectl."""
    uv = str(find_uv())
    done([uv, "venv", "--quiet", "--python", str(python or sys.executable), str(folder)])
    inside = str(folder / "bin" / "python")
    # A read-only environment cannot keep bytecode that it lacks; pip writes it unasked.
    install = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", inside]
    done([*install, *wanted])
    return folder / "bin" / "moectl"


def oldest(folder: Path) -> list[str]:
    """Return the dependencies in the oldest versions that pyproject.toml allows, as pins."""
    out = folder / "oldest.txt"
    words = [str(find_uv()), "pip", "compile", "--quiet", "--resolution", "lowest-direct"]
    words += ["--python-version", "3.11", "--no-header", "--no-annotate", "--output-file", str(out)]
    done([*words, str(ROOT / "pyproject.toml")])
    return out.read_text("utf-8").split()


def done(
    words: Sequence[str],
    cwd: Path | None = None,
    settings: Mapping[str, str] | None = None,
    code: int = 0,
) -> subprocess.CompletedProcess[str]:
    """Run a command without what this environment says of Python, and demand its exit code."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYTHON", "VIRTUAL_ENV", "COVERAGE", "SOURCE_DATE"))
    }
    answer = subprocess.run(
        words,
        cwd=cwd,
        env={**kept, **(settings or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == code, (
        f"{words}: {answer.returncode}\n{answer.stdout}{answer.stderr}"
    )
    return answer


def smoke(moectl: Path, folder: Path) -> Path:
    """Run a command of every kind and return the bundle that was rendered.

    Between them they load every dependency of the base installation: Jinja2 and PyYAML for the
    bundle, pydantic for a value that is wrong and for the schema, typer for help, Rich for a table.
    """
    folder.mkdir(parents=True)
    (folder / "wrong.yaml").write_text("preset: deepseek3-671b\ngpus: [1]\n", "utf-8")
    target = ("deepseek3-671b", "--gpus", "128")
    hardware = ("--hardware", "gb200-nvl72")
    rows: tuple[tuple[int, tuple[str, ...], str], ...] = (
        (0, ("--version",), "moectl "),
        (0, ("--help",), "render"),
        (0, ("render", "--help"), "Usage: moectl render"),
        (2, ("render", "--no-such-option"), "no-such-option"),
        (0, ("presets", "list"), "qwen3-30b-a3b"),
        (0, ("hardware", "show", "gb200-nvl72"), "GB200"),
        (0, ("schema", "run"), '"$schema"'),
        (0, ("render", *target, "--output", "bundle"), "wrote"),
        (2, ("render", "wrong.yaml"), "gpus cannot be [1]"),
        (0, ("validate", "bundle"), "notes in 1 file"),
        (0, ("verify", "bundle"), ""),
        (0, ("diff", "bundle", "deepseek3-671b"), ""),
        (0, ("show", "bundle", "--sources"), "fsdp"),
        (0, ("estimate", *target), "GiB"),
        (0, ("plan", *target, *hardware), "should fit"),
        (0, ("explain", "TE120"), "TE120"),
        (0, ("import", "bundle/config.yml", "--gpus", "128", *hardware), "understood"),
    )
    for code, words, said in rows:
        answer = done([str(moectl), *words], cwd=folder, code=code)
        assert said in answer.stdout + answer.stderr, (words, answer.stdout, answer.stderr)
    return folder / "bundle"
