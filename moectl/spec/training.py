"""Sections of a run file that become MaxText keys: model, batch, precision, MoE, remat, ..."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from moectl.spec.base import MaxTextKey, SpecModel

Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]
DType = Literal["bfloat16", "float32", "float16"]
Location = Literal["device", "offload", "remat"]


class ModelSpec(SpecModel):
    """Which model file MaxText loads, and what is changed of its architecture."""

    name: Annotated[str, MaxTextKey("model_name")] = Field(
        "default", description="MaxText's model file, without .yml."
    )
    overrides: dict[str, Any] = Field(
        default_factory=dict,
        description="Keys the model file sets, with other values. They go on MaxText's command "
        "line with override_model_config=true, because MaxText lets the model file win over "
        "a YAML file.",
    )


class ParallelismSpec(SpecModel):
    """Degrees of MaxText's mesh axes inside a slice (ICI) and across slices (DCN)."""

    ici: dict[str, int] = Field(
        default_factory=dict,
        description="Axis to degree inside one slice; one may be -1. Axes left out are chosen.",
    )
    dcn: dict[str, int] = Field(
        default_factory=dict,
        description="Axis to degree across slices; one may be -1. Axes left out are chosen.",
    )
    slice_gpus: Positive | None = Field(
        None,
        description="GPUs that carry one ICI mesh, at most; the default is what one NVLink "
        "domain offers.",
    )
    weight_shards: Positive | None = Field(
        None,
        description="Weights are cut over at most this many GPUs (FSDP x EP); further GPUs "
        "become a data degree. Left out: every GPU.",
    )
    num_slices: Annotated[Positive | None, MaxTextKey("num_slices")] = Field(
        None, description="MaxText's own count of slices; left to the device attributes."
    )


class BatchSpec(SpecModel):
    """Sequences and tokens a step."""

    per_device: Annotated[
        float | None, Field(gt=0, le=1_000_000), MaxTextKey("per_device_batch_size")
    ] = Field(None, description="Sequences a GPU and micro-step.")
    accumulation: Annotated[Positive, MaxTextKey("gradient_accumulation_steps")] = Field(
        1, description="Micro-steps an optimizer step."
    )
    global_: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = Field(
        None,
        alias="global",
        description="Sequences an optimizer step over all GPUs; decides per_device when given.",
    )
    sequence_length: Annotated[
        int, Field(ge=1, le=100_000_000), MaxTextKey("max_target_length")
    ] = Field(4096, description="Tokens a sequence.")


class PrecisionSpec(SpecModel):
    """Data types and quantization."""

    dtype: Annotated[DType, MaxTextKey("dtype")] = Field(
        "bfloat16", description="Type of activations."
    )
    weight_dtype: Annotated[DType, MaxTextKey("weight_dtype")] = Field(
        "float32", description="Type weights are stored in; Adam's second moment follows it."
    )
    mu_dtype: Annotated[DType | Literal[""], MaxTextKey("mu_dtype")] = Field(
        "", description="Type of Adam's first moment; empty follows weight_dtype."
    )
    grad_dtype: Annotated[DType, MaxTextKey("grad_dtype")] = Field(
        "float32", description="Type gradients are accumulated in."
    )
    quantization: Annotated[str, MaxTextKey("quantization")] = Field(
        "", description="Quantization of dense matmuls, e.g. te_fp8_currentscaling; empty is none."
    )
    logits_in_fp32: Annotated[bool, MaxTextKey("logits_dot_in_fp32")] = Field(
        False, description="Compute the logits matmul in float32."
    )


