"""Runs inside the managed MaxText environment and judges configurations, one fork a job.

Importing MaxText takes some 11 s, judging a configuration less than one; so this imports once,
reads one JSON job a line on stdin, judges it in a fork, and prints one JSON verdict a line.

A job has:
  id         anything; comes back
  mode       "config" (default) or "state"
  config     the configuration as a mapping, or `text`, the YAML as it stands in a file
  arguments  key=value words of the command line
  devices    how many devices there are
  slices     what the hardware says: a number of equal slices, or the devices of each; absent
             means that it agrees with the DCN degrees of the job
  env        environment variables of the job
  keys       which resolved keys to tell, instead of DERIVED
  leaves     in state mode, whether to tell every leaf (path, shape, dtype, spec, logical axes)
  flops      whether to tell MaxText's own count of FLOPs a step and device
  seconds    after which a judgement is ended; it then crashed

What is run is `maxtext.trainers.pre_train.train.initialize` until its validate_train_config
has returned, then the mesh. Two things are replaced: the distributed start, and the discovery
of slices, which CPU devices do not have. Verdicts are accepted, refused, crashed (the process
died without saying anything: never an acceptance), too-large, and unusable (the job itself).
"""

import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from typing import Any

LARGEST = 4096  # virtual devices; 16,384 were seen to abort for want of threads
SECONDS = 300.0
SHOWN_LOG = 4000
DERIVED = """
    hardware model_name decoder_block num_slices num_target_devices per_device_batch_size
    gradient_accumulation_steps global_batch_size_to_load global_batch_size_to_train_on
    micro_batch_size_to_train_on max_target_length steps num_experts num_experts_per_tok
    num_decoder_layers first_num_dense_layers emb_dim mlp_dim moe_mlp_dim vocab_size
    num_query_heads num_kv_heads head_dim attention attention_type dtype weight_dtype mu_dtype
    quantization te_moe_block te_gmm_quantization prefuse_moe_weights ragged_buffer_factor
    sparse_matmul megablox capacity_factor remat_policy scan_layers shard_mode shardy
    ici_parallelism dcn_parallelism mesh_axes opt_type dataset_type tokenizer_path run_name
    base_output_directory enable_checkpointing mtp_num_layers
"""


