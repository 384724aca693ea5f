#!/usr/bin/env python3
"""Measures Kaiju, llama.cpp and mlx-lm on the same weights, in turn, and writes the table of how they compare.

    setup.sh DIR && DIR/venv/bin/python run.py --kaiju build/kaiju --directory DIR

Weights are made first (docs/performance.md says which), and all engines must agree on what kaiju-mini says. Then each
round runs each engine once over the cells of the table: prompts of 64, 512 and 2048 tokens; 1, 4 and 16 sequences that
decode at a context of 512; with one thread and two, held to as many CPUs, each on a core of its own as long as there
are cores. A cell that takes long is measured in one round only, and one of a peer that takes longer than --limit not
at all.

Results are kept in DIR/results as they come. What is there is not measured again, so that a run that was stopped, or
that reached --minutes, goes on where it was when it is started again; --fresh begins anew. All weights together take
60 GB of disk. The table is written to DIR/peers.md and its figures to DIR/peers.json; --report does only that.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import numpy

import agreement
import report
from worker import ALL_CPUS, Cell

HERE = pathlib.Path(__file__).resolve().parent
MINI = HERE.parents[1] / "models" / "kaiju-mini"
CONTEXT = 512  # of decoding
ONCE_SECONDS = 8  # a cell that took longer is not measured again in later rounds

# Names of the synthetic shapes: `kaiju synth` arguments. kaiju-mini is shipped.
SHAPES = {
    "mini": None,
    "30b-12": ["qwen3-coder-30b", "--layers", "12"],
    "480b-2": ["qwen3-coder-480b", "--layers", "2"],
}
LLAMA_FORMATS = {"llama-q4_1": "q4_1", "llama-q4_0": "q4_0", "llama-q4_k": "q4_k", "llama-bench": "q4_1"}
ENGINES = ["kaiju", *LLAMA_FORMATS, "mlx"]


@dataclass
class Bench:
    kaiju: pathlib.Path
    directory: pathlib.Path
    limit: float
    discard: bool

    def data(self, name: str) -> pathlib.Path:
        return self.directory / "data" / name

    def checkpoint(self, shape: str) -> pathlib.Path:
        return self.data(shape) if SHAPES[shape] else MINI

    def gguf(self, shape: str, form: str) -> pathlib.Path:
        return self.data(f"{shape}-{form}.gguf")

    def results(self, shape: str) -> pathlib.Path:
        return self.directory / "results" / f"{shape}.jsonl"

    def environment(self) -> dict[str, str]:
        return {**os.environ, "LLAMA_CPP_LIB_PATH": str(self.directory / "llama" / "bin")}


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def available(engine: str, shape: str) -> bool:
    # Q4_K has blocks of 256 weights; kaiju-mini's rows are multiples of 64 only.
    return not (engine == "llama-q4_k" and shape == "mini")


def prepare(bench: Bench, shape: str, engine: str) -> None:
    """The files that an engine reads."""
    bench.data("").mkdir(parents=True, exist_ok=True)
    checkpoint = bench.checkpoint(shape)
    if not (checkpoint / "config.json").exists():
        note(f"{shape}: making the checkpoint")
        shutil.rmtree(checkpoint, ignore_errors=True)
        subprocess.run([bench.kaiju, "synth", SHAPES[shape][0], checkpoint, *SHAPES[shape][1:]], check=True)
    if engine in LLAMA_FORMATS:
        file = bench.gguf(shape, LLAMA_FORMATS[engine])
        if not file.exists():
            note(f"{shape}: making {file.name}")
            writer = [sys.executable, HERE / "write_gguf.py", checkpoint, LLAMA_FORMATS[engine], file]
            subprocess.run(writer, check=True)


def discard(bench: Bench, shape: str, engine: str) -> None:
    if engine in LLAMA_FORMATS:
        bench.gguf(shape, LLAMA_FORMATS[engine]).unlink(missing_ok=True)


def read_through(bench: Bench, shape: str, engine: str) -> None:
    """Weights come from the page cache as far as it holds them; no measurement waits for a disk."""
    if engine in LLAMA_FORMATS:
        files = [bench.gguf(shape, LLAMA_FORMATS[engine])]
    else:
        files = sorted(bench.checkpoint(shape).glob("*.safetensors"))
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 24):
                pass


def hold(threads: int):
    """For subprocess: on so many CPUs."""
    return lambda: os.sched_setaffinity(0, ALL_CPUS[:threads])


def run_kaiju(bench: Bench, shape: str, cells: list[Cell]):
    """One `kaiju bench` for each number of threads; it reads a prompt for every sequence that decodes."""
    for threads in sorted({cell.threads for cell in cells}):
        prompts = [cell.size for cell in cells if cell.threads == threads and cell.kind == "prefill"]
        streams = [cell.size for cell in cells if cell.threads == threads and cell.kind == "decode"]
        # Both lists must name something.
        command = [bench.kaiju, "bench", bench.checkpoint(shape), "--threads", threads, "--json"]
        command += ["--prompt-tokens", ",".join(map(str, prompts or [1]))]
        command += ["--streams", ",".join(map(str, streams or [1])), "--contexts", CONTEXT if streams else 1]
        # What is over in a moment is repeated; a synthetic shape takes seconds a cell.
        command += ["--tokens", 32, "--rounds", 5 if shape == "mini" else 3 if threads > 2 else 1]
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=True, preexec_fn=hold(threads))
        measured = json.loads(done.stdout)
        for when in ("before", "after"):
            yield {"kind": "read", "threads": threads, "bytes_per_second": measured[f"read_bytes_per_second_{when}"]}
        for one in measured["prefill"] if prompts else []:
            seconds = one["prompt_tokens"] / one["tokens_per_second"]
            yield {"kind": "prefill", "size": one["prompt_tokens"], "threads": threads, "seconds": seconds} | {
                "tokens_per_second": one["tokens_per_second"]
            }
        for one in measured["decode"] if streams else []:
            yield {"kind": "decode", "size": one["streams"], "threads": threads, "seconds": one["prefill_seconds"]} | {
                key: one[key] for key in ("tokens_per_second", "share_of_read_speed")
            }


def run_worker(bench: Bench, program: str, arguments: list, cells: list[Cell]):
    command = [sys.executable, HERE / program, *arguments, "--context", CONTEXT, "--limit", bench.limit]
    command += ["--cells", *cells]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, env=bench.environment()) as process:
        try:
            for line in process.stdout:
                yield json.loads(line)
        finally:
            if process.poll() is None and sys.exc_info()[0]:
                process.terminate()
    if process.returncode != 0:
        raise SystemExit(f"{program} failed")


def run_llama_bench(bench: Bench, shape: str, cells: list[Cell]):
    """llama.cpp's own tool, which checks what llama_worker.py makes of it: one prompt length, and one sequence."""
    program = bench.directory / "llama" / "bin" / "llama-bench"
    file = bench.gguf(shape, LLAMA_FORMATS["llama-bench"])
    for cell in cells:
        sizes = ["-p", cell.size, "-n", 0] if cell.kind == "prefill" else ["-p", 0, "-n", 16, "-d", CONTEXT]
        command = [program, "-m", file, "-t", cell.threads, "-fa", "on", "-r", 1, "-o", "json", *sizes]
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            check=True,
            preexec_fn=hold(cell.threads),
        )
        rate = json.loads(done.stdout)[0]["avg_ts"]
        yield {"kind": cell.kind, "size": cell.size, "threads": cell.threads, "tokens_per_second": rate, "seconds": 0}


