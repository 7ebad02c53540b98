"""Runs inside a Python that has MaxText and tells the weights of models, one JSON line a job.

Imports nothing of moectl. Started by `moectl.evidence.maxtext_weights`. A job is
{"arguments": key=value words, "keys": names}; the answer has the resolved "keys" and "leaves",
each [path, shape, dtype, logical axes, trained], and "wanted_axes", the mesh axes over which
every weight is to be cut; or the "error" for which MaxText refuses.
Shapes and axes do not depend on the mesh: one CPU device is enough, and no array is made.
"""

import importlib
import json
import os
import sys
import types
from typing import Any


def load(name: str) -> Any:
    """Import a module; this file is type-checked where there is no MaxText."""
    return importlib.import_module(name)


def weights(arguments: list[str], keys: list[str]) -> dict[str, Any]:
    """Return the resolved keys and the parameter leaves of one configuration."""
    jax, nnx = load("jax"), load("flax.nnx")
    pyconfig, utils = load("maxtext.configs.pyconfig"), load("maxtext.utils.maxtext_utils")
    creation = load("maxtext.utils.model_creation_utils")
    base = os.path.join(os.path.dirname(pyconfig.__file__), "base.yml")  # noqa: PTH118, PTH120
    config = pyconfig.HyperParameters(
        pyconfig._initialize_pydantic(["maxtext/trainers/pre_train/train.py", base, *arguments])
    )
    mesh = utils.get_mesh_from_config(config)
    with load("flax.core.spmd").logical_axis_rules(config.logical_axis_rules):
        create = creation.get_nnx_create_model_fn(config, mesh, None)
        _, state = nnx.split(nnx.eval_shape(create))
        leaves = [
            [*leaf(path, variable, mesh), isinstance(variable, nnx.Param)]
            for path, variable in flat(jax, nnx, state)
            if jax.numpy.issubdtype(variable.get_value().dtype, jax.numpy.floating)
        ]
    told = config.get_keys()
    return {
        "keys": {key: plain(told[key]) for key in keys if key in told},
        "leaves": leaves,
        "wanted_axes": wanted_axes(config.mesh_axes),
    }


def wanted_axes(names: list[str]) -> list[str]:
    """Return the mesh axes over which MaxText wants every weight cut, if they are above 1."""
    mesh = types.SimpleNamespace(axis_names=names, shape=dict.fromkeys(names, 2))
    wanted = load("maxtext.utils.sharding")._get_nontrival_mesh_axes(mesh)
    return [name for name in names if name in wanted]


def plain(value: Any) -> Any:
    """Return an enum's value, and everything else as it is."""
    return getattr(value, "value", value)


def flat(jax: Any, nnx: Any, state: Any) -> list[tuple[Any, Any]]:
    """Return the variables of a state with their paths."""
    found, _ = jax.tree_util.tree_flatten_with_path(
        state, is_leaf=lambda item: isinstance(item, nnx.Variable)
    )
    return list(found)


def leaf(path: Any, variable: Any, mesh: Any) -> list[Any]:
    """Return path, shape, dtype and logical axes of one variable.

    MaxText inserts the axis of the scanned layers on the way to a mesh layout
    (utils/sharding.py get_nnx_var_named_sharding_with_scan_axis); the names are overheard there.
    """
    sharding = load("maxtext.utils.sharding")
    value = variable.get_value()
    heard: list[list[str | None]] = [[]]
    real = sharding.logical_to_mesh_axes

    def listen(names: Any, mesh: Any, rules: Any = None) -> Any:
        heard.append([None if name is None else str(name) for name in names])
        return real(names, mesh, rules=rules)

    sharding.logical_to_mesh_axes = listen
    try:
        sharding.get_nnx_var_named_sharding_with_scan_axis(variable, mesh)
    finally:
        sharding.logical_to_mesh_axes = real
    axes = heard[-1][: len(value.shape)]
    axes += [None] * (len(value.shape) - len(axes))
    names = [str(getattr(step, "key", getattr(step, "idx", step))) for step in path]
    return [".".join(names), list(value.shape), str(value.dtype), axes]


def main() -> None:
    """Import MaxText once, then answer a line for each line."""
    # What MaxText prints must not get between the answers.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["HF_HUB_OFFLINE"] = "1"
        load("maxtext.utils.max_utils").maybe_initialize_jax_distributed_system = lambda *_: None
        for line in sys.stdin:
            job = json.loads(line)
            try:
                answer = weights(job["arguments"], job["keys"])
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
