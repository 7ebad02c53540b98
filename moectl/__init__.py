"""moectl: MaxText configs, launch scripts and checks for MoE training on NVIDIA GPUs.

The commands are functions here (`moectl.render`, `moectl.validate`, ...; docs/api.md). They are
loaded when one is first used, so that importing the package costs nothing.
"""

import sys

TYPE_CHECKING = False  # importing typing for it would take half as long as Python's start
if TYPE_CHECKING:
    from moectl.actions.api import (
        Asks,
        estimate,
        explain,
        launch,
        plan,
        prove,
        rehearse,
        render,
        show,
        validate,
    )
    from moectl.actions.api_runs import (
        cancel,
        compare,
        diff,
        import_,
        report,
        resume,
        runs,
        scaling,
        status,
        trace,
        verify,
    )
    from moectl.errors import (
        BackendError,
        FindingsError,
        LocalFilesError,
        MoectlError,
        UsageError,
    )
    from moectl.version import __version__

__all__ = [
    "Asks",
    "BackendError",
    "FindingsError",
    "LocalFilesError",
    "MoectlError",
    "UsageError",
    "__version__",
    "cancel",
    "compare",
    "diff",
    "estimate",
    "explain",
    "import_",
    "launch",
    "plan",
    "prove",
    "rehearse",
    "render",
    "report",
    "resume",
    "runs",
    "scaling",
    "show",
    "status",
    "trace",
    "validate",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'moectl' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    kind = "version" if name == "__version__" else "errors" if name.endswith("Error") else ""
    return getattr(import_module(f"moectl.{kind or 'actions.api'}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Room(type(sys)):  # type: ignore[misc]
    """A package inside, named like a command: calling it is calling the command."""

    def __call__(self, *args: object, **asks: object) -> object:
        from importlib import import_module  # noqa: PLC0415

        name = self.__name__.rpartition(".")[2]
        return getattr(import_module("moectl.actions.api"), name)(*args, **asks)


class _Package(type(sys)):  # type: ignore[misc]
    """This package: Python puts what is imported inside it over the functions of the same name."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in __all__ and type(value) is type(sys):
            value.__class__ = _Room
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
