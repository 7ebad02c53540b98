"""Calls of the API server through the official client; a refusal is told by its cause."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from moectl.errors import BackendError
from moectl.facts.yaml_facts import read
from moectl.launch.backend import UnansweredError

# Seconds for a connection, and for an answer.
TIMEOUT = (10, 60)
# Objects of one answer; the rest is asked for again.
PAGE = 500
IN_CLUSTER = "in-cluster"
_OWN_WORDS = 600


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run's objects are: a context of the kubeconfig, and a namespace."""

    context: str
    namespace: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object: how it is called in addresses; without a group for core kinds."""

    plural: str
    group: str = ""
    version: str = "v1"


CONFIG_MAP = Kind("configmaps")
POD = Kind("pods")


def kind_of(document: Mapping[str, Any]) -> Kind:
    """Return the kind of an object, its plural as the ones that are made here have it."""
    group, _, version = str(document["apiVersion"]).rpartition("/")
    return Kind(f"{str(document['kind']).lower()}s", group, version)


def place(context: str, namespace: str) -> Place:
    """Return where something is to be, what is empty taken from the kubeconfig.

    Raises:
        BackendError: there is no kubeconfig, no such context, or no client.
    """
    config = _package().config
    try:
        contexts, active = config.list_kube_config_contexts(config_file=_kubeconfig())
    except config.ConfigException as error:
        if not context and _in_cluster():
            return Place(IN_CLUSTER, namespace or "default")
        raise BackendError(
            f"there is no kubeconfig to find a cluster by ({_one_line(error)}): log in with your "
            "cloud's own command, or set KUBECONFIG"
        ) from None
    except (_yaml_fault(), OSError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise BackendError(f"the kubeconfig cannot be read: {_one_line(error)}") from None
    known = {row["name"]: row for row in contexts}
    chosen = known.get(context) if context else active
    if chosen is None:
        raise BackendError(
            f"the kubeconfig has no context {context!r}; it has "
            + (", ".join(sorted(known)) or "none")
        )
    own = (chosen.get("context") or {}).get("namespace") or "default"
    return Place(chosen["name"], namespace or own)


class Api:
    """The API server of a place."""

    def __init__(self, where: Place) -> None:
        self.where = where
        client = _client(where.context)
        self._core = _package().client.CoreV1Api(client)
        self._custom = _package().client.CustomObjectsApi(client)

    def create(self, document: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Create an object and return it as the server has it; unknown fields are refused.

        Raises:
            ConflictError: one of its name exists.
            BackendError: the server refuses or cannot be reached.
            UnansweredError: its answer was lost, so that the object may exist.
        """
        kind, name = kind_of(document), str(document["metadata"]["name"])
        more = {"dry_run": "All"} if dry_run else {}
        if kind.group:
            call, words = self._custom.create_namespaced_custom_object, self._words(kind)
        else:
            call, words = self._core.create_namespaced_config_map, self._words()
        more["field_validation"] = "Strict"
        made: dict[str, Any] = self._json(call, kind, name, **words, body=dict(document), **more)
        return made

    def get(self, kind: Kind, name: str) -> dict[str, Any] | None:
        """Return an object, None where there is none."""
        if kind.group:
            call, words = self._custom.get_namespaced_custom_object, self._words(kind)
        else:
            call, words = self._core.read_namespaced_config_map, self._words()
        try:
            found: dict[str, Any] = self._json(call, kind, name, **words, name=name)
        except MissingError:
            return None
        return found

    def list(self, kind: Kind, selector: str) -> Iterator[dict[str, Any]]:
        """Yield the objects with a label: pods, or those of a group."""
        if kind.group:
            call, words = self._custom.list_namespaced_custom_object, self._words(kind)
        else:
            call, words = self._core.list_namespaced_pod, self._words()
        more: dict[str, str] = {}
        while True:
            answer = self._json(
                call, kind, "", **words, label_selector=selector, limit=PAGE, **more
            )
            yield from answer.get("items") or ()
            token = (answer.get("metadata") or {}).get("continue")
            if not token:
                return
            more = {"_continue": token}

    def own(self, kind: Kind, name: str, owner: Mapping[str, Any]) -> None:
        """Let an object end with the one that owns it."""
        row = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        if kind.group:
            call, words = self._custom.patch_namespaced_custom_object, self._words(kind)
        else:
            call, words = self._core.patch_namespaced_config_map, self._words()
        # A list is a JSON patch (RFC 6902) in every release of the client.
        body = [{"op": "add", "path": "/metadata/ownerReferences", "value": [row]}]
        self._json(call, kind, name, **words, name=name, body=body)

    def delete(self, kind: Kind, name: str) -> bool:
        """Delete an object and what it owns; return whether it was there."""
        if kind.group:
            call, words = self._custom.delete_namespaced_custom_object, self._words(kind)
        else:
            call, words = self._core.delete_namespaced_config_map, self._words()
        try:
            self._json(call, kind, name, **words, name=name, propagation_policy="Foreground")
        except MissingError:
            return False
        return True

    def log(self, pod: str, container: str, since: int | None = None) -> str:
        """Return what a pod's container printed, a moment before each line.

        Args:
            pod: the pod.
            container: the container.
            since: seconds from now back to the first line; None from the beginning.
        """
        more = {} if since is None else {"since_seconds": max(1, since)}
        try:
            data = self._data(
                self._core.read_namespaced_pod_log,
                POD,
                pod,
                **self._words(),
                name=pod,
                container=container,
                timestamps=True,
                **more,
            )
        except (MissingError, NotYetError):
            return ""
        return data.decode("utf-8", "replace")

    def _words(self, kind: Kind | None = None) -> dict[str, str]:
        words = {"namespace": self.where.namespace}
        if kind is not None:
            words |= {"group": kind.group, "version": kind.version, "plural": kind.plural}
        return words

    def _json(self, call: Callable[..., Any], kind: Kind, told: str, /, **words: Any) -> Any:
        try:
            return json.loads(self._data(call, kind, told, **words))
        except ValueError:
            raise BackendError(
                f"{self.where.context} does not answer as an API server of Kubernetes does"
            ) from None

    def _data(self, call: Callable[..., Any], kind: Kind, told: str, /, **words: Any) -> bytes:
        """Call the client and return the server's answer as it came."""
        packages = _package()
        writes = not getattr(call, "__name__", "").startswith(("list", "read", "get"))
        try:
            answer = call(**words, _request_timeout=TIMEOUT, _preload_content=False)
            return bytes(answer.data)
        except packages.ApiException as error:
            body = error.body or error.reason or ""
            said = body if isinstance(body, bytes) else str(body).encode()
            status = int(error.status or 0)
            if not status:
                raise _unreachable(error, self.where, writes=writes) from None
            raise _refused(status, _message(said), kind, told, self.where) from None
        except packages.HTTPError as error:
            raise _unreachable(error, self.where, writes=writes) from None


