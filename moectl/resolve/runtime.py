"""Flags, variables and container of the processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from moectl.errors import UnknownNameError, UsageError, is_token, shown
from moectl.facts.images import image as image_facts
from moectl.facts.xla import XlaCatalogue
from moectl.facts.yaml_facts import read
from moectl.job import Checkout, Cluster, Container, Mount
from moectl.resolve.merge import Effective
from moectl.settings.flatten import place, raise_all
from moectl.settings.setting import Layer
from moectl.values import Hardware, Image, Origin, Value

if TYPE_CHECKING:
    from moectl.job_kubernetes import Kubernetes

# Keys of a profile that are a variable by another name: a list there, joined by commas here.
_NETWORK = {"socket_interfaces": "NCCL_SOCKET_IFNAME", "ib_hcas": "NCCL_IB_HCA"}
_PREFLIGHT = ("preflight", "preflight_retry")
_PACKAGES = {"maxtext": "maxtext", "transformer_engine": "transformer-engine"}


def image(effective: Effective, facts: Mapping[str, str]) -> Image:
    """Return the image of the job.

    Args:
        effective: the merged settings.
        facts: package to release of the catalogues a lock was rendered with; they stand in
            place of the nearest releases.
    """
    reference, digest = _reference(effective)
    found = image_facts(
        reference,
        digest=digest,
        maxtext=effective.get("container.maxtext_release"),
        jaxlib=effective.get("container.jaxlib_release"),
    )
    if found.probed or not facts:
        return found
    return replace(
        found,
        maxtext=facts.get("maxtext", found.maxtext),
        jaxlib=facts.get("jaxlib", found.jaxlib),
    )


def _reference(effective: Effective) -> tuple[str, str]:
    """Return reference and digest: the site's image counts where nobody stronger names one."""
    layers = effective.layers
    site = effective.get("cluster.image")
    force = layers.get("cluster.image", Layer.DEFAULT)
    if not site or force <= layers.get("container.image", Layer.DEFAULT):
        return effective.get("container.image"), effective.get("container.digest") or ""
    ours = layers.get("container.digest", Layer.DEFAULT) > force
    return site, (effective.get("container.digest") or "") if ours else ""


def xla_flags(effective: Effective, the_image: Image, xla: XlaCatalogue) -> dict[str, Value]:
    """Return the effective flags: the image's baked ones first, then ours.

    Raises:
        UsageError: flags the release does not know or whose value its parser refuses.
    """
    said = effective.section("xla_flags")
    raise_all(list(_flag_faults(said, xla)))
    baked = Origin(f"baked into the image {the_image.reference}")
    flags: dict[str, Value] = {}
    for name, value in the_image.baked_flags.items():
        ours = said.get(name)
        if ours is None:
            flags[name] = Value(value, baked)
        elif ours.value == value:
            flags[name] = ours
        else:
            flags[name] = Value(ours.value, ours.origin, (*ours.overrode, (value, baked)))
    return flags | {name: value for name, value in said.items() if name not in flags}


def _flag_faults(said: Mapping[str, Value], xla: XlaCatalogue) -> list[UsageError]:
    faults: list[UsageError] = []
    for name, value in said.items():
        where = place(value.origin)
        if not xla.has(name):
            known = xla.in_releases(name)
            why = f"jaxlib {xla.release} does not have it" + (
                f"; {', '.join(known)} has" if known else ""
            )
            faults.append(UnknownNameError("XLA flag", name, xla.names(), where=where, why=why))
        elif clause := xla.check(name, value.value):
            faults.append(UsageError(f"{where}: the XLA flag {name} {clause}"))
    return faults


def environment(effective: Effective) -> dict[str, Value]:
    """Return the variables of the processes, without what the launch script decides.

    Raises:
        UsageError: variables nobody but the launch may set, or values that cannot be meant.
    """
    facts = read("launch.yaml")
    standard = Origin("moectl default")
    found = {name: Value(text, standard) for name, text in facts["environment"].items()}
    said = [
        (effective.layers[f"{section}.{name}"], name, value)
        for section in ("cluster.environment", "environment")
        for name, value in effective.section(section).items()
    ]
    network = list(_network(effective))
    raise_all(_said_twice(effective, network))
    said = [*network, *said]
    for _, name, value in sorted(said, key=lambda row: row[0]):
        weaker = found.get(name)
        overrode = value.overrode
        if weaker is not None and str(weaker.value) != str(value.value):
            overrode = (*overrode, (weaker.value, weaker.origin), *weaker.overrode)
        found[name] = Value(str(value.value), value.origin, overrode)
    raise_all(_variable_faults(found, facts) + _secret_faults(effective, found))
    return found


def _network(effective: Effective) -> Iterator[tuple[Layer, str, Value]]:
    """Yield (force, variable, value) of what a profile says of the network by its own keys.

    The variable itself wins among equals, as in a lock file, which holds both.
    """
    for key, name in _NETWORK.items():
        value = effective.values.get(f"cluster.{key}")
        if value is None or not value.value:
            continue
        force = effective.layers[f"cluster.{key}"]
        if effective.layers.get(f"environment.{name}") != force:
            yield force, name, Value(",".join(value.value), value.origin)


def _said_twice(
    effective: Effective, network: Iterable[tuple[Layer, str, Value]]
) -> list[UsageError]:
    """Return the variables that the profile's environment says in other words."""
    section = effective.section("cluster.environment")
    return [
        UsageError(
            f"{place(value.origin)}: {name} is also said in cluster.environment, and "
            "differently; say one of them"
        )
        for _, name, value in network
        if name in section and str(section[name].value) != value.value
    ]


