"""Presets, run files, locks and cluster profiles are read with the place of every value."""

from __future__ import annotations

from pathlib import Path

import pytest

from moectl.errors import LocalFilesError, SourceError, UnknownNameError, UsageError
from moectl.facts import hardware
from moectl.settings.files import cluster_profile, preset, preset_names, run_file
from moectl.settings.setting import Layer
from moectl.settings.text_file import MAX_BYTES, read_text


def file(folder: Path, text: str | bytes, name: str = "run.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_run_file_gives_settings_with_line_and_column(tmp_path: Path) -> None:
    path = file(tmp_path, "preset: mixtral-8x7b\nform: pretrain\nbatch:\n  per_device: 4\n")
    found = run_file(path)
    assert (found.preset, found.form, found.lock) == ("mixtral-8x7b", "pretrain", {})
    last = found.settings[-1]
    assert (last.path, last.value, last.layer) == ("batch.per_device", 4, Layer.RUN_FILE)
    assert (last.origin.file, last.origin.line, last.origin.column) == (str(path), 4, 3)


def test_what_a_run_file_accepts_comes_with_its_reason(tmp_path: Path) -> None:
    path = file(tmp_path, "accept: [{code: XLA308, reason: measured}]\n")
    assert run_file(path).accept == (("XLA308", "measured"),)


def test_the_settings_of_a_lock_keep_the_layer_that_decided_them(tmp_path: Path) -> None:
    text = (
        "gpus: 8\nlock:\n  version: '1'\n  facts: {maxtext: '0.2.5'}\n  templates: abc\n"
        "  sources: {'preset x': [gpus]}\n"
    )
    found = run_file(file(tmp_path, text))
    assert [str(s.origin) for s in found.settings] == ["preset x"]
    assert found.lock["facts"] == {"maxtext": "0.2.5"}


@pytest.mark.parametrize("lock", ["5", "[a]", "{facts: 5}", "{facts: {jaxlib: 5}}", "{}", "x"])
def test_a_lock_section_that_is_none_is_refused(lock: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lock"):
        run_file(file(tmp_path, f"gpus: 8\nlock: {lock}\n"))


def test_a_folder_is_read_by_its_lock_file(tmp_path: Path) -> None:
    file(tmp_path, "gpus: 8\n", "moectl.lock.yaml")
    assert [s.value for s in run_file(tmp_path).settings] == [8]


def test_a_cluster_profile_has_a_force_of_its_own(tmp_path: Path) -> None:
    settings = cluster_profile(file(tmp_path, "partition: batch\nenvironment: {A: x}\n"))
    assert {s.path: s.layer for s in settings} == {
        "cluster.partition": Layer.CLUSTER,
        "cluster.environment.A": Layer.CLUSTER,
    }


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert read_text(file(tmp_path, b"\xef\xbb\xbfgpus: 8\n")) == "gpus: 8\n"


def test_a_file_that_is_no_text_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"run\.yaml:2: it is not UTF-8 text"):
        read_text(file(tmp_path, b"a: 1\nb: \xff\n"))


def test_a_huge_file_is_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    with path.open("wb") as stream:
        stream.truncate(MAX_BYTES * 1000)
    with pytest.raises(SourceError, match="larger than 4 MiB"):
        read_text(path)


def test_a_missing_file_is_a_matter_of_local_files(tmp_path: Path) -> None:
    with pytest.raises(LocalFilesError, match="No such file"):
        read_text(tmp_path / "none.yaml")


@pytest.mark.parametrize("name", ["mixtral-8x7", "../deepseek3-671b", "presets/mixtral-8x7b", ""])
def test_a_name_that_is_no_preset_is_refused(name: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown preset"):
        preset(name)


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_says_its_layers_from_the_weakest(name: str) -> None:
    found = preset(name)
    for platform in hardware.names():
        layers = [s.layer for s in found.settings("pretrain", hardware.platform(platform))]
        assert layers == sorted(layers)
        assert set(layers) <= {Layer.PRESET, Layer.PRESET_FORM, Layer.PRESET_HARDWARE}


def test_what_a_preset_says_for_a_platform_beats_its_architecture() -> None:
    found = preset("deepseek3-671b").settings("benchmark", hardware.platform("h100-hgx"))
    assert [s for s in found if s.path == "moe.te_gmm_quantization"][-1].value == "te_no_quant"
