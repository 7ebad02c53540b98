"""Model FLOPs of a training step on one device, as MaxText 0.2.5 counts them, and Megatron.

Formulas: MaxText 0.2.5 utils/maxtext_utils.py:540-860 and 1157-1400, restated a token. A
multiplication with an addition counts 2, the backward pass twice the forward pass, causal
attention half of the full one. Rematerialisation, quantization, padding, routing that drops,
and the optimizer are never counted, so this is the work of the model and not of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from moectl.estimate.architecture import Architecture
from moectl.facts.yaml_facts import read

PASSES = 3  # forward, and a backward pass of twice the work


@dataclass(frozen=True, slots=True)
class Flops:
    """Forward FLOPs a token, all layers together, by kind.

    Attributes:
        attention_gemm: projections around the attention, indexer and delta nets included.
        dense_gemm: dense layers and shared experts.
        router: the choice of experts.
        expert_gemm: the routed experts of a token.
        logits: the product with the vocabulary, once.
        attention: scores and their product with the values, and what delta nets do instead.
        prediction_gemm, prediction_attention: multi-token-prediction layers.
    """

    attention_gemm: float
    dense_gemm: float
    router: float
    expert_gemm: float
    logits: float
    attention: float
    prediction_gemm: float = 0.0
    prediction_attention: float = 0.0

    @property
    def weights(self) -> float:
        """Return what MaxText calls learnable weight FLOPs, forward, a token."""
        gemms = self.attention_gemm + self.dense_gemm + self.router + self.expert_gemm
        return gemms + self.logits + self.prediction_gemm

    @property
    def scores(self) -> float:
        """Return what MaxText calls attention FLOPs, forward, a token."""
        return self.attention + self.prediction_attention

    @property
    def training(self) -> float:
        """Return FLOPs a token of a training step: forward and backward."""
        return PASSES * (self.weights + self.scores)


def per_token(model: Architecture, sequence: int) -> Flops:
    """Return the forward FLOPs of one token in a sequence of `sequence` tokens.

    FLOPs a step and device are `tokens_per_step` times `Flops.training`.
    """
    projections, causal = _attention(model, sequence)
    per_layer = 2.0 * model.emb
    mixer, scores = _mixed(model, sequence, projections, causal)
    ffn = per_layer * (model.gates + 1)
    router = per_layer * model.experts if model.experts > 1 else 0.0
    shared = ffn * model.expert * model.shared
    routed = ffn * model.expert * model.top_k
    extra = model.prediction
    last = router + routed + (shared if model.prediction_shared else 0.0)
    if model.experts == 1:
        last = ffn * model.mlp
    return Flops(
        attention_gemm=mixer,
        dense_gemm=ffn * model.mlp * model.dense
        + (shared * model.moe if model.counted_shared else 0.0),
        router=router * model.moe,
        expert_gemm=routed * model.moe,
        logits=per_layer * model.vocab,
        attention=scores,
        prediction_gemm=extra * (last + projections),
        prediction_attention=extra * causal,
    )


def tokens_per_step(batch: float, sequence: int, accumulation: int = 1) -> float:
    """Return the tokens of a device and step (utils/maxtext_utils.py:286)."""
    return batch * sequence * accumulation


def megatron(model: Architecture, sequence: int, prediction_layers: int = 0) -> float:
    """Return the training FLOPs a token as Megatron-Bridge's tables count them.

    Each multi-token-prediction layer that its recipe trains adds a layer with experts, its
    attention, and a product with the vocabulary of its own; MaxText's presets train none. The
    rest is equal (facts/data/decoders.yaml, F2): 3.8 % more for DeepSeek-V3.
    """
    if prediction_layers != model.prediction:
        model = replace(model, prediction=prediction_layers)
    found = per_token(model, sequence)
    return found.training + PASSES * prediction_layers * found.logits


def parameters(model: Architecture) -> tuple[int, int]:
    """Return the matrix weights of a model, and those a token is multiplied with.

    Norms and biases are left out; for models that MaxText has, the weight tables count exactly.
    """
    active = per_token(model, 1).weights / 2
    width = (model.gates + 1) * model.emb * model.expert
    idle = model.moe * (model.experts - model.top_k) * width if model.experts > 1 else 0
    return int(active) + model.vocab * model.emb + idle, int(active)


def megatron_prediction_layers(name: str) -> int:
    """Return the prediction layers that Megatron's recipe of a model trains."""
    return int(read("decoders.yaml")["megatron_prediction_layers"].get(name, 0))


def _attention(model: Architecture, sequence: int) -> tuple[float, float]:
    """Return forward FLOPs a token of one attention layer: projections, and causal scores."""
    emb, heads = model.emb, model.heads
    out = 2.0 * emb * heads * model.value
    scores = 1.0 * sequence * heads * (model.query + model.value)
    latent = model.latent
    if latent is None:
        # Keys and values have the size of a query head, the output that of a value head.
        keys = model.kv_heads * (model.query + model.value) / 2 * model.kv_copies
        return 2.0 * emb * (heads * model.query + keys) + out, scores
    if latent.query_rank:
        query = 2.0 * latent.query_rank * (emb + heads * model.query)
    else:
        query = 2.0 * emb * heads * model.query
    keys = 2.0 * (
        emb * (latent.rank + latent.rope) + latent.rank * heads * (latent.nope + model.value)
    )
    indexer = model.indexer
    if indexer is None or sequence <= indexer.top:
        return query + keys + out, scores
    projected = 2.0 * (
        latent.query_rank * indexer.heads * indexer.head_dim
        + emb * (indexer.head_dim + indexer.heads)
    )
    share = indexer.top / sequence
    chosen = 2.0 * scores * (share - 0.5 * share * share)
    scored = 1.0 * sequence * indexer.heads * (indexer.head_dim + 1)
    return query + keys + projected + out, chosen + scored


def _mixed(
    model: Architecture, sequence: int, projections: float, causal: float
) -> tuple[float, float]:
    """Return projections and scores of all layers, where they are not all alike."""
    others = model.layers - model.full
    pairs = 2.0 * model.heads * (model.query + model.value)
    if model.attention == "local":
        window = min(model.window, sequence)
        near = pairs * (sequence * window - 0.5 * window * window) / sequence
        return projections * model.layers, causal * model.full + near * others
    if model.attention == "chunked":
        chunk = min(model.window, sequence)
        whole, rest = divmod(sequence, chunk)
        near = pairs / 2 * (whole * chunk * chunk + rest * rest) / sequence
        return projections * model.layers, causal * model.full + near * others
    if model.attention == "delta":
        assert model.delta is not None  # noqa: S101 - so it is made
        delta = model.delta
        keys, values = delta.key_heads * delta.key_dim, delta.value_heads * delta.value_dim
        weights = 2.0 * model.emb * (2 * keys + 3 * values + 2 * delta.value_heads)
        weights += 2.0 * delta.kernel * (2 * keys + values)
        core = 8.0 * delta.value_heads * delta.key_dim * delta.value_dim
        return projections * model.full + weights * others, causal * model.full + core * others
    return projections * model.layers, causal * model.layers
