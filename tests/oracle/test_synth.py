"""mlx-lm loads what `kaiju synth` writes, its weights are sane there, and Kaiju's own reader counts the same bytes."""

import json
import math
import os
import pathlib
import subprocess

import mlx.core as mx
import mlx_lm.utils
import numpy
import pytest
from mlx.utils import tree_flatten

from small_configs import SPARSE

ROOT = pathlib.Path(__file__).resolve().parents[2]
KAIJU = pathlib.Path(os.environ.get("KAIJU_BUILD", ROOT / "build")) / "kaiju"

DENSE = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 500,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "eos_token_id": 7,
    "hidden_act": "silu",
}
OVERRIDDEN = DENSE | {
    "tie_word_embeddings": False,
    "quantization": {
        "group_size": 64,
        "bits": 4,
        "model.layers.0.mlp.down_proj": {"group_size": 128, "bits": 8},
        "model.layers.1.self_attn.q_proj": False,
    },
}
CASES = {
    "4 bits": (SPARSE, ["--bits", "4"]),
    "8 bits, groups of 32, shards": (SPARSE, ["--bits", "8", "--group", "32", "--shard-size", "500KB"]),
    "4 bits, groups of 128": (SPARSE, ["--bits", "4", "--group", "128", "--seed", "18446744073709551615"]),
    "sparse, not quantized": (SPARSE, []),
    "dense, tied, not quantized": (DENSE, []),
    "dense, tied, 4 bits": (DENSE, ["--group", "32", "--layers", "3"]),
    "dense, overrides": (OVERRIDDEN, []),
}


