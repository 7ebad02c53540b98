"""Rules on containers."""

from __future__ import annotations

import pytest

from moectl.rules import containers
from moectl.rules.image_names import (
    docker_fault,
    enroot_fault,
    floating,
    mount_fault,
    pyxis_fault,
)
from moectl.workload import MARK
from tests.support.scripts import TRAIN, found, script, seen

RULES = containers.RULES
FILE = "--container-image=/images/m.sqsh"


@pytest.mark.parametrize(
    ("image", "hint"),
    [
        ("nvcr.io/nvidia/jax:26.03-py3", "nvcr.io#nvidia/jax:26.03-py3"),
        ("registry.example.io:5000/team/m:1", "registry.example.io:5000#team/m:1"),
        ("localhost/m:1", "localhost#m:1"),
        ("docker://nvcr.io/nvidia/jax:1", "docker://nvcr.io#nvidia/jax:1"),
        ("docker.io/library/ubuntu", "docker.io#library/ubuntu"),
        ("nvcr.io/nvidia#jax:1", "nvcr.io#nvidia/jax:1"),
        ("m.sqsh", "./m.sqsh"),
        ("images/m.SQSH", "./images/m.SQSH"),
        ("m.squashfs", "./m.squashfs"),
        ("m.sif", "./m.sif"),
        ("/images/m.sif", ""),
        ("~/m.sqsh", "$HOME/m.sqsh"),
        ("~root/m.sqsh", "/<home of root>/m.sqsh"),
        ("file://m.sqsh", "./m.sqsh"),
        ("file:///images/m.sqsh", "/images/m.sqsh"),
        ("FILE://images/m.sqsh", "./images/m.sqsh"),
        ("https://nvcr.io/nvidia/jax", "registry#path"),
        ("Nvidia/JAX:1", "nvidia/jax:1"),
        ("nvcr.io#", "registry#path:tag"),
        ("#nvidia/jax", "registry#path:tag"),
        ("nvcr.io#nvidia#jax", "nvidia/jax"),
        ("nvcr.io#nvidia/jax:a b", ""),
        ("", ""),
    ],
)
def test_an_image_that_pyxis_reads_otherwise(image: str, hint: str) -> None:
    fault = pyxis_fault(image)
    assert fault is not None
    assert fault.hint == hint


@pytest.mark.parametrize(
    "image",
    [
        "/images/m.sqsh", "./m.sqsh", "../m.sqsh", "./dir/m", "nvcr.io#nvidia/jax:26.03-py3",
        "user@nvcr.io#nvidia/jax:1", "$oauthtoken@nvcr.io#nvidia/jax:1", "ubuntu", "ubuntu:24.04",
        "team/image:v1.2_3", "docker://ubuntu", "docker://ghcr.io#nvidia/jax:maxtext-2026-10-05",
        "dockerd://ghcr.io/nvidia/jax:1", "podman://localhost/m:1", "localhost:5000#m:1",
        "nvcr.io#nvidia/jax@sha256:0123abcd", "nvcr.io#nvidia/jax:1@sha256:0123abcd",
    ],
)  # fmt: skip
def test_an_image_that_pyxis_takes(image: str) -> None:
    assert pyxis_fault(image) is None


@pytest.mark.parametrize(
    ("uri", "hint"),
    [
        ("nvcr.io#nvidia/jax:1", "docker://nvcr.io#nvidia/jax:1"),
        ("nvcr.io/nvidia/jax:1", "docker://nvcr.io/nvidia/jax:1"),
        ("ubuntu", "docker://ubuntu"),
        ("./m.sqsh", "enroot create ./m.sqsh"),
        ("http://x/y", "docker:// or dockerd:// or podman://"),
        ("docker://nvcr.io/nvidia#jax", "nvcr.io#nvidia/jax"),
    ],
)
def test_what_enroot_cannot_import(uri: str, hint: str) -> None:
    fault = enroot_fault(uri)
    assert fault is not None
    assert fault.hint == hint


@pytest.mark.parametrize(
    "uri",
    ["docker://nvcr.io#nvidia/jax:1", "docker://nvcr.io/nvidia/jax:1", "dockerd://x", "podman://y"],
)
def test_what_enroot_imports(uri: str) -> None:
    assert enroot_fault(uri) is None


def test_only_enroot_and_pyxis_write_a_registry_with_a_hash() -> None:
    fault = docker_fault("docker://nvcr.io#nvidia/jax:1")
    assert fault is not None
    assert fault.hint == "docker://nvcr.io/nvidia/jax:1"
    assert docker_fault("nvcr.io/nvidia/jax:1") is None
    assert docker_fault("./odd#name.sif") is None


