"""Measures mlx-lm on the CPU, or saves its logits: the checkpoint as it is, through the model and its KV cache."""

import argparse
import pathlib
import time

import mlx.core as mx
import mlx_lm.utils
import numpy
from mlx_lm.models import cache

import worker

DTYPES = {"bfloat16": mx.bfloat16, "float16": mx.float16, "float32": mx.float32}


class MlxEngine:
    def __init__(self, directory: pathlib.Path, dtype: str):
        mx.set_default_device(mx.cpu)
        self.model, config = mlx_lm.utils.load_model(directory)
        # Of activations, and of what is not packed: scales, biases and norms.
        self.model.set_dtype(DTYPES[dtype])
        mx.eval(self.model.parameters())
        self.dtype = DTYPES[dtype]
        self.vocabulary = config["vocab_size"]
        self.kv_heads, self.head_dim = config["num_key_value_heads"], config["head_dim"]
        self.past: list = []

    def start(self, threads: int) -> None:
        pass  # mlx has no such setting; being held to fewer CPUs must do

    def _random_tokens(self, streams: int, count: int) -> mx.array:
        return mx.random.randint(0, self.vocabulary, (streams, count))

    def _timed(self, steps: list[mx.array], caches: list) -> float:
        mx.eval(steps)
        begin = time.perf_counter()
        for tokens in steps:
            # The model's last stage for the last token alone, as mlx_lm.generate has it in a long prompt.
            if tokens.shape[1] > 1:
                self.model(tokens[:, :-1], cache=caches)
                mx.eval([entry.state for entry in caches])
            mx.eval(self.model(tokens[:, -1:], cache=caches))
        return time.perf_counter() - begin

    def prefill(self, length: int) -> float:
        return self._timed([self._random_tokens(1, length)], cache.make_prompt_cache(self.model))

    def remember(self, length: int) -> None:
        """Random keys and values: reading a prompt would take minutes, and the time of attention is the same."""
        if self.past:
            return
        self.past = cache.make_prompt_cache(self.model)
        for entry in self.past:
            shape = (1, self.kv_heads, length, self.head_dim)
            entry.update_and_fetch(mx.random.normal(shape, self.dtype), mx.random.normal(shape, self.dtype))

    def decode(self, streams: int, steps: int) -> float:
        caches = cache.make_prompt_cache(self.model)
        for mine, past in zip(caches, self.past):
            keys, values = past.keys_and_values()
            mine.state = (*(mx.repeat(one, streams, axis=0) for one in (keys, values)), past.offset)
        mx.eval([entry.state for entry in caches])
        tokens = [self._random_tokens(streams, 1) for _ in range(steps + 1)]
        self._timed(tokens[:1], caches)  # the cache grows by a block here
        return self._timed(tokens[1:], caches)

    def logits(self, tokens: list[int]) -> numpy.ndarray:
        return numpy.array(self.model(mx.array([tokens]))[0].astype(mx.float32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path, help="a checkpoint in MLX's format")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="of activations; float32 is fastest on a CPU")
    worker.add_arguments(parser)
    arguments = parser.parse_args()
    worker.run(MlxEngine(arguments.model, arguments.dtype), arguments)


if __name__ == "__main__":
    main()
