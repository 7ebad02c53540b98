"""The Kubernetes backend through the official client, against a double of an API server."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moectl.errors import BackendError
from moectl.launch.backend import UnansweredError, Wanted
from moectl.launch.kubernetes import OPTION, Kubernetes, available
from moectl.launch.kubernetes_logs import fresh
from moectl.launch.kubernetes_names import jobset_name, number
from moectl.launch.record import RunRecord
from moectl.launch.store import Store
from moectl.render.kubernetes import manifest
from moectl.settings.bundle_names import MANIFEST
from tests.support import kubernetes_double as doubles
from tests.support.kubernetes_double import Double
from tests.support.kubernetes_jobs import LOCK, nvl72, plain

RUN = "moe-20261130-120000-ab12"


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    with doubles.server() as (double, address):
        monkeypatch.setenv("KUBECONFIG", str(doubles.kubeconfig(tmp_path / "config", address)))
        yield double


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "bundle" / MANIFEST
    path.parent.mkdir()
    path.write_text(manifest(plain(), LOCK))
    return path


def backend(tmp_path: Path) -> Kubernetes:
    return Kubernetes(tmp_path / "runs")


def record(tmp_path: Path, *jobs: str, run: str = RUN, **options: Any) -> RunRecord:
    place = {"context": "double", "namespace": "team"}
    found = RunRecord(
        run, "moe", "2026-11-30T12:00:00Z", "kubernetes", "run.yaml", str(tmp_path / "bundle"),
        8, 1, "h100-hgx", options={OPTION: place, **options},
    )  # fmt: skip
    for job in jobs:
        found = found.submitted(job, found.created)
    store = Store(tmp_path / "runs")
    if (tmp_path / "runs" / run).is_dir():
        store.save(found)
    else:
        store.create(found)
    return found


def test_submit_makes_the_objects_under_names_of_the_run(
    double: Double, script: Path, tmp_path: Path
) -> None:
    record(tmp_path)
    job = backend(tmp_path).submit(script, RUN)
    name = jobset_name(RUN, job)
    assert {(plural, held) for _, plural, held in double.objects} == {
        ("configmaps", name),
        ("jobsets", name),
    }
    jobset = double.jobset()
    assert jobset["metadata"]["annotations"]["moectl/run-id"] == RUN
    pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert pod["spec"]["volumes"][0]["configMap"]["name"] == name
    assert pod["metadata"]["labels"]["moectl/job"] == job
    owned = double.objects["team", "configmaps", name]["metadata"]["ownerReferences"]
    assert [row["uid"] for row in owned] == [jobset["metadata"]["uid"]]


def test_a_compute_domain_goes_along(double: Double, script: Path, tmp_path: Path) -> None:
    record(tmp_path)
    script.write_text(manifest(nvl72(), LOCK))
    job = backend(tmp_path).submit(script, RUN)
    name = jobset_name(RUN, job)
    domain = double.objects["team", "computedomains", name]
    claim = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    spec = double.jobset()["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert spec["resourceClaims"][0]["resourceClaimTemplateName"] == claim == f"{name}-channel"
    backend(tmp_path).cancel([job], RUN)
    assert double.objects == {}


def test_a_repetition_meets_the_first_time_and_doubles_nothing(
    double: Double, script: Path, tmp_path: Path
) -> None:
    record(tmp_path)
    first = backend(tmp_path).submit(script, RUN)
    assert backend(tmp_path).submit(script, RUN) == first
    assert len(double.jobsets()) == 1


def test_a_further_job_of_a_run_has_a_name_of_its_own(
    double: Double, script: Path, tmp_path: Path
) -> None:
    record(tmp_path)
    first = backend(tmp_path).submit(script, RUN)
    record(tmp_path, first)
    second = backend(tmp_path).submit(script, RUN)
    assert int(second) > int(first)
    assert len(double.jobsets()) == 2
    assert backend(tmp_path).find(RUN) == [first, second]


def test_an_object_of_somebody_else_is_left_alone(
    double: Double, script: Path, tmp_path: Path
) -> None:
    record(tmp_path)
    name = jobset_name(RUN, number(RUN, 0))
    double.objects["team", "jobsets", name] = {"metadata": {"name": name}}
    with pytest.raises(BackendError, match="is not of this run"):
        backend(tmp_path).submit(script, RUN)
    assert double.objects["team", "jobsets", name] == {"metadata": {"name": name}}


def test_a_lost_answer_is_told_and_the_job_is_found_by_its_label(
    double: Double, script: Path, tmp_path: Path
) -> None:
    record(tmp_path)
    double.lose.add(("POST", "jobsets"))
    with pytest.raises(UnansweredError, match="may have been done all the same"):
        backend(tmp_path).submit(script, RUN)
    double.lose.clear()
    (state,) = backend(tmp_path).survey([Wanted(RUN)])[RUN]
    assert state.job == number(RUN, 0)
    assert state.live


REFUSALS: dict[str, tuple[tuple[str, str], tuple[int, str], str]] = {
    "forbidden": (
        ("POST", "jobsets"),
        (403, "jobsets is forbidden: User x"),
        "you may not do this",
    ),
    "quota": (("POST", "jobsets"), (403, "forbidden: exceeded quota: gpus"), "no quota left"),
    "pod security": (("POST", "jobsets"), (403, "violates PodSecurity"), "host paths"),
    "login": (("POST", "configmaps"), (401, "Unauthorized"), "does not know you"),
    "a webhook": (("POST", "jobsets"), (500, "failed calling webhook x"), "controller"),
    "too large": (("POST", "configmaps"), (413, "too large"), "larger than"),
    "no queue": (("POST", "jobsets"), (422, "LocalQueue x not found"), "Kueue does not take"),
    "something new": (("POST", "jobsets"), (418, "teapot"), "refuses with status 418"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_a_refusal_is_told_by_its_cause_with_the_servers_words_below(
    what: str, double: Double, script: Path, tmp_path: Path
) -> None:
    record(tmp_path)
    key, answer, told = REFUSALS[what]
    double.refuse[key] = answer
    with pytest.raises(BackendError) as caught:
        backend(tmp_path).submit(script, RUN)
    first, own = str(caught.value).split("\n")
    assert told in first
    assert own.strip() == answer[1]


@pytest.mark.parametrize(
    ("plural", "told"),
    [("jobsets", "has no JobSet"), ("computedomains", "has no ComputeDomain")],
)
def test_a_missing_kind_says_how_to_install_it(
    plural: str, told: str, double: Double, script: Path, tmp_path: Path
) -> None:
    record(tmp_path)
    script.write_text(manifest(nvl72(), LOCK))
    double.missing.add(plural)
    with pytest.raises(BackendError, match=told) as caught:
        backend(tmp_path).submit(script, RUN)
    assert "install" in str(caught.value)


def test_a_namespace_that_is_not_there_is_named(
    double: Double, script: Path, tmp_path: Path
) -> None:
    record(tmp_path)
    double.namespaces.clear()
    with pytest.raises(BackendError, match="there is no namespace team"):
        backend(tmp_path).submit(script, RUN)


def test_what_the_server_does_not_know_is_refused_by_its_field(
    double: Double, script: Path, tmp_path: Path
) -> None:
    record(tmp_path)
    script.write_text(script.read_text().replace("restartPolicy:", "restartPolicies:"))
    with pytest.raises(BackendError, match="restartPolicies"):
        backend(tmp_path).submit(script, RUN)


def test_a_server_that_is_not_there_is_a_sentence(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{held.getsockname()[1]}"
    monkeypatch.setenv("KUBECONFIG", str(doubles.kubeconfig(tmp_path / "config", address)))
    record(tmp_path)
    with pytest.raises(BackendError, match="cannot be reached") as caught:
        backend(tmp_path).submit(script, RUN)
    assert not isinstance(caught.value, UnansweredError)
    assert "\n" not in str(caught.value)


def test_without_a_kubeconfig_a_sentence_says_what_to_do(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    with pytest.raises(BackendError, match="there is no kubeconfig"):
        backend(tmp_path).submit(script, RUN)
    assert not available()


@pytest.mark.parametrize("text", ["", "[]", "a: [", "clusters: 5", "current-context: x"])
def test_a_broken_kubeconfig_is_a_sentence(
    text: str, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(path))
    with pytest.raises(BackendError, match="kubeconfig"):
        backend(tmp_path).submit(script, RUN)


def test_another_context_is_named_with_those_there_are(double: Double) -> None:
    from moectl.launch.kubernetes_api import place  # noqa: PLC0415

    with pytest.raises(BackendError, match="no context 'other'; it has double"):
        place("other", "")
    assert place("", "").namespace == "team"
    assert place("double", "x").namespace == "x"


@pytest.mark.parametrize("text", ["", "a: [", "kind: Pod", "- 1", "apiVersion: v1\nkind: Pod\n"])
def test_a_manifest_that_is_none_is_refused(
    text: str, double: Double, script: Path, tmp_path: Path
) -> None:
    record(tmp_path)
    script.write_text(text)
    with pytest.raises(BackendError, match="render the bundle anew"):
        backend(tmp_path).submit(script, RUN)


def test_options_of_a_scheduler_are_refused(double: Double, script: Path, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="no job that waits for another"):
        backend(tmp_path).submit(script, RUN, ["--dependency=afterany:1"])
    assert double.requests == []


def test_a_trial_keeps_nothing(double: Double, script: Path, tmp_path: Path) -> None:
    said = backend(tmp_path).test(script.read_text(), script.parent)
    assert said == ("double would take ConfigMap, JobSet in the namespace team (--dry-run=server)")
    assert double.objects == {}


def state_of(double: Double, tmp_path: Path, job: str) -> Any:
    (state,) = backend(tmp_path).survey([Wanted(RUN, (job,))])[RUN]
    return state


def test_a_job_is_followed_from_its_pods_to_its_end(
    double: Double, script: Path, tmp_path: Path
) -> None:
    record(tmp_path)
    job = backend(tmp_path).submit(script, RUN)
    assert state_of(double, tmp_path, job).phase == "pending"
    double.run_pods("Pending", waiting={"reason": "ImagePullBackOff", "message": "no such image"})
    waits = state_of(double, tmp_path, job)
    assert waits.phase == "pending"
    assert "image cannot be pulled" in backend(tmp_path).blocked(waits)
    double.run_pods("Running", running={})
    runs = state_of(double, tmp_path, job)
    assert (runs.phase, runs.nodes, runs.start) == ("running", "node-0", "2026-11-30T12:00:00Z")
    double.run_pods("Succeeded", terminated={"exitCode": 0})
    assert state_of(double, tmp_path, job).phase == "completing"
    double.end("Completed")
    done = state_of(double, tmp_path, job)
    assert (done.phase, done.exit_code, done.end) == ("completed", 0, "2026-11-30T13:00:00Z")
    record(tmp_path, job)
    assert backend(tmp_path).states([job])[job] == done


ENDS: dict[str, tuple[dict[str, Any], str, str]] = {
    "failed": ({"exitCode": 78, "message": "rank 0 on node-0 failed first"}, "", "failed"),
    "out of memory": ({"exitCode": 79, "message": "x"}, "", "out of memory"),
    "out of the node's memory": ({"exitCode": 137, "reason": "OOMKilled"}, "", "out of memory"),
    "timeout": ({"exitCode": 143}, "jobset failed due to DeadlineExceeded", "timeout"),
}


@pytest.mark.parametrize("what", ENDS)
def test_why_a_job_failed_is_told(what: str, double: Double, script: Path, tmp_path: Path) -> None:
    ended, message, phase = ENDS[what]
    record(tmp_path)
    job = backend(tmp_path).submit(script, RUN)
    double.run_pods("Failed", terminated=ended)
    assert state_of(double, tmp_path, job).phase == "requeued"
    double.end("Failed", message or "jobset failed", restarts=0)
    state = state_of(double, tmp_path, job)
    assert (state.phase, state.exit_code) == (phase, ended["exitCode"])
    assert not state.live


def test_a_suspended_job_waits_for_kueue_or_for_a_person(
    double: Double, script: Path, tmp_path: Path
) -> None:
    record(tmp_path)
    job = backend(tmp_path).submit(script, RUN)
    double.jobset()["spec"]["suspend"] = True
    assert state_of(double, tmp_path, job).phase == "suspended"
    double.jobset()["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "gpu"
    waits = state_of(double, tmp_path, job)
    assert (waits.phase, waits.reason) == ("pending", "it waits for Kueue")


def test_a_job_that_is_gone_is_unknown_and_can_be_cancelled(
    double: Double, script: Path, tmp_path: Path
) -> None:
    record(tmp_path)
    job = backend(tmp_path).submit(script, RUN)
    backend(tmp_path).cancel([job], RUN)
    assert double.objects == {}
    assert state_of(double, tmp_path, job).phase == "unknown"
    backend(tmp_path).cancel([job], RUN)


def test_all_runs_of_a_namespace_cost_two_questions(
    double: Double, script: Path, tmp_path: Path
) -> None:
    double.page = 2
    runs = [f"moe-20261130-12000{n}-ab12" for n in range(6)]
    for run in runs:
        record(tmp_path, run=run)
        backend(tmp_path).submit(script, run)
    double.requests.clear()
    found = backend(tmp_path).survey([Wanted(run) for run in runs])
    assert {run: len(states) for run, states in found.items()} == dict.fromkeys(runs, 1)
    assert double.requests == ["GET jobsets"] * 3 + ["GET pods"]


def test_the_output_of_pods_becomes_logs_of_ranks_and_nothing_twice(
    double: Double, script: Path, tmp_path: Path
) -> None:
    held = record(tmp_path)
    job = backend(tmp_path).submit(script, RUN)
    held = record(tmp_path, job)
    (pod,) = double.run_pods("Running", running={})
    backend(tmp_path).bring(held)  # no log yet
    double.say(pod, "moectl: pod 0", "0: completed step: 0", "1: completed step: 0")
    folder = Path(held.bundle) / "logs" / job
    for _ in range(3):
        backend(tmp_path).bring(held)
        assert (folder / "rank-0.log").read_text() == "completed step: 0\n"
    double.say(pod, "0: completed step: 1")
    backend(tmp_path).bring(held)
    assert (folder / "rank-0.log").read_text() == "completed step: 0\ncompleted step: 1\n"
    assert (folder / "rank-1.log").read_text() == "completed step: 0\n"
    assert (Path(held.bundle) / f"moe-{job}.log").read_text() == "moectl: pod 0\n"


def test_a_restart_has_logs_of_its_own_and_the_first_failure_is_kept(
    double: Double, script: Path, tmp_path: Path
) -> None:
    record(tmp_path)
    job = backend(tmp_path).submit(script, RUN)
    held = record(tmp_path, job)
    told = "rank 3 on node-0 failed first, with exit code 7; a GPU is faulty"
    (pod,) = double.run_pods("Failed", terminated={"exitCode": 7, "message": told})
    double.say(pod, "3: boom")
    (again,) = double.run_pods("Running", restart=1, running={})
    double.say(again, "3: fine")
    double.jobset()["status"] = {"restarts": 1}
    backend(tmp_path).bring(held)
    logs = Path(held.bundle) / "logs"
    assert (logs / job / "rank-3.log").read_text() == "boom\n"
    assert (logs / job / "first-failure").read_text() == "7 3 node-0\n"
    assert (logs / f"{job}.1" / "rank-3.log").read_text() == "fine\n"
    assert state_of(double, tmp_path, job).restarts == 1
    assert state_of(double, tmp_path, job).phase == "running"


def test_records_of_a_pod_become_files_again(double: Double, script: Path, tmp_path: Path) -> None:
    record(tmp_path)
    job = backend(tmp_path).submit(script, RUN)
    held = record(tmp_path, job)
    (pod,) = double.run_pods("Running", running={})
    double.say(pod, 'moectl: as-run.json: {"format": 1}', 'moectl: watchdog.json: {"code": 124}')
    double.say(pod, 'moectl: as-run.json: {"format": 2}', "moectl: ../x.json: {}")
    backend(tmp_path).bring(held)
    folder = Path(held.bundle) / "logs" / job
    assert (folder / "as-run.json").read_text() == '{"format": 1}\n'
    assert (folder / "watchdog.json").read_text() == '{"code": 124}\n'
    assert not (folder.parent / "x.json").exists()


def test_lines_of_one_moment_are_told_apart() -> None:
    lines = [f"2026-11-30T12:00:00Z {letter}" for letter in "abc"]
    found, mark = fresh(lines[:2], "", 0)
    assert found == ["a", "b"]
    again, mark = fresh(lines, *mark)
    assert again == ["c"]
    assert fresh([*lines, "2026-11-30T12:00:00.5Z d", "cut"], *mark)[0] == ["d"]


@pytest.mark.parametrize("run", [RUN, "A" * 63 + "-20261130-120000-ab12", "8x7b.x-1", "x"])
def test_names_of_jobs_are_legal_short_and_in_the_order_of_the_jobs(run: str) -> None:
    jobs = [number(run, attempt) for attempt in range(12)]
    assert sorted(jobs, key=int) == jobs
    assert len(set(jobs)) == 12
    for job in jobs:
        name = jobset_name(run, job)
        assert len(name) <= 41
        assert name[0].isalpha()
        assert name.replace("-", "").isalnum()
        assert name == name.lower()
