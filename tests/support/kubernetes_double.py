"""A double of an API server, which the official client really talks to over HTTP.

It keeps ConfigMaps, ComputeDomains, JobSets, pods and their logs; it refuses what the real schemas
refuse, a name that is taken, and whatever a test tells it to. No controller is behind it: what
JobSet and Kubernetes would do next is said by the test.
"""

from __future__ import annotations

import copy
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from moectl.render import kubernetes_objects
from tests.support import kubernetes_schemas

_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/(?P<version>[^/]+))/namespaces/(?P<namespace>[^/]+)"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?P<log>/log)?"
)
_TAKEN = ("configmaps", "pods", "jobsets", "computedomains", "localqueues")


class Double:
    """The state of the server.

    Attributes:
        objects: (namespace, plural, name) to object.
        logs: pod to its lines, (moment, text) each.
        missing: plurals that the cluster does not have.
        refuse: method and plural to (status, message), once each while `times` lasts.
        lose: methods whose answer is lost after they were done.
        requests: what was asked, "METHOD plural" each.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.logs: dict[str, list[tuple[str, str]]] = {}
        self.missing: set[str] = set()
        self.refuse: dict[tuple[str, str], tuple[int, str]] = {}
        self.lose: set[tuple[str, str]] = set()
        self.requests: list[str] = []
        self.namespaces = {"default", "team"}
        self.page = 0
        self.lock = threading.RLock()

    def jobsets(self) -> list[dict[str, Any]]:
        return [o for (_, plural, _), o in self.objects.items() if plural == "jobsets"]

    def jobset(self) -> dict[str, Any]:
        (found,) = self.jobsets()
        return found

    def run_pods(self, phase: str = "Running", restart: int = 0, **container: Any) -> list[str]:
        """Do what the controllers do: make the pods of the one JobSet; return their names."""
        jobset = self.jobset()
        name, namespace = jobset["metadata"]["name"], jobset["metadata"]["namespace"]
        (replicated,) = jobset["spec"]["replicatedJobs"]
        job = replicated["template"]["spec"]
        names = []
        for index in range(job["completions"]):
            pod = f"{name}-node-0-{index}-{restart}abcd"
            labels = {
                **job["template"]["metadata"].get("labels", {}),
                "jobset.sigs.k8s.io/restart-attempt": str(restart),
                "batch.kubernetes.io/job-completion-index": str(index),
            }
            self.objects[namespace, "pods", pod] = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": pod, "namespace": namespace, "labels": labels},
                "spec": {"nodeName": f"node-{index}", "containers": []},
                "status": {
                    "phase": phase,
                    "startTime": "2026-11-30T12:00:00Z",
                    "containerStatuses": [{"name": "train", "state": container}],
                },
            }
            names.append(pod)
        return names

    def end(self, kind: str, message: str = "", restarts: int = 0) -> None:
        """Give the one JobSet a condition."""
        row = {
            "type": kind,
            "status": "True",
            "reason": kind,
            "message": message,
            "lastTransitionTime": "2026-11-30T13:00:00Z",
        }
        self.jobset()["status"] = {"conditions": [row], "restarts": restarts}

    def say(self, pod: str, *lines: str, at: str | None = None) -> None:
        """Let a pod print lines."""
        held = self.logs.setdefault(pod, [])
        for line in lines:
            moment = at or f"2026-11-30T12:00:00.{len(held) + 1:09d}Z"
            held.append((moment, line))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    double: Double

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        match = _PATH.fullmatch(parts.path)
        if match is None or match["plural"] not in _TAKEN:
            return self._status(404, "the server could not find the requested resource")
        plural, method = match["plural"], self.command
        with self.double.lock:
            self.double.requests.append(f"{method} {plural}")
            refused = self.double.refuse.get((method, plural))
            if refused is not None:
                return self._status(*refused)
            if plural in self.double.missing:
                return self._status(404, "404 page not found")
            if match["namespace"] not in self.double.namespaces:
                return self._status(404, f'namespaces "{match["namespace"]}" not found')
            answer = self._answer(match, query, body)
        if (method, plural) in self.double.lose:
            self.close_connection = True
            self.connection.close()
            return None
        if isinstance(answer, tuple):
            return self._status(*answer)
        return self._send(200, answer)

    def _answer(
        self, match: re.Match[str], query: Mapping[str, str], body: Any
    ) -> dict[str, Any] | str | tuple[int, str]:
        plural, namespace, name = match["plural"], match["namespace"], match["name"]
        objects = self.double.objects
        key = (namespace, plural, name or "")
        if self.command == "POST":
            return self._create(namespace, plural, query, body)
        if name is None:
            return self._list(namespace, plural, query)
        if key not in objects:
            return 404, f'{plural} "{name}" not found'
        if self.command == "DELETE":
            found = objects.pop(key)
            uid = found["metadata"].get("uid")
            owned = [
                k
                for k, o in objects.items()
                if any(row["uid"] == uid for row in o["metadata"].get("ownerReferences", ()))
            ]
            for other in owned:
                del objects[other]
            return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        if self.command == "PATCH":
            if self.headers["Content-Type"] != "application/json-patch+json":
                return 415, "the double takes JSON patches only"
            for step in body:
                *heads, last = step["path"].strip("/").split("/")
                held: Any = objects[key]
                for head in heads:
                    held = held[head]
                held[last] = step["value"]
            return objects[key]
        if match["log"]:
            return self._log(name, query)
        return objects[key]

    def _create(
        self, namespace: str, plural: str, query: Mapping[str, str], body: Any
    ) -> dict[str, Any] | tuple[int, str]:
        if query.get("fieldValidation") != "Strict":
            return 400, "the double wants unknown fields refused"
        if faults := kubernetes_schemas.faults(body):
            return 422, f"{body.get('kind')} is invalid: {'; '.join(faults)}"
        if plural == "jobsets":
            config_maps = [
                {"kind": "ConfigMap", "metadata": {"name": n}, "data": {}}
                for (_, p, n) in self.double.objects
                if p == "configmaps"
            ]
            own = kubernetes_objects.faults([*config_maps, body])
            faults = [f"{path}: {told}" for path, told in own if "no ConfigMap" not in told]
            if faults:
                return 422, f"admission webhook denied the request: {'; '.join(faults)}"
        key = (namespace, plural, body["metadata"]["name"])
        if key in self.double.objects:
            return 409, f'{plural} "{key[2]}" already exists'
        made: dict[str, Any] = copy.deepcopy(body)
        made["metadata"] |= {"uid": f"uid-{len(self.double.requests)}"}
        if query.get("dryRun") != "All":
            self.double.objects[key] = made
        return made

    def _list(self, namespace: str, plural: str, query: Mapping[str, str]) -> dict[str, Any]:
        wanted = query.get("labelSelector", "")
        found = [
            held
            for (where, kind, _), held in self.double.objects.items()
            if where == namespace and kind == plural and _fits(held, wanted)
        ]
        first = int(query.get("continue", "0"))
        size = self.double.page or len(found) or 1
        rest = {"continue": str(first + size)} if len(found) > first + size else {}
        return {
            "kind": "List",
            "apiVersion": "v1",
            "metadata": rest,
            "items": found[first : first + size],
        }

    def _log(self, pod: str, query: Mapping[str, str]) -> str | tuple[int, str]:
        if query.get("container") != "train" or query.get("timestamps") not in {"true", "True"}:
            return 400, "container is not valid"
        if pod not in self.double.logs:
            return 400, f'container "train" in pod "{pod}" is waiting to start: ContainerCreating'
        return "".join(f"{moment} {line}\n" for moment, line in self.double.logs[pod])

    def _status(self, code: int, message: str) -> None:
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}
        self._send(code, {**body, "code": code})

    def _send(self, code: int, answer: dict[str, Any] | str) -> None:
        text = answer if isinstance(answer, str) else json.dumps(answer)
        data = text.encode()
        self.send_response(code)
        kind = "text/plain" if isinstance(answer, str) else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _fits(held: Mapping[str, Any], selector: str) -> bool:
    labels = held["metadata"].get("labels", {})
    if not selector:
        return True
    if match := re.fullmatch(r"(\S+) in \(([^)]*)\)", selector):
        return labels.get(match[1]) in match[2].split(",")
    key, equals, value = selector.partition("=")
    return key in labels and (not equals or labels[key] == value)


@contextmanager
def server() -> Iterator[tuple[Double, str]]:
    """Serve a double; yield it and its address."""
    double = Double()
    handler = type("Handler", (_Handler,), {"double": double})
    served = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    served.daemon_threads = True
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield double, f"http://127.0.0.1:{served.server_address[1]}"
    finally:
        served.shutdown()
        served.server_close()
        thread.join()


def kubeconfig(path: Path, address: str, namespace: str = "team") -> Path:
    """Write a kubeconfig with one context, called "double"."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "double",
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {"token": "t0ken"}}],
        "contexts": [
            {"name": "double", "context": {"cluster": "c", "user": "u", "namespace": namespace}}
        ],
    }
    path.write_text(json.dumps(config))
    return path
