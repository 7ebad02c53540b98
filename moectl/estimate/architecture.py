"""The dimensions of a model, as far as work, memory and traffic hang on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moectl.facts.yaml_facts import read

_MOST = 1 << 40  # of one dimension; nobody means more


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention: ranks of the projections and sizes of a head.

    `query_rank` 0 means that the query has no low-rank projection.
    """

    query_rank: int
    rank: int
    nope: int
    rope: int


@dataclass(frozen=True, slots=True)
class Indexer:
    """The sparse attention's indexer: heads, size of one, and keys it keeps a query."""

    heads: int
    head_dim: int
    top: int


@dataclass(frozen=True, slots=True)
class Delta:
    """Gated delta net: heads and their sizes for keys and values, and the convolution."""

    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    kernel: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder.

    Attributes:
        decoder: MaxText's decoder_block.
        emb, vocab: width and vocabulary.
        layers, dense: decoder layers, and those of them that have no experts.
        heads, kv_heads: attention heads; of latent attention both are `heads`.
        query, value: size of a query (and key) head and of a value head.
        attention: "causal", "local", "chunked" or "delta", see facts/data/decoders.yaml.
        full: layers whose attention reaches over the whole sequence.
        window: tokens that the other layers look back ("local") or a chunk of theirs ("chunked").
        latent, indexer, delta: present where the model has them.
        experts, top_k, shared: routed experts (1 without any), those a token takes, shared ones.
        mlp, expert: inner width of a dense layer and of an expert.
        gates: matrices before the activation, 2 for a gated one.
        counted_shared, prediction_shared: whether MaxText counts the shared experts, in its
            layers and in its prediction layers.
        prediction: multi-token-prediction layers.
        kv_copies: key and value projections, 1 where both are one.
    """

    decoder: str
    emb: int
    vocab: int
    layers: int
    dense: int
    heads: int
    kv_heads: int
    query: int
    value: int
    attention: str
    full: int
    window: int
    experts: int
    top_k: int
    shared: int
    mlp: int
    expert: int
    gates: int
    counted_shared: bool = True
    prediction_shared: bool = True
    prediction: int = 0
    kv_copies: int = 2
    latent: Latent | None = None
    indexer: Indexer | None = None
    delta: Delta | None = None

    @property
    def moe(self) -> int:
        """Return the layers that have routed experts."""
        return self.layers - self.dense


def of_values(values: Mapping[str, Any]) -> Architecture | None:
    """Return the architecture that effective MaxText values describe.

    None where a dimension is unknown or absurd, or MaxText counts the decoder by a formula that
    is not followed here (facts/data/decoders.yaml `uncounted`), or the model has parts beside
    its decoder (a vision tower, engrams) or another reference model (DPO).
    """
    facts = read("decoders.yaml")
    decoder = values.get("decoder_block")
    others = ("use_multimodal", "use_dpo", "engram_layers")
    if not isinstance(decoder, str) or decoder in facts["uncounted"]:
        return None
    if any(values.get(key) for key in others):  # UNKNOWN is true as well
        return None
    if values.get("global_parameter_scale", 1) != 1:
        return None
    try:
        return _of_values(values, facts["decoders"].get(decoder, facts["usual"]), decoder)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def _of_values(values: Mapping[str, Any], row: Mapping[str, Any], decoder: str) -> Architecture:
    layers = _whole(values, "base_num_decoder_layers")
    experts = _whole(values, "num_experts")
    latent = values["attention_type"] == "mla"
    heads = _whole(values, "base_num_query_heads")
    head_dim = _whole(values, "head_dim")
    gates = values["mlp_activations"]
    if not isinstance(gates, list) or not gates:
        raise ValueError(gates)
    full, window = _attention(values, row, layers)
    nope, rope = (
        (_whole(values, "qk_nope_head_dim"), _whole(values, "qk_rope_head_dim", least=0))
        if latent
        else (0, 0)
    )
    return Architecture(
        decoder=decoder,
        emb=_whole(values, "base_emb_dim"),
        vocab=_whole(values, "vocab_size"),
        layers=layers,
        dense=_dense(values, row, layers, experts),
        heads=heads,
        kv_heads=heads if latent else _whole(values, "base_num_kv_heads"),
        query=nope + rope if latent else head_dim,
        value=_whole(values, "v_head_dim") if latent else head_dim,
        attention=row["attention"],
        full=full,
        window=window,
        experts=experts,
        top_k=_whole(values, "num_experts_per_tok") if experts > 1 else 0,
        shared=_whole(values, "shared_experts", least=0) if experts > 1 else 0,
        mlp=_whole(values, "base_mlp_dim"),
        expert=_whole(values, "base_moe_mlp_dim") if experts > 1 else 0,
        gates=len(gates),
        counted_shared=row["shared"],
        prediction_shared=row["mtp_shared"],
        prediction=_whole(values, "mtp_num_layers", least=0),
        kv_copies=1 if values.get("share_kv_projections") is True else 2,
        latent=Latent(
            _whole(values, "q_lora_rank", least=0), _whole(values, "kv_lora_rank"), nope, rope
        )
        if latent
        else None,
        indexer=Indexer(
            _whole(values, "indexer_n_heads"),
            _whole(values, "indexer_head_dim"),
            _whole(values, "indexer_topk"),
        )
        if latent and values.get("use_indexer") is True
        else None,
        delta=_delta(values) if row["attention"] == "delta" else None,
    )


def _dense(values: Mapping[str, Any], row: Mapping[str, Any], layers: int, experts: int) -> int:
    if experts == 1:
        return layers
    if row["layers"] == "first":
        return min(layers, _whole(values, "first_num_dense_layers", least=0))
    if row["layers"] == "interleaved":
        return layers - layers // _whole(values, "interleave_moe_layer_step")
    return 0


def _attention(values: Mapping[str, Any], row: Mapping[str, Any], layers: int) -> tuple[int, int]:
    """Return the layers with attention over everything, and the window of the others."""
    kind = row["attention"]
    if kind == "local":
        return layers // int(row["pattern"]), _whole(values, "sliding_window_size")
    if kind == "chunked":
        interval = _whole(values, "nope_layer_interval")
        return layers // interval, _whole(values, "chunk_attn_window_size")
    if kind == "delta":
        return layers // _whole(values, "inhomogeneous_layer_cycle_interval"), 0
    return layers, 0


def _delta(values: Mapping[str, Any]) -> Delta:
    return Delta(
        key_heads=_whole(values, "gdn_num_key_heads"),
        key_dim=_whole(values, "gdn_key_head_dim"),
        value_heads=_whole(values, "gdn_num_value_heads"),
        value_dim=_whole(values, "gdn_value_head_dim"),
        kernel=_whole(values, "gdn_conv_kernel_dim"),
    )


def of_published(rows: Mapping[str, Any]) -> Architecture:
    """Return the architecture of an estimate-only preset (`estimate_only.architecture`).

    Its keys are those of the preset's specification: layers, dense_layers, emb, q_heads,
    kv_heads, head_dim, v_head, experts, top_k, shared, dense_mlp, moe_mlp, vocab, and for
    sliding windows full_attn_layers and swa_window.
    """
    layers, head_dim = int(rows["layers"]), int(rows["head_dim"])
    full = int(rows.get("full_attn_layers", layers))
    return Architecture(
        decoder="",
        emb=int(rows["emb"]),
        vocab=int(rows["vocab"]),
        layers=layers,
        dense=int(rows.get("dense_layers", 0)),
        heads=int(rows["q_heads"]),
        kv_heads=int(rows["kv_heads"]),
        query=head_dim,
        value=int(rows.get("v_head", head_dim)),
        attention="causal" if full == layers else "local",
        full=full,
        window=int(rows.get("swa_window", 0)),
        experts=int(rows["experts"]),
        top_k=int(rows["top_k"]),
        shared=int(rows.get("shared", 0)),
        mlp=int(rows.get("dense_mlp", 0)),
        expert=int(rows["moe_mlp"]),
        gates=2,
    )


def _whole(values: Mapping[str, Any], key: str, *, least: int = 1) -> int:
    value = values[key]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < _MOST:
        raise ValueError(key)
    return value
