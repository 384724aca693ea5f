"""Kaiju's processes as the end-to-end tests start, watch and end them.

A Cluster owns what it has started and ends all of it when it is closed. Nothing here sleeps for a fixed time to let
something happen: tests wait for a line of a log, for /health, for a metric or for a process to end.
"""

import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request

import openai

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("KAIJU_BUILD", ROOT / "build")).resolve()
KAIJU = BUILD / "kaiju"
TOOLS = BUILD / "tests" / "tools"
MINI = ROOT / "models" / "kaiju-mini"
# Reading the system's certificates for each client would take longer than most requests.
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
PATIENCE = 60  # seconds after which something that should happen counts as not happening


def eventually(condition, what, patience=PATIENCE):
    """Polls until the condition gives something true, and returns that."""
    give_up = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < give_up, f"{what}: not after {patience} s"
        time.sleep(0.01)


class Process:
    """One process with its output gathered line by line."""

    def __init__(self, name, command, environment=None):
        self.name = name
        self.lines = []
        self.changed = threading.Condition()
        self.ended = False
        self.popen = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            env={**os.environ, **(environment or {})},
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.popen.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    @property
    def pid(self):
        return self.popen.pid

    def log(self):
        with self.changed:
            return "\n".join(self.lines)

    def wait_for_line(self, pattern, patience=PATIENCE):
        """The first match of the pattern in the log; fails at once when the process ends without one."""
        expression = re.compile(pattern)
        give_up = time.monotonic() + patience
        seen = 0
        with self.changed:
            while True:
                for line in self.lines[seen:]:
                    match = expression.search(line)
                    if match:
                        return match
                seen = len(self.lines)
                left = give_up - time.monotonic()
                if self.ended or left <= 0:
                    why = "ended" if self.ended else f"said nothing like it for {patience} s"
                    raise AssertionError(f"{self.name} {why}; waited for /{pattern}/ in:\n" + "\n".join(self.lines))
                self.changed.wait(left)

    def running(self):
        return self.popen.poll() is None

    def send(self, number):
        self.popen.send_signal(number)

    def wait(self, patience=PATIENCE):
        """The exit code, or a failed test with the log."""
        try:
            code = self.popen.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {patience} s:\n{self.log()}") from None
        self.reader.join(PATIENCE)
        return code

    def kill(self):
        """As a crash or a power cut would."""
        self.popen.kill()
        self.wait()

    def stop(self, number=signal.SIGTERM, patience=5):
        self.send(number)
        return self.wait(patience)

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def resident_bytes(self):
        pages = int(pathlib.Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


class Node(Process):
    def __init__(self, listen, model, options):
        super().__init__(f"node {listen}", [KAIJU, "node", "--listen", listen, "--model", model, *options])
        self.model, self.options = model, options

    @property
    def address(self):
        return self.wait_for_line(r" listens at (\S+)")[1]


class Lead(Process):
    def __init__(self, nodes, model, port, options, program=KAIJU, environment=None):
        command = [program, "serve", model, "--port", port, *options]
        if nodes:
            command += ["--nodes", ",".join(nodes)]
        super().__init__("lead", command, environment)

    @property
    def url(self):
        return self.wait_for_line(r"loading \S+; (\S+?)/health")[1]

    @property
    def port(self):
        return int(self.url.rsplit(":", 1)[1])

    def get(self, path):
        """Status, headers and body."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as response:
                return response.status, response.headers, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()

    def health(self):
        return self.get("/health")[0]

    def metrics(self):
        """The value of every metric by its name with its labels."""
        lines = [line for line in self.get("/metrics")[2].splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    def metric(self, name):
        return self.metrics()[name]

    def state(self):
        values = self.metrics()
        return next(name for name in ("connecting", "loading", "ready", "recovering", "stopping")
                    if values[f'kaiju_engine_state{{state="{name}"}}'])

    def wait_ready(self):
        """Health is polled as an operator's probe would; a lead that ends instead fails the test with its log."""
        url = self.url

        def ready():
            assert self.running(), f"the lead has ended:\n{self.log()}"
            try:
                with urllib.request.urlopen(url + "/health", timeout=PATIENCE) as response:
                    return response.status == 200
            except (urllib.error.URLError, ConnectionError):
                return False

        eventually(ready, "the lead is ready")
        return self

    def wait_state(self, state):
        eventually(lambda: self.state() == state, f"the lead is {state}")

    def client(self, timeout=PATIENCE):
        web = openai.DefaultHttpxClient(verify=NO_CERTIFICATES)
        return openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=timeout, http_client=web)

    def complete(self, prompt, **fields):
        """The text of a completion, by default of exactly max_tokens tokens."""
        with self.client() as client:
            return client.completions.create(**completion(prompt, **fields)).choices[0].text

    def stream(self, prompt, **fields):
        """The pieces of text of a streamed completion."""
        with self.client() as client:
            for chunk in client.completions.create(**completion(prompt, stream=True, **fields)):
                if chunk.choices and chunk.choices[0].text:
                    yield chunk.choices[0].text


