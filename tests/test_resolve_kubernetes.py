"""What a profile says of Kubernetes: taken apart, or refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from moectl.actions.plan import Wishes, plan
from moectl.actions.render import render
from moectl.errors import UsageError
from moectl.job import Job
from moectl.job_kubernetes import InitContainer, Volume


def planned(folder: Path, text: str) -> Job:
    path = folder / "site.yaml"
    lines = "".join(f"  {line}\n" for line in text.strip().splitlines())
    path.write_text(f"launcher: kubernetes\nkubernetes:\n{lines}")
    options = {"gpus": (8, "--gpus"), "hardware": ("h100-hgx", "--hardware")}
    return plan("gpt-oss-20b", Wishes(options=options, cluster=path))


def test_texts_are_taken_apart_at_their_first_mark(tmp_path: Path) -> None:
    found = planned(
        tmp_path,
        """
        annotations: ["a/b=c=d", "empty="]
        resources: [cpu=4]
        secret_keys: [HF_TOKEN=hugging-face/token]
        volumes: [{claim: runs, target: /runs}, {bucket: "gcs:x", target: /b, read_only: true}]
        init_containers: [{name: warm, image: busybox, command: [ls]}, {name: b, image: c}]
        """.replace("        ", ""),
    ).cluster.kubernetes
    assert found.annotations == {"a/b": "c=d", "empty": ""}
    assert found.resources == {"cpu": "4"}
    assert found.secret_keys == {"HF_TOKEN": ("hugging-face", "token")}
    assert found.volumes == (
        Volume("/runs", claim="runs"), Volume("/b", bucket="gcs:x", read_only=True)
    )  # fmt: skip
    assert found.init_containers == (
        InitContainer("warm", "busybox", ("ls",)), InitContainer("b", "c")
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("labels: [a]", "'a' is not of the form KEY=VALUE"),
        ("labels: ['=a']", "'=a' is not of the form KEY=VALUE"),
        ("labels: [a=1, a=2]", "'a' is said twice"),
        ("secret_keys: [HF_TOKEN=hf_abcdefgh]", "HF_TOKEN is to name a Secret and a key of it"),
        ("secret_keys: [HF_TOKEN=/x]", "HF_TOKEN is to name a Secret and a key of it"),
        ("volumes: [{target: /a}]", "needs one of claim, host_path and bucket"),
        ("volumes: [{target: /a, claim: x, bucket: y}]", "needs one of claim, host_path"),
        ("network: gke-gib", "did you mean 'gke-gib-a4'"),
        ("quue: gpu", "unknown key"),
        ("volumes: [{traget: /a, claim: x}]", "traget"),
        ("namespace: A.B", "namespace"),
        ("queue: 'a b'", "queue"),
        ("max_restarts: -1", "max_restarts"),
        (f"namespace: {'n' * 5000}", "namespace"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_file(
    text: str, told: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        planned(tmp_path, text)
    assert told in str(caught.value)
    assert "site.yaml" in str(caught.value)
    assert "hf_abcdefgh" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        planned(tmp_path, "labels: [a]\nresources: [b]\nvolumes: [{target: /a}]")
    assert str(caught.value).count("\n") == 2


def test_a_value_of_5000_characters_arrives_whole(tmp_path: Path) -> None:
    options = {
        "gpus": (8, "--gpus"), "hardware": ("h100-hgx", "--hardware"),
        "launcher": ("kubernetes", "--launcher"),
    }  # fmt: skip
    text = "x" * 5000
    found = render("gpt-oss-20b", Wishes(options=options, sets=[f"environment.LONG={text}"]))
    assert text in found.files["jobset.yaml"]
