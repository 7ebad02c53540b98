"""Runs inside a Python that has MaxText and JAX's CUDA plugin, and compiles one training step.

Imports nothing of moectl. Started by `moectl.evidence.prove`, which sends one JSON request on
standard input and reads JSON lines from standard output: {"doing": what} while it works, then
{"answer": ...} or {"error": type, "message": text, "stage": what it was doing}.

No GPU is there: the plugin holds descriptions of GPUs as text, and
`jax.experimental.topologies` makes devices of one that can be compiled for and nothing else.
The steps are those of MaxText's own ahead-of-time compiler
(maxtext/trainers/pre_train/train_compile.py), with the devices of the request in place of its
table of machines.
"""

import glob
import importlib
import json
import os
import sys
import threading
import time
from typing import Any

# A description stands in the plugin as text between two NULs and names itself with this key.
NAME_KEY = b'device_description_str: "'
LIBRARY = "xla_cuda_plugin.so"
OPAQUE = "moectl_attention"
HANDLER = "lapack_sgetrf_ffi"
TRAINER = "maxtext/trainers/pre_train/train.py"


def load(name: str) -> Any:
    """Import a module; this file is type-checked where there is no MaxText."""
    return importlib.import_module(name)


def plugin_library() -> bytes:
    """Return the content of the CUDA plugin's library."""
    folders = list(load("jax_plugins").__path__)
    found = [path for f in folders for path in glob.glob(f"{f}/*/{LIBRARY}")]  # noqa: PTH207
    with open(found[0], "rb") as file:  # noqa: PTH123
        return file.read()


def descriptions(library: bytes) -> dict[str, str]:
    """Return the GPU descriptions of a plugin: name to the text of a GpuTargetConfigProto."""
    found: dict[str, str] = {}
    at = library.find(NAME_KEY)
    while at >= 0:
        start, end = library.rfind(b"\0", 0, at) + 1, library.find(b"\0", at)
        name_end = library.find(b'"', at + len(NAME_KEY), end)
        if name_end > 0:
            name = library[at + len(NAME_KEY) : name_end].decode("utf-8", "replace")
            found[name] = library[start:end].decode("utf-8", "replace")
        at = library.find(NAME_KEY, max(end, at + 1))
    return found


class Unknown(Exception):  # noqa: N818 - an answer, told to the parent
    """The plugin has no description of that GPU."""


def devices(request: dict[str, Any]) -> list[Any]:
    """Return the devices of the target, in the order of their ranks."""
    known = descriptions(plugin_library())
    if request["target"] not in known:
        raise Unknown(json.dumps(sorted(known)))
    topology = load("jax.experimental.topologies").get_topology_desc(
        platform="cuda",
        topology_name="",
        topology=request["topology"],
        target_config=known[request["target"]],
    )
    return sorted(topology.devices, key=lambda device: device.id)


class Sliced:
    """A device that says which slice it is in: those that only compile all say 0."""

    def __init__(self, device: Any, per_slice: int) -> None:
        self.device = device
        self.slice_index = device.id // per_slice

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)


def prepare(gpus: list[Any], slices: int) -> None:
    """Show MaxText the target's devices and slices in place of this machine's."""
    jax, mesh_utils = load("jax"), load("jax.experimental.mesh_utils")
    utils, elastic = load("maxtext.utils.max_utils"), load("maxtext.utils.elastic_utils")
    jax.config.update("jax_default_prng_impl", "unsafe_rbg")  # as MaxText's training does
    utils.maybe_initialize_jax_distributed_system = lambda *_: None
    elastic.live_slice_indices = lambda *_, **__: set(range(slices))
    real_devices, real_mesh = jax.devices, mesh_utils.create_hybrid_device_mesh
    jax.devices = lambda *a, **k: real_devices(*a, **k) if a or k else list(gpus)

    def hybrid(shape: Any, across: Any, given: Any, **options: Any) -> Any:
        per_slice = len(given) // slices
        mesh = real_mesh(shape, across, [Sliced(d, per_slice) for d in given], **options)
        return load("numpy").vectorize(lambda item: item.device, otypes=[object])(mesh)

    mesh_utils.create_hybrid_device_mesh = hybrid


def opaque_attention(jax: Any) -> Any:
    """Return an attention of the operands and results of cuDNN's, which nothing can look into.

    cuDNN itself is asked for its kernels at compile time and cannot be had without a GPU. What
    the compiler sees of it is a call: queries, keys and values in, the output and one number a
    row (the statistics of its softmax) out; backward all of these and the gradient of the
    output in, three gradients and queries' gradient in float32 as its workspace out.
    The handler behind the name is any that is at hand: it is never run.
    """
    handler = load("jaxlib.cpu._lapack").registrations()[HANDLER]
    jax.ffi.register_ffi_target(OPAQUE, handler, platform="CUDA")
    named = load("jax.ad_checkpoint").checkpoint_name
    like, float32 = jax.ShapeDtypeStruct, load("jax.numpy").float32

    def forward(query: Any, key: Any, value: Any, *sinks: Any) -> Any:
        batch, length, heads, _ = query.shape
        out = like((batch, length, heads, value.shape[-1]), query.dtype)
        rows = like((batch, heads, length, 1), float32)
        given = (query, key, value, *sinks)
        found = jax.ffi.ffi_call(OPAQUE, (out, rows))(*given)
        # Transformer Engine and MaxText name both, so that a remat policy may keep them.
        out, rows = (named(item, "context") for item in found)
        return out, (given, out, rows)

    def backward(kept: Any, gradient: Any) -> Any:
        given, out, rows = kept
        shapes = [like(item.shape, item.dtype) for item in given]
        shapes.append(like(given[0].shape, float32))
        return tuple(jax.ffi.ffi_call(OPAQUE, shapes)(*given, out, rows, gradient)[:-1])

    attend = jax.custom_vjp(lambda *given: forward(*given)[0])
    attend.defvjp(forward, backward)
    return attend


