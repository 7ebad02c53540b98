"""Rules on the image: what it holds, and what is known of that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moectl.facts import images
from moectl.facts.yaml_facts import read
from moectl.rules.rule import Fault, rules
from moectl.values import Origin
from moectl.workload import Workload

RULES = rules()

FIELD = "image"
# Switches that need something of the image, by what `images.yaml` calls it.
NEEDS = {"te_moe_block": "te_moe_block"}
_MONTH = r"(\d\d)\.(0[1-9]|1[0-2])(?![0-9.])"
_DATE = r"(?<!\d)20\d\d-?(0[1-9]|1[0-2])-?([0-2]\d|3[01])(?!\d)"
GIVEN = "--image"
# Of a name that somebody is to fill in.
_PLACEHOLDERS = ("<", ">", "{", "your", "xxx", "changeme", "replace", "todo", "placeholder", "...")
_SCHEMES = ("docker://", "dockerd://", "podman://")


@RULES.rule(
    "VER101",
    "the image has not what a switch needs",
    reason="the job is queued, the image imported, and MaxText or Transformer Engine refuses",
    remedy="use an image that has it, or turn the switch off",
    source="NVIDIA technical blog on dropless MoE training in JAX with Transformer Engine; "
    "JAX-Toolbox docs/frameworks/maxtext/deepseek-v3-moe: first image with the MoEBlock",
)
def _lacks(w: Workload) -> Iterator[Fault]:
    reference = _named(w)
    if reference is None or not w.is_maxtext or _probed(w):
        return
    for key, what in NEEDS.items():
        first = images.first_with(what)
        switched = w.value(key) is True or _said_true(w, key)
        if not switched or first is None or provides(reference, what) is not False:
            continue
        day = date_of(reference)
        yield Fault(
            FIELD,
            f"{key} needs an image of {first} or later, and {reference} is of {day}",
            origin_of(w, key),
            f"use ghcr.io/nvidia/jax:maxtext-{first} or a later one, or {key}=false",
        )


@dataclass(frozen=True, slots=True)
class _Fix:
    """A fault of MaxText's own that images before a day have.

    Attributes:
        day: the first day whose images may have the fix.
        when: MaxText keys and the values with which the fault strikes; the first is blamed.
        what: what happens.
        instead: what to do without a newer image.
    """

    day: str
    when: tuple[tuple[str, object], ...]
    what: str
    instead: str


_FIXES = (
    # AI-Hypercomputer/maxtext pull request 1281
    _Fix(
        "2025-05-01",
        (("enable_emergency_checkpoint", True), ("hardware", "gpu_multiprocess")),
        "all processes of a node write emergency checkpoints into one folder and collide",
        "enable_emergency_checkpoint=false",
    ),
)


@RULES.rule(
    "VER106",
    "the image is older than a fix",
    reason="what the config asks for fails with the MaxText of that day",
    remedy="use a newer image",
    source="AI-Hypercomputer/maxtext pull request 1281; MaxText 0.2.5 "
    "common/emergency_checkpointing.py:65",
)
def _unfixed(w: Workload) -> Iterator[Fault]:
    reference = _named(w)
    if reference is None or not w.is_maxtext or _probed(w):
        return
    day = date_of(reference)
    for fix in _FIXES:
        if not day or day >= fix.day[: len(day)]:
            continue
        if all(w.value(key) == value for key, value in fix.when):
            key = fix.when[0][0]
            yield Fault(
                key,
                f"the image is of {day}: {fix.what}, as all before {fix.day[:7]} do",
                w.where(key),
                f"an image of {fix.day} or later, or {fix.instead}",
            )


@RULES.rule(
    "VER102",
    "the image lies between two releases",
    reason="its MaxText and jaxlib are commits between releases and may hold the keys and flags "
    "of either",
    remedy="run `moectl probe` in the image and pass its output with --probe",
    source="release dates on the Python package index (facts/data/images.yaml)",
    severity="note",
    stage="advice",
)
def _between(w: Workload) -> Iterator[Fault]:
    if w.image is None or w.image.date is None or _named(w) is None or w.image.probed:
        return
    if not _matters(w):
        return
    from moectl.facts import versions  # noqa: PLC0415

    chosen = versions.releases_for(w.image)
    if chosen.between:
        notes = [note for note in chosen.notes if " between " in note]
        yield Fault(
            FIELD,
            f"{'; '.join(notes)}; only what both sides refuse is an error",
            first_origin_of(w),
        )


@RULES.rule(
    "VER103",
    "the image is outside the catalogued releases",
    reason="keys and flags may have come or gone in releases that moectl does not know",
    remedy="run `moectl probe` in the image and pass its output with --probe",
    source="release dates on the Python package index (facts/data/images.yaml)",
    severity="note",
    stage="advice",
)
def _outside(w: Workload) -> Iterator[Fault]:
    if w.image is None or w.image.date is None or _named(w) is None or w.image.probed:
        return
    if not _matters(w):
        return
    from moectl.facts import versions  # noqa: PLC0415

    notes = [n for n in versions.releases_for(w.image).notes if " than every catalogued " in n]
    if notes:
        yield Fault(FIELD, "; ".join(notes), first_origin_of(w))


@RULES.rule(
    "VER104",
    "nothing is known of the image",
    reason="its MaxText and jaxlib may have other keys and flags than the releases used",
    remedy="run `moectl probe` in the image and pass its output with --probe",
    source="facts/data/images.yaml",
    severity="note",
    stage="advice",
)
def _unknown(w: Workload) -> Iterator[Fault]:
    reference = _named(w)
    if reference is None or w.image is None or w.image.probed or not _matters(w):
        return
    if is_placeholder(reference):
        return
    if images.provides(reference, "") is None and _month(reference) is None:
        yield Fault(
            FIELD,
            f"nothing is known of {reference}; it is judged as MaxText {w.maxtext} and "
            f"jaxlib {w.jaxlib}",
            first_origin_of(w),
        )


@RULES.rule(
    "VER105",
    "the tag of the image moves",
    reason="two runs of one file, or two nodes of one run, may get different images",
    remedy="name a dated tag, or pin the image with @sha256:...",
    source="Docker reference: a missing tag is latest; JAX-Toolbox publishes moving and dated tags",
    severity="warning",
    stage="silent",
)
def _moving(w: Workload) -> Iterator[Fault]:
    reference = _named(w)
    if reference is None or w.image is None or w.image.digest or reference.endswith(".sqsh"):
        return
    if reference.startswith(("/", "./")) or "@" in reference or "$" in reference:
        return
    if not _matters(w) or is_placeholder(reference):
        return
    tag = tag_of(reference)
    if tag is None:
        yield Fault(
            FIELD, f"{reference} has no tag, which means latest: it moves", first_origin_of(w)
        )
    elif tag in read("images.yaml")["moving_tags"]:
        yield Fault(FIELD, f"the tag {tag} of {reference} moves", first_origin_of(w))


def is_placeholder(reference: str) -> bool:
    """Whether an image is named by words that somebody is to fill in."""
    return any(word in reference.lower() for word in _PLACEHOLDERS)


def _matters(w: Workload) -> bool:
    """Whether the image is that of the run: a helper without GPUs may be any."""
    if w.manifest is None or w.is_maxtext or w.flags is not None:
        return True
    return w.layout.gpus_per_node is not None or w.layout.gpus is not None


def provides(reference: str, what: str) -> bool | None:
    """Whether an image provides a capability; None where its date does not tell.

    Besides what `images.provides` knows, an image from a month before the first that has it
    has it not.
    """
    known = images.provides(reference, what)
    month = _month(reference)
    first = images.first_with(what)
    if known is None and month is not None and first is not None and month < first[:7]:
        return False
    return known


def date_of(reference: str) -> str:
    """Return the date or month an image's tag names; empty when it names none."""
    import re  # noqa: PLC0415 - compiling costs, and only a fault asks

    found = re.search(_DATE, tag_of(reference) or "", re.ASCII)
    if found is None:
        return _month(reference) or ""
    digits = found.group().replace("-", "")
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:]}"