@pytest.mark.parametrize(
    "entry",
    ["/a", "/a:/b", "/a:/b:ro", "/a:/b:ro+rprivate", "./:/job", ".:/x", "tmpfs:/tmp", "umount:/x",
     "/a:./b", f"{MARK}:/b", f"/a:{MARK}", MARK, f"/a:/b:{MARK}", "/a:/b:"],
)  # fmt: skip
def test_a_mount_that_pyxis_takes(entry: str) -> None:
    assert mount_fault(entry, MARK) is None


@pytest.mark.parametrize(
    "entry",
    ["", ":/b", "/a::ro", "data:/data", "/a:data", "~/a:/b", "/a:~/b", "/a:/b:ro:z", "ro", "a"],
)
def test_a_mount_that_pyxis_refuses(entry: str) -> None:
    assert mount_fault(entry, MARK) is not None


def test_an_image_without_a_date_may_change() -> None:
    assert floating("nvcr.io#nvidia/jax")
    assert floating("localhost:5000#jax")
    assert floating("ubuntu:latest")
    assert not floating("nvcr.io#nvidia/jax:26.03")
    assert not floating("ubuntu@sha256:00")
    assert not floating("/images/m.sqsh")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("srun --container-image=reg.example.io/team/m:1 hostname", [("CTR101", "warning", 1)]),
        ("srun --container-image=localhost/m:1 hostname", [("CTR101", "error", 1)]),
        ("srun --container-image m.sqsh hostname", [("CTR101", "error", 1)]),
        ("IMG=nvcr.io/nvidia/jax:1\nsrun --container-image=$IMG hostname",
         [("CTR101", "warning", 2)]),
        ("srun --container-image=$IMG hostname", []),
        ("#SBATCH --container-image=m.sqsh\nhostname", [("CTR101", "error", 1)]),
        ("enroot import 'nvcr.io#nvidia/jax:1'", [("CTR102", "error", 1)]),
        ("enroot import -o x.sqsh docker://nvcr.io#nvidia/jax:1", []),
        ("docker run --gpus all nvcr.io#nvidia/jax:1 true", [("CTR102", "error", 1)]),
        ("docker run --gpus all nvcr.io/nvidia/jax:1 echo '#'", []),
        ("apptainer pull jax.sif docker://nvcr.io#nvidia/jax:1", [("CTR102", "error", 1)]),
        (f"srun {FILE} --container-mounts=/a:/b,data:/c true", [("CTR104", "error", 1)]),
        (f"srun {FILE} --container-mounts=/a:/b:ro,rw true", [("CTR104", "error", 1)]),
        (f"srun {FILE} --container-mounts=/a:/b, true", [("CTR104", "error", 1)]),
        (f'srun {FILE} --container-mounts="$PWD:$PWD,$D:/d:ro" true', []),
        # variables
        (f"export XLA_FLAGS=--a\nsrun {FILE} x", [("CTR105", "warning", 1)]),
        (f"export NCCL_IB_SL=1\nsrun {FILE} x", [("CTR105", "warning", 1)]),
        (f"export XLA_FLAGS=--a\nsrun {FILE} --container-env=A,XLA_FLAGS x", []),
        (f"export XLA_FLAGS=--a\nsrun {FILE} --container-env=$NAMES x", []),
        (f"export XLA_FLAGS=--a\nsrun $OPTIONS {FILE} x", []),
        (f"export XLA_FLAGS=--a PYXIS_CONTAINER_ENV=XLA_FLAGS\nsrun {FILE} x", []),
        ("export XLA_FLAGS=--a\nsrun x", []),
        (f"export XLA_FLAGS=--a\nsrun {FILE} bash -c 'export XLA_FLAGS=--b; {TRAIN} b.yml'", []),
        (f"export XLA_FLAGS=--a\nsrun {FILE} bash -c '{TRAIN} b.yml'", [("CTR105", "warning", 1)]),
        (f"export NCCL_DEBUG=INFO MY_NAME=1\nsrun {FILE} x", []),
        # programs
        (f"srun {FILE} /opt/venv/bin/python3 t.py", [("CTR106", "warning", 1)]),
        (f"srun {FILE} /usr/local/bin/python t.py", [("CTR106", "warning", 1)]),
        (f"srun {FILE} /usr/bin/python3 t.py", []),
        (f"srun {FILE} /bin/bash -c true", []),
        (f"srun {FILE} python3 t.py", []),
        (f"srun {FILE} --container-mounts=/opt/venv:/opt/venv /opt/venv/bin/python t.py", []),
        (f"srun {FILE} --container-mounts=/opt/venv /opt/venv/bin/python t.py", []),
        (f"srun {FILE} --container-mounts=/x:/opt/venv /opt/venv/bin/python t.py",
         [("CTR106", "warning", 1)]),
        ("srun /opt/venv/bin/python3 t.py", []),
        # a container around the script
        (f"#SBATCH {FILE}\nsrun true", [("CTR107", "warning", 1)]),
        (f"#SBATCH {FILE}\nhostname", []),
        # options
        (f"srun {FILE} --container-mount-home --no-container-mount-home x",
         [("CTR112", "error", 1)]),
        (f"srun {FILE} --container-image=/other.sqsh x", [("CTR112", "error", 1)]),
        ("srun --container-mounts=/a:/b x", [("CTR112", "warning", 1)]),
        ("export PYXIS_CONTAINER_IMAGE=/a.sqsh\nsrun --container-mounts=/a:/b x", []),
        ("srun $OPTIONS --container-mounts=/a:/b x", []),
        ("srun --container-name=train --container-mounts=/a:/b x", []),
    ],
)  # fmt: skip
def test_containers(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert seen(RULES, script(f"{text}\n")) == expected


def test_a_directive_with_an_expansion_is_left_to_the_rule_about_that() -> None:
    text = "#SBATCH --container-image=$HOME/m.sqsh\n#SBATCH --container-mounts=$PWD\nhostname\n"
    assert seen(RULES, script(text)) == []


def test_the_place_of_a_mount_is_its_own() -> None:
    text = f"srun {FILE} --container-mounts=/a:/b,data:/c true\n"
    (fault,) = found(RULES, script(text))
    assert fault.column == text.index("data:") + 1


def test_what_is_no_fault_is_noted() -> None:
    text = "srun -N 4 --container-image=nvcr.io#nvidia/jax --container-mount-home true\n"
    notes = [(f.code, f.severity) for f in found(RULES, script(text))]
    assert sorted(notes) == [("CTR108", "note"), ("CTR109", "note"), ("CTR109", "note")]
    assert found(RULES, script(f"srun -N 4 {FILE} true\n")) == []


def test_one_list_of_variables_serves_all_findings_of_a_step() -> None:
    text = f"export XLA_FLAGS=--a NCCL_IB_SL=1\nsrun {FILE} --container-env=A x\n"
    hints = {finding.hint for finding in found(RULES, script(text)) if finding.code == "CTR105"}
    assert hints == {"--container-env=A,NCCL_IB_SL,XLA_FLAGS"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (f"{FILE} --container-mounts='$PWD:/w'", [("CTR104", "error", 2)]),
        (f"{FILE} --container-mounts='/data/$USER:/w'", [("CTR104", "error", 2)]),
        (f'{FILE} --container-mounts="\\$PWD:/w"', [("CTR104", "error", 2)]),
        (f"{FILE} --container-mounts='${{PWD}}:/w'", [("CTR104", "error", 2)]),
        (f"{FILE} --container-mounts='`pwd`:/w'", [("CTR104", "error", 2)]),
        (f'{FILE} --container-mounts="$PWD:/w"', []),
        (f"{FILE} --container-mounts=$PWD:/w", []),
        ("--container-image='$IMAGE'", [("CTR101", "error", 2)]),
        ('--container-image="$IMAGE"', []),
    ],
)
def test_a_dollar_in_single_quotes_is_expanded_by_nobody(
    options: str, expected: list[tuple[str, str, int]]
) -> None:
    assert seen(RULES, script(f"#!/bin/bash\nsrun {options} true\n")) == expected


def test_a_directive_is_left_to_the_rule_about_directives() -> None:
    text = "#!/bin/bash\n#SBATCH --container-image=$IMAGE --container-mounts=$PWD:/w\ntrue\n"
    assert seen(RULES, script(text)) == []


def test_in_a_directive_no_hint_needs_a_shell() -> None:
    text = "#!/bin/bash\n#SBATCH --container-image=~/m.sqsh\ntrue\n"
    hints = [finding.hint for finding in found(RULES, script(text)) if finding.code == "CTR101"]
    assert len(hints) == 1
    assert "$" not in hints[0]
