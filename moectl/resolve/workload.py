"""Makes a workload of what a file says and of what was given beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from moectl.facts import hardware as platforms
from moectl.facts import images
from moectl.given import Given
from moectl.values import Hardware, Image, Origin, Value
from moectl.workload import UNKNOWN, Layout, Workload

if TYPE_CHECKING:
    from moectl.facts.maxtext import Catalogue
    from moectl.facts.probed import Probed
    from moectl.settings.sources.source import Part


@dataclass(frozen=True, slots=True)
class Basis:
    """What all files of one call are judged with.

    Attributes:
        given: what was given beside them.
        hardware: the platform given, or None.
        probed: what a probe told of the image, or None.
    """

    given: Given
    hardware: Hardware | None = None
    probed: Probed | None = None


def basis(given: Given, probe: str | None = None) -> Basis:
    """Return what files are judged with.

    Args:
        given: what was given beside them.
        probe: the text of the file that `given.probe` names.

    Raises:
        UsageError: a platform, release or probe that does not exist.
    """
    if given.maxtext is not None:
        from moectl.facts import maxtext  # noqa: PLC0415

        maxtext.load(given.maxtext)
    if given.jaxlib is not None:
        from moectl.facts import xla  # noqa: PLC0415

        xla.load(given.jaxlib)
    hardware = None
    if given.hardware is not None:
        hardware = platforms.platform(given.hardware, where="--hardware")
    probed = None
    if probe is not None:
        from moectl.facts.probed import read_probe  # noqa: PLC0415

        probed = read_probe(probe, given.probe or "")
    return Basis(given, hardware, probed)


def workload(part: Part, the_basis: Basis) -> tuple[Workload, list[str]]:
    """Return the workload of one thing that a file starts, and what was taken for granted.

    What the file says itself is stronger than what was given. GPUs are counted from nodes
    when nobody says how many there are; slices follow the DCN degrees.
    """
    from moectl.facts import maxtext  # noqa: PLC0415
    from moectl.resolve.derived import derived  # noqa: PLC0415
    from moectl.resolve.derived_slices import slices_of  # noqa: PLC0415
    from moectl.resolve.effective import effective  # noqa: PLC0415

    given = the_basis.given
    image, told = _image(part, the_basis)
    if part.manifest is not None and not part.is_maxtext and part.flags is None:
        told = []  # nothing of it depends on a release
    layout = _filled(part.layout, given)
    devices = _number(layout.gpus)
    values: Mapping[str, Any] = {}
    computed: Mapping[str, Any] = {}
    hardware = _platform(part, the_basis)
    slices: int | None = None
    if part.is_maxtext:
        catalogue = maxtext.load(image.maxtext)
        values = effective(part.config, part.arguments, catalogue)
        if part.unread:
            values = _doubtful(values, part, catalogue)
        nodes = _number(layout.nodes)
        slices = slices_of(values, devices, nodes, hardware, part.environment)
        computed = derived(values, devices, slices)
    made = Workload(
        kind=part.kind,
        origin=part.origin,
        maxtext=image.maxtext,
        jaxlib=image.jaxlib,
        image=image,
        image_said=_image_said(part, given),
        jaxlib_said=given.jaxlib is not None,
        container=part.image is not None or None,
        is_maxtext=part.is_maxtext,
        config=part.config,
        arguments=part.arguments,
        effective=values,
        derived=computed,
        environment=part.environment,
        flags=part.flags,
        layout=layout,
        devices=devices,
        slices=slices,
        hardware=hardware,
        batch=part.batch,
        step=part.step,
        manifest=part.manifest,
        alone=part.alone,
    )
    return made, told


def _platform(part: Part, the_basis: Basis) -> Hardware | None:
    """Return the platform that the file asks its scheduler for, else the given one."""
    if part.batch is None and part.manifest is None:
        return the_basis.hardware
    from moectl.resolve.platforms import platform_asked  # noqa: PLC0415

    return platform_asked(part.batch, part.step, part.manifest) or the_basis.hardware


def _image(part: Part, the_basis: Basis) -> tuple[Image, list[str]]:
    """Return the image of a part, else the given one, else the one used when nobody says."""
    given = the_basis.given
    said = part.image.text if part.image is not None and part.image.known else ""
    reference = said or given.image or ""
    probed = the_basis.probed
    if probed is not None:
        from moectl.facts.versions import adopt  # noqa: PLC0415

        return adopt(probed, reference or images.default_image()), []
    found = images.image(
        _plain(reference or images.default_image()), maxtext=given.maxtext, jaxlib=given.jaxlib
    )
    if found.probed:
        return found, []
    whose = "the image's own are" if reference else "no image is named, the image's own are"
    return found, [
        f"judged against MaxText {found.maxtext} and jaxlib {found.jaxlib}; {whose} unknown"
    ]


def _image_said(part: Part, given: Given) -> Origin | None:
    if part.image is not None and part.image.known:
        return part.image.origin
    return Origin("--image") if given.image else None


def _plain(reference: str) -> str:
    """Return a reference as Docker writes it; pyxis puts # after the registry."""
    return reference.removeprefix("docker://").replace("#", "/", 1)


def _filled(layout: Layout, given: Given) -> Layout:
    """Return the layout with what was given, and with what follows from it."""
    nodes, per_node = layout.nodes, layout.gpus_per_node
    if per_node is None and given.gpus_per_node is not None:
        per_node = Value(given.gpus_per_node, Origin("--gpus-per-node"))
    gpus = layout.gpus
    if gpus is None and _number(nodes) is not None and _number(per_node) is not None:
        assert nodes is not None  # noqa: S101 - it is a number
        assert per_node is not None  # noqa: S101
        gpus = Value(nodes.value * per_node.value, nodes.origin)
    if gpus is None and given.gpus is not None:
        gpus = Value(given.gpus, Origin("--gpus"))
    total, each = _number(gpus), _number(per_node)
    if nodes is None and total and each and total % each == 0:
        nodes = Value(total // each, Origin("--gpus"))
    return replace(layout, nodes=nodes, gpus=gpus, gpus_per_node=per_node)


def _number(value: Value | None) -> int | None:
    return value.value if value is not None and isinstance(value.value, int) else None


def _doubtful(values: Mapping[str, Any], part: Part, catalogue: Catalogue) -> dict[str, Any]:
    """Return the values where a config file could not be read: it may say what nobody else does.

    What the command line says counts; so does what the model file says, if it is named there.
    """
    model = part.arguments.get("model_name")
    certain = set(part.arguments)
    if model is not None and isinstance(model.value, str):
        certain |= set(catalogue.model(model.value) or {})
    return {key: value if key in certain else UNKNOWN for key, value in values.items()}
