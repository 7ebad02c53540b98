"""Kubernetes as a backend: a run's job is a JobSet, found by labels that carry the run's id."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from moectl.errors import BackendError, MoectlError
from moectl.facts.yaml_facts import read
from moectl.launch.backend import JobState, Wanted
from moectl.launch.kubernetes_api import (
    CONFIG_MAP,
    POD,
    Api,
    ConflictError,
    Kind,
    Place,
    kind_of,
    place,
)
from moectl.launch.kubernetes_logs import bring
from moectl.launch.kubernetes_names import (
    JOB_LABEL,
    RUN_ANNOTATION,
    RUN_LABEL,
    jobset_name,
    named,
    number,
    run_label,
)
from moectl.launch.kubernetes_states import blocked, job_state, pod_state
from moectl.launch.record import RunRecord
from moectl.launch.store import Store, default_root

# The option of a record that says where its objects are.
OPTION = "kubernetes"
# Runs that a list of objects is asked for by name; more are all asked for.
_NAMED = 50


def available() -> bool:
    """Return whether a cluster can be named from this machine."""
    try:
        place("", "")
    except BackendError:
        return False
    return True


class Kubernetes:
    """The clusters of the kubeconfig; each run's record says which one it is in.

    Args:
        root: the folder of run records.
        where: the place of runs without a record, which are about to be.
    """

    name = "kubernetes"

    def __init__(self, root: Path | None = None, where: Place | None = None) -> None:
        self.store = Store(root or default_root())
        self._where = where
        self._apis: dict[Place, Api] = {}

    def submit(
        self,
        script: Path,
        job_name: str,
        options: Sequence[str] = (),
        lock: int | None = None,  # noqa: ARG002 - this process itself asks the API server
    ) -> str:
        """Create the objects of a manifest and return the job's id.

        The names follow from the run's id and from how many jobs it had, so that a repetition
        meets the objects of the first time, and nothing is there twice.

        Raises:
            BackendError: the server refuses or cannot be reached.
            UnansweredError: its answer was lost.
        """
        if options:
            raise BackendError(
                "Kubernetes knows no job that waits for another one: leave --after and --chain "
                "out; a run goes on with `moectl resume`"
            )
        record = self._record(job_name)
        job = number(job_name, len(record.jobs) if record else 0)
        api = self._api(self._place(job_name))
        try:
            documents = _objects(script.read_text("utf-8"))
        except OSError as error:
            raise BackendError(f"{script}: {error.strerror or error}") from None
        objects = named(documents, job_name, job, api.where.namespace)
        made = [self._make(api, document, job_name) for document in objects]
        owner = next(found for found in made if found["kind"] == "JobSet")
        for found in made:
            if found is not owner:
                with contextlib.suppress(BackendError):  # `cancel` removes it by its label
                    api.own(kind_of(found), found["metadata"]["name"], owner)
        return job

    def survey(self, wanted: Sequence[Wanted]) -> dict[str, tuple[JobState, ...]]:
        """Return what the jobs of runs do: one list of JobSets and one of pods a namespace.

        Raises:
            BackendError: an API server cannot be asked.
        """
        answer: dict[str, dict[str, JobState]] = {one.name: {} for one in wanted}
        by_place = defaultdict(list)
        for one in wanted:
            by_place[self._place(one.name)].append(one.name)
        for where, names in by_place.items():
            for state in self._states(where, names):
                if state.name in answer:
                    answer[state.name][state.job] = state
        for one in wanted:
            for job in one.jobs:
                answer[one.name].setdefault(job, JobState(job, "unknown", name=one.name))
        return {
            name: tuple(sorted(jobs.values(), key=lambda state: state.job.rjust(20, "0")))
            for name, jobs in answer.items()
        }

    def states(self, jobs: Sequence[str]) -> dict[str, JobState]:
        """Return what the jobs do; runs are found by the records that name them.

        Raises:
            BackendError: an API server cannot be asked.
        """
        records = [r for r in self._records() if set(r.job_ids) & set(jobs)]
        found = self.survey([Wanted(record.id, record.job_ids) for record in records])
        known = {state.job: state for states in found.values() for state in states}
        return {job: known.get(job, JobState(job, "unknown")) for job in jobs}

    def find(self, job_name: str) -> list[str]:
        """Return the ids of the jobs of a run, oldest first.

        Raises:
            BackendError: the API server cannot be asked.
        """
        return [state.job for state in self.survey([Wanted(job_name)])[job_name]]

    def cancel(self, jobs: Sequence[str], job_name: str) -> None:
        """Delete the objects of jobs; those that are gone already are no fault.

        Raises:
            BackendError: the server refuses or cannot be reached.
        """
        api = self._api(self._place(job_name))
        for job in jobs:
            name = jobset_name(job_name, job)
            for kind in (_kind("jobset"), _kind("compute_domain"), CONFIG_MAP):
                try:
                    api.delete(kind, name)
                except BackendError:
                    if kind == _kind("jobset"):
                        raise

    def blocked(self, job: JobState) -> str:
        """Return why a waiting job will not start by itself, and the remedy; else nothing."""
        return blocked(job.reason) if job.phase == "pending" else ""

    def test(self, script: str, folder: Path, options: Sequence[str] = ()) -> str:  # noqa: ARG002
        """Return what the API server would do with a manifest; nothing is kept.

        Raises:
            BackendError: it would refuse.
        """
        where = self._where or place("", "")
        api = self._api(where)
        told = []
        for document in _objects(script):
            document["metadata"]["namespace"] = where.namespace
            api.create(document, dry_run=True)
            told.append(str(document["kind"]))
        return (
            f"{where.context} would take {', '.join(told)} in the namespace {where.namespace} "
            "(--dry-run=server)"
        )

    def bring(self, record: RunRecord) -> None:
        """Copy what the pods of a run's last job printed into its bundle.

        Raises:
            BackendError: the API server cannot be asked.
            LocalFilesError: the file system refuses.
        """
        if not record.job_ids:
            return
        job = record.job_ids[-1]
        api = self._api(self._place(record.id))
        pods = [pod_state(pod) for pod in api.list(POD, f"{JOB_LABEL}={job}")]
        bring(Path(record.bundle), record.name, job, pods, api.log)

    def _states(self, where: Place, names: Sequence[str]) -> Iterator[JobState]:
        api = self._api(where)
        labels = ",".join(run_label(name) for name in names)
        chosen = f"{RUN_LABEL} in ({labels})" if len(names) <= _NAMED else RUN_LABEL
        jobsets = list(api.list(_kind("jobset"), chosen))
        if not jobsets:
            return
        pods = defaultdict(list)
        for pod in api.list(POD, chosen):
            job = (pod.get("metadata", {}).get("labels") or {}).get(JOB_LABEL)
            pods[job].append(pod_state(pod))
        for jobset in jobsets:
            job = (jobset["metadata"].get("labels") or {}).get(JOB_LABEL)
            if job:
                yield job_state(jobset, pods[job])

    def _make(self, api: Api, document: dict[str, Any], run: str) -> dict[str, Any]:
        """Create an object, or take the one of this run that is there already."""
        try:
            return api.create(document)
        except ConflictError:
            held = api.get(kind_of(document), document["metadata"]["name"])
            annotations = (held or {}).get("metadata", {}).get("annotations") or {}
            if held is None or annotations.get(RUN_ANNOTATION) != run:
                raise
            return {**held, "kind": document["kind"], "apiVersion": document["apiVersion"]}

    def _place(self, run: str) -> Place:
        record = self._record(run)
        held = record.options.get(OPTION) if record else None
        if isinstance(held, Mapping):
            return Place(str(held.get("context", "")), str(held.get("namespace", "")))
        return self._where or place("", "")

    def _record(self, run: str) -> RunRecord | None:
        with contextlib.suppress(MoectlError):
            return self.store.read(run)
        return None

    def _records(self) -> tuple[RunRecord, ...]:
        return self.store.list().records

    def _api(self, where: Place) -> Api:
        if where not in self._apis:
            self._apis[where] = Api(where)
        return self._apis[where]


def _kind(name: str) -> Kind:
    group, _, version = read("kubernetes_launch.yaml")["versions"][name].partition("/")
    return Kind(f"{name.replace('_', '')}s", group, version)


def _objects(text: str) -> list[dict[str, Any]]:
    """Return the objects of a manifest.

    Raises:
        BackendError: it is none.
    """
    import yaml  # noqa: PLC0415 - start-up time

    try:
        found = [document for document in yaml.safe_load_all(text) if document is not None]
        for document in found:
            kind_of(document)
            if not isinstance(document["metadata"]["name"], str):
                raise TypeError
    except (yaml.YAMLError, KeyError, TypeError, ValueError):
        raise BackendError(
            "the manifest is no YAML of Kubernetes; render the bundle anew"
        ) from None
    return found