def kaiju(*arguments):
    done = subprocess.run([KAIJU, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def plan(directory):
    return json.loads(kaiju("plan", directory, "--json"))


def check_modules(model, config):
    """Every matrix has mean 0 and the standard deviation that it should, every norm is near 1."""
    seen = 0
    for name, module in model.named_modules():
        if not hasattr(module, "weight"):
            continue
        seen += 1
        weight = module.weight
        if hasattr(module, "scales"):
            assert weight.dtype == mx.uint32 and module.scales.dtype == mx.bfloat16
            weight = mx.dequantize(weight, module.scales, module.biases, module.group_size, module.bits)
        else:
            assert weight.dtype == mx.bfloat16
        weight = weight.astype(mx.float32)
        if weight.ndim == 1:
            assert 0.89 < weight.min().item() and weight.max().item() < 1.11, name
            continue
        expected = 1 / math.sqrt(weight.shape[-1])
        if name.endswith(("o_proj", "down_proj")):
            expected /= math.sqrt(2 * config["hidden_size"] * config["num_hidden_layers"])
        assert abs(weight.mean().item()) < expected * (6 / math.sqrt(weight.size) + 0.005), name
        assert 0.9 * expected < mx.sqrt((weight * weight).mean()).item() < 1.1 * expected, name
    return seen


def check_logits(model, config):
    """Finite, of about unit scale, a function of the tokens before, and different from token to token."""
    model.set_dtype(mx.float32)
    tokens = [1, 2, 3, 250, 499, 3]
    logits = model(mx.array([tokens]))[0]
    assert logits.shape == (6, config["vocab_size"])
    assert mx.isfinite(logits).all().item()
    deviation = mx.sqrt((logits * logits).mean()).item()
    assert 0.3 < deviation < 3
    assert len(set(logits.argmax(axis=-1).tolist())) >= 4
    shorter = model(mx.array([tokens[2:]]))[0]
    assert mx.abs(logits[-1] - shorter[-1]).max().item() > 0.05
    return logits


@pytest.mark.parametrize("case", CASES)
def test_mlx_lm_loads_it(case, tmp_path):
    config, options = CASES[case]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "config.json").write_text(json.dumps(config))
    directory = tmp_path / "out"
    kaiju("synth", "--config", tmp_path / "in" / "config.json", directory, *options)

    model, loaded = mlx_lm.utils.load_model(directory)
    parameters = tree_flatten(model.parameters())
    assert check_modules(model, loaded) >= 11 * loaded["num_hidden_layers"]
    planned = plan(directory)
    index = json.loads((directory / "model.safetensors.index.json").read_text())
    total = sum(value.nbytes for _, value in parameters)
    assert planned["total_weights_bytes"] == total == index["metadata"]["total_size"]
    assert set(index["weight_map"]) == {name for name, _ in parameters}
    assert index["metadata"]["total_parameters"] == mlx_lm.utils.get_total_parameters(model)
    files = {path.name for path in directory.glob("*.safetensors")}
    assert set(index["weight_map"].values()) == files == set(planned["nodes"][0]["shards"])
    layers = [
        sum(value.nbytes for name, value in parameters if name.startswith(f"model.layers.{i}."))
        for i in range(loaded["num_hidden_layers"])
    ]
    assert planned["smallest_layer_bytes"] == min(layers) and planned["largest_layer_bytes"] == max(layers)

    del parameters
    check_logits(model, config)


def test_named_shape_is_what_mlx_lm_would_quantize(tmp_path):
    """The modules, shapes, bits and groups of a published shape, against mlx-lm's own quantization of its model."""
    directory = tmp_path / "out"
    kaiju("synth", "qwen3-coder-30b", directory, "--layers", "1", "--sparse")
    model, config = mlx_lm.utils.load_model(directory, lazy=True)
    written = {name: (value.shape, value.dtype) for name, value in tree_flatten(model.parameters())}

    from mlx_lm.models.qwen3_moe import Model, ModelArgs

    fresh = Model(ModelArgs.from_dict(config))
    fresh.set_dtype(mx.bfloat16)
    plain = {key: value for key, value in config.items() if not key.startswith("quantization")}
    quantized, quantized_config = mlx_lm.utils.quantize_model(fresh, plain, 64, 4)
    assert written == {name: (value.shape, value.dtype) for name, value in tree_flatten(quantized.parameters())}
    assert quantized_config["quantization"] == config["quantization"] == config["quantization_config"]


GAMMA = 0x9E3779B97F4A7C15


def mix(z):
    z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return z ^ (z >> numpy.uint64(31))


def module_key(name, seed):
    digest = 0xCBF29CE484222325
    for byte in name.encode():
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    start = numpy.array([(seed + GAMMA) % 2**64], numpy.uint64)
    return mix(mix(start) ^ numpy.uint64(digest))


def draws(key, count):
    return mix(key + numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(GAMMA))


def uniform(bits):
    return (bits >> numpy.uint64(40)).astype(numpy.float32) * numpy.float32(2**-24)


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_contents_follow_the_documented_generator(seed, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SPARSE))
    kaiju("synth", "--config", tmp_path / "config.json", tmp_path / "out", "--bits", "4", "--seed", str(seed))
    tensors = mx.load(str(tmp_path / "out" / "model.safetensors"))
    name = "model.layers.1.mlp.switch_mlp.up_proj"
    key = module_key(name, seed)
    words = numpy.array(tensors[name + ".weight"])
    assert (words.reshape(-1) == draws(key, words.size // 2).astype("<u8").view("<u4")).all()

    bits = draws(mix(key ^ numpy.uint64(GAMMA)), tensors[name + ".scales"].size)
    step = numpy.float32(1 / math.sqrt(256) / math.sqrt((16 * 16 - 1) / 12))
    scales = step * (numpy.float32(0.75) + numpy.float32(0.5) * uniform(bits))
    scales = mx.array(numpy.where(bits & numpy.uint64(1), -scales, scales)).astype(mx.bfloat16)
    biases = (scales.astype(mx.float32) * -7.5).astype(mx.bfloat16)
    assert mx.array_equal(scales, tensors[name + ".scales"].reshape(-1)).item()
    assert mx.array_equal(biases, tensors[name + ".biases"].reshape(-1)).item()

    norm = "model.layers.3.self_attn.q_norm"
    expected = numpy.float32(0.9) + numpy.float32(0.2) * uniform(draws(module_key(norm, seed), 64))
    assert mx.array_equal(mx.array(expected).astype(mx.bfloat16), tensors[norm + ".weight"]).item()
