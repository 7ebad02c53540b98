"""The commands on Kubernetes, as typed, against a double of an API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moectl.launch.store import Store
from tests.support import kubernetes_double as doubles
from tests.support.kubernetes_double import Double
from tests.support.launching import run_command

SITE = """\
launcher: kubernetes
kubernetes: {namespace: team, secret: moectl}
"""
RUN = """\
preset: gpt-oss-20b
hardware: h100-hgx
name: moe
gpus: 16
training: {steps: 3}
secrets: [HF_TOKEN]
"""
STEP = (
    "completed step: {}, seconds: 0.500, TFLOP/s/device: 100.000, Tokens/s/device: 1000.000, "
    "total_weights: 1024, loss: 10.0"
)


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    for name in ("SLURM_JOB_ID", "MOECTL_CLUSTER", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "site.yaml").write_text(SITE)
    (tmp_path / "run.yaml").write_text(RUN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOECTL_RUNS", str(tmp_path / "runs"))
    with doubles.server() as (found, address):
        monkeypatch.setenv("KUBECONFIG", str(doubles.kubeconfig(tmp_path / "config", address)))
        yield found


def typed(*words: str) -> int:
    return run_command([*words])


def launched(*more: str) -> int:
    return typed("launch", "run.yaml", "--cluster", "site.yaml", *more)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    code = typed(*words, "--format", "json")
    return code, json.loads(capsys.readouterr().out)


def test_a_run_is_launched_looked_at_cancelled_and_gone_on_with(
    double: Double, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launched() == 0
    assert len(double.jobsets()) == 1
    (record,) = Store().list().records
    assert record.options["kubernetes"] == {"context": "double", "namespace": "team"}
    pods = double.run_pods("Running", running={})
    double.say(pods[0], "moectl: pod 0 on node-0", f"0: {STEP.format(0)}", f"0: {STEP.format(1)}")
    double.say(pods[1], f"8: {STEP.format(0)}")

    code, (run,) = said(capsys, "runs")[0], said(capsys, "runs")[1]["runs"]
    assert (code, run["state"], run["live"]) == (0, "running", True)
    assert run["jobs"][0]["nodes"] == "node-0,node-1"
    code, found = said(capsys, "status", "moe")
    assert (code, found["state"], found["step"]) == (0, "running", 1)

    assert typed("logs", "moe", "--rank", "8") == 0
    assert "completed step: 0" in capsys.readouterr().out

    assert typed("cancel", "moe") == 0
    assert double.jobsets() == []
    _, found = said(capsys, "status", "moe")
    assert (found["state"], found["live"]) == ("cancelled", False)

    assert typed("resume", "moe") == 0
    (record,) = Store().list().records
    assert len(record.jobs) == 2
    assert len(double.jobsets()) == 1


def test_a_run_that_ends_well_is_done(double: Double, capsys: pytest.CaptureFixture[str]) -> None:
    assert launched() == 0
    pods = double.run_pods("Succeeded", terminated={"exitCode": 0})
    double.say(pods[0], *[f"0: {STEP.format(step)}" for step in range(3)])
    double.end("Completed")
    _, found = said(capsys, "status", "moe")
    assert (found["state"], found["step"], found["steps"]) == ("done", 2, 3)


def test_a_run_that_fails_says_why(double: Double, capsys: pytest.CaptureFixture[str]) -> None:
    assert launched() == 0
    told = "rank 9 on node-1 failed first, with exit code 2; MaxText refuses its configuration"
    pods = double.run_pods("Failed", terminated={"exitCode": 78, "message": told})
    double.say(pods[1], "9: MAXTEXT CONFIG ERROR: 'x' not in all fields")
    double.end("Failed", "jobset failed due to failure policy")
    capsys.readouterr()
    typed("status", "moe")
    out = capsys.readouterr().out
    assert "MaxText refuses its configuration" in out
    assert "rank 9" in out
    assert typed("logs", "moe", "--failed") == 0
    assert "MAXTEXT CONFIG ERROR" in capsys.readouterr().out


def test_logs_are_followed_to_the_end_of_the_run(
    double: Double, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from moectl.actions import kubernetes, logs  # noqa: PLC0415

    monkeypatch.setattr(kubernetes, "BETWEEN", 0.0)
    monkeypatch.setattr(logs, "FIRST_ASK", 0.1)
    monkeypatch.setattr(logs, "LOOK", 0.1)
    assert launched() == 0
    pods = double.run_pods("Running", running={})
    double.say(pods[0], f"0: {STEP.format(0)}")
    live = logs.is_live

    def ended(store: Store, identity: str, bring: Any) -> bool:
        double.say(pods[0], f"0: {STEP.format(2)}")
        double.end("Completed")
        return live(store, identity, bring)

    monkeypatch.setattr(logs, "is_live", ended)
    capsys.readouterr()
    assert typed("logs", "moe", "--follow") == 0
    out = capsys.readouterr().out
    assert [f"step: {step}," in out for step in range(3)] == [True, False, True]


def test_a_launch_whose_answer_was_lost_is_found_again(
    double: Double, capsys: pytest.CaptureFixture[str]
) -> None:
    double.lose.add(("POST", "jobsets"))
    assert launched() == 0  # it is found at once, by its label
    (record,) = Store().list().records
    assert (record.state, len(record.jobs)) == ("submitted", 1)
    assert len(double.jobsets()) == 1


def test_nothing_is_left_of_a_launch_that_was_refused(
    double: Double, capsys: pytest.CaptureFixture[str]
) -> None:
    double.refuse["POST", "jobsets"] = (403, "exceeded quota: gpus")
    assert launched() == 3
    assert "has no quota left" in capsys.readouterr().err
    assert Store().list().records == ()


def test_a_live_run_of_the_name_is_told(double: Double, capsys: pytest.CaptureFixture[str]) -> None:
    assert launched() == 0
    assert launched() == 2
    assert "moe is live already" in capsys.readouterr().err


def test_a_trial_asks_the_server_and_keeps_nothing(
    double: Double, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launched("--dry-run") == 0
    out = capsys.readouterr().out
    assert "double would take ConfigMap, JobSet in the namespace team" in out
    assert double.objects == {}
    assert Store().list().records == ()
    double.missing.add("jobsets")
    assert launched("--dry-run") == 3


def test_context_and_namespace_can_be_typed(
    double: Double, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launched("--context", "other") == 3
    assert "the kubeconfig has no context 'other'" in capsys.readouterr().err
    assert launched("--namespace", "default") == 0
    assert double.jobset()["metadata"]["namespace"] == "default"


def test_a_bundle_is_launched_as_it_stands_wherever_it_is_wanted(
    double: Double, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("render", "run.yaml", "--cluster", "site.yaml", "--output", "bundle") == 0
    assert "kubectl apply -f bundle/jobset.yaml" in capsys.readouterr().out
    assert typed("validate", "bundle/jobset.yaml") == 0
    assert typed("launch", "bundle", "--namespace", "default") == 0
    assert "differ" not in capsys.readouterr().out
    assert double.jobset()["metadata"]["namespace"] == "default"
    path = Path("bundle") / "jobset.yaml"
    path.write_text(path.read_text().replace("maxRestarts: 3", "maxRestarts: 7"))
    assert typed("launch", "bundle", "--again") == 0
    assert "jobset.yaml differs from what its lock file renders" in capsys.readouterr().out
    restarts = [row["spec"]["failurePolicy"]["maxRestarts"] for row in double.jobsets()]
    assert sorted(restarts) == [3, 7]


def test_what_kubernetes_cannot_do_is_refused_before_anything_is_written(
    double: Double, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launched("--chain", "3") == 2
    assert "launcher: slurm" in capsys.readouterr().err
    assert double.objects == {}
    assert Store().list().records == ()


def test_without_the_client_a_sentence_says_how_to_get_it(
    double: Double, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys  # noqa: PLC0415

    from moectl.launch import kubernetes_api  # noqa: PLC0415

    kubernetes_api._package.cache_clear()
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    assert launched() == 3
    assert "pip install 'moectl[kubernetes]'" in capsys.readouterr().err


def test_the_doctor_says_what_the_cluster_has_and_writes_a_profile_of_it(
    double: Double, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("gpu", "spare"):
        double.objects["team", "localqueues", name] = {"metadata": {"name": name}}
    double.missing.add("computedomains")
    path = tmp_path / "found.yaml"
    assert typed("doctor", "--launcher", "kubernetes", "--output", str(path)) == 0
    out = capsys.readouterr().out
    assert "ok  JobSet: context double, namespace team" in out
    assert "--  ComputeDomain" in out
    assert "ok  Kueue: local queues gpu, spare" in out
    assert typed("launch", "run.yaml", "--cluster", str(path), "--set", "secrets=[]") == 0
    labels = double.jobset()["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "gpu"


@pytest.mark.parametrize("fault", ["missing", "forbidden", "nothing"])
def test_the_doctor_says_what_is_missing_and_what_to_do(
    fault: str,
    double: Double,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if fault == "missing":
        double.missing.add("jobsets")
    elif fault == "forbidden":
        double.refuse["GET", "jobsets"] = (403, "forbidden")
    else:
        monkeypatch.setenv("KUBECONFIG", "/nothing")
    assert typed("doctor", "--launcher", "kubernetes") == 1
    out = capsys.readouterr().out
    assert "!!  " in out
    assert "try: " in out
