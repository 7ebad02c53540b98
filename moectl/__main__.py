"""The door: the quickest way to what was asked for.

Start-up is a feature. `--version` and `--help` load nothing; a plain command line is parsed
from the same declarations typer gets; anything unusual goes to typer.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing for it would take half as long as Python's start
if TYPE_CHECKING:
    from typing import Any

    from moectl.cli.command import Command

# Objects between two runs of the garbage collector. Python's 700 costs a render some 4 of its
# 120 ms, and what is imported and parsed there is no garbage before the process ends.
COLLECTED_EVERY = 100_000


def main(words: list[str] | None = None) -> int:
    """Run a command line and return its exit code; never a traceback."""
    if words is None:
        import gc  # noqa: PLC0415

        words = sys.argv[1:]
        gc.set_threshold(COLLECTED_EVERY)
    _mend_streams()
    try:
        code = _dispatch(words)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader left (`moectl ... | head`): nobody is there to be told.
        sys.stdout = None  # nothing is flushed at exit
        return 0
    except KeyboardInterrupt:
        sys.stderr.write("moectl: interrupted\n")
        return 130
    except OSError as error:
        sys.stdout = None  # nothing is flushed at exit
        sys.stderr.write(f"moectl: standard output: {error.strerror or error}\n")
        return 4
    return code


def _mend_streams() -> None:
    """Let closed streams swallow text, and narrow encodings show what they lack as escapes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open("/dev/null", "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif hasattr(stream, "reconfigure") and stream.encoding != "utf-8":
            stream.reconfigure(errors="backslashreplace")


def _dispatch(words: list[str]) -> int:
    if words in (["--version"], ["-V"]):
        from moectl.version import __version__  # noqa: PLC0415

        sys.stdout.write(f"moectl {__version__}\n")
        return 0
    if words[:1] == ["__complete"]:
        from moectl.cli.completion import answer  # noqa: PLC0415

        return answer(words[1:])
    from moectl.cli.command import quick_parse  # noqa: PLC0415
    from moectl.cli.commands import find, overview  # noqa: PLC0415

    if not words or words in (["--help"], ["-h"]):
        sys.stdout.write(overview())
        return 0 if words else 2
    found = find(words)
    values = quick_parse(found[0], found[1]) if found else None
    if found is not None and values is not None:
        return run(found[0], values)
    return _typer(words)


def run(command: Command, values: dict[str, Any]) -> int:
    """Run a command with its values; what it refuses is said on standard error."""
    from importlib import import_module  # noqa: PLC0415

    from moectl.cli.manner import begin  # noqa: PLC0415
    from moectl.errors import LocalFilesError, MoectlError  # noqa: PLC0415

    module, _, function = command.run.partition(":")
    left = begin(values)
    try:
        if sys.stderr.isatty():
            from moectl.cli.progress import wanted, watched  # noqa: PLC0415

            if wanted(command.name, values):
                with watched(f"moectl {command.name}"):
                    return int(getattr(import_module(module), function)(**left))
        return int(getattr(import_module(module), function)(**left))
    except MoectlError as error:
        from moectl.cli.refusal import refused  # noqa: PLC0415

        return refused(error)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        from moectl.cli.refusal import failed  # noqa: PLC0415

        said = f"{error.filename or ''}: {error.strerror or error}"
        return failed(LocalFilesError.__name__, said, LocalFilesError.exit_code)


def _typer(words: list[str]) -> int:
    from moectl.cli.typer_app import spoken  # noqa: PLC0415

    return spoken(words, run)


if __name__ == "__main__":
    sys.exit(main())