def tag_of(reference: str) -> str | None:
    """Return the tag of an image reference, or None; a port is no tag."""
    name = reference.partition("@")[0].rpartition("/")[2].rpartition("#")[2]
    return name.partition(":")[2] or None


def origin_of(w: Workload, *keys: str) -> Origin:
    """Return where the image is said, else where one of the keys is, else where all begins."""
    if w.image_said is not None and w.image_said.layer != GIVEN:
        return w.image_said
    return w.where(*keys)


def first_origin_of(w: Workload) -> Origin:
    """Return the first place of the file that names the same image.

    What is told of an image alone is then told once, however many steps or pods run in it.
    """
    here = origin_of(w)
    if w.image_said is None or w.image_said.layer == GIVEN or w.image is None:
        return here
    named = _images_of_pods(w) if w.manifest is not None else _images_of_steps(w)
    wanted = w.image.reference
    return next((origin for text, origin in named if _bare(text) == wanted), here)


def _bare(text: str) -> str:
    """Return a reference as `Image.reference` has it."""
    return text.removeprefix("docker://").replace("#", "/", 1).partition("@")[0]


def _images_of_steps(w: Workload) -> Iterator[tuple[str, Origin]]:
    from moectl.rules.launching import slurm_options, steps  # noqa: PLC0415

    for _, option in slurm_options(w):
        if option.name == "--container-image" and option.value is not None and option.value.known:
            yield option.value.text, option.value.origin
    for step in steps(w):
        if len(step.words) > 1 and step.words[0].text == "run" and step.words[1].known:
            yield step.words[1].text, step.words[1].origin


def _images_of_pods(w: Workload) -> Iterator[tuple[str, Origin]]:
    from moectl.settings.sources.pods import pods  # noqa: PLC0415

    if w.manifest is None:
        return
    for pod in pods(w.manifest):
        for path, container in pod.containers:
            if isinstance(text := container.get("image"), str):
                yield text, w.manifest.at(*path, "image")


def _named(w: Workload) -> str | None:
    """Return the image a file or the person named; None when nobody did."""
    if w.image is None or w.image_said is None:
        return None
    return w.image.reference


def _probed(w: Workload) -> bool:
    """Whether the keys are those of the image itself, which judge the switch then."""
    return w.image is not None and w.image.probed


def _said_true(w: Workload, key: str) -> bool:
    """Whether a key that the judging release does not have yet is said to be true."""
    said = w.said(key)
    return said is not None and str(said.value).lower() == "true"


def _month(reference: str) -> str | None:
    """Return YYYY-MM for an image whose tags name months."""
    name = reference.partition("@")[0]
    for scheme in _SCHEMES:
        name = name.removeprefix(scheme)
    repository = name.replace("#", "/", 1).rpartition(":")[0]
    if repository not in read("images.yaml")["monthly"]:
        return None
    import re  # noqa: PLC0415 - few images need it

    found = re.match(_MONTH, tag_of(reference) or "", re.ASCII)
    if found is None:
        return None
    return f"20{found.group(1)}-{found.group(2)}"
