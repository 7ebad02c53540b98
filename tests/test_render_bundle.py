"""The files of a bundle, and what XLA's own parser makes of the rendered flags."""

from __future__ import annotations

import pytest

from moectl.actions.plan import Wishes
from moectl.actions.render import render
from moectl.evidence.xla_parser import judge_many
from moectl.facts import xla
from moectl.render.variables import xla_flags_text
from moectl.settings.files import preset, preset_names
from tests.support import components

NAMES = [name for name in preset_names() if preset(name).estimate_only is None]
SETS = [
    [],
    ["switches.multi_stream_collectives=4", "switches.command_buffers=[]"],
    ["switches.latency_hiding=false", "xla_flags.xla_gpu_autotune_level=0"],
]


def test_a_bundle_has_its_files_with_the_lock_last_and_every_line_ended() -> None:
    files = render("deepseek3-671b").files
    assert list(files) == [
        "config.yml", "launch.sbatch", "rank.sh", "placement.py", "as_run.py", "watchdog.py",
        "moectl.lock.yaml",
    ]  # fmt: skip
    assert all(text.endswith("\n") and "\r" not in text for text in files.values())


@pytest.mark.parametrize("release", ["0.11.2", "0.12.0.1"])
def test_the_parser_of_a_real_jaxlib_reads_back_what_was_rendered(release: str) -> None:
    python = components.require(f"jaxlib-{release}")
    sets = [f"container.jaxlib_release={release}"]
    jobs = [render(name, Wishes(sets=sets)).job for name in NAMES]
    jobs += [render("deepseek3-671b", Wishes(sets=[*sets, *more])).job for more in SETS]
    catalogue = xla.load(release)
    verdicts = judge_many([xla_flags_text(job) for job in jobs], str(python))
    for job, verdict in zip(jobs, verdicts, strict=True):
        assert verdict.accepted, verdict.sentence
        assert verdict.dropped == ()
        assert verdict.values, verdict.note
        compared = 0
        for flag, said in job.xla_flags.items():
            assert catalogue.has(flag)
            read = verdict.values.get(flag)
            if isinstance(said.value, bool | int) and read is not None:
                assert read == said.value, flag
                compared += 1
        assert compared or not job.xla_flags
