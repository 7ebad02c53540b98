"""Prints what one image or environment holds: keys, flags, versions, variables, devices.

    docker run --rm IMAGE python3 - < probe.py > image.json
    srun -N1 -n1 --container-image=IMAGE python3 - < probe.py > image.json

Standard library only, Python 3.8 or newer; it needs no GPU, writes to the temporary folder
alone and opens no connection. `moectl probe` fills in FILES (the readers that moectl itself
uses) and SECRETS. Each section has a time limit of its own, and one that fails says why under
"missing". Options: --without maxtext|xla|devices (may be repeated), --seconds N.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile

FORMAT = 1
FILES: dict[str, str] = {}
SECRETS: tuple[str, ...] = ()
OLDEST_READER = (3, 11)
SECTIONS = ("devices", "maxtext", "xla")

PACKAGES = re.compile(
    r"(jax|jaxlib|jax[-.].*|maxtext|transformer[-_]engine.*|flax|optax|orbax.*|nvidia[-_].*|grain"
    r"|numpy|ml[-_]dtypes|pydantic|omegaconf|tensorflow|tensorstore|triton|cuda[-_].*"
    r"|mujoco[-_]?mjx|aqt.*|qwix|tokamax|kubernetes)$",
    re.IGNORECASE,
)
# Variables that change what a job does; a secret among them is left out.
VARIABLES = re.compile(
    r"(XLA|JAX|NCCL|NVTE|TF_(CPP|CUDNN|ENABLE|FORCE|GPU|XLA)|CUDA|CUDNN|CUBLAS|NVIDIA|NVSHMEM|UCX"
    r"|OMPI|PMIX|MAXTEXT|OMP)_[A-Z0-9_]*$|ENABLE_TE$|(LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH)$"
)
LOOKS_SECRET = re.compile(r"(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|PRIVATE)", re.I)

# Where an image says what it is: its variables name the library, its headers the version.
HEADERS = {
    "cudnn": ("cudnn_version.h", ("CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL")),
    "nccl": ("nccl.h", ("NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH")),
}
HEADER_FOLDERS = (
    "/usr/include",
    "/usr/include/x86_64-linux-gnu",
    "/usr/include/aarch64-linux-gnu",
    "/usr/local/cuda/include",
    "/usr/local/include",
)
VERSION_VARIABLES = {"cuda": "CUDA_VERSION", "cudnn": "CUDNN_VERSION", "nccl": "NCCL_VERSION"}
LABEL_FILES = ("/.singularity.d/labels.json",)

MAXTEXT = """
import importlib.util, json, sys
from pathlib import Path
from moectl.errors import MoectlError
from moectl.evidence.maxtext_source import read_source
from moectl.evidence.maxtext_write import documents

def places():
    for name in ("maxtext", "MaxText"):
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            continue
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            yield Path(folder)
    yield Path("/opt/maxtext")

def commit(folder):
    for parent in (folder, *folder.parents):
        head = parent / ".git" / "HEAD"
        if head.is_file():
            text = head.read_text().strip()
            ref = parent / ".git" / text[5:] if text.startswith("ref: ") else None
            return ref.read_text().strip() if ref and ref.is_file() else "" if ref else text
    return ""

why = "there is none"
for place in dict.fromkeys(places()):
    if not place.is_dir():
        continue
    try:
        texts = documents(read_source(place))
    except (MoectlError, ImportError) as error:
        why = str(error)
        continue
    found = json.loads(texts["keys.json"])
    found["base"] = json.loads(texts["base.json"])["values"]
    found["models"] = json.loads(texts["models.json"])["models"]
    found["commit"] = commit(place)
    print(json.dumps(found))
    break
else:
    print(json.dumps({"missing": why}))
"""

XLA = """
import json, sys
from pathlib import Path
from moectl.errors import MoectlError
from moectl.evidence.xla_flags import write_catalogue

table = Path(sys.path[0]) / "flags.tsv"
try:
    write_catalogue(sys.executable, table)
except MoectlError as error:
    print(json.dumps({"missing": str(error)}))
else:
    head, columns, *lines = table.read_text("utf-8").splitlines()
    rows = [line.split("\\t") for line in lines]
    print(json.dumps({
        "release": head.split()[2].rstrip(":"),
        "columns": columns.split("\\t")[1:],
        "flags": {row[0]: row[1:] for row in rows},
    }))
"""

DEVICES = """
import json
try:
    import jax
    found = jax.local_devices()
except Exception as error:
    print(json.dumps({"missing": "%s: %s" % (type(error).__name__, str(error)[:300])}))
else:
    print(json.dumps({
        "platform": found[0].platform if found else "",
        "count": len(found),
        "kinds": sorted({device.device_kind for device in found}),
        "slice_indices": sorted({getattr(device, "slice_index", 0) or 0 for device in found}),
    }))