def stand_in_for_cudnn() -> None:
    """Let MaxText call the opaque attention where it would call cuDNN's, cut in the same way."""
    jax, module = load("jax"), load("maxtext.layers.attention_op")
    spec = load("jax.sharding").PartitionSpec
    attend = opaque_attention(jax)

    def call(self: Any, query: Any, key: Any, value: Any, *_: Any, **options: Any) -> Any:
        cut = [
            spec(*(names[index] for index in (0, 2, 1, 3)))  # these say heads before length
            for names in map(
                self._logical_to_mesh_axes, (self.flash_axis_names_q, self.flash_axis_names_kv)
            )
        ]
        said = options.get("sinks")
        sinks = [] if said is None else [load("jax.numpy").asarray(said, "float32")]
        return jax.shard_map(
            attend,
            mesh=self.mesh,
            in_specs=(cut[0], cut[1], cut[1], *(spec(cut[0][2]) for _ in sinks)),
            out_specs=cut[0],
            check_vma=False,
        )(query, key, value, *sinks)

    module.AttentionOp.cudnn_flash_attention = call
    # The second result, the statistics, is for decoding.
    module.AttentionOp.cudnn_jax_flash_attention = lambda *a, **k: (call(*a, **k), None)


def build(request: dict[str, Any], say: Any) -> tuple[Any, Any]:
    """Return MaxText's configuration and the mesh of the target."""
    jax, sharding = load("jax"), load("jax.sharding")
    pyconfig = load("maxtext.configs.pyconfig")
    say("configuration")
    words = [TRAINER, request["config"], *request["arguments"]]
    # pyconfig.initialize() is this, but ends the process for a configuration it refuses.
    config = pyconfig.HyperParameters(pyconfig._initialize_pydantic(words))
    jax.config.update("jax_use_shardy_partitioner", config.shardy)
    jax.config.update(
        "jax_remove_size_one_mesh_axis_from_type", config.remove_size_one_mesh_axis_from_type
    )
    explicit = load("maxtext.common.common_types").ShardMode.EXPLICIT
    kind = sharding.AxisType.Explicit if config.shard_mode == explicit else sharding.AxisType.Auto
    grid = load("maxtext.utils.maxtext_utils").create_device_mesh(config, jax.devices())
    mesh = sharding.Mesh(grid, config.mesh_axes, axis_types=(kind,) * len(config.mesh_axes))
    return config, mesh


def compiled(config: Any, mesh: Any, say: Any) -> Any:
    """Return the compiled training step."""
    sharding, utils = load("maxtext.utils.sharding"), load("maxtext.utils.maxtext_utils")
    ahead = load("maxtext.trainers.pre_train.train_compile")
    train = load("maxtext.trainers.pre_train.train")
    rules = load("flax.core.spmd").logical_axis_rules
    say("shapes of state and batch")
    arguments, options, state, _, model = ahead.get_shaped_inputs(mesh, config)
    weights, state = sharding.maybe_update_params_sharding_with_opt(config, state)
    function, inputs, outputs, static, donated = utils.get_functional_train_with_signature(
        train.train_step,
        sharding.get_input_data_sharding(config, mesh),
        sharding.build_zero1_input_state_mesh_shardings(config, state, weights),
        model,
        config,
        weights,
    )
    say("compile")
    return ahead.jit_and_compile(
        function, arguments, options, mesh, inputs, outputs, static, donated, config,
        rules(config.logical_axis_rules),
    )  # fmt: skip


def answer(request: dict[str, Any], say: Any) -> dict[str, Any]:
    """Compile, and return what the compiler says of the program."""
    started = time.monotonic()
    say("imports")
    load("maxtext.trainers.pre_train.train_compile")
    say("description of the GPU")
    prepare(devices(request), request["slices"])
    stand_in_for_cudnn()
    config, mesh = build(request, say)
    step = compiled(config, mesh, say)
    memory, text = step.memory_analysis(), step.as_text()
    with open(request["hlo"], "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
    return {
        "memory": {
            name: int(getattr(memory, f"{name}_in_bytes", 0) or 0)
            for name in (
                "argument_size", "output_size", "alias_size", "temp_size", "generated_code_size",
                "peak_memory", "host_argument_size", "host_output_size", "host_temp_size",
            )
        },
        "mesh": {name: int(size) for name, size in mesh.shape.items() if size != 1},
        "assignment": [int(device.id) for device in mesh.devices.flat],
        "versions": {
            name: load("importlib.metadata").version(package)
            for name, package in request["packages"].items()
        },
        "layers": int(config.num_decoder_layers),
        "opaque_calls": text.count(f'custom_call_target="{OPAQUE}"'),
        "seconds": round(time.monotonic() - started, 1),
    }  # fmt: skip


def end_with_the_parent() -> None:
    """End when standard input is closed: whoever asked is gone."""

    def watch() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Answer one request."""
    # What MaxText prints must not get between the lines.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as lines:
        os.dup2(2, 1)
        stage = "start"

        def tell(line: dict[str, Any]) -> None:
            print(json.dumps(line), file=lines, flush=True)

        def say(what: str) -> None:
            nonlocal stage
            stage = what
            tell({"doing": what})

        try:
            request = json.loads(sys.stdin.readline())
            end_with_the_parent()
            tell({"answer": answer(request, say)})
        except BaseException as error:
            tell({"error": type(error).__name__, "message": str(error), "stage": stage})
    # Threads of the compiler would be waited for.
    os._exit(0)


if __name__ == "__main__":
    main()
