"""What the image holds, and what is known of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moectl.facts import images, maxtext
from moectl.findings import Finding
from moectl.rules.versions import RULES, date_of, provides, tag_of
from moectl.values import Origin, Value
from moectl.workload import Batch, Option, Step, Text, Workload

BLOCK_DAY = "2026-09-09"
SCRIPT = "launch it's $(now).sbatch"


def workload(
    reference: str, *, said: dict[str, Any] | None = None, place: str = "step", **more: Any
) -> Workload:
    origin = Origin("srun", SCRIPT, 21, 7)
    option = Option("--container-image", Text.of(reference, origin), origin, "")
    step = Step("srun", (option,), (), Origin("srun", SCRIPT, 20, 1))
    batch = Batch((option,), (), scheduled=True)
    image = images.image(reference.removeprefix("docker://").replace("#", "/", 1))
    values = said or {}
    return Workload(
        kind="script",
        origin=Origin("script", SCRIPT, 1, 1),
        maxtext=image.maxtext,
        jaxlib=image.jaxlib,
        image=image,
        image_said=origin,
        is_maxtext=True,
        arguments={k: Value(v, Origin("argv", SCRIPT, 30, 5)) for k, v in values.items()},
        effective=dict(maxtext.load(image.maxtext).base) | values,
        step=step if place == "step" else None,
        batch=batch if place == "batch" else None,
        **more,
    )


def found(w: Workload) -> list[Finding]:
    return [finding for rule in RULES.all for finding in rule.findings(w)]


def codes(w: Workload) -> list[str]:
    return [finding.code for finding in found(w)]


@pytest.mark.parametrize(
    "reference",
    [
        "ghcr.io/nvidia/jax:maxtext-2026-09-08",
        "ghcr.io/nvidia/jax:maxtext-2026-06-01",
        "ghcr.io/nvidia/jax:maxtext-2025-03-31",
        "ghcr.io#nvidia/jax:maxtext-2026-08-30",
        "docker://ghcr.io#nvidia/jax:maxtext-2026-08-30",
        "nvcr.io/nvidia/jax:26.03-maxtext-py3",
        "nvcr.io#nvidia/jax:26.08-maxtext-py3",
    ],
)
@pytest.mark.parametrize("place", ["step", "batch"])
@pytest.mark.parametrize("value", [True, "true"])
def test_the_moeblock_in_an_image_before_it_is_an_error_where_the_image_is_said(
    reference: str, place: str, value: object
) -> None:
    w = workload(reference, said={"te_moe_block": value}, place=place)
    (finding,) = [f for f in found(w) if f.code == "VER101"]
    assert finding.severity == "error"
    assert (finding.file, finding.line, finding.column) == (SCRIPT, 21, 7)
    assert f"te_moe_block needs an image of {BLOCK_DAY} or later" in finding.message
    assert f"maxtext-{BLOCK_DAY}" in finding.hint


@pytest.mark.parametrize(
    "reference",
    [
        f"ghcr.io/nvidia/jax:maxtext-{BLOCK_DAY}",
        "ghcr.io/nvidia/jax:maxtext-2026-11-15",
        "nvcr.io/nvidia/jax:26.09-maxtext-py3",
        "nvcr.io/nvidia/jax:26.10-maxtext-py3",
        "registry.example/maxtext:26.03",
        "registry.example:5000/jax:2026-01-01",
        "/images/maxtext-2026-01-01.sqsh",
    ],
)
def test_an_image_that_has_it_or_of_which_nothing_is_known_is_no_error(reference: str) -> None:
    assert "VER101" not in codes(workload(reference, said={"te_moe_block": True}))


def test_an_old_image_without_the_moeblock_is_fine() -> None:
    old = "ghcr.io/nvidia/jax:maxtext-2026-06-01"
    assert "VER101" not in codes(workload(old, said={"te_moe_block": False}))
    assert "VER101" not in codes(workload(old))


def test_an_image_between_two_releases_says_so_as_a_note() -> None:
    (finding,) = found(workload("ghcr.io/nvidia/jax:maxtext-2026-09-09"))
    assert (finding.code, finding.severity, finding.line) == ("VER102", "note", 21)
    assert "between MaxText 0.2.4 (2026-08-21) and 0.2.5 (2026-10-02)" in finding.message
    assert "only what both sides refuse is an error" in finding.message
    assert "moectl probe" in finding.hint


def test_an_image_outside_the_catalogues_says_so_as_a_note() -> None:
    old = found(workload("ghcr.io/nvidia/jax:maxtext-2025-02-03"))
    assert [(f.code, f.severity) for f in old] == [("VER103", "note")]
    assert "is older than every catalogued MaxText" in old[0].message
    assert "is older than every catalogued jaxlib" in old[0].message
    new = found(workload("ghcr.io/nvidia/jax:maxtext-2026-12-24"))
    assert [(f.code, f.severity) for f in new] == [("VER103", "note")]


@pytest.mark.parametrize(
    "reference", ["registry.example:5000/it's/maxtext:v7", "/images/maxtext.sqsh", "./m.sqsh"]
)
def test_an_unknown_image_is_a_note(reference: str) -> None:
    (finding,) = found(workload(reference))
    assert (finding.code, finding.severity) == ("VER104", "note")
    assert "judged as MaxText 0.2.5 and jaxlib 0.12.0.1" in finding.message


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("ghcr.io/nvidia/jax:latest", "the tag latest of"),
        ("ghcr.io/nvidia/jax:maxtext", "the tag maxtext of"),
        ("ghcr.io/nvidia/jax:nightly", "the tag nightly of"),
        ("ghcr.io/nvidia/jax", "has no tag, which means latest"),
        ("registry.example:5000/maxtext", "has no tag, which means latest"),
        ("registry.example:5000#maxtext", "has no tag, which means latest"),
    ],
)
def test_a_tag_that_moves_is_a_warning(reference: str, says: str) -> None:
    (finding,) = [f for f in found(workload(reference)) if f.code == "VER105"]
    assert finding.severity == "warning"
    assert says in finding.message
    assert "pin the image with @sha256:..." in finding.hint


@pytest.mark.parametrize(
    "reference",
    [
        "ghcr.io/nvidia/jax:maxtext-2026-09-09",
        "nvcr.io/nvidia/jax:26.03-maxtext-py3",
        "registry.example/maxtext:v1.2.3",
        f"ghcr.io/nvidia/jax:latest@sha256:{'0' * 64}",
        f"ghcr.io/nvidia/jax@sha256:{'0' * 64}",
        "/images/latest.sqsh",
    ],
)
def test_a_tag_that_stays_or_a_pinned_image_is_no_warning(reference: str) -> None:
    assert "VER105" not in codes(workload(reference))


def test_nobody_is_told_of_an_image_that_nobody_named() -> None:
    image = images.image(images.default_image())
    w = Workload(
        kind="MaxText config",
        origin=Origin("config", "c.yml", 1, 1),
        maxtext=image.maxtext,
        jaxlib=image.jaxlib,
        image=image,
        is_maxtext=True,
    )
    assert found(w) == []


def test_an_old_image_of_the_command_line_is_told_at_the_switch() -> None:
    old = "ghcr.io/nvidia/jax:maxtext-2026-06-01"
    w = replace(workload(old, said={"te_moe_block": True}), image_said=Origin("--image"))
    (finding,) = [f for f in found(w) if f.code == "VER101"]
    assert (finding.file, finding.line) == (SCRIPT, 30)


def test_a_port_is_no_tag_and_a_date_is_read_from_the_tag_alone() -> None:
    assert tag_of("registry:5000/a/b") is None
    assert tag_of("registry:5000/a/b:c@sha256:1") == "c"
    assert date_of("r/2026-01-01/x:maxtext-2026-09-09") == "2026-09-09"
    assert date_of("nvcr.io/nvidia/jax:26.03-py3") == "2026-03"
    assert provides("nvcr.io/nvidia/jax:26.13-py3", "te_moe_block") is None


@pytest.mark.parametrize("rule", RULES.all, ids=lambda rule: rule.code)
def test_every_rule_says_why_and_what_to_do(rule: Any) -> None:
    assert rule.reason
    assert rule.remedy
    assert rule.source


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("nvcr.io#nvidia/jax:25.01-maxtext-py3", ["VER106"]),
        ("nvcr.io/nvidia/jax:25.04-py3", ["VER106"]),
        ("docker://nvcr.io#nvidia/jax:24.10-maxtext-py3", ["VER106"]),
        ("ghcr.io/nvidia/jax:maxtext-2025-04-30", ["VER106"]),
        ("registry.example/me/m:20250430", ["VER106"]),
        ("nvcr.io/nvidia/jax:25.05-py3", []),
        ("nvcr.io/nvidia/jax:25.10-py3", []),
        ("ghcr.io/nvidia/jax:maxtext-2025-05-01", []),
        ("registry.example/me/m:25.01", []),
        ("registry.example/me/m:v1", []),
    ],
)
def test_emergency_checkpoints_need_an_image_with_the_fix(
    reference: str, expected: list[str]
) -> None:
    said = {"enable_emergency_checkpoint": True, "hardware": "gpu_multiprocess"}
    got = found(workload(reference, said=said))
    assert [finding.code for finding in got if finding.code == "VER106"] == expected
    assert {f.line for f in got if f.code == "VER106"} <= {30}
    off = workload(reference, said={**said, "enable_emergency_checkpoint": False})
    assert "VER106" not in codes(off)
    assert "VER106" not in codes(workload(reference, said={**said, "hardware": "gpu"}))


def test_a_date_without_hyphens_is_a_date() -> None:
    assert date_of("registry.example/me/m:x-20250430-y") == "2025-04-30"


def test_an_unknown_image_is_told_at_the_first_step_that_names_it() -> None:
    def option(line: int) -> Option:
        origin = Origin("srun", SCRIPT, line, 7)
        text = "docker://me/x:1" if line == 3 else "me/x:1"
        return Option("--container-image", Text.of(text, origin), origin, "")

    steps = tuple(
        Step("srun", (option(line),), (), Origin("srun", SCRIPT, line, 1)) for line in (3, 4, 5)
    )
    batch = Batch((), steps, scheduled=True)
    base = workload("me/x:1")
    told = [
        replace(base, batch=batch, step=step, image_said=step.options[0].origin) for step in steps
    ]
    lines = {f.line for w in told for f in found(w) if f.code == "VER104"}
    assert lines == {3}
    assert len({f for w in told for f in found(w) if f.code == "VER104"}) == 1
