"""Wheel and sdist: their bytes, what is in them, and where they work."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import version as installed_version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from moectl.errors import MoectlError
from moectl.interpreters import find_python
from moectl.version import __version__
from tests.support.packaging import ROOT, Built, built, copied, done, environment, oldest, smoke

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCK = ROOT / "requirements" / "test.lock"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Wheel and sdist of the working tree."""
    folder = tmp_path_factory.mktemp("release")
    return built(copied(folder / "tree"), folder / "dist")


@pytest.fixture(scope="module")
def moectl(release: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment that holds the wheel and its dependencies only."""
    return environment(tmp_path_factory.mktemp("wheel") / "environment", [str(release.wheel)])


def test_the_version_is_said_in_one_place(release: Built) -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "moectl/version.py"
    assert installed_version("moectl") == __version__
    assert release.wheel.name == f"moectl-{__version__}-py3-none-any.whl"
    assert release.sdist.name == f"moectl-{__version__}.tar.gz"
    said = re.compile(rf"""["']{re.escape(__version__)}["']""")
    files = [path for path in (ROOT / "moectl").rglob("*.py") if said.search(path.read_text())]
    assert [path.relative_to(ROOT).as_posix() for path in files] == ["moectl/version.py"]


def test_the_changelog_ends_with_the_version() -> None:
    heads = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert __version__ in heads
    assert heads[: heads.index(__version__)] in ([], ["Unreleased"])


def test_two_builds_elsewhere_and_at_another_time_are_the_same_bytes(
    release: Built, tmp_path: Path
) -> None:
    tree = tmp_path / "some" / "deeper" / "place"
    shutil.copytree(release.wheel.parents[1] / "tree", tree)
    for path in (tree, *tree.rglob("*")):
        path.chmod(path.stat().st_mode & 0o700)
        os.utime(path, (1_000_000_000, 1_000_000_000))
    again = built(tree, tmp_path / "dist")
    assert again.wheel.read_bytes() == release.wheel.read_bytes()
    assert again.sdist.read_bytes() == release.sdist.read_bytes()


def test_the_time_in_a_release_is_the_one_that_is_asked_for(release: Built, tmp_path: Path) -> None:
    epoch = {"SOURCE_DATE_EPOCH": "1700000000"}
    dated = built(copied(tmp_path / "tree"), tmp_path / "dist", epoch)
    with zipfile.ZipFile(dated.wheel) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}
    with tarfile.open(dated.sdist) as archive:
        assert {entry.mtime for entry in archive.getmembers()} == {1700000000}
    assert dated.wheel.read_bytes() != release.wheel.read_bytes()


def test_the_wheel_holds_the_package_and_its_licence_and_nothing_else(release: Built) -> None:
    with zipfile.ZipFile(release.wheel) as archive:
        names = archive.namelist()
        licence = archive.read(f"moectl-{__version__}.dist-info/licenses/LICENSE")
        metadata = archive.read(f"moectl-{__version__}.dist-info/METADATA").decode()
    assert {name.split("/")[0] for name in names} == {"moectl", f"moectl-{__version__}.dist-info"}
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert "License-Expression: Apache-2.0" in metadata
    here = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "moectl").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for room in ("templates", "presets"):
        here |= {f"moectl/{room}/{path.name}" for path in (ROOT / room).iterdir() if path.is_file()}
    assert {name for name in names if name.startswith("moectl/")} == here


def test_the_base_installation_is_small(moectl: Path) -> None:
    packages = {path.name for path in moectl.parents[1].glob("lib/python*/site-packages/*")}
    assert {"jinja2", "pydantic", "rich", "typer", "yaml"} <= packages
    assert not packages & {"jax", "jaxlib", "numpy", "scipy", "kubernetes", "matplotlib"}


def test_the_wheel_does_everything_in_an_empty_environment(moectl: Path, tmp_path: Path) -> None:
    bundle = smoke(moectl, tmp_path / "work")
    assert (bundle / "launch.sbatch").is_file()


def test_the_sdist_installs_and_renders_what_the_wheel_does(
    release: Built, moectl: Path, tmp_path: Path
) -> None:
    other = environment(tmp_path / "environment", [str(release.sdist)])
    for command, folder in ((moectl, "wheel"), (other, "sdist")):
        words = [str(command), "render", "deepseek3-671b", "--gpus", "128", "--output", folder]
        done(words, cwd=tmp_path)
    assert _files(tmp_path / "wheel") == _files(tmp_path / "sdist")


