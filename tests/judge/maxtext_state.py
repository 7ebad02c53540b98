"""The train state of a configuration, as MaxText would lay it out, without making it.

Loaded by `maxtext_judge` inside the managed environment.
"""

import collections
import importlib
import math
from typing import Any


def load(name: str) -> Any:
    """Import a module; this file is type-checked where there is no MaxText."""
    return importlib.import_module(name)


def judge(answer: dict[str, Any], config: Any, mesh: Any, leaves: bool) -> None:
    """Build the abstract train state on `mesh`, then let JAX and MaxText judge its layout.

    Puts into `answer`: bytes a device holds, the number of parameters, every dimension that
    the mesh does not divide as (path, dimension, size, shards), the share of parameters that
    MaxText counts as unsharded, and, if asked, the leaves.

    Raises:
        IndivisibleError: by JAX, as when a run makes its state (utils/maxtext_utils.py
            setup_initial_state).
        AssertionError: by MaxText, as when too little is sharded (utils/train_utils.py
            setup_train_loop).
    """
    jax = load("jax")
    nnx = load("flax.nnx")
    utils = load("maxtext.utils.maxtext_utils")
    sharding = load("maxtext.utils.sharding")
    rules = load("flax.core.spmd").logical_axis_rules
    make_state = initializer(config, mesh)
    state, _, shardings = utils.get_abstract_state(config, mesh, make_state, True)
    _, shardings = sharding.maybe_update_params_sharding_with_opt(config, shardings)
    flat, _ = jax.tree_util.tree_flatten_with_path(state)
    placed = jax.tree_util.tree_leaves(
        shardings, is_leaf=lambda item: isinstance(item, jax.sharding.Sharding)
    )
    rows = [row(path, leaf, where, mesh) for (path, leaf), where in zip(flat, placed, strict=True)]
    answer |= totals(rows)
    if leaves:
        names = logical_axes(config, mesh, make_state)
        mine = [one for one in rows if one["group"] == "parameters"]
        answer["leaves"] = [{**one, "axes": names.get(one["path"], [])} for one in mine]
    with rules(config.logical_axis_rules):
        # Only traced: JAX compares layout and shapes before it compiles anything.
        jax.jit(lambda: nnx.state(make_state()), in_shardings=None, out_shardings=shardings).trace()
        if not config.using_pipeline_parallelism and not config.use_multimodal:
            _, parameters, _ = nnx.split(state.model, nnx.Param, ...)
            assert_sharded(answer, sharding, parameters, mesh, config.sharding_tolerance)


def initializer(config: Any, mesh: Any) -> Any:
    """Return the function that makes the train state, as setup_train_loop does."""
    nnx = load("flax.nnx")
    train_state = load("maxtext.common.train_state_nnx")
    optimizers = load("maxtext.optimizers.optimizers")
    utils = load("maxtext.utils.maxtext_utils")
    creation = load("maxtext.utils.model_creation_utils")
    create, model = creation.create_nnx_abstract_model(config, mesh)
    schedule = utils.create_learning_rate_schedule(config)
    transform = optimizers.get_optimizer(config, schedule, model, mesh=mesh)

    def make_state() -> Any:
        made = create()
        return train_state.TrainStateNNX(made, nnx.Optimizer(made, transform, wrt=nnx.Param))

    return make_state


def row(path: Any, leaf: Any, where: Any, mesh: Any) -> dict[str, Any]:
    """Return one leaf as plain data, with what each dimension is cut into."""
    jax = load("jax")
    name = jax.tree_util.keystr(path)
    spec = [
        [] if axes is None else [axes] if isinstance(axes, str) else list(axes)
        for axes in where.spec
    ]
    spec += [[] for _ in range(len(leaf.shape) - len(spec))]
    shards = [math.prod(mesh.shape[axis] for axis in axes) for axes in spec]
    held = [-(-size // cut) for size, cut in zip(leaf.shape, shards, strict=True)]
    if "optimizer" in name:
        group = "optimizer" if math.prod(leaf.shape) > 1 else "other"
    else:
        group = "parameters" if jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating) else "other"
    return {
        "path": name,
        "group": group,
        "shape": list(leaf.shape),
        "dtype": str(leaf.dtype),
        "spec": spec,
        "shards": shards,
        "bytes": math.prod(held) * leaf.dtype.itemsize,
    }


def totals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return bytes a device by group, and the dimensions that the mesh does not divide."""
    held: collections.Counter[str] = collections.Counter()
    for one in rows:
        held[one["group"]] += one["bytes"]
    return {
        "bytes": {**held, "total": sum(held.values())},
        "parameters": sum(math.prod(o["shape"]) for o in rows if o["group"] == "parameters"),
        "indivisible": [
            [one["path"], dim, size, cut]
            for one in rows
            for dim, (size, cut) in enumerate(zip(one["shape"], one["shards"], strict=True))
            if size % cut
        ],
    }


def logical_axes(config: Any, mesh: Any, make_state: Any) -> dict[str, list[str | None]]:
    """Return the logical axis names of every leaf that has some, by path.

    MaxText works them out (the scan axis inserted) on the way to a mesh layout; they are
    overheard there.
    """
    jax = load("jax")
    nnx = load("flax.nnx")
    sharding = load("maxtext.utils.sharding")
    rules = load("flax.core.spmd").logical_axis_rules
    heard: list[list[str | None]] = []
    real = sharding.logical_to_mesh_axes

    def listen(names: Any, mesh: Any, rules: Any = None) -> Any:
        heard.append([None if name is None else str(name) for name in names])
        return real(names, mesh, rules=rules)

    found: dict[str, list[str | None]] = {}
    sharding.logical_to_mesh_axes = listen
    try:
        with rules(config.logical_axis_rules):
            _, state = nnx.split(nnx.eval_shape(make_state))
            variables, _ = jax.tree_util.tree_flatten_with_path(
                state, is_leaf=lambda item: isinstance(item, nnx.Variable)
            )
            for path, variable in variables:
                heard.clear()
                sharding.get_nnx_var_named_sharding_with_scan_axis(variable, mesh)
                if heard:
                    found[f"{jax.tree_util.keystr(path)}.value"] = heard[-1]
    finally:
        sharding.logical_to_mesh_axes = real
    return found


def assert_sharded(
    answer: dict[str, Any], sharding: Any, parameters: Any, mesh: Any, tolerance: float
) -> None:
    """Ask MaxText whether enough of the parameters is sharded; overhear the share it finds."""
    real = sharding._raise_if_unsharded_exceeds_tolerance

    def listen(unsharded: int, total: int, limit: float, details: Any) -> None:
        answer["unsharded"] = unsharded / total
        real(unsharded, total, limit, details)

    sharding._raise_if_unsharded_exceeds_tolerance = listen
    sharding.assert_params_sufficiently_sharded(parameters, mesh, tolerance)