def completion(prompt, ignore_eos=True, **fields):
    return {"model": MINI.name, "prompt": prompt, **fields, "extra_body": {"ignore_eos": ignore_eos}}


class RawRequest:
    """A completion request on a socket of its own, which can be dropped at any moment."""

    def __init__(self, lead, **fields):
        body = json.dumps({"model": MINI.name, **fields}).encode()
        self.socket = socket.create_connection(("127.0.0.1", lead.port), timeout=PATIENCE)
        self.socket.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: kaiju\r\nContent-Type: application/json\r\n"
                            b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def read_until(self, text):
        gathered = b""
        while text not in gathered:
            part = self.socket.recv(65536)
            assert part, f"the connection ended before {text}: {gathered}"
            gathered += part
        return gathered

    def read_to_end(self):
        gathered = b""
        while part := self.socket.recv(65536):
            gathered += part
        return gathered

    def drop(self):
        self.socket.close()


class Relay:
    """Passes TCP connections on to a node, counts their bytes, and can go dead as a cut cable does."""

    def __init__(self, target):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.bytes = 0
        self.lock = threading.Lock()
        self.connected = threading.Event()
        self.connected.set()
        self.sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                inside, _ = self.listener.accept()
            except OSError:
                return
            try:
                outside = socket.create_connection(self.target)
            except OSError:
                inside.close()
                continue
            self.sockets += [inside, outside]
            for source, sink in ((inside, outside), (outside, inside)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source, sink):
        try:
            while part := source.recv(1 << 16):
                self.connected.wait()
                with self.lock:
                    self.bytes += len(part)
                sink.sendall(part)
            self.connected.wait()
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, sink):
                end.close()

    def cut(self):
        self.connected.clear()

    def mend(self):
        self.connected.set()

    def close(self):
        self.mend()
        # Closing alone would leave a thread in accept.
        self.listener.shutdown(socket.SHUT_RDWR)
        for end in [self.listener, *self.sockets]:
            end.close()


class Cluster:
    """What one test has started."""

    def __init__(self):
        self.processes = []
        self.relays = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def start(self, name, *command):
        self.processes.append(Process(name, command))
        return self.processes[-1]

    def node(self, *options, listen="127.0.0.1:0", model=MINI):
        node = Node(listen, model, options)
        self.processes.append(node)
        return node

    def nodes(self, count, *options):
        started = [self.node(*options) for _ in range(count)]
        for node in started:
            node.address
        return started

    def lead(self, nodes, *options, model=MINI, port=0):
        """`nodes` are Nodes or addresses. The lead is not ready yet: lead(…).wait_ready()."""
        addresses = [node.address if isinstance(node, Node) else node for node in nodes]
        lead = Lead(addresses, model, port, options)
        self.processes.append(lead)
        return lead

    def restart(self, node):
        """A node in the place of one that has ended."""
        assert not node.running()
        again = self.node(*node.options, listen=node.address, model=node.model)
        again.address
        return again

    def relay(self, node):
        relay = Relay(node.address)
        self.relays.append(relay)
        return relay

    def close(self):
        for relay in self.relays:
            relay.close()
        for process in self.processes:
            if process.running():
                process.popen.kill()
        for process in self.processes:
            process.wait()
            print(f"--- {process.name}, exit code {process.popen.returncode}\n{process.log()}")


def altered_model(directory, edit_config=None, without=(), edit_file=None):
    """A copy of kaiju-mini in `directory` (links to what stays the same) with something different."""
    directory.mkdir()
    for path in MINI.iterdir():
        if path.is_file() and path.name not in without:
            (directory / path.name).symlink_to(path)
    if edit_config:
        config = json.loads((MINI / "config.json").read_text())
        edit_config(config)
        (directory / "config.json").unlink()
        (directory / "config.json").write_text(json.dumps(config))
    if edit_file:
        name, edit = edit_file
        (directory / name).unlink()
        (directory / name).write_bytes(edit((MINI / name).read_bytes()))
    return directory