class Validated(BaseException):
    """Leaves train.initialize once its checks have passed; no `except Exception` takes it."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config


def load(name: str) -> Any:
    """Import a module; this file is type-checked where there is no MaxText."""
    return importlib.import_module(name)


def maxtext(name: str) -> Any:
    """Import a module of MaxText."""
    return load(f"maxtext.{name}")


def judge(job: dict[str, Any], folder: str) -> dict[str, Any]:
    """Judge one job in this process, which must not have started a JAX backend yet."""
    progress = {"stage": "job"}
    answer: dict[str, Any] = {}
    try:
        arguments = prepare(job, folder)
        progress["stage"] = "config"
        config = validated(arguments, progress)
        answer["derived"] = told(config, job.get("keys") or DERIVED.split())
        if job.get("flops"):
            count = maxtext("utils.maxtext_utils").calculate_tflops_training_per_device
            answer["flops"] = 1e12 * count(config, log=False)[0]
        progress["stage"] = "mesh"
        mesh = make_mesh(config)
        answer["mesh"] = {name: int(size) for name, size in mesh.shape.items() if size != 1}
        if job.get("mode") == "state":
            progress["stage"] = "state"
            state = load("maxtext_state")
            state.judge(answer, without_te(config, arguments), mesh, bool(job.get("leaves")))
        answer |= {"verdict": "accepted", "stage": "done"}
    except BaseException as error:  # whatever it was, it is the verdict
        verdict = "unusable" if progress["stage"] == "job" else "refused"
        answer |= {"verdict": verdict, **progress, **fault(error, job, folder)}
    return answer


def prepare(job: dict[str, Any], folder: str) -> list[str]:
    """Write the configuration, set the environment and the devices; return MaxText's argv."""
    devices, slices = job["devices"], job.get("slices")
    path = os.path.join(folder, "config.yml")  # noqa: PTH118
    text = job.get("text")
    if text is None:
        text = load("yaml").safe_dump(job["config"], sort_keys=False)
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
    words = [str(word) for word in job.get("arguments") or []]
    # Whatever a run leaves behind (~/jax_cache, outputs) falls into the folder of the job.
    os.chdir(folder)
    os.environ["HOME"] = folder
    os.environ.update({str(key): str(value) for key, value in (job.get("env") or {}).items()})
    if slices is None:
        slices = implied_slices(path, words)
    sizes = slices if isinstance(slices, list) else [devices // slices] * slices
    if sum(sizes) != devices:
        raise ValueError(f"{devices} devices are not slices of {sizes}")
    jax = load("jax")
    # Not by XLA_FLAGS: MaxText judges whether that variable is set.
    jax.config.update("jax_num_cpu_devices", devices)
    pretend_slices(sizes)
    return ["maxtext/trainers/pre_train/train.py", path, *words]


def implied_slices(path: str, words: list[str]) -> int:
    """Return the slices that the explicit DCN degrees of a job want."""
    omegaconf = load("omegaconf")
    raw = omegaconf.OmegaConf.merge(
        omegaconf.OmegaConf.load(path), omegaconf.OmegaConf.from_cli(words)
    )
    slices = 1
    for key, value in raw.items():
        is_degree = str(key).startswith("dcn_") and str(key).endswith("_parallelism")
        if is_degree and isinstance(value, int) and value > 1:
            slices *= value
    return slices


def pretend_slices(sizes: list[int]) -> None:
    """Let MaxText and JAX see device i in the slice that its number falls into."""
    numpy = load("numpy")
    mesh_utils = load("jax.experimental.mesh_utils")
    slice_of = [index for index, size in enumerate(sizes) for _ in range(size)]
    maxtext("utils.max_utils").maybe_initialize_jax_distributed_system = lambda *_: None
    maxtext("utils.elastic_utils").live_slice_indices = lambda *_: set(slice_of)
    real = mesh_utils.create_hybrid_device_mesh

    class Placed:
        def __init__(self, device: Any) -> None:
            self.device, self.slice_index = device, slice_of[device.id]

        def __getattr__(self, name: str) -> Any:
            return getattr(self.device, name)

    def hybrid(mesh_shape: Any, dcn_mesh_shape: Any, devices: Any = None, **rest: Any) -> Any:
        placed = [Placed(device) for device in devices]
        found = real(mesh_shape, dcn_mesh_shape, placed, **rest)
        bare = numpy.empty(found.shape, dtype=object)
        for index, device in numpy.ndenumerate(found):
            bare[index] = device.device
        return bare

    mesh_utils.create_hybrid_device_mesh = hybrid


def validated(arguments: list[str], progress: dict[str, str]) -> Any:
    """Run train.initialize until its validate_train_config has returned."""
    train_utils, pyconfig = maxtext("utils.train_utils"), maxtext("configs.pyconfig")
    real = train_utils.validate_train_config

    def check(config: Any) -> None:
        progress["stage"] = "validate"
        real(config)
        raise Validated(config)

    def pass_on(error: Exception) -> None:
        raise error  # in place of a log line and sys.exit(2)

    train_utils.validate_train_config = check
    pyconfig._handle_config_exception = pass_on
    try:
        maxtext("trainers.pre_train.train").initialize(arguments)
    except Validated as done:
        return done.config
    raise RuntimeError("train.initialize ended without validate_train_config")


def make_mesh(config: Any) -> Any:
    """Make the mesh as train.initialize and setup_train_loop do."""
    jax = load("jax")
    jax.config.update("jax_use_shardy_partitioner", config.shardy)
    jax.config.update(
        "jax_remove_size_one_mesh_axis_from_type", config.remove_size_one_mesh_axis_from_type
    )
    return maxtext("utils.maxtext_utils").get_mesh_from_config(config)


def without_te(config: Any, arguments: list[str]) -> Any:
    """Return the configuration without quantization by Transformer Engine.

    Only that imports it while the state is made (layers/quantizations.py); it adds no tensor.
    """
    if not str(plain(config.quantization) or "").startswith("te_"):
        return config
    pyconfig = maxtext("configs.pyconfig")
    return pyconfig.HyperParameters(pyconfig._initialize_pydantic([*arguments, "quantization=''"]))


def told(config: Any, keys: Any) -> dict[str, Any]:
    """Return resolved keys as plain data."""
    flat = config.get_keys()
    return {key: plain(flat[key]) for key in keys if key in flat}


def plain(value: Any) -> Any:
    """Return a value as JSON has it, enums by their value and the rest as text."""
    value = getattr(value, "value", value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def fault(error: BaseException, job: dict[str, Any], folder: str) -> dict[str, Any]:
    """Tell an exception: type, text, and file and line of the innermost frames of packages."""
    inner = error
    errors = getattr(error, "errors", None)
    for item in errors() if callable(errors) else []:
        # pydantic raises anew; the error of MaxText's own check keeps its traceback.
        inner = (item.get("ctx") or {}).get("error") or inner
    frames = traceback.extract_tb((inner if inner.__traceback__ else error).__traceback__)
    where = [
        f"{frame.filename.split('site-packages/')[-1]}:{frame.lineno}"
        for frame in frames
        if "site-packages/" in frame.filename
    ]
    message = str(error)
    found = {"error_type": type(error).__name__, "where": where[-4:]}
    if " not in 'emb_dim', " in message:  # an unknown key: MaxText appends its 900 valid ones
        message = message.partition(" not in 'emb_dim', ")[0] + " is not a key"
        found["unknown_keys"] = unknown_keys(job, folder)
    return found | {"error": message}


def unknown_keys(job: dict[str, Any], folder: str) -> list[str]:
    """Return every unknown key; MaxText itself stops at the first."""
    omegaconf = load("omegaconf")
    pyconfig, types = maxtext("configs.pyconfig"), maxtext("configs.types")
    words = [str(word) for word in job.get("arguments") or []]
    raw = omegaconf.OmegaConf.merge(
        omegaconf.OmegaConf.load(f"{folder}/config.yml"), omegaconf.OmegaConf.from_cli(words)
    )
    fields = types.MaxTextConfig.model_fields
    return [
        str(key)
        for key in raw
        if key != "base_config" and not pyconfig._check_for_invalid_keys(key, fields)
    ]


def in_a_fork(job: dict[str, Any]) -> dict[str, Any]:
    """Judge a job in a fork; whatever happens to the fork, an answer comes back."""
    started = time.monotonic()
    devices = job.get("devices")
    if not isinstance(devices, int) or devices < 1:
        return {"verdict": "unusable", "stage": "job", "error": f"devices {devices!r}"}
    if devices > LARGEST:
        return {"verdict": "too-large", "stage": "job", "error": f"over {LARGEST} devices"}
    with tempfile.TemporaryDirectory(prefix="judge-") as folder:
        log, verdict = f"{folder}/log", f"{folder}/verdict.json"
        child = os.fork()
        if child == 0:
            run_child(job, folder, log, verdict)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = read(log)
        try:
            answer = dict(json.loads(read(verdict))) if status == 0 else {}
        except ValueError:
            answer = {}
        if not answer:
            ended = f"signal {-status}" if status < 0 else f"exit code {status}"
            answer = {"verdict": "crashed", "stage": "crash", "error": ended}
        if answer["verdict"] in {"crashed", "unusable"}:
            answer["log"] = said[-SHOWN_LOG:]
        answer["warnings"] = [line for line in said.splitlines() if "WARNING" in line.upper()][:20]
    answer["seconds"] = round(time.monotonic() - started, 2)
    return answer


def run_child(job: dict[str, Any], folder: str, log: str, verdict: str) -> None:
    """Judge in the fork, write the verdict, and leave without ever returning."""
    status = 70
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        # The kernel ends a judgement that hangs; nothing has to watch it.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, float(job.get("seconds") or SECONDS))
        answer = json.dumps(judge(job, folder))
        with open(verdict, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(answer)
        status = 0
    finally:
        os._exit(status)


def read(path: str) -> str:
    """Return the text of a file, empty if it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


def main() -> None:
    """Import MaxText, say so, then answer a line for each line."""
    started = time.monotonic()
    # What MaxText prints must not get between the verdicts.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["JAX_TRACEBACK_FILTERING"] = "off"
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        version = load("importlib.metadata").version
        maxtext("trainers.pre_train.train")
        load("jax.experimental.mesh_utils")
        ready: dict[str, Any] = {name: version(name) for name in ("maxtext", "jax")}
        ready["seconds"] = round(time.monotonic() - started, 2)
        print(json.dumps(ready), file=answers, flush=True)
        for line in sys.stdin:
            job = json.loads(line)
            print(json.dumps({"id": job.get("id"), **in_a_fork(job)}), file=answers, flush=True)


if __name__ == "__main__":
    main()