def run_engine(bench: Bench, engine: str, shape: str, cells: list[Cell]):
    if engine == "kaiju":
        return run_kaiju(bench, shape, cells)
    if engine == "mlx":
        return run_worker(bench, "mlx_worker.py", [bench.checkpoint(shape)], cells)
    if engine == "llama-bench":
        return run_llama_bench(bench, shape, cells)
    return run_worker(bench, "llama_worker.py", [bench.gguf(shape, LLAMA_FORMATS[engine])], cells)


def wanted_cells(engine: str, threads: list[int], quick: bool) -> list[Cell]:
    prefill, decode = ([64, 512], [1, 4]) if quick else ([64, 512, 2048], [1, 4, 16])
    if engine == "llama-bench":
        prefill, decode, threads = [64], [1], [max(threads)]
    kinds = [("prefill", size) for size in prefill] + [("decode", size) for size in decode]
    return [Cell(kind, size, count) for count in threads for kind, size in kinds]


def cells_left(results: list[dict], engine: str, round_index: int, wanted: list[Cell]) -> list[Cell]:
    done = set()
    for entry in results:
        if entry["engine"] != engine or entry["kind"] == "read":
            continue
        long = entry["tokens_per_second"] is None or entry["seconds"] > ONCE_SECONDS
        if entry["round"] == round_index or long or engine == "llama-bench":
            done.add(Cell(entry["kind"], entry["size"], entry["threads"]))
    return [cell for cell in wanted if cell not in done]


def measure(bench: Bench, engine: str, shape: str, round_index: int, cells: list[Cell]) -> None:
    note(f"{shape}, round {round_index + 1}: {engine}")
    prepare(bench, shape, engine)
    read_through(bench, shape, engine)
    with bench.results(shape).open("a") as file:
        for entry in run_engine(bench, engine, shape, cells):
            file.write(json.dumps({"engine": engine, "round": round_index, **entry}) + "\n")
            file.flush()
    if bench.discard:
        discard(bench, shape, engine)


