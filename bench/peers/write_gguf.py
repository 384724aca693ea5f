"""Writes a GGUF file of the model in an MLX checkpoint, for llama.cpp.

    write_gguf.py CHECKPOINT FORMAT FILE

FORMAT:
  q4_1  the checkpoint's weights, exactly. A group of 64 weights w = scale · q + bias is two Q4_1 blocks of 32 with the
        same d and m in w = d · q + m, which are f16 where MLX has bf16. Fails if one of them has no exact f16, which
        is so below 2^-17 or so.
  q4_0  the same q and scales, but w = d · (q - 8): llama.cpp's oldest format with the most optimised code. The minimum
        of a group is lost, so it is a model of the same shape and cost, not the same model.
  q4_k  random blocks, with the output matrix in Q6_K as llama.cpp's own presets have it. Only cost counts here. Rows
        must be multiples of 256.

8-bit matrices (the routers) become f32, as llama.cpp has routers; norms are f32.
"""

import argparse
import pathlib
from collections.abc import Iterator

import gguf
import numpy

from mlx_checkpoint import Checkpoint

GROUP = 64
BLOCK = 32
SUPER_BLOCK = 256
CHUNK_BLOCKS = 1 << 20  # a few dozen MB at a time, whatever the tensor's size

TYPES = gguf.GGMLQuantizationType
FORMATS = {"q4_1": TYPES.Q4_1, "q4_0": TYPES.Q4_0, "q4_k": TYPES.Q4_K}

# GGUF's name in a layer, and MLX's.
LAYER_MATRICES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate_exps": "mlp.switch_mlp.gate_proj",
    "ffn_up_exps": "mlp.switch_mlp.up_proj",
    "ffn_down_exps": "mlp.switch_mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
}
LAYER_NORMS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
}


class Inexact(Exception):
    pass


def module_bits(checkpoint: Checkpoint, module: str) -> int:
    quantization = checkpoint.config["quantization"]
    here = {**quantization, **quantization.get(module, {})}
    if here["group_size"] != GROUP or here["bits"] not in (4, 8):
        raise ValueError(f"{module}: only 4 and 8 bits in groups of {GROUP} are known, not {here}")
    return here["bits"]


def to_half(values: numpy.ndarray, name: str) -> numpy.ndarray:
    """f16 of the same values; Inexact where there is none."""
    halves = values.astype(numpy.float16)
    wrong = int(numpy.count_nonzero(halves.astype(numpy.float32) != values))
    if wrong:
        raise Inexact(f"{name}: {wrong} of {values.size} scales or biases have no exact f16")
    return halves


def reorder_nibbles(packed: numpy.ndarray) -> numpy.ndarray:
    """[blocks, 16] bytes with weights 2i and 2i+1 in byte i, as MLX has them, to i and i+16, as GGUF has them."""
    low, high = packed & 15, packed >> 4
    # Weights 0…15 and 16…31 of the block in order, one a byte.
    first = numpy.stack((low[:, :8], high[:, :8]), axis=2).reshape(-1, 16)
    second = numpy.stack((low[:, 8:], high[:, 8:]), axis=2).reshape(-1, 16)
    return first | (second << 4)


