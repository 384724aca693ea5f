"""What the benches of the server share: a cluster on this machine, requests to it, and figures of several rounds.

Every process of a cluster is kept to a CPU of its own (`--pin`) and computes with one thread. Requests are made by this
process, which is kept to none. Needs Python 3 alone.
"""

import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import select
import socket
import statistics
import subprocess
import tempfile
import threading
import time

MINI = pathlib.Path(__file__).resolve().parents[1] / "models" / "kaiju-mini"
PATIENCE = 900  # seconds after which an answer counts as not coming


class BenchError(Exception):
    """What was measured did not work."""


class Process:
    """One `kaiju` process on a CPU of its own; its log is kept, and shown when it fails."""

    def __init__(self, command, cpu):
        self.command = [str(part) for part in command] + ["--pin", str(cpu), "--threads", "1"]
        self.log = []
        self.popen = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, text=True, errors="replace")
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.popen.stderr:
            with self.changed:
                self.log.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.log.append(None)
            self.changed.notify_all()

    def wait_for_line(self, pattern):
        seen = 0
        with self.changed:
            while True:
                for line in self.log[seen:]:
                    if line is None:
                        raise BenchError(f"{' '.join(self.command)} has ended:\n" + "\n".join(self.log[:-1]))
                    if match := re.search(pattern, line):
                        return match
                seen = len(self.log)
                self.changed.wait()

    def memory(self):
        """Resident bytes: of everything, and of what is not a mapped file."""
        text = pathlib.Path(f"/proc/{self.popen.pid}/status").read_text()
        return tuple(int(re.search(name + r":\s+(\d+) kB", text)[1]) << 10 for name in ("VmRSS", "RssAnon"))

    def end(self):
        self.popen.terminate()
        try:
            self.popen.wait(10)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()


