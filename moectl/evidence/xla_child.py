"""Runs inside somebody's Python and lets its jaxlib parse flag texts, one fork a text.

Standard library only, and it imports nothing of moectl: the interpreter may be any that has
jaxlib. A fault in a flag ends the process that parsed it, so each text is parsed in a fork of
a process that has imported jaxlib once. Started by `moectl.evidence.xla_session`, which sends
one JSON line of texts a round and gets one JSON line of answers back.
"""

import base64
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import types

# More than any parser writes about one text; a usage dump is cut at 15,000 bytes since 0.7.
LARGEST_ANSWER = 1 << 18


def _load() -> types.ModuleType:
    # A folder of the caller must not stand in for jaxlib or for what it imports.
    sys.path[:] = [entry for entry in sys.path if entry not in {"", "."}]
    os.environ.pop("XLA_FLAGS", None)
    # Level 3 would hide the lines that name the bad flag.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
    for noise in ("TF_CPP_MAX_VLOG_LEVEL", "TF_CPP_VMODULE"):
        os.environ.pop(noise, None)
    try:
        return importlib.import_module("jaxlib._jax")
    except ModuleNotFoundError as error:
        if error.name != "jaxlib._jax":
            raise
        return importlib.import_module("jaxlib.xla_extension")  # jaxlib before 0.6


def _library(module: types.ModuleType) -> str:
    """Return the file that holds XLA: the largest shared library beside the module."""
    folder = os.path.dirname(os.path.abspath(module.__file__ or ""))  # noqa: PTH100, PTH120
    found = [entry for entry in os.scandir(folder) if entry.name.endswith((".so", ".dylib"))]
    return max(found, key=lambda entry: entry.stat().st_size).path if found else ""


def _parse(module: types.ModuleType, text: str, seconds: float) -> dict[str, object]:
    """Fork, parse `text` there, and tell how the fork ended and what it wrote."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as options:
        child = os.fork()
        if child == 0:
            status = 70
            try:
                os.dup2(said.fileno(), 2)
                os.dup2(said.fileno(), 1)
                # The kernel ends a parser that hangs; nothing has to watch it.
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, seconds)
                os.environ["XLA_FLAGS"] = text
                compile_options = module.CompileOptions()
                # Reading the attribute is what makes XLA parse XLA_FLAGS.
                _ = compile_options.executable_build_options.debug_options
                options.write(compile_options.SerializeAsString())
                options.flush()
                status = 0
            except BaseException as error:
                os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
            finally:
                os._exit(status)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        options.seek(0)
        return {
            "code": code,
            "timeout": code == -signal.SIGALRM,
            "said": said.read(LARGEST_ANSWER).decode("utf-8", "replace"),
            "options": base64.b64encode(options.read()).decode("ascii"),
        }


def main() -> None:
    """Answer rounds of texts until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        module = _load()
        release = importlib.import_module("jaxlib.version").__version__
        hello = {"jaxlib": release, "library": _library(module)}
    except Exception as error:
        hello = {"error": f"{type(error).__name__}: {error}"}
    answers.write(json.dumps(hello) + "\n")
    answers.flush()
    for line in sys.stdin:
        request = json.loads(line)
        found = [_parse(module, text, request["seconds"]) for text in request["texts"]]
        answers.write(json.dumps(found) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