def test_what_needs_an_extra_says_which(moectl: Path, tmp_path: Path) -> None:
    asked = ["estimate", "deepseek3-671b", "--gpus", "128", "--verify"]
    answer = done([str(moectl), *asked], cwd=tmp_path, code=4)
    assert "pip install 'moectl[jax]'" in answer.stderr
    (tmp_path / "host.xplane.pb").write_bytes(b"\x0a\x00")
    answer = done([str(moectl), "trace", "host.xplane.pb"], cwd=tmp_path, code=4)
    assert "pip install 'moectl[jax]'" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_it_works_from_a_read_only_place_and_without_a_home(moectl: Path, tmp_path: Path) -> None:
    place = moectl.parents[1]
    work = tmp_path / "work"
    work.mkdir()
    for path in place.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    place.chmod(0o555)
    # Root writes everywhere unless it gives that up.
    powers = "-dac_override,-dac_read_search,-fowner"
    drop = ["setpriv", "--bounding-set", powers, "--inh-caps", powers]
    words = [*drop, str(moectl)] if shutil.which("setpriv") and not _plain() else [str(moectl)]
    try:
        done([*words[:-1], "sh", "-c", f": > {place}/written"], code=2)
        for home in ({"HOME": "/nonexistent"}, {}):
            command = [*words, "render", "deepseek3-671b", "--gpus", "128", "--output", "bundle"]
            unset = ["env", "-u", "HOME", "-u", "XDG_STATE_HOME", "-u", "XDG_CONFIG_HOME"]
            done([*unset, *command] if not home else command, cwd=work, settings=home)
            assert (work / "bundle" / "config.yml").is_file()
            shutil.rmtree(work / "bundle")
            for other in (["runs"], ["presets", "list"], ["--help"]):
                line = [*words, *other]
                done([*unset, *line] if not home else line, cwd=work, settings=home)
    finally:
        for path in (place, *place.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)


def test_the_oldest_and_the_newest_dependencies_render_the_same_bundle(
    release: Built, moectl: Path, tmp_path: Path
) -> None:
    pins = oldest(tmp_path)
    asked = {
        Requirement(text).name: Requirement(text) for text in PROJECT["project"]["dependencies"]
    }
    exact = {pin.partition("==")[0]: pin.partition("==")[2] for pin in pins}
    for name, requirement in asked.items():
        least = next(part.version for part in requirement.specifier if part.operator == ">=")
        # "2.11" and "2.11.0" are one version.
        assert exact[name].removesuffix(".0") == least.removesuffix(".0")
    old = environment(tmp_path / "oldest", [str(release.wheel), *pins])
    assert _files(smoke(old, tmp_path / "old")) == _files(smoke(moectl, tmp_path / "new"))


def test_every_supported_python_that_is_here_renders_the_same_bundle(
    release: Built, moectl: Path, tmp_path: Path
) -> None:
    expected = _files(smoke(moectl, tmp_path / "this"))
    tried = []
    for minor, python in _pythons():
        other = environment(tmp_path / f"python-{minor}", [str(release.wheel)], python)
        assert _files(smoke(other, tmp_path / minor)) == expected, minor
        tried.append(minor)
    assert tried


def test_the_lock_holds_every_test_dependency_and_names_no_host() -> None:
    text = LOCK.read_text("utf-8")
    assert not re.search(r"://|index-url|find-links|@ ", text)
    pins: dict[str, set[str]] = {}
    for line in text.splitlines():
        pin = Requirement(line)
        pins.setdefault(pin.name.lower(), set()).add(str(pin.specifier).removeprefix("=="))
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = PROJECT["project"]["dependencies"] + extras["test"] + extras["mutation"]
    for requirement in map(Requirement, wanted):
        versions = pins.get(requirement.name.lower(), set())
        assert versions, f"requirements/test.lock lacks {requirement.name}"
        assert all(requirement.specifier.contains(version) for version in versions), requirement


def _pythons() -> Iterator[tuple[str, Path]]:
    """Yield the minor versions that are declared and here."""
    for line in PROJECT["project"]["classifiers"]:
        if found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line):
            try:
                yield found[1], find_python(found[1])
            except MoectlError:
                continue


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _plain() -> bool:
    """Return whether whoever runs the tests cannot write everywhere anyway."""
    return os.geteuid() != 0
