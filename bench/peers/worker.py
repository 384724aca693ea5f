"""What the processes that measure llama.cpp and mlx-lm share: their arguments, the cells of the table, and the output.

A cell is one figure: a kind ("prefill" or "decode"), a size (tokens of the prompt, or sequences that decode at once),
and a number of threads. Each is printed as a line of JSON as soon as it is known:
    {"kind": "decode", "size": 4, "threads": 2, "tokens_per_second": 61.2, "seconds": 2.1}
or, where one repetition would take longer than --limit, {…, "tokens_per_second": null, "seconds": 200} as expected.
"""

import argparse
import json
import os
import pathlib
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy


class Engine(Protocol):
    def start(self, threads: int) -> None:
        """Computes with so many threads from now on."""

    def prefill(self, length: int) -> float:
        """Seconds that a prompt of random tokens takes, the logits of its last token included."""

    def remember(self, length: int) -> None:
        """Makes a past of so many tokens for decode(), unless there is one. What the tokens are does not matter."""

    def decode(self, streams: int, steps: int) -> float:
        """Seconds of so many steps, each giving every stream one token and its logits. Each stream has the past in
        memory of its own, and goes back to it afterwards."""

    def logits(self, tokens: list[int]) -> numpy.ndarray:
        """[tokens, vocabulary]"""


MAX_PROMPT = 2048
MAX_STREAMS = 16
MAX_STEPS = 32  # more would make the context noticeably longer
PROBE_STEPS = 1
MIN_SECONDS = 1.0  # of a cell, repeated if it is faster
DECODE_SECONDS = 2.0  # aimed at


@dataclass(frozen=True)
class Cell:
    kind: str
    size: int
    threads: int

    @staticmethod
    def parse(text: str) -> "Cell":
        kind, size, threads = text.split(":")
        return Cell(kind, int(size), int(threads))

    def __str__(self) -> str:
        return f"{self.kind}:{self.size}:{self.threads}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cells", type=Cell.parse, nargs="*", default=[], metavar="KIND:SIZE:THREADS")
    parser.add_argument("--context", type=int, default=512, help="tokens before the decoded ones")
    parser.add_argument("--limit", type=float, default=60, metavar="SECONDS", help="of one repetition of one cell")
    parser.add_argument(
        "--logits",
        nargs=2,
        type=pathlib.Path,
        metavar=("TOKENS", "FILE"),
        help="instead: logits of the sequences in TOKENS (JSON), one after another, as an array in FILE (npy)",
    )


def core_of(cpu: int) -> str:
    path = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    return path.read_text() if path.exists() else str(cpu)


def cores_first() -> list[int]:
    """The CPUs of this process: first one of each core, then those that share a core with one before."""
    seen: dict[str, int] = {}
    places = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        core = core_of(cpu)
        seen[core] = seen.get(core, 0) + 1
        places[cpu] = seen[core]
    return sorted(places, key=lambda cpu: (places[cpu], cpu))


ALL_CPUS = cores_first()


def hold_to_cpus(count: int) -> None:
    """All threads of this process, now and later, on so many of the CPUs that it may use."""
    for task in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(task), ALL_CPUS[:count])


def emit(cell: Cell, tokens_per_second: float | None, seconds: float) -> None:
    values = {"tokens_per_second": tokens_per_second, "seconds": seconds}
    print(json.dumps({**asdict(cell), **values}), flush=True)


def measure_prefill(engine: Engine, cell: Cell) -> float:
    seconds, repeats = 0.0, 0
    while seconds < MIN_SECONDS:
        seconds += engine.prefill(cell.size)
        repeats += 1
    rate = cell.size * repeats / seconds
    emit(cell, rate, seconds)
    return rate


def measure_decode(engine: Engine, cell: Cell, limit: float) -> None:
    step = engine.decode(cell.size, PROBE_STEPS) / PROBE_STEPS
    if step * PROBE_STEPS > limit:
        emit(cell, None, step)
        return
    steps = max(PROBE_STEPS, min(MAX_STEPS, int(DECODE_SECONDS / step)))
    seconds, repeats = 0.0, 0
    while seconds < MIN_SECONDS:
        seconds += engine.decode(cell.size, steps)
        repeats += 1
    emit(cell, cell.size * steps * repeats / seconds, seconds)


WARM_UP = 4  # tokens


def measure(engine: Engine, cells: list[Cell], context: int, limit: float) -> None:
    # With most threads first: that is the fastest way to the past that all decoding shares.
    for threads in sorted({cell.threads for cell in cells}, reverse=True):
        hold_to_cpus(threads)
        engine.start(threads)
        engine.prefill(WARM_UP)  # buffers and threads come to be here
        rate = WARM_UP / engine.prefill(WARM_UP)
        mine = sorted((cell for cell in cells if cell.threads == threads), key=lambda cell: cell.size)
        prompts = [cell for cell in mine if cell.kind == "prefill"]
        for cell in prompts:
            # A few tokens at once are slower, each, than many.
            expected = cell.size / rate / (2 if cell == prompts[0] else 1)
            if expected > limit:
                emit(cell, None, expected)
                continue
            rate = measure_prefill(engine, cell)
        for cell in mine:
            if cell.kind == "decode":
                engine.remember(context)
                measure_decode(engine, cell, limit)


def run(engine: Engine, arguments: argparse.Namespace) -> None:
    if not arguments.logits:
        measure(engine, arguments.cells, arguments.context, arguments.limit)
        return
    sequences = json.loads(arguments.logits[0].read_text())
    engine.start(len(ALL_CPUS))
    numpy.save(arguments.logits[1], numpy.concatenate([engine.logits(tokens) for tokens in sequences]))
