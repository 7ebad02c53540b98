"""What a manifest cannot say of a job, found before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moectl.errors import (
    SeveralUsageErrors,
    UnknownNameError,
    UsageError,
    ValueUsageError,
    shown,
)
from moectl.job import Job
from moectl.render import container, limits
from moectl.render.kubernetes_objects import faults
from moectl.render.kubernetes_plan import FILES, facts, network, shared
from moectl.render.variables import environment
from moectl.settings.bundle_names import MOUNTED

_SHORTEST_SECRET = 8
_OWN = frozenset({"/", "/dev/shm", MOUNTED, FILES})  # noqa: S108 - a path in the container


def require(job: Job) -> None:
    """Raise everything that a manifest of `job` could not say, at once.

    Raises:
        UsageError: something was found.
    """
    _raise(
        [
            *_secrets(job),
            *_written_out(job),
            *_image(job),
            *_folders(job),
            *_targets(job),
            *_values(job),
        ]
    )


def require_objects(documents: Sequence[Mapping[str, Any]]) -> None:
    """Raise everything that the API server would refuse of the finished objects.

    Raises:
        UsageError: something was found.
    """
    _raise([UsageError(f"{path}: {told}") for path, told in faults(documents)])


def _raise(errors: Sequence[UsageError]) -> None:
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise SeveralUsageErrors(errors)


def _secrets(job: Job) -> Iterator[UsageError]:
    site = job.cluster.kubernetes
    missing = [name for name in job.secrets if not site.secret and name not in site.secret_keys]
    if missing:
        yield UsageError(
            f"the job declares {', '.join(missing)} as a secret, and pods take secrets from a "
            "Secret of the namespace: name it under cluster.kubernetes.secret, after kubectl "
            f"create secret generic NAME --from-literal={missing[0]}=..."
        )


def _written_out(job: Job) -> Iterator[UsageError]:
    """Yield secrets given by value: whoever may read the JobSet would read them."""
    from moectl.facts.environment import load  # noqa: PLC0415 - start-up time

    catalogue = load()
    for name, text in environment(job).items():
        if catalogue.secret(name) and len(text) >= _SHORTEST_SECRET and not text.startswith("/"):
            yield UsageError(
                f"environment.{name} is a secret, and whoever may read the JobSet would read it: "
                f"take it out, and name it under secrets, with cluster.kubernetes.secret"
            )


def _image(job: Job) -> Iterator[UsageError]:
    if job.container.image.reference.startswith("/"):
        yield ValueUsageError(
            "container.image",
            job.container.image.reference,
            "Kubernetes pulls images from a registry; name registry/path:tag",
        )


def _folders(job: Job) -> Iterator[UsageError]:
    """Yield folders that would vanish with the pods although they are to outlive them."""
    said = {"compilation_cache": job.cache_directory}
    if limits.long_run(job):
        said["output_directory"] = job.output_directory
    for name, path in said.items():
        remote = "://" in path
        if path and not remote and not shared(job, path):
            yield ValueUsageError(
                name,
                path,
                "it would vanish with the pods; give a folder of a volume of "
                "cluster.kubernetes.volumes, or a bucket such as gs://name/path",
            )


def _targets(job: Job) -> Iterator[UsageError]:
    site, known = job.cluster.kubernetes, facts()["buckets"]
    sources = [volume.host_path for volume in site.volumes if volume.host_path]
    sources += [mount.source for mount in job.container.mounts]
    sources += [checkout.path for checkout in job.container.checkouts]
    targets = [volume.target for volume in site.volumes]
    targets += [mount.target for mount in job.container.mounts]
    targets += [container.checkout_target(each.package) for each in job.container.checkouts]
    targets += list(network(job).get("host_paths", {}))
    for path in dict.fromkeys([*sources, *targets]):
        if not path.startswith("/") or {".", ".."} & set(path.split("/")) or ":" in path:
            yield ValueUsageError("the path of a volume", path, "an absolute path without . .. :")
    for target in dict.fromkeys(targets):
        if (target.rstrip("/") or "/") in _OWN:
            yield ValueUsageError("the target of a volume", target, "something else is there")
        elif targets.count(target) > 1:
            yield ValueUsageError("the target of a volume", target, "said once; it stands twice")
    for volume in site.volumes:
        kind, colon, name = volume.bucket.partition(":")
        if volume.bucket and kind not in known:
            yield UnknownNameError("kind of bucket", kind, known, where=shown(volume.target))
        elif volume.bucket and not (colon and name):
            yield ValueUsageError("a bucket", volume.bucket, f"{kind}:NAME")


def _values(job: Job) -> Iterator[UsageError]:
    for name, text in environment(job).items():
        if "\0" in text:
            yield ValueUsageError(f"environment.{name}", text, "text without a NUL character")
    site = job.cluster.kubernetes
    for name in ("required_topology", "preferred_topology", "workload_priority"):
        if getattr(site, name) and not site.queue:
            yield ValueUsageError(
                f"cluster.kubernetes.{name}",
                getattr(site, name),
                "Kueue alone reads it; name its queue under cluster.kubernetes.queue",
            )
    if not job.cluster.kubernetes.gpu_resource:
        yield ValueUsageError(
            "cluster.kubernetes.gpu_resource", "", "the name of a resource, e.g. nvidia.com/gpu"
        )
