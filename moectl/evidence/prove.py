"""Compiles one training step in a child process, for GPUs that are not there.

The child (`prove_child`) runs in a managed environment that holds MaxText and JAX's CUDA
plugin. It has a session of its own, so that it can be ended with all it started; and it ends by
itself when this process dies, because its standard input is closed then.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from moectl.errors import BackendError, LocalFilesError, MoectlError, shown
from moectl.evidence.hlo_collectives import Collective, Places, collectives
from moectl.evidence.hlo_groups import GroupsError
from moectl.evidence.hlo_text import HloError, module
from moectl.evidence.prove_dump import BUFFERS_FILE, OPTIONS_FILE, buffers, options

# Variables that would change what JAX, XLA or Python do in the child.
_FOREIGN = ("JAX_", "XLA_", "TF_", "CUDA_", "NVTE_", "NCCL_", "PYTHON", "M_", "LIBTPU", "MAXTEXT")
_SAID_LINES = 12
# What the child does, as it is told to people.
_DOING = {
    "imports": "importing MaxText",
    "description of the GPU": "reading the description of the GPU",
    "configuration": "building MaxText's configuration",
    "shapes of state and batch": "tracing the shapes of state and batch",
    "compile": "compiling the training step (a minute or two on two quiet cores)",
}
_DONE_SECONDS = 30.0
# XLA's log lines of fatal ends and errors, and what Python and programs say of theirs.
_FATAL = re.compile(r"^[FE]\d{4} |Error\b|[Ff]atal|No space left|Killed|[Cc]heck failed")
_LONGEST_LINE = 600


class CompileError(MoectlError):
    """MaxText or the compiler refuses the step.

    Args:
        stage: what was done when it was refused, in the child's words.
        message: the refusal.
    """

    def __init__(self, stage: str, message: str) -> None:
        self.stage, self.message = stage, message
        lines = [line for line in message.strip().splitlines() if line.strip()][:_SAID_LINES]
        super().__init__(f"refused at the {stage}: " + "\n  ".join(lines or ["without a word"]))


@dataclass(frozen=True, slots=True)
class Request:
    """What is compiled.

    Attributes:
        target: the plugin's name of the GPU, e.g. "NVIDIA GB200".
        slices, nodes_per_slice, gpus_per_node: the layout.
        per_domain: usable GPUs of one NVLink domain.
        config: text of MaxText's configuration file.
        arguments: MaxText's `key=value` words.
        xla_flags: the value of XLA_FLAGS, what this module adds left out.
        packages: name to distribution whose releases the answer tells.
    """

    target: str
    slices: int
    nodes_per_slice: int
    gpus_per_node: int
    per_domain: int
    config: str
    arguments: tuple[str, ...]
    xla_flags: str
    packages: Mapping[str, str]

    @property
    def gpus(self) -> int:
        """Return the devices in all."""
        return self.slices * self.nodes_per_slice * self.gpus_per_node

    @property
    def topology(self) -> str:
        """Return the layout as the plugin reads it: partitions, hosts, GPUs a host."""
        return f"{self.slices}x{self.nodes_per_slice}x{self.gpus_per_node}"


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the compiler says of the program; bytes are of one device.

    Attributes:
        memory: `argument_size`, `output_size`, `alias_size`, `temp_size`, `peak_memory` and
            the host's, as `jax.stages.Compiled.memory_analysis` names them.
        spaces: bytes of every memory space of XLA's buffer assignment.
        buffers: the largest buffers, each `space`, `bytes` and `shapes`.
        collectives: the collectives it runs.
        options: the DebugOptions the compiler had.
        mesh: size of every mesh axis above 1.
        versions: package to release.
        layers: decoder layers.
        opaque_calls: attention calls that stood in for cuDNN's.
        seconds: how long it took.
    """

    memory: Mapping[str, int]
    spaces: Mapping[str, int]
    buffers: Sequence[Mapping[str, Any]]
    collectives: Sequence[Collective]
    options: Mapping[str, Any]
    mesh: Mapping[str, int]
    versions: Mapping[str, str]
    layers: int
    opaque_calls: int
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Compiled:
        """Return what `as_dict` gave.

        Raises:
            TypeError, KeyError: it is something else.
        """
        found = [Collective(**item) for item in data["collectives"]]
        return cls(**{**data, "collectives": found})


