"""Kaiju's logits of small random checkpoints in every layout that it reads, against a double-precision forward pass."""

import numpy
import pytest

from logits_tool import divergence, logits
from qwen3_reference import forward, random_checkpoint

DENSE = {
    "model_type": "qwen3",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 300,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "eos_token_id": 7,
    "hidden_act": "silu",
}
SPARSE = DENSE | {
    "model_type": "qwen3_moe",
    "num_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 128,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
TIED = {"tie_word_embeddings": True}
YARN = {
    "max_position_embeddings": 64,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
}
YARN_SET = {
    "max_position_embeddings": 256,
    "rope_scaling": {
        "type": "yarn",
        "factor": 3.0,
        "original_max_position_embeddings": 64,
        "beta_fast": 2.0,
        "beta_slow": 0.25,
        "attention_factor": 1.3,
    },
}
MIXED = {"num_hidden_layers": 5, "mlp_only_layers": [3], "decoder_sparse_step": 2}

# Differences are bounded by a few times what f16 keys and values (plain weights) or activations of 8 bits (quantized
# ones) cause, as the mean divergence in nats. The seeds are such that with plain weights no expert is chosen by less
# than that: then the choice would differ, and with it all that follows.
PLAIN, QUANTIZED = 1e-6, 3e-3


def quantized(bits, group, **overrides):
    return {"quantization": {"bits": bits, "group_size": group} | overrides}


CASES = {
    "sparse bf16": (SPARSE, {}, PLAIN),
    "sparse bf16, tied": (SPARSE | TIED, {"seed": 3}, PLAIN),
    "sparse bf16, stacked experts": (SPARSE, {"stacked": True}, PLAIN),
    "sparse f16": (SPARSE, {"dtype": "F16"}, PLAIN),
    "sparse f32": (SPARSE, {"dtype": "F32"}, PLAIN),
    "shares not renormalised": (SPARSE | {"norm_topk_prob": False}, {}, PLAIN),
    "dense layers among sparse ones": (SPARSE | MIXED, {}, PLAIN),
    "F3: sparse, yarn": (SPARSE | YARN, {}, PLAIN),
    "dense bf16": (DENSE, {}, PLAIN),
    "dense bf16, tied": (DENSE | TIED, {}, PLAIN),
    "F3: dense, yarn": (DENSE | YARN, {}, PLAIN),
    "F3: dense, tied, yarn with every factor": (DENSE | TIED | YARN_SET, {}, PLAIN),
    "4 bits, groups of 32": (SPARSE | quantized(4, 32), {"stacked": True}, QUANTIZED),
    "4 bits, groups of 64, an expert a tensor": (SPARSE | quantized(4, 64), {}, QUANTIZED),
    "4 bits, groups of 128, f16 scales": (SPARSE | quantized(4, 128), {"stacked": True, "scale_dtype": "F16"}, QUANTIZED),
    "8 bits, groups of 32, f32 scales": (SPARSE | quantized(8, 32), {"stacked": True, "scale_dtype": "F32"}, QUANTIZED),
    "8 bits, groups of 64, tied": (DENSE | TIED | quantized(8, 64), {}, QUANTIZED),
    "8 bits, groups of 128, yarn": (DENSE | YARN | quantized(8, 128), {}, QUANTIZED),
    "overrides": (
        DENSE
        | quantized(
            4,
            64,
            **{"model.layers.0.mlp.down_proj": {"bits": 8, "group_size": 32}, "model.layers.1.self_attn.q_proj": False},
        ),
        {},
        QUANTIZED,
    ),
}


def sequences():
    rng = numpy.random.default_rng(5)
    return [rng.integers(0, 300, 150).tolist(), rng.integers(0, 300, 3).tolist()]


def mean_divergence(config, weights, own):
    return numpy.mean([divergence(forward(config, weights, t), z).mean() for t, z in zip(sequences(), own)])


@pytest.mark.parametrize("case", CASES)
def test_layout(case, tmp_path):
    config, options, bound = CASES[case]
    weights = random_checkpoint(tmp_path, config, **options)
    own = logits(tmp_path, sequences(), chunk=64)
    difference = mean_divergence(config, weights, own)
    print(f"\n{case}: mean divergence {difference:.2e}")
    assert difference < bound


IGNORED = {
    "F3: yarn": (DENSE | YARN, {"rope_scaling": None}),
    "F3: attention_factor": (DENSE | YARN_SET, {"rope_scaling": YARN_SET["rope_scaling"] | {"attention_factor": 1.0}}),
    "F3: beta_fast": (DENSE | YARN_SET, {"rope_scaling": YARN_SET["rope_scaling"] | {"beta_fast": 32.0}}),
    "F3: beta_slow": (DENSE | YARN_SET, {"rope_scaling": YARN_SET["rope_scaling"] | {"beta_slow": 1.0}}),
    "norm_topk_prob": (SPARSE | {"norm_topk_prob": False}, {"norm_topk_prob": True}),
    "rope_theta": (DENSE, {"rope_theta": 11000.0}),
    "rms_norm_eps": (DENSE | {"rms_norm_eps": 0.1}, {"rms_norm_eps": 1e-6}),
}


@pytest.mark.parametrize("case", IGNORED)
def test_field_counts(case, tmp_path):
    """A reference that ignores the field is far from Kaiju: the bound of the layouts would notice."""
    config, changed = IGNORED[case]
    weights = random_checkpoint(tmp_path, config)
    own = logits(tmp_path, sequences(), chunk=64)
    assert mean_divergence(config, weights, own) < PLAIN
    difference = mean_divergence(config | changed, weights, own)
    print(f"\n{case} ignored: mean divergence {difference:.2e}")
    assert difference > 100 * PLAIN