class MoeSpec(SpecModel):
    """How experts are routed, dispatched and multiplied."""

    te_block: Annotated[bool, MaxTextKey("te_moe_block")] = Field(
        False, description="Transformer Engine's fused MoEBlock (dropless, NCCL EP)."
    )
    te_gmm_quantization: Annotated[str, MaxTextKey("te_gmm_quantization")] = Field(
        "", description="Precision of the MoEBlock's grouped GEMMs: te_mxfp8 or te_no_quant."
    )
    receive_factor: Annotated[float, MaxTextKey("ragged_buffer_factor")] = Field(
        -1.0,
        description="Receive buffer as a multiple of an even load; 0 or less is the worst case, "
        "which never overflows.",
    )
    overflow_check_every: Annotated[Positive, MaxTextKey("te_ep_overflow_check_every_n_steps")] = (
        Field(20, description="Steps between checks whether a receive buffer overflowed.")
    )
    sparse_matmul: Annotated[bool, MaxTextKey("sparse_matmul")] = Field(
        True, description="Grouped (dropless) matmul; off means a dense one over all experts."
    )
    megablox: Annotated[bool, MaxTextKey("megablox")] = Field(
        False, description="Pallas grouped matmul; written for TPU, interpreted on GPUs."
    )
    prefuse_weights: Annotated[bool, MaxTextKey("prefuse_moe_weights")] = Field(
        False, description="Store the two up-projections as one weight; the MoEBlock wants it."
    )
    capacity_factor: Annotated[float, MaxTextKey("capacity_factor")] = Field(
        -1.0, description="Tokens an expert takes, as a multiple of an even load; -1 drops none."
    )
    routing_groups: Annotated[int, MaxTextKey("n_routing_groups")] = Field(
        -1, description="Groups of experts for group-limited routing; -1 is ungrouped."
    )
    top_routing_groups: Annotated[int, MaxTextKey("topk_routing_group")] = Field(
        -1, description="Groups a token may choose from."
    )
    bias_update_rate: Annotated[float, Field(ge=0), MaxTextKey("routed_bias_update_rate")] = Field(
        0.0, description="Step of the loss-free balancing bias; the MoEBlock wants 0."
    )
    balance_loss_weight: Annotated[float, Field(ge=0), MaxTextKey("load_balance_loss_weight")] = (
        Field(0.0, description="Weight of the load-balancing loss.")
    )
    random_routing: Annotated[bool, MaxTextKey("use_random_routing")] = Field(
        False, description="Route at random, for measurements only."
    )
    experts_on_fsdp: Annotated[bool, MaxTextKey("shard_exp_on_fsdp")] = Field(
        False, description="Cut the expert axis of weights over FSDP."
    )


class AttentionSpec(SpecModel):
    """The attention kernel."""

    kernel: Annotated[str, MaxTextKey("attention")] = Field(
        "autoselected", description="cudnn_flash_te, dot_product, flash, ..."
    )


class RematSpec(SpecModel):
    """What of the activations is kept, offloaded to the host, or computed again."""

    policy: Annotated[str, MaxTextKey("remat_policy")] = Field(
        "full", description="MaxText's policy; custom reads `tensors`."
    )
    tensors: dict[str, Location] = Field(
        default_factory=dict,
        description="Activation name to device, offload or remat, for policy custom.",
    )


class OptimizerSpec(SpecModel):
    """Optimizer and learning-rate schedule."""

    type: Annotated[str, MaxTextKey("opt_type")] = Field("adamw", description="Optimizer.")
    learning_rate: Annotated[float, Field(ge=0, le=1_000), MaxTextKey("learning_rate")] = Field(
        3.0e-5, description="Peak learning rate."
    )
    schedule: Annotated[Literal["cosine", "wsd"], MaxTextKey("lr_schedule_type")] = Field(
        "cosine", description="Shape after the warm-up."
    )
    schedule_steps: Annotated[int, MaxTextKey("learning_rate_schedule_steps")] = Field(
        -1, description="Length of the schedule; -1 is the run's steps."
    )
    warmup_fraction: Annotated[float, Field(ge=0, le=1), MaxTextKey("warmup_steps_fraction")] = (
        Field(0.1, description="Share of the schedule that warms up.")
    )
    final_fraction: Annotated[
        float, Field(ge=0, le=1), MaxTextKey("learning_rate_final_fraction")
    ] = Field(0.1, description="Final rate as a share of the peak.")
    weight_decay: Annotated[float, MaxTextKey("adam_weight_decay")] = Field(
        0.1, description="Weight decay."
    )
    gradient_clipping: Annotated[float, Field(ge=0), MaxTextKey("gradient_clipping_threshold")] = (
        Field(1.0, description="Gradients are clipped to this global norm; 0 is off.")
    )