def _variable_faults(found: Mapping[str, Value], facts: Mapping[str, Any]) -> list[UsageError]:
    from moectl.facts.environment import load  # noqa: PLC0415

    catalogue = load()
    faults: list[UsageError] = []
    for name, value in found.items():
        where = place(value.origin)
        if not _is_variable(name):
            faults.append(UsageError(f"{where}: {shown(name)} is no name of a variable"))
        elif fault := _reserved(name, where, facts):
            faults.append(fault)
        elif prefix := next((p for p in facts["reserved_prefixes"] if name.startswith(p)), ""):
            owner = facts["reserved_prefixes"][prefix]
            key = name.removeprefix(prefix).lower()
            faults.append(
                UsageError(
                    f"{where}: {name} would override MaxText's {key} in silence; write "
                    f"{owner}.{key}"
                )
            )
        elif "\0" in value.value:
            faults.append(UsageError(f"{where}: {name} holds a NUL character"))
        elif clause := catalogue.check(name, value.value):
            faults.append(
                UsageError(f"{where}: {name} cannot be {shown(value.value)}: it {clause}")
            )
    return faults


def _reserved(name: str, where: str, facts: Mapping[str, Any]) -> UsageError | None:
    """Return why nobody but the launch may set a variable, or None."""
    if name in facts["reserved"]:
        return UsageError(f"{where}: {name} is decided by {facts['reserved'][name]}")
    if name in facts["script_names"] or name.startswith(tuple(facts["foreign_prefixes"])):
        return UsageError(
            f"{where}: {name} belongs to the scheduler, the shell or the launch script, and "
            "would break it; set it in the image, or give your variable another name"
        )
    return None


def _secret_faults(effective: Effective, found: Mapping[str, Value]) -> list[UsageError]:
    where = place(effective.origin("secrets"))
    faults = []
    for name in secrets(effective):
        if is_token(name):
            faults.append(
                UsageError(
                    f"{where}: {shown(name)} is shaped like a token; secrets are named, e.g. "
                    "HF_TOKEN, and their values come from the submitting shell"
                )
            )
        elif not _is_variable(name):
            faults.append(UsageError(f"{where}: {shown(name)} is no name of a variable"))
        elif fault := _reserved(name, where, read("launch.yaml")):
            faults.append(fault)
        elif name in found:
            faults.append(UsageError(f"{where}: {name} is a secret and a variable; say one"))
    return faults


def _is_variable(name: str) -> bool:
    return name.isascii() and name.replace("_", "a").isalnum() and not name[:1].isdigit()


def launcher(effective: Effective) -> str:
    """Return what starts the processes: the run's own word, else the site's, else Slurm."""
    said = effective.values.get("launcher")
    site = effective.get("cluster.launcher")
    return str(site if said is None and site else effective.get("launcher"))


def secrets(effective: Effective) -> tuple[str, ...]:
    """Return the names of variables taken from the submitting shell."""
    return tuple(dict.fromkeys(effective.get("secrets") or ()))


def container(effective: Effective, the_image: Image) -> Container:
    """Return the container: image, mounts of the site and of the run, checkouts."""
    mounts = [
        Mount(row["source"], row["target"], row.get("read_only", False))
        for path in ("cluster.mounts", "container.mounts")
        for row in effective.get(path) or ()
    ]
    checkouts = [
        Checkout(package, path, effective.get(f"container.{section}.commit") or "")
        for section, package in _PACKAGES.items()
        if (path := effective.get(f"container.{section}.path"))
    ]
    return Container(the_image, tuple(mounts), tuple(checkouts))


def cluster(effective: Effective, hardware: Hardware) -> Cluster:
    """Return the site's wishes, CPUs a process taken from the platform where it is silent."""
    cpus = effective.get("cluster.cpus_per_task")
    if cpus is None and hardware.cpu_cores_per_node:
        cpus = hardware.cpu_cores_per_node // hardware.gpus_per_node
    as_said = (
        "name",
        "partition",
        "account",
        "qos",
        "reservation",
        "time",
        "gpu_request",
        "gres",
        "memory",
        "runtime",
        "python",
        "exclusive",
        "segment",
        "image_folder",
        "slurm_release",
        "block_topology",
        "nodes_per_domain",
        "usable_nodes",
        "spare_nodes",
        "runs_folder",
        "gpu_hours_limit",
        "compile_limit",
        "step_limit",
        "watchdog_factor",
        "watchdog_grace",
        "signal_seconds",
        "requeue",
        "processes",
    )
    said = {name: effective.get(f"cluster.{name}") for name in as_said}
    architecture = effective.get("cluster.node_architecture") or hardware.cpu_architecture
    return Cluster(
        **said,
        preflight=any(effective.get(f"cluster.{name}") for name in _PREFLIGHT),
        preflight_retry=effective.get("cluster.preflight_retry"),
        launcher=effective.get("cluster.launcher") or "",
        devices=effective.get("cluster.devices") or "",
        cpus_per_task=cpus,
        directives=tuple(effective.get("cluster.directives") or ()),
        architecture=architecture or "",
        of_kubernetes=_kubernetes(effective),
    )


def _kubernetes(effective: Effective) -> Kubernetes | None:
    if not effective.section("cluster.kubernetes"):
        return None
    from moectl.resolve.kubernetes import kubernetes  # noqa: PLC0415 - start-up time

    return kubernetes(effective)
