"""Small random Qwen3 checkpoints in every layout that Kaiju reads, and a plain double-precision forward pass of them.

The forward pass is written from the papers and Transformers' definitions, with the weights that a reader of the
checkpoint gets: rounded to their type, and dequantized.
"""

import json
import math
import pathlib
import struct

import numpy


def bf16_bits(x):
    """Rounded to nearest, ties to even."""
    bits = numpy.ascontiguousarray(x, numpy.float32).view(numpy.uint32).astype(numpy.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


def store(x, dtype):
    """(bytes in the file, the numbers that they stand for) of an array in a safetensors type."""
    if dtype == "BF16":
        bits = bf16_bits(x)
        return bits.tobytes(), (bits.astype(numpy.uint32) << 16).view(numpy.float32).astype(float)
    rounded = x.astype({"F16": numpy.float16, "F32": numpy.float32}[dtype])
    return rounded.tobytes(), rounded.astype(float)


def quantize(x, bits, group, dtype):
    """MLX's affine format: (words, scales, biases, the numbers that they stand for); integers lowest first in a word."""
    parts = x.reshape(*x.shape[:-1], -1, group)
    low, high = parts.min(-1), parts.max(-1)
    scale_bytes, scale = store((high - low) / (2**bits - 1), dtype)
    bias_bytes, bias = store(low, dtype)
    q = numpy.clip(numpy.rint((parts - bias[..., None]) / scale[..., None]), 0, 2**bits - 1)
    packed = q.reshape(*x.shape[:-1], -1, 32 // bits).astype(numpy.uint32)
    words = (packed << (numpy.arange(32 // bits, dtype=numpy.uint32) * bits)).sum(-1, dtype=numpy.uint32)
    return words, scale_bytes, bias_bytes, scale.shape, (q * scale[..., None] + bias[..., None]).reshape(x.shape)


class Writer:
    """Collects tensors; `weights` has the modules' numbers as the reference uses them."""

    def __init__(self, dtype, quantization=None, scale_dtype="BF16"):
        self.dtype, self.quantization, self.scale_dtype = dtype, quantization, scale_dtype
        self.tensors, self.weights = {}, {}

    def add(self, module, x, quantizable=True):
        """Returns the numbers that the file's bytes stand for."""
        setting = self.quantization.get(module, self.quantization) if self.quantization and quantizable else False
        if setting:
            words, scales, biases, shape, value = quantize(x, setting["bits"], setting["group_size"], self.scale_dtype)
            self.tensors[module + ".weight"] = ("U32", words.shape, words.tobytes())
            self.tensors[module + ".scales"] = (self.scale_dtype, shape, scales)
            self.tensors[module + ".biases"] = (self.scale_dtype, shape, biases)
        else:
            data, value = store(x, self.dtype)
            self.tensors[module + ".weight"] = (self.dtype, x.shape, data)
        self.weights[module] = value
        return value

    def save(self, directory, config):
        """Two shards and their index."""
        directory = pathlib.Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "config.json").write_text(json.dumps(config))
        names = sorted(self.tensors)
        places = {}
        for number, part in enumerate([names[::2], names[1::2]], 1):
            file = f"model-{number:05}-of-00002.safetensors"
            header, data = {"__metadata__": {"format": "pt"}}, b""
            for name in part:
                dtype, shape, content = self.tensors[name]
                header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(content)]}
                data += content
                places[name] = file
            text = json.dumps(header).encode()
            text += b" " * (-len(text) % 8)
            (directory / file).write_bytes(struct.pack("<Q", len(text)) + text + data)
        (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def is_sparse(config, layer):
    if config["model_type"] != "qwen3_moe" or not config["num_experts"]:
        return False
    return layer not in config.get("mlp_only_layers", []) and (layer + 1) % config.get("decoder_sparse_step", 1) == 0


def random_checkpoint(directory, config, seed=1, dtype="BF16", scale_dtype="BF16", stacked=False):
    """Writes a checkpoint; returns the weights by module (experts stacked). Norms and routers are such that attention
    and routing are decided: neither uniform nor all on one."""
    rng = numpy.random.default_rng(seed)
    writer = Writer(dtype, config.get("quantization"), scale_dtype)
    hidden, dim = config["hidden_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim

    def matrix(module, *shape, size=1.0):
        return writer.add(module, rng.normal(size=shape) * size / math.sqrt(shape[-1]))

    def norm(module, width, mean=1.0):
        writer.add(module, mean * (1 + 0.2 * rng.normal(size=width)), quantizable=False)

    def experts(layer, name, *shape):
        module = f"model.layers.{layer}.mlp.switch_mlp.{name}"
        if stacked:
            matrix(module, config["num_experts"], *shape)
            return
        each = [matrix(f"model.layers.{layer}.mlp.experts.{i}.{name}", *shape) for i in range(config["num_experts"])]
        writer.weights[module] = numpy.stack(each)

    tied = config["tie_word_embeddings"]
    matrix("model.embed_tokens", config["vocab_size"], hidden, size=1 if tied else math.sqrt(hidden))
    norm("model.norm", hidden)
    if not tied:
        matrix("lm_head", config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        norm(prefix + "input_layernorm", hidden)
        norm(prefix + "post_attention_layernorm", hidden)
        norm(prefix + "self_attn.q_norm", dim, mean=1.5)
        norm(prefix + "self_attn.k_norm", dim, mean=1.5)
        matrix(prefix + "self_attn.q_proj", queries, hidden)
        matrix(prefix + "self_attn.k_proj", keys, hidden)
        matrix(prefix + "self_attn.v_proj", keys, hidden)
        matrix(prefix + "self_attn.o_proj", hidden, queries)
        if is_sparse(config, layer):
            inner = config["moe_intermediate_size"]
            matrix(prefix + "mlp.gate", config["num_experts"], hidden)
            experts(layer, "gate_proj", inner, hidden)
            experts(layer, "up_proj", inner, hidden)
            experts(layer, "down_proj", hidden, inner)
        else:
            inner = config["intermediate_size"]
            matrix(prefix + "mlp.gate_proj", inner, hidden)
            matrix(prefix + "mlp.up_proj", inner, hidden)
            matrix(prefix + "mlp.down_proj", hidden, inner)
    writer.save(directory, config)
    return writer.weights


def rope(config):
    """Inverse frequencies [head_dim / 2] and the factor on cosine and sine."""
    dim, theta = config["head_dim"], config["rope_theta"]
    inverse = theta ** (-numpy.arange(0, dim, 2) / dim)
    scaling = config.get("rope_scaling")
    if not scaling:
        return inverse, 1.0
    factor = scaling["factor"]
    original = scaling.get("original_max_position_embeddings", config["max_position_embeddings"])

    def dimension(rotations):
        return dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(dimension(scaling.get("beta_fast", 32))), 0)
    high = min(math.ceil(dimension(scaling.get("beta_slow", 1))), dim - 1)
    if low == high:
        high += 0.001
    interpolated = numpy.clip((numpy.arange(dim // 2) - low) / (high - low), 0, 1)
    magnitude = scaling.get("attention_factor", 0.1 * math.log(factor) + 1)
    return inverse / factor * interpolated + inverse * (1 - interpolated), magnitude


def softmax(x):
    x = numpy.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def rms_norm(x, weight, epsilon):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def silu(x):
    return x / (1 + numpy.exp(-x))


def attention(config, weights, prefix, h):
    count, dim = len(h), config["head_dim"]
    heads, kv_heads, epsilon = config["num_attention_heads"], config["num_key_value_heads"], config["rms_norm_eps"]
    inverse, magnitude = rope(config)
    angle = numpy.outer(numpy.arange(count), inverse)[:, None, :]
    cosine, sine = numpy.cos(angle) * magnitude, numpy.sin(angle) * magnitude

    def rotated(name, heads):
        x = (h @ weights[f"{prefix}{name}_proj"].T).reshape(count, heads, dim)
        x = rms_norm(x, weights[f"{prefix}{name}_norm"], epsilon)
        a, b = x[..., : dim // 2], x[..., dim // 2 :]
        return numpy.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)

    q, k = rotated("q", heads), rotated("k", kv_heads)
    v = (h @ weights[prefix + "v_proj"].T).reshape(count, kv_heads, dim)
    later = numpy.triu(numpy.full((count, count), -numpy.inf), 1)
    out = numpy.empty((count, heads, dim))
    for head in range(heads):
        shared = head * kv_heads // heads
        out[:, head] = softmax(q[:, head] @ k[:, shared].T / math.sqrt(dim) + later) @ v[:, shared]
    return out.reshape(count, -1) @ weights[prefix + "o_proj"].T


def routed(config, weights, prefix, h):
    probabilities = softmax(h @ weights[prefix + "gate"].T)
    chosen = numpy.argsort(-probabilities, -1, kind="stable")[:, : config["num_experts_per_tok"]]
    shares = numpy.take_along_axis(probabilities, chosen, -1)
    if config.get("norm_topk_prob", False):
        shares = shares / shares.sum(-1, keepdims=True)
    gate, up, down = (weights[f"{prefix}switch_mlp.{name}_proj"] for name in ("gate", "up", "down"))
    out = numpy.zeros_like(h)
    for row, x in enumerate(h):
        for expert, share in zip(chosen[row], shares[row]):
            out[row] += share * (down[expert] @ (silu(gate[expert] @ x) * (up[expert] @ x)))
    return out


def forward(config, weights, tokens):
    """Logits [tokens, vocabulary]."""
    epsilon = config["rms_norm_eps"]
    x = weights["model.embed_tokens"][tokens]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        h = rms_norm(x, weights[prefix + "input_layernorm"], epsilon)
        x = x + attention(config, weights, prefix + "self_attn.", h)
        h = rms_norm(x, weights[prefix + "post_attention_layernorm"], epsilon)
        if is_sparse(config, layer):
            x = x + routed(config, weights, prefix + "mlp.", h)
        else:
            gate, up, down = (weights[f"{prefix}mlp.{name}_proj"] for name in ("gate", "up", "down"))
            x = x + (silu(h @ gate.T) * (h @ up.T)) @ down.T
    head = weights["model.embed_tokens" if config["tie_word_embeddings"] else "lm_head"]
    return rms_norm(x, weights["model.norm"], epsilon) @ head.T
