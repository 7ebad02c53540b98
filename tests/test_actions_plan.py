"""From what was typed to a job: targets, and the order of force between real layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from moectl.actions.plan import CannotRenderError, Wishes, find, plan
from moectl.errors import UnknownNameError, UsageError
from moectl.settings.files import Preset, RunFile

PRESET = "deepseek3-671b"


def test_a_target_is_a_preset_a_file_or_a_bundle(tmp_path: Path) -> None:
    run = tmp_path / "moectl.lock.yaml"
    run.write_text("gpus: 8\n")
    assert isinstance(find(PRESET), Preset)
    assert isinstance(find(str(run)), RunFile)
    assert isinstance(find(str(tmp_path)), RunFile)


def test_a_target_that_is_neither_names_the_nearest_preset() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'deepseek3-671b'"):
        find("deepseek3-671")


def test_a_folder_without_a_lock_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no bundle"):
        find(str(tmp_path))


def test_a_preset_that_maxtext_cannot_run_says_what_is_missing() -> None:
    with pytest.raises(CannotRenderError, match=r"can be estimated but not rendered: .*0\.2\.5"):
        plan("mimo-v2-flash-309b", Wishes())


def test_every_layer_wins_over_the_weaker_and_remembers_it(tmp_path: Path) -> None:
    run = tmp_path / "run.yaml"
    run.write_text(f"preset: {PRESET}\nform: pretrain\ntraining: {{steps: 7}}\n")
    told = []
    for target, wishes in (
        (PRESET, Wishes()),
        (PRESET, Wishes(options={"form": ("pretrain", "--form")})),
        (str(run), Wishes()),
        (str(run), Wishes(sets=["steps=9"])),
    ):
        value = plan(target, wishes).config["steps"]
        told.append((value.value, *(weaker for weaker, _ in value.overrode)))
    assert told == [
        (15, 150001),
        (100000, 15, 150001),
        (7, 100000, 15, 150001),
        (9, 7, 100000, 15, 150001),
    ]


def test_the_part_for_a_platform_wins_over_the_preset_and_loses_to_a_profile(
    tmp_path: Path,
) -> None:
    options = {"hardware": ("h100-hgx", "--hardware")}
    value = plan(PRESET, Wishes(options=options)).config["te_gmm_quantization"]
    assert (value.value, value.overrode[0][0]) == ("te_no_quant", "te_mxfp8")
    site = tmp_path / "site.yaml"
    site.write_text("time: '02:00:00'\n")
    assert plan(PRESET, Wishes(cluster=site)).cluster.time == "02:00:00"
    sets = ["cluster.time=03:00:00"]
    assert plan(PRESET, Wishes(cluster=site, sets=sets)).cluster.time == "03:00:00"