class ConflictError(BackendError):
    """An object of the name exists already."""


class MissingError(BackendError):
    """There is no such object, or no such kind of objects."""


class NotYetError(BackendError):
    """The container has not started, so that it has no log."""


def _refused(status: int, said: str, kind: Kind, name: str, where: Place) -> BackendError:
    """Return a refusal: its cause in one sentence, and the server's own words below."""
    row = next(
        (row for row in read("kubernetes_refusals.yaml")["rows"] if _fits(row, status, said, kind)),
        None,
    )
    own = f"\n  {said[:_OWN_WORDS]}" if said else ""
    if row is None:
        told = f"the API server of {where.context} refuses with status {status}{own}"
    else:
        words = {
            "name": name,
            "kind": kind.plural,
            "namespace": where.namespace,
            "context": where.context,
        }
        told = f"{row['cause']}; {row['remedy']}".format(**words) + own
    if status == 409:
        return ConflictError(told)
    if status == 404:
        return MissingError(told)
    if status == 400 and kind == POD:
        return NotYetError(told)
    return UnansweredError(told) if row and row.get("unanswered") else BackendError(told)


def _fits(row: Mapping[str, Any], status: int, said: str, kind: Kind) -> bool:
    return (
        row["status"] == status
        and row.get("kind", kind.plural) == kind.plural
        and re.search(row.get("says", ""), said) is not None
    )


def _unreachable(error: Exception, where: Place, *, writes: bool) -> BackendError:
    """Return why there is no answer; what changes something may have been done all the same."""
    packages = _package()
    reason = getattr(error, "reason", None) or error
    never = isinstance(
        reason, packages.NewConnectionError | packages.ConnectTimeoutError | packages.SSLError
    )
    told = f"the API server of {where.context} cannot be reached: {_one_line(reason)}"
    if never or not writes:
        return BackendError(f"{told}; `kubectl cluster-info --context {where.context}` tells more")
    return UnansweredError(f"{told}; what was asked of it may have been done all the same")


def _message(data: bytes) -> str:
    """Return what the server says, of its Status or as it is."""
    try:
        found = json.loads(data)
    except ValueError:
        return _one_line(data.decode("utf-8", "replace"))
    return _one_line(found.get("message") or "") if isinstance(found, dict) else ""


def _one_line(text: object) -> str:
    kept = "".join(char if char.isprintable() else " " for char in str(text))
    return " ".join(kept.split())[:_OWN_WORDS]


@dataclass(frozen=True, slots=True)
class _Packages:
    """What is used of the client, which is an optional package."""

    client: Any
    config: Any
    ApiException: Any
    HTTPError: Any
    NewConnectionError: Any
    ConnectTimeoutError: Any
    SSLError: Any


@cache
def _package() -> _Packages:
    """Return the official client.

    Raises:
        BackendError: it is not installed.
    """
    try:
        import urllib3.exceptions as faults  # noqa: PLC0415 - an optional package
        from kubernetes import client, config  # noqa: PLC0415
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415
    except ImportError:
        raise BackendError(
            "the Python client of Kubernetes is not installed: pip install 'moectl[kubernetes]'"
        ) from None
    return _Packages(
        client,
        config,
        ApiException,
        faults.HTTPError,
        faults.NewConnectionError,
        faults.ConnectTimeoutError,
        faults.SSLError,
    )


def _yaml_fault() -> type[Exception]:
    """Return what a file that is no YAML raises."""
    import yaml  # noqa: PLC0415 - start-up time

    found: type[Exception] = yaml.YAMLError
    return found


def _kubeconfig() -> str:
    """Return the files of the kubeconfig; the client itself asks the variable only once."""
    return os.environ.get("KUBECONFIG") or "~/.kube/config"


def _in_cluster() -> bool:
    config = _package().config
    loaded: Callable[..., None] = config.load_incluster_config
    try:
        loaded(client_configuration=_package().client.Configuration())
    except config.ConfigException:
        return False
    return True


def _client(context: str) -> Any:
    """Return a client of a context.

    Raises:
        BackendError: the kubeconfig cannot be used.
    """
    packages = _package()
    configuration = packages.client.Configuration()
    try:
        if context == IN_CLUSTER:
            packages.config.load_incluster_config(client_configuration=configuration)
        else:
            packages.config.load_kube_config(
                config_file=_kubeconfig(), context=context, client_configuration=configuration
            )
    except (packages.config.ConfigException, OSError, ValueError, KeyError, TypeError) as error:
        raise BackendError(f"the kubeconfig cannot be used: {_one_line(error)}") from None
    configuration.retries = False
    return packages.client.ApiClient(configuration)
