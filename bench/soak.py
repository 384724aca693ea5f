"""Many clients at once on a cluster of two nodes: every request must be answered, and memory must stay flat.

The `soak` of bench/pipeline.py. Clients send requests of mixed lengths, streamed and not, greedy and seeded, with prompts that
are new, shared or grown from an earlier answer; some of them leave in the middle. Every answer is checked: its length, its end, and
that the same request gives the same text again.
"""

import collections
import http.client
import json
import random
import statistics
import threading
import time

import serving
from serving import BenchError

COMPLETIONS = "/v1/completions"
FLAT = 1.02  # the last third's memory over the first third's at most
SLACK = 8 << 20


class Soak:
    """What the clients share."""

    def __init__(self, cluster, model, deadline):
        self.cluster, self.model, self.deadline = cluster, model, deadline
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.failures = []
        self.texts = {}
        self.samples = []

    def count(self, *names):
        with self.lock:
            self.counts.update(names)

    def fail(self, what):
        with self.lock:
            self.failures.append(what)

    def request(self, rng):
        """A request; one of few for a third of them, so that some are alike."""
        kind = rng.random()
        seed = rng.randrange(12) if kind < 0.35 else rng.randrange(1 << 40)
        shape = random.Random(seed)
        length = int(8 * 2 ** shape.uniform(0, 7))
        prompt = self.model.text(length, seed)
        if kind < 0.7:
            prompt = self.model.text(256, seed % 3) + prompt
        fields = {"prompt": prompt, "max_tokens": shape.choice([1, 2, 8, 24, 64, 160]), "ignore_eos": True,
                  "temperature": 0}
        if shape.random() < 0.5:
            fields.update(temperature=0.8, seed=seed)
        return fields

    def check(self, answer, fields):
        if answer.finish != "length" or answer.usage["completion_tokens"] != fields["max_tokens"]:
            self.fail(f"an answer has {answer.usage} and the finish {answer.finish}; {fields['max_tokens']} were asked for")
        key = json.dumps(fields)
        with self.lock:
            if self.texts.setdefault(key, answer.text) != answer.text:
                self.failures.append(f"{key} was answered differently before: {answer.text!r}")

    def ask(self, fields, streamed):
        answer = (self.cluster.ask if streamed else self.cluster.ask_whole)(COMPLETIONS, **fields)
        self.check(answer, fields)
        self.count("streamed" if streamed else "unstreamed")
        return answer

    def leave(self, fields, rng):
        """Sends the request, and closes the connection while it waits, in its prompt, or in its answer."""
        connection, response = self.cluster.post(COMPLETIONS, {**fields, "stream": True, "max_tokens": 400})
        if rng.random() < 0.5:
            response.readline()
        time.sleep(rng.random() * 0.5)
        connection.close()
        response.close()

    def client(self, number):
        rng = random.Random(number)
        while time.monotonic() < self.deadline:
            fields = self.request(rng)
            kind = rng.random()
            try:
                if kind < 0.1:
                    self.leave(fields, rng)
                    self.count("left")
                    continue
                answer = self.ask(fields, kind < 0.6)
                if kind < 0.3:
                    self.ask({**fields, "prompt": fields["prompt"] + answer.text + " What follows?"}, kind < 0.2)
                    self.count("second turns")
            except (BenchError, OSError, http.client.HTTPException, ValueError) as failure:
                self.fail(f"{type(failure).__name__}: {failure}")

    def watch(self, stop):
        while not stop.wait(1):
            self.samples.append([process.memory() for process in self.cluster.processes])


def thirds(samples):
    """Medians of each process's memory in the first and in the last third."""
    third = max(1, len(samples) // 3)
    for process in range(len(samples[0])):
        for kind, name in enumerate(("resident", "anonymous")):
            values = [sample[process][kind] for sample in samples]
            yield process, name, statistics.median(values[:third]), statistics.median(values[-third:])


def fill_cache(cluster, model):
    """Touches the whole KV pool before memory is watched: what the prefix cache takes in later is no growth."""
    metrics, number = cluster.wait_idle(), 0
    while metrics.get("kaiju_kv_blocks_cached", metrics["kaiju_kv_blocks"]) < metrics["kaiju_kv_blocks"] * 0.95:
        cluster.ask_whole(COMPLETIONS, prompt=model.ids(1900, f"fill {number}"), max_tokens=1)
        metrics, number = cluster.wait_idle(), number + 1
        if number > metrics["kaiju_kv_blocks"]:
            raise BenchError("the prefix cache does not fill")


def run_clients(soak, clients):
    stop = threading.Event()
    watcher = threading.Thread(target=soak.watch, args=(stop,))
    watcher.start()
    threads = [threading.Thread(target=soak.client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    watcher.join()


def run_soak(bench):
    arguments = bench.arguments
    with serving.open_model("kaiju-mini", bench.kaiju, arguments.thirty) as model:
        options = bench.options(model, 2048, "--parallel", "16", drafts=True)
        if serving.knows_option(bench.kaiju, "--kv-tokens"):
            options += ["--kv-tokens", "16384"]
        with bench.cluster(model, 2, options) as cluster:
            fill_cache(cluster, model)
            soak = Soak(cluster, model, time.monotonic() + arguments.minutes * 60)
            run_clients(soak, arguments.clients)
            metrics = cluster.wait_idle()
    for name in ("kaiju_requests_failed_total", "kaiju_kv_blocks_used"):
        if metrics[name]:
            soak.fail(f"{name} is {metrics[name]:g} at the end")
    answered = soak.counts["streamed"] + soak.counts["unstreamed"]
    if metrics["kaiju_requests_finished_total"] < answered:
        soak.fail(f"{answered} answers came and the server counts {metrics['kaiju_requests_finished_total']:g}")
    for process, name, first, last in thirds(soak.samples):
        bench.rows.append([("lead", "node 1")[process], f"{name} memory", f"{first / 1e6:.1f} MB", f"{last / 1e6:.1f} MB",
                           f"{last / first:.3f}"])
        if last > first * FLAT + SLACK:
            soak.fail(f"memory grows: {bench.rows[-1]}")
    bench.note(minutes=arguments.minutes, clients=arguments.clients, counts=soak.counts, failures=soak.failures,
               metrics=metrics, memory=soak.samples)
    print(f"\n{arguments.clients} clients for {arguments.minutes:g} minutes: {dict(soak.counts)}, "
          f"{len(soak.failures)} failures")
    if soak.failures:
        raise BenchError("\n".join(soak.failures[:20]))
    return ["process", "", "first third", "last third", "ratio"]