class DataSpec(SpecModel):
    """Where tokens come from."""

    type: Annotated[str, MaxTextKey("dataset_type")] = Field(
        "synthetic", description="synthetic, hf, grain, tfds, ..."
    )
    path: Annotated[str, MaxTextKey("dataset_path")] = Field(
        "", description="Folder of a TFDS dataset."
    )
    hf_path: Annotated[str, MaxTextKey("hf_path")] = Field(
        "", description="Hugging Face dataset, or json/parquet with train_files."
    )
    hf_name: Annotated[str | None, MaxTextKey("hf_name")] = Field(
        None, description="Configuration of that dataset."
    )
    hf_train_files: Annotated[str | None, MaxTextKey("hf_train_files")] = Field(
        None, description="Files of the training split."
    )
    hf_eval_files: Annotated[str | None, MaxTextKey("hf_eval_files")] = Field(
        None, description="Files of the evaluation split."
    )
    hf_eval_split: Annotated[str | None, MaxTextKey("hf_eval_split")] = Field(
        None, description="Name of the evaluation split."
    )
    grain_train_files: Annotated[str, MaxTextKey("grain_train_files")] = Field(
        "", description="Training files for grain, a glob."
    )
    grain_eval_files: Annotated[str, MaxTextKey("grain_eval_files")] = Field(
        "", description="Evaluation files for grain, a glob."
    )
    workers: Annotated[int, MaxTextKey("grain_worker_count")] = Field(
        1, description="grain worker processes a host process."
    )
    tokenizer: Annotated[str | None, MaxTextKey("tokenizer_path")] = Field(
        None, description="Tokenizer file or Hugging Face name."
    )
    tokenizer_type: Annotated[
        Literal["sentencepiece", "huggingface", "tiktoken"] | None, MaxTextKey("tokenizer_type")
    ] = Field(None, description="Which library reads it.")
    packing: Annotated[bool, MaxTextKey("packing")] = Field(
        True, description="Several documents in one sequence."
    )
    max_segments: Annotated[int, MaxTextKey("max_segments_per_seq")] = Field(
        -1, description="Documents a packed sequence may hold; cudnn_flash_te wants it set."
    )
    shuffle_seed: Annotated[int, MaxTextKey("data_shuffle_seed")] = Field(
        0, description="Seed of the shuffle."
    )


class CheckpointSpec(SpecModel):
    """Saving and loading."""

    enabled: Annotated[bool, MaxTextKey("enable_checkpointing")] = Field(
        True, description="Save checkpoints."
    )
    period: Annotated[Positive, MaxTextKey("checkpoint_period")] = Field(
        10_000, description="Steps between checkpoints."
    )
    keep: Annotated[int | None, MaxTextKey("max_num_checkpoints_to_keep")] = Field(
        None, description="How many to keep; left out keeps all."
    )
    asynchronous: Annotated[bool, MaxTextKey("async_checkpointing")] = Field(
        True, description="Write while training goes on."
    )
    on_preemption: Annotated[bool, MaxTextKey("enable_autocheckpoint")] = Field(
        False, description="Save when the scheduler announces the end."
    )
    load_parameters: Annotated[str, MaxTextKey("load_parameters_path")] = Field(
        "", description="Start from these parameters."
    )
    load_full_state: Annotated[str, MaxTextKey("load_full_state_path")] = Field(
        "", description="Start from this full state, optimizer included."
    )


class EvaluationSpec(SpecModel):
    """Evaluation during training."""

    interval: Annotated[int, MaxTextKey("eval_interval")] = Field(
        -1, description="Steps between evaluations; -1 is never."
    )
    steps: Annotated[int, MaxTextKey("eval_steps")] = Field(
        -1, description="Batches an evaluation; -1 is the whole split."
    )
    per_device: Annotated[float, MaxTextKey("eval_per_device_batch_size")] = Field(
        0, description="Sequences a GPU; 0 follows training."
    )


class ProfileSpec(SpecModel):
    """Tracing inside MaxText."""

    profiler: Annotated[Literal["", "xplane", "nsys"], MaxTextKey("profiler")] = Field(
        "", description="xplane, nsys, or empty for none."
    )
    skip_steps: Annotated[NonNegative, MaxTextKey("skip_first_n_steps_for_profiler")] = Field(
        1, description="First steps not traced."
    )
    steps: Annotated[Positive, MaxTextKey("profiler_steps")] = Field(5, description="Steps traced.")
    ranks: list[NonNegative] = Field(
        default_factory=lambda: [0],
        description="Processes that Nsight Systems runs around; xplane is of process 0.",
    )


class TrainingSpec(SpecModel):
    """The training loop."""

    steps: Annotated[Positive, MaxTextKey("steps")] = Field(150_001, description="Optimizer steps.")
    seed: Annotated[int, MaxTextKey("init_weights_seed")] = Field(
        0, description="Seed of the weights."
    )
    scan_layers: Annotated[bool, MaxTextKey("scan_layers")] = Field(
        True, description="Compile one layer and loop over it."
    )
    hardware: Annotated[str, MaxTextKey("hardware")] = Field(
        "gpu_multiprocess",
        description="MaxText's start-up; gpu_multiprocess is one process a GPU.",
    )