class Cluster:
    """A lead and its nodes, ready; ended by `with`."""

    def __init__(self, kaiju, model, cpus, options=()):
        """As many processes as there are CPUs; `options` are the lead's."""
        self.nodes = len(cpus)
        self.processes = []
        try:
            for cpu in cpus[1:]:
                self.processes.append(Process([kaiju, "node", "--model", model, "--listen", "127.0.0.1:0"], cpu))
            addresses = [process.wait_for_line(r" listens at (\S+)")[1] for process in self.processes]
            command = [kaiju, "serve", model, "--port", "0", *options]
            if addresses:
                command += ["--nodes", ",".join(addresses)]
            self.lead = Process(command, cpus[0])
            self.processes.insert(0, self.lead)
            self.port = int(self.lead.wait_for_line(r"serving at http://\S+:(\d+)")[1])
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.end()

    def metrics(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        values = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in values}

    def wait_idle(self):
        while (metrics := self.metrics())["kaiju_requests_running"] + metrics["kaiju_requests_waiting"] > 0:
            time.sleep(0.02)
        return metrics

    def post(self, path, fields):
        """The answer's connection, its headers read; the caller closes it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("POST", path, json.dumps(fields), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            text = response.read().decode()
            connection.close()
            raise BenchError(f"{path}: {response.status} {text}")
        return connection, response

    def ask(self, path, **fields):
        """Asks streamed: text, usage, finish reason, seconds to the first text and between it and the end."""
        begin = time.monotonic()
        connection, response = self.post(path, {**fields, "stream": True, "stream_options": {"include_usage": True}})
        with contextlib.closing(connection):
            lines = [(time.monotonic(), line) for line in response]
        end = time.monotonic()
        answer, first = Answer(), None
        for moment, line in lines:  # only now: parsing takes time from the server on a machine with few CPUs
            if answer.take(line) and first is None:
                first = moment
        answer.check()
        answer.first_token = (first or end) - begin
        answer.rest = end - (first or end)
        return answer

    def ask_whole(self, path, **fields):
        """Asks without a stream; the same as `ask`, but the seconds are those of all."""
        begin = time.monotonic()
        connection, response = self.post(path, fields)
        with contextlib.closing(connection):
            body = json.loads(response.read())
        answer = Answer()
        choice = body["choices"][0]
        answer.text = choice["text"] if "text" in choice else choice["message"]["content"]
        answer.finish, answer.usage, answer.done = choice["finish_reason"], body["usage"], True
        answer.first_token, answer.rest = time.monotonic() - begin, 0
        return answer


class Answer:
    """What has come of an answer."""

    def __init__(self):
        self.text, self.usage, self.finish, self.done, self.error = "", None, None, False, None
        self.first_token = self.rest = None

    def take(self, line):
        """A line of the event stream; true if it brought text."""
        if not line.startswith(b"data: "):
            return False
        if line.strip() == b"data: [DONE]":
            self.done = True
            return False
        event = json.loads(line[6:])
        self.error = event.get("error") or self.error
        self.usage = event.get("usage") or self.usage
        before = len(self.text)
        for choice in event.get("choices", []):
            self.text += choice["text"] if "text" in choice else choice["delta"].get("content") or ""
            self.finish = choice["finish_reason"] or self.finish
        return len(self.text) > before

    def check(self):
        if self.error or not self.done or not self.finish:
            raise BenchError(f"a stream ended without its end: {self.error or self.text[-80:]}")


class Streams:
    """Streams at once, whose readers take next to no CPU: what has come is read every 50 ms and thrown away."""

    def __init__(self, cluster, bodies):
        self.sockets = []
        self.stopping = threading.Event()
        self.failed = None
        for fields in bodies:
            body = json.dumps({**fields, "stream": True}).encode()
            connection = socket.create_connection(("127.0.0.1", cluster.port))
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: kaiju\r\nContent-Type: application/json\r\n"
                               b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            self.sockets.append(connection)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while not self.stopping.wait(0.05):
            for connection in select.select(self.sockets, [], [], 0)[0]:
                part = connection.recv(1 << 18)
                if b'"error"' in part or not part:
                    self.failed = part.decode(errors="replace") or "a stream ended early"
                    return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.reader.join()
        for connection in self.sockets:
            connection.close()


class Model:
    """A checkpoint and the words of its tokenizer that are one token each, for prompts of a known length."""

    def __init__(self, name, directory, random_weights):
        self.name, self.directory, self.random_weights = name, pathlib.Path(directory), random_weights
        config = json.loads((self.directory / "config.json").read_text())
        self.longest, self.layers = config["max_position_embeddings"], config["num_hidden_layers"]
        vocabulary = json.loads((self.directory / "tokenizer.json").read_text())["model"]["vocab"]
        self.words = {word[1:]: number for word, number in vocabulary.items() if re.fullmatch("Ġ[a-z]{3,9}", word)}

    def text(self, tokens, seed):
        """Words that make as many tokens."""
        return "".join(" " + word for word in random.Random(seed).choices(sorted(self.words), k=tokens))

    def ids(self, tokens, seed):
        return random.Random(seed).choices(sorted(self.words.values()), k=tokens)

    def bias(self):
        """Random weights choose among all token ids; this keeps them to words, so that an answer is text."""
        if not self.random_weights:
            return {}
        return {"logit_bias": {str(number): 100 for number in sorted(self.words.values())[:1000]}}


@contextlib.contextmanager
def open_model(name, kaiju, directory):
    """kaiju-mini, or a synthetic checkpoint of the 30B shape that is made in `directory` if it is not there."""
    if name == "kaiju-mini":
        yield Model(name, MINI, False)
        return
    if not (directory / "config.json").exists():
        subprocess.run([kaiju, "synth", "qwen3-coder-30b", directory, "--layers", "8", "--tokenizer", MINI], check=True)
    if (directory / "tokenizer.json").exists():
        yield Model(name, directory, True)
        return
    with tempfile.TemporaryDirectory() as linked:
        for path in [*directory.iterdir(), *MINI.glob("tokenizer*")]:
            (pathlib.Path(linked) / path.name).symlink_to(path.resolve())
        yield Model(name, linked, True)


def knows_option(kaiju, option):
    manual = subprocess.run([kaiju, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    return option in manual


def usual_cpus(count):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < count:
        raise BenchError(f"{count} CPUs are needed and there are {len(cpus)}")
    return cpus[:count]


def machine(kaiju):
    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) / (1 << 20)
    version = subprocess.run([kaiju, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return (f"{model[1] if model else os.uname().machine}, {os.cpu_count()} CPUs, {memory:.0f} GiB, "
            f"Linux {os.uname().release}, {version}")


def decimals(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(values, form=decimals):
    """The median and, where there are several, the range."""
    if len(values) == 1:
        return form(values[0])
    return f"{form(statistics.median(values))} ({form(min(values))}…{form(max(values))})"


def percent(value):
    return f"{value * 100:.1f} %"


def table(head, rows):
    return "\n".join(["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]])