def q4_blocks(checkpoint: Checkpoint, module: str, minimum: bool) -> Iterator[numpy.ndarray]:
    """Q4_1 blocks (or, without a minimum, Q4_0 blocks) of a module's weights, in chunks."""
    packed = checkpoint[f"{module}.weight"].array.reshape(-1).view(numpy.uint8).reshape(-1, BLOCK // 2)
    scales = checkpoint[f"{module}.scales"]
    biases = checkpoint[f"{module}.biases"]
    fields = [("d", "<f2"), ("m", "<f2"), ("qs", "u1", BLOCK // 2)]
    if not minimum:
        del fields[1]
    halves = {"d": to_half(scales.floats().reshape(-1), module)}
    if minimum:
        halves["m"] = to_half(biases.floats().reshape(-1), module)
    for begin in range(0, len(packed), CHUNK_BLOCKS):
        part = packed[begin : begin + CHUNK_BLOCKS]
        blocks = numpy.empty(len(part), numpy.dtype(fields))
        groups = slice(begin // 2, (begin + len(part)) // 2)
        for field, values in halves.items():
            blocks[field] = numpy.repeat(values[groups], GROUP // BLOCK)
        blocks["qs"] = reorder_nibbles(part)
        yield blocks


def random_k_blocks(kind: TYPES, weights: int, columns: int, seed: int) -> Iterator[numpy.ndarray]:
    """Q4_K or Q6_K blocks of random weights whose standard deviation is about 1/√columns and whose mean is 0."""
    generator = numpy.random.Generator(numpy.random.SFC64(seed))
    deviation = columns**-0.5
    for begin in range(0, weights // SUPER_BLOCK, CHUNK_BLOCKS // 8):
        count = min(CHUNK_BLOCKS // 8, weights // SUPER_BLOCK - begin)
        if kind == TYPES.Q4_K:
            # All eight sub-blocks have the 6-bit scale and minimum 32: w = 32 · (d · q - dmin), q uniform over 0…15.
            blocks = numpy.empty(count, [("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12), ("qs", "u1", 128)])
            d = deviation / (32 * 4.61)
            blocks["d"], blocks["dmin"] = d, 7.5 * d
            blocks["scales"] = [0xA0] * 8 + [0] * 4
            names = ("qs",)
        else:
            # w = d · scale · q, q uniform over -32…31.
            blocks = numpy.empty(count, [("ql", "u1", 128), ("qh", "u1", 64), ("scales", "i1", 16), ("d", "<f2")])
            blocks["d"], blocks["scales"] = deviation / (64 * 18.5), 64
            names = ("ql", "qh")
        for name in names:
            blocks[name] = numpy.frombuffer(generator.bytes(blocks[name].size), numpy.uint8).reshape(count, -1)
        yield blocks


def dequantized(checkpoint: Checkpoint, module: str) -> numpy.ndarray:
    """A small module's weights as float32."""
    bits = module_bits(checkpoint, module)
    packed = checkpoint[f"{module}.weight"].array
    if bits == 8:
        integers = packed.view(numpy.uint8)
    else:
        integers = numpy.stack((packed.view(numpy.uint8) & 15, packed.view(numpy.uint8) >> 4), axis=-1)
    integers = integers.reshape(*packed.shape[:-1], -1, GROUP).astype(numpy.float32)
    scales = checkpoint[f"{module}.scales"].floats()[..., None]
    biases = checkpoint[f"{module}.biases"].floats()[..., None]
    return (integers * scales + biases).reshape(*packed.shape[:-1], -1)


class File:
    """Tensors are announced with what makes their data, and made one by one when the file is written."""

    def __init__(self, checkpoint: Checkpoint, form: str, path: pathlib.Path):
        self.checkpoint, self.form, self.path = checkpoint, form, path
        self.writer = gguf.GGUFWriter(path, "qwen3moe")
        self.sources = []

    def add_floats(self, name: str, values: numpy.ndarray) -> None:
        self._add(name, list(values.shape), TYPES.F32, lambda: iter([values]))

    def add_matrix(self, name: str, module: str) -> None:
        bits = module_bits(self.checkpoint, module)
        if bits == 8:
            self.add_floats(name, dequantized(self.checkpoint, module))
            return
        *rows, words = self.checkpoint[f"{module}.weight"].array.shape
        shape = [*rows, words * 32 // bits]
        kind = FORMATS[self.form]
        if self.form != "q4_k":
            minimum = self.form == "q4_1"
            self._add(name, shape, kind, lambda: q4_blocks(self.checkpoint, module, minimum))
            return
        if name == "output.weight":
            kind = TYPES.Q6_K
        seed = len(self.sources)
        self._add(name, shape, kind, lambda: random_k_blocks(kind, int(numpy.prod(shape)), shape[-1], seed))

    def _add(self, name: str, shape: list[int], kind: TYPES, source) -> None:
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        if shape[-1] % block:
            raise ValueError(f"{name}: rows of {shape[-1]} are not whole blocks of {block}")
        size = int(numpy.prod(shape)) // block * block_bytes
        # The dtype is only looked at where no raw type is given.
        self.writer.add_tensor_info(name, shape, numpy.dtype(numpy.float32), size, raw_dtype=kind)
        self.sources.append((name, size, source))

    def write(self) -> None:
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_ti_data_to_file()
        self.writer.close()
        with self.path.open("ab") as file:
            self._pad(file)
            for name, size, source in self.sources:
                begin = file.tell()
                for chunk in source():
                    chunk.tofile(file)
                if file.tell() - begin != size:
                    raise ValueError(f"{name}: {file.tell() - begin} bytes instead of {size}")
                self._pad(file)

    def _pad(self, file) -> None:
        file.write(bytes(-file.tell() % self.writer.data_alignment))


def add_parameters(writer: gguf.GGUFWriter, config: dict) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_count(config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(float(config["rope_theta"]))
    # Prompts are token ids: only the size of the vocabulary is needed.
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(config["vocab_size"])


def check_model(config: dict) -> None:
    """llama.cpp's qwen3moe is this model and no other; a wrong one would be measured without an error."""
    expected = {"model_type": "qwen3_moe", "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True}
    for key, value in expected.items():
        if config.get(key, value) != value:
            raise ValueError(f"config.json: {key} is {config[key]}, and only {value} can be written")
    if config.get("tie_word_embeddings") or config.get("rope_scaling"):
        raise ValueError("config.json: tied embeddings and scaled rotary positions cannot be written")


def write(directory: pathlib.Path, form: str, path: pathlib.Path) -> None:
    checkpoint = Checkpoint(directory)
    check_model(checkpoint.config)
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    file = File(checkpoint, form, partial)
    add_parameters(file.writer, checkpoint.config)
    file.add_matrix("token_embd.weight", "model.embed_tokens")
    file.add_floats("output_norm.weight", checkpoint["model.norm.weight"].floats())
    file.add_matrix("output.weight", "lm_head")
    for layer in range(checkpoint.config["num_hidden_layers"]):
        for name, module in LAYER_NORMS.items():
            values = checkpoint[f"model.layers.{layer}.{module}.weight"].floats()
            file.add_floats(f"blk.{layer}.{name}.weight", values)
        for name, module in LAYER_MATRICES.items():
            file.add_matrix(f"blk.{layer}.{name}.weight", f"model.layers.{layer}.{module}")
    try:
        file.write()
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("format", choices=FORMATS)
    parser.add_argument("file", type=pathlib.Path)
    arguments = parser.parse_args()
    write(arguments.checkpoint, arguments.format, arguments.file)


if __name__ == "__main__":
    main()