def program() -> str:
    """Return the text of the child's program."""
    from moectl.resources import package  # noqa: PLC0415

    return package().joinpath("evidence", "prove_child.py").read_text("utf-8")


def compile_step(
    request: Request, python: Path, *, seconds: float, say: Callable[[str], None]
) -> Compiled:
    """Compile a training step.

    Args:
        request: what is compiled.
        python: the interpreter that has MaxText and the CUDA plugin.
        seconds: the time it may take.
        say: called with what is being done.

    Raises:
        CompileError: MaxText or the compiler refuses it.
        BackendError: the child cannot be started, was killed, died or took too long; or the
            plugin has no description of that GPU.
        LocalFilesError: its working folder cannot be made.
    """
    import tempfile  # noqa: PLC0415

    try:
        with tempfile.TemporaryDirectory(
            prefix="moectl-prove-", ignore_cleanup_errors=True
        ) as name:
            folder = Path(name)
            (folder / "config.yml").write_text(request.config, "utf-8")
            answer = _ask(request, python, folder, seconds, say)
            return _read(request, folder, answer)
    except OSError as error:
        raise LocalFilesError(f"cannot work in a temporary folder: {error}") from error


def _ask(
    request: Request, python: Path, folder: Path, seconds: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """Start the child, pass on what it does, and return its answer."""
    said_path = folder / "said.txt"
    asked = {
        "config": str(folder / "config.yml"),
        "arguments": list(request.arguments),
        "target": request.target,
        "topology": request.topology,
        "slices": request.slices,
        "hlo": str(folder / "hlo.txt"),
        "packages": dict(request.packages),
    }
    with said_path.open("wb") as said:
        try:
            child = subprocess.Popen(
                [str(python), "-W", "ignore", "-c", program()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                cwd=folder,
                env=_environment(request, folder),
                start_new_session=True,
            )
        except OSError as error:
            raise BackendError(f"cannot start {shown(str(python))}: {error}") from error
    try:
        lines, late = _listen(child, json.dumps(asked), seconds, say)
    finally:
        end(child)
    last = lines[-1] if lines else {}
    if "answer" in last:
        found: dict[str, Any] = last["answer"]
        return found
    stage = next((line["doing"] for line in reversed(lines) if "doing" in line), "start")
    if late:
        raise BackendError(
            f"the compile took longer than {seconds:g} s (it was at the {stage}); `--layers 2` "
            "compiles two shallow models and extrapolates, --timeout gives it longer"
        )
    if "error" in last:
        raise _refusal(last, request)
    raise BackendError(_death(child.returncode, stage, said_path))


def _listen(
    child: subprocess.Popen[bytes], asked: str, seconds: float, say: Callable[[str], None]
) -> tuple[list[dict[str, Any]], bool]:
    """Return the child's lines, and whether it was ended for taking too long.

    Its standard input stays open: when it closes, the child ends.
    """
    import threading  # noqa: PLC0415

    assert child.stdin is not None  # noqa: S101 - typing only
    assert child.stdout is not None  # noqa: S101
    late = threading.Event()

    def too_long() -> None:
        late.set()
        _kill(child)

    timer = threading.Timer(seconds, too_long)
    timer.daemon = True
    timer.start()
    lines: list[dict[str, Any]] = []
    try:
        with contextlib.suppress(OSError):  # it may be dead already
            child.stdin.write(asked.encode() + b"\n")
            child.stdin.flush()
        for raw in child.stdout:
            with contextlib.suppress(ValueError):
                line = json.loads(raw)
                lines.append(line)
                if "doing" in line:
                    say(_DOING.get(line["doing"], str(line["doing"])))
                else:
                    break
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_DONE_SECONDS)
    finally:
        timer.cancel()
    return lines, late.is_set()


def end(child: subprocess.Popen[bytes]) -> None:
    """End a child with all it started, and leave no pipe open."""
    _kill(child)
    child.wait()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _kill(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        # It leads a session, so its process group has its number.
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)


def _environment(request: Request, folder: Path) -> dict[str, str]:
    """Return the child's environment: ours, without what would change JAX, and its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    dump = f"--xla_dump_to={folder / 'dump'} --xla_dump_hlo_module_re=^jit_train_step$"
    return {
        **kept,
        "XLA_FLAGS": f"{request.xla_flags} {dump}".strip(),
        "JAX_PLATFORMS": "cpu",
        # Without it the plugin looks for CUDA's libraries, and finds none.
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _refusal(last: Mapping[str, Any], request: Request) -> MoectlError:
    message, stage = str(last.get("message", "")), str(last.get("stage", ""))
    if last["error"] == "Unknown":
        known = json.loads(message)
        return BackendError(
            f"the CUDA plugin has no description of {request.target!r}; it has {', '.join(known)}"
        )
    if last["error"] in {"ModuleNotFoundError", "ImportError"} and stage == "imports":
        return BackendError(f"the environment is incomplete: {message}")
    if last["error"] in {"MemoryError"}:
        return BackendError(_memory(stage))
    return CompileError(stage, f"{last['error']}: {message}")


def _death(code: int, stage: str, said: Path) -> str:
    if code == -signal.SIGKILL:
        return _memory(stage)
    lines = _telling(_tail(said))
    how = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return "\n  ".join([f"the compiling process {how} at the {stage}:", *(lines or ["no message"])])


def _telling(lines: Sequence[str]) -> list[str]:
    """Return the few lines that say most: fatal ones and errors, else the last."""
    full = [line.rstrip()[:_LONGEST_LINE] for line in lines if line.strip()]
    fatal = [line for line in full if _FATAL.search(line) and "stack trace" not in line]
    return (fatal or full)[-3:]


def _memory(stage: str) -> str:
    import resource  # noqa: PLC0415

    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / (1 << 20)
    return (
        f"the compile was killed at the {stage}, most likely for memory: it held up to "
        f"{used:.1f} GiB, and DeepSeek-V3 takes about 2. Give it more, or compile less of the "
        "model: `--layers 2` compiles two shallow models and extrapolates"
    )


def _tail(path: Path) -> list[str]:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 65536))
        return file.read().decode("utf-8", "replace").splitlines()


def _read(request: Request, folder: Path, answer: Mapping[str, Any]) -> Compiled:
    """Read what the compiler left in the folder."""
    places = Places(
        answer["assignment"], request.nodes_per_slice * request.gpus_per_node, request.per_domain
    )
    try:
        found = collectives(module((folder / "hlo.txt").read_text("utf-8")), places)
    except (HloError, GroupsError) as error:
        raise BackendError(f"the compiler's text cannot be read: {error}") from error
    spaces, largest = buffers(_dumped(folder, BUFFERS_FILE))
    return Compiled(
        memory=answer["memory"],
        spaces=spaces,
        buffers=[{**asdict(one), "shapes": list(one.shapes)} for one in largest],
        collectives=found,
        options=options(_dumped(folder, OPTIONS_FILE)),
        mesh=answer["mesh"],
        versions=answer["versions"],
        layers=answer["layers"],
        opaque_calls=answer["opaque_calls"],
        seconds=answer["seconds"],
    )


def _dumped(folder: Path, pattern: str) -> str:
    paths = sorted((folder / "dump").glob(pattern))
    return paths[-1].read_text("utf-8", "replace") if paths else ""
