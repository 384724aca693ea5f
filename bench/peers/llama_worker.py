"""Measures llama.cpp, or saves its logits, through the C API of libllama.

LLAMA_CPP_LIB_PATH names the folder of libllama. llama.cpp's own llama-bench starts anew, and loads the model again, for
each number of sequences; this loads it once for all cells. Only llama_decode and llama_synchronize are timed: batches
are made before.
"""

import argparse
import ctypes
import random
import time

import llama_cpp.llama_cpp as llama
import numpy

import worker

FLASH_ATTENTION = {"off": 0, "on": 1}
MAX_STEPS = worker.MAX_STEPS + 1


@llama.llama_log_callback
def log_nothing(_level, _text, _user_data):
    pass


class Batch:
    """A llama_batch of tokens, and the memory that it points to."""

    def __init__(self, tokens: list[int], positions: list[int], sequences: list[int], outputs: list[bool]):
        count = len(tokens)
        self._ids = [(llama.llama_seq_id * 1)(sequence) for sequence in sequences]
        pointer = ctypes.POINTER(llama.llama_seq_id)
        self.batch = llama.llama_batch(
            n_tokens=count,
            token=(llama.llama_token * count)(*tokens),
            embd=None,
            pos=(llama.llama_pos * count)(*positions),
            n_seq_id=(ctypes.c_int32 * count)(*([1] * count)),
            seq_id=(pointer * count)(*[ctypes.cast(one, pointer) for one in self._ids]),
            logits=(ctypes.c_int8 * count)(*outputs),
        )


class LlamaEngine:
    def __init__(self, path: str, context: int, flash: str, micro_batch: int):
        self.flash, self.micro_batch = flash, micro_batch
        self.path, self.past = path, 0
        llama.llama_log_set(log_nothing, None)
        llama.llama_backend_init()
        self.model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {path}")
        self.vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))
        # One for prompts alone, and one whose first sequence's past is shared with others.
        self.alone = self._context(worker.MAX_PROMPT, 1)
        self.shared = self._context(context + MAX_STEPS, worker.MAX_STREAMS)

    def start(self, threads: int) -> None:
        for context in (self.alone, self.shared):
            llama.llama_set_n_threads(context, threads, threads)

    def _context(self, positions: int, streams: int):
        parameters = llama.llama_context_default_params()
        parameters.n_ctx = positions * streams
        parameters.n_batch = worker.MAX_PROMPT
        parameters.n_ubatch = self.micro_batch
        parameters.n_seq_max = streams
        parameters.flash_attn_type = FLASH_ATTENTION[self.flash]
        context = llama.llama_init_from_model(self.model, parameters)
        if not context:
            raise SystemExit("llama.cpp cannot make a context")
        return context

    def _random_tokens(self, count: int) -> list[int]:
        return [random.randrange(self.vocabulary) for _ in range(count)]

    def _timed(self, context, batches: list[Batch]) -> float:
        begin = time.perf_counter()
        for batch in batches:
            if llama.llama_decode(context, batch.batch) != 0:
                raise SystemExit("llama_decode failed")
            llama.llama_synchronize(context)  # a sampler would wait here
        return time.perf_counter() - begin

    def _prompt(self, context, length: int) -> float:
        llama.llama_memory_clear(llama.llama_get_memory(context), False)
        outputs = [False] * (length - 1) + [True]
        return self._timed(context, [Batch(self._random_tokens(length), list(range(length)), [0] * length, outputs)])

    def prefill(self, length: int) -> float:
        return self._prompt(self.alone, length)

    def remember(self, length: int) -> None:
        """Reads a prompt once for all rounds: its keys and values are kept in a file."""
        if self.past == length:
            return
        file = f"{self.path}.past-{length}".encode()
        tokens, count = (llama.llama_token * length)(), ctypes.c_size_t()
        if not llama.llama_state_seq_load_file(self.shared, file, 0, tokens, length, ctypes.byref(count)):
            self._prompt(self.shared, length)
            llama.llama_state_seq_save_file(self.shared, file, 0, tokens, length)
        self.past = length

    def decode(self, streams: int, steps: int) -> float:
        context = self.shared
        memory = llama.llama_get_memory(context)
        for stream in range(1, streams):
            llama.llama_memory_seq_cp(memory, 0, stream, -1, -1)
        batches = [
            Batch(self._random_tokens(streams), [self.past + step] * streams, list(range(streams)), [True] * streams)
            for step in range(steps + 1)
        ]
        self._timed(context, batches[:1])  # carries out the copies, too
        seconds = self._timed(context, batches[1:])
        llama.llama_memory_seq_rm(memory, 0, self.past, -1)
        for stream in range(1, streams):
            llama.llama_memory_seq_rm(memory, stream, -1, -1)
        return seconds

    def logits(self, tokens: list[int]) -> numpy.ndarray:
        context = self.alone
        llama.llama_memory_clear(llama.llama_get_memory(context), False)
        count = len(tokens)
        self._timed(context, [Batch(tokens, list(range(count)), [0] * count, [True] * count)])
        return numpy.ctypeslib.as_array(llama.llama_get_logits(context), (count, self.vocabulary)).copy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("--flash", choices=FLASH_ATTENTION, default="on", help="flash attention")
    parser.add_argument("--micro-batch", type=int, default=512, help="tokens of a prompt that are computed at once")
    worker.add_arguments(parser)
    arguments = parser.parse_args()
    engine = LlamaEngine(arguments.model, arguments.context, arguments.flash, arguments.micro_batch)
    worker.run(engine, arguments)


if __name__ == "__main__":
    main()
