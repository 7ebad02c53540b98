"""Runs on Kubernetes: where they are made, and their pods' output beside the other logs."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from moectl.errors import MoectlError
from moectl.job import Job

if TYPE_CHECKING:
    from moectl.launch.backend import Backend
    from moectl.launch.kubernetes_api import Place
    from moectl.launch.record import RunRecord
    from moectl.launch.store import Store

# Seconds between two looks at what pods print.
BETWEEN = 2.0


def where(job: Job) -> Place:
    """Return where a job is made.

    Raises:
        BackendError: there is no kubeconfig, no such context, or no client.
    """
    from moectl.launch.kubernetes_api import place  # noqa: PLC0415

    site = job.cluster.kubernetes
    return place(site.context, site.namespace)


def backend(job: Job) -> Backend:
    """Return what runs a job.

    Raises:
        BackendError: as of `where`.
    """
    from moectl.launch.kubernetes import Kubernetes  # noqa: PLC0415

    return Kubernetes(where=where(job))


def options(job: Job) -> dict[str, Any]:
    """Return what the record of a job says of its place.

    Raises:
        BackendError: as of `where`.
    """
    from moectl.launch.kubernetes import OPTION  # noqa: PLC0415

    found = where(job)
    return {OPTION: {"context": found.context, "namespace": found.namespace}}


class Bringer:
    """Copies what a run's pods printed into its bundle, at most every two seconds.

    Nothing happens for runs whose logs lie there anyway, nor while nobody answers.
    """

    def __init__(self, backend: Backend | None) -> None:
        self._bring = getattr(backend, "bring", None)
        self._last = -BETWEEN

    def __call__(self, record: RunRecord, *, now: bool = False) -> None:
        """Copy what is new; `now` waits for nothing."""
        if self._bring is None or (not now and time.monotonic() - self._last < BETWEEN):
            return
        with contextlib.suppress(MoectlError):
            self._bring(record)
        self._last = time.monotonic()


def bringer(record: RunRecord, store: Store, backend: Backend | None = None) -> Bringer:
    """Return what copies a run's logs into its bundle, where they lie elsewhere."""
    from moectl.actions.runs import backend_for  # noqa: PLC0415 - of the few that need one

    try:
        return Bringer(backend or backend_for(record, store))
    except MoectlError:  # a launcher of a newer moectl
        return Bringer(None)