"""


def probed(without: list[str], seconds: float) -> dict[str, object]:
    """Return everything that can be told about this image."""
    missing: dict[str, str] = {}
    found: dict[str, object] = {
        "moectl_probe": FORMAT,
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "versions": _versions(),
        "libraries": _libraries(),
        "environment": _environment(),
        "labels": _labels(),
        "gpus": _gpus(missing),
    }
    folder = ""
    try:
        folder = tempfile.mkdtemp(prefix="moectl-probe-")
        _unpack(folder)
    except OSError as error:
        # A read-only image: what needs no files is told all the same.
        missing.update(dict.fromkeys(SECTIONS, f"no temporary folder can be written: {error}"))
    try:
        programs = {"maxtext": MAXTEXT, "xla": XLA, "devices": DEVICES}
        for name in SECTIONS:
            found[name] = None
            if name in missing:
                continue
            if name in without:
                missing[name] = "not asked for"
            elif name != "devices" and sys.version_info < OLDEST_READER:
                oldest = ".".join(map(str, OLDEST_READER))
                missing[name] = f"needs Python {oldest}, this is {platform.python_version()}"
            else:
                found[name] = _section(name, programs[name], folder, seconds, missing)
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    found["missing"] = missing
    return found


def _section(
    name: str, program: str, folder: str, seconds: float, missing: dict[str, str]
) -> object:
    """Run one section in a process of its own; None when it has nothing to say."""
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    if name == "devices":
        # Enough to count them: the pool of a real job is not taken.
        environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    preamble = "import sys; sys.path.insert(0, %r)\n" % folder  # noqa: UP031 - Python 3.8 too
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as answer:
        child = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", preamble + program],
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=said,
            env=environment,
            start_new_session=True,
        )
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            missing[name] = f"took longer than {seconds:g} s"
            return None
        finally:
            _end(child)
        answer.seek(0)
        said.seek(0)
        lines = answer.read().decode("utf-8", "replace").strip().splitlines()
        words = said.read().decode("utf-8", "replace").strip().splitlines()
    try:
        value = json.loads(lines[-1])
    except (IndexError, ValueError):
        last = words[-1][:300] if words else "it said nothing"
        missing[name] = f"ended with exit code {child.returncode}: {last}"
        return None
    if isinstance(value, dict) and "missing" in value:
        missing[name] = str(value["missing"])
        return None
    return value


def _end(child: subprocess.Popen[bytes]) -> None:
    """End what a section left running, and nothing else: it has a session of its own."""
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _unpack(folder: str) -> None:
    for path, text in FILES.items():
        target = os.path.join(folder, *path.split("/"))  # noqa: PTH118
        os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
        with open(target, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)


def _versions() -> dict[str, str]:
    from importlib import metadata  # noqa: PLC0415

    found: dict[str, str] = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name and PACKAGES.match(name):
            # The first on the path is what an import finds.
            found.setdefault(name.lower().replace("_", "-"), str(distribution.version))
    return found


def _libraries() -> dict[str, str]:
    found: dict[str, str] = {}
    for name, (header, words) in HEADERS.items():
        for folder in HEADER_FOLDERS:
            text = _text(f"{folder}/{header}")
            parts = [re.search(rf"#define\s+{word}\s+(\d+)", text) for word in words]
            if text and all(parts):
                found.setdefault(name, ".".join(part.group(1) for part in parts if part))
    try:
        described = json.loads(_text("/usr/local/cuda/version.json") or "{}")
        found["cuda"] = str(described["cuda"]["version"])
    except (ValueError, KeyError, TypeError):
        pass
    for name, variable in VERSION_VARIABLES.items():
        if os.environ.get(variable):
            found.setdefault(name, os.environ[variable])
    driver = re.search(r"Module\s+(?:for \S+\s+)?(\d+[\d.]*)", _text("/proc/driver/nvidia/version"))
    if driver:
        found["driver"] = driver.group(1)
    return found


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if VARIABLES.match(name) and not _secret(name)
    }


def _secret(name: str) -> bool:
    for pattern in SECRETS:
        stem = pattern.strip("*")
        fits = name == stem
        fits = fits or (pattern.startswith("*") and name.endswith(stem))
        fits = fits or (pattern.endswith("*") and name.startswith(stem))
        if fits:
            return True
    return bool(LOOKS_SECRET.search(name))


def _labels() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in LABEL_FILES:
        try:
            labels = json.loads(_text(path) or "{}")
        except ValueError:
            continue
        if isinstance(labels, dict):
            found.update(
                {str(k): v for k, v in labels.items() if isinstance(v, str) and not _secret(str(k))}
            )
    return found


def _gpus(missing: dict[str, str]) -> list[dict[str, object]]:
    """Return name and memory (MiB) of each GPU the driver shows; none on a login node."""
    program = shutil.which("nvidia-smi")
    if program is None:
        missing["gpus"] = "there is no nvidia-smi"
        return []
    fields = "--query-gpu=name,memory.total"
    try:
        answer = subprocess.run(
            [program, fields, "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        missing["gpus"] = f"nvidia-smi: {type(error).__name__}"
        return []
    found: list[dict[str, object]] = []
    for line in answer.stdout.decode("utf-8", "replace").splitlines():
        name, _, memory = line.rpartition(",")
        if name and memory.strip().isdigit():
            found.append({"name": name.strip(), "memory_mib": int(memory)})
    if not found:
        missing["gpus"] = f"nvidia-smi shows none (exit code {answer.returncode})"
    return found


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read(1 << 20)
    except OSError:
        return ""


def main(words: list[str]) -> int:
    """Print the catalogue of this image as JSON, sorted."""
    without: list[str] = []
    seconds = 300.0
    rest = iter(words)
    for word in rest:
        value = next(rest, "")
        if word == "--without" and value in SECTIONS:
            without.append(value)
        elif word == "--seconds" and re.match(r"[0-9]{1,6}$", value) and int(value):
            seconds = float(value)
        else:
            sys.stderr.write("usage: probe.py [--without maxtext|xla|devices]... [--seconds N]\n")
            return 2
    # Of the tasks of one srun, one speaks.
    if os.environ.get("SLURM_PROCID", "0") not in {"0", ""}:
        return 0
    sys.stdout.write(json.dumps(probed(without, seconds), indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