def check_agreement(bench: Bench, engines: list[str]) -> None:
    """Stops the run where a peer does not compute Kaiju's model."""
    peers = [engine for engine in ("llama-q4_1", "mlx") if engine in engines]
    if not peers:
        return
    path = bench.directory / "results" / "agreement.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    sequences, steps = agreement.kaiju_steps(bench.kaiju, MINI)
    with tempfile.TemporaryDirectory() as folder:
        tokens, logits = pathlib.Path(folder, "tokens.json"), pathlib.Path(folder, "logits.npy")
        tokens.write_text(json.dumps(sequences))
        for engine in peers:
            prepare(bench, "mini", engine)
            worker = ["mlx_worker.py", MINI] if engine == "mlx" else ["llama_worker.py", bench.gguf("mini", "q4_1")]
            command = [sys.executable, HERE / worker[0], worker[1], "--logits", tokens, logits]
            subprocess.run(list(map(str, command)), check=True, env=bench.environment())
            outcome = agreement.compare(sequences, steps, numpy.load(logits))
            note(f"kaiju-mini, {engine} and kaiju: {outcome}")
            if not outcome.good:
                raise SystemExit(f"{engine} does not compute the same model as kaiju; nothing is compared")
            found[engine] = str(outcome)
    path.write_text(json.dumps(found))


def choices(known: list[str]):
    def parse(text: str) -> list[str]:
        chosen = text.split(",")
        if unknown := [item for item in chosen if item not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(known)}")
        return chosen

    return parse


def thread_counts(text: str) -> list[int]:
    counts = [int(item) if item.isdecimal() else 0 for item in text.split(",")]
    if bad := [count for count in counts if not 1 <= count <= len(ALL_CPUS)]:
        raise argparse.ArgumentTypeError(
            f"{text}: {bad[0]} is no number of threads that have a CPU each; this process may use {len(ALL_CPUS)}"
        )
    return counts


def cell_list(text: str) -> list[Cell]:
    return [Cell.parse(item) for item in text.split(",")]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kaiju", type=pathlib.Path, required=True, metavar="PROGRAM")
    parser.add_argument("--directory", type=pathlib.Path, required=True, help="made by setup.sh; weights go there, too")
    parser.add_argument("--shapes", type=choices([*SHAPES]), default=[*SHAPES], metavar="LIST", help=",".join(SHAPES))
    parser.add_argument("--engines", type=choices(ENGINES), default=ENGINES, metavar="LIST", help=",".join(ENGINES))
    parser.add_argument("--threads", type=thread_counts, default="1,2", metavar="N,…", help="(default: %(default)s)")
    parser.add_argument("--cells", type=cell_list, metavar="LIST", help="only these, each KIND:SIZE:THREADS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round, without the long prompts and 16 sequences")
    parser.add_argument("--limit", type=float, default=45, metavar="SECONDS", help="of a cell of a peer")
    parser.add_argument("--minutes", type=float, default=25, help="after which no more is begun")
    parser.add_argument("--discard", action="store_true", help="GGUF files are deleted after use: slower, less disk")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results of these shapes and engines")
    parser.add_argument("--prepare", action="store_true", help="only make the weights")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    return parser.parse_args()


def forget(bench: Bench, shape: str, engines: list[str]) -> None:
    kept = [entry for entry in report.read_results(bench.results(shape)) if entry["engine"] not in engines]
    bench.results(shape).write_text("".join(json.dumps(entry) + "\n" for entry in kept))


def measure_all(bench: Bench, arguments: argparse.Namespace) -> int:
    """The number of measurements that --minutes left out. Rounds go over all shapes, so that a time that is too short
    costs repetitions first."""
    deadline = time.monotonic() + arguments.minutes * 60
    left = 0
    for round_index in range(1 if arguments.quick else arguments.rounds):
        for shape, engine in chosen(arguments):
            wanted = wanted_cells(engine, arguments.threads, arguments.quick)
            wanted = [cell for cell in wanted if not arguments.cells or cell in arguments.cells]
            cells = cells_left(report.read_results(bench.results(shape)), engine, round_index, wanted)
            if cells and time.monotonic() < deadline:
                measure(bench, engine, shape, round_index, cells)
            else:
                left += len(cells)
    return left


def chosen(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    return [(shape, engine) for shape in arguments.shapes for engine in arguments.engines if available(engine, shape)]


def main() -> None:
    arguments = parse_arguments()
    bench = Bench(arguments.kaiju.resolve(), arguments.directory.resolve(), arguments.limit, arguments.discard)
    bench.results("").parent.mkdir(parents=True, exist_ok=True)
    if not (arguments.report or arguments.discard):
        for shape, engine in chosen(arguments):
            prepare(bench, shape, engine)
    if not (arguments.report or arguments.prepare):
        if arguments.fresh:
            for shape in arguments.shapes:
                forget(bench, shape, arguments.engines)
        check_agreement(bench, arguments.engines)
        if left := measure_all(bench, arguments):
            note(f"{left} measurements are left: run this again to go on")
    if not arguments.prepare:
        report.write(bench.directory, [*SHAPES], ENGINES)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failure:
        output = failure.stderr.decode(errors="replace") if failure.stderr else ""
        raise SystemExit(f"{output}{' '.join(map(str, failure.cmd))}: ended with status {failure.returncode}") from None
