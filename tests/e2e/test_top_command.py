"""kaiju top: one frame for a script, and the live view on a terminal."""

import fcntl
import http.server
import os
import re
import signal
import socket
import struct
import subprocess
import termios
import threading

import pytest

from cluster import KAIJU, PATIENCE, eventually

ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


def top(*arguments):
    """Its standard output is no terminal."""
    return subprocess.run([KAIJU, "top", *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE,
                          stdin=subprocess.DEVNULL)


def frame(lead, *options):
    done = top(lead.url, "--once", "--interval", 0.1, *options)
    assert done.returncode == 0 and done.stderr == ""
    assert "\x1b" not in done.stdout and "\r" not in done.stdout
    return done.stdout


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_once_shows_every_node(trio):
    shown = frame(trio)
    metrics = trio.metrics()
    assert f"kaiju kaiju-mini at {trio.url}, ready, up " in shown
    assert f"of {metrics['kaiju_kv_blocks']:.0f} blocks" in shown
    nodes = [name for name in metrics if name.startswith("kaiju_node_layers{")]
    assert len(nodes) == 3
    for name in nodes:
        labels = name[len("kaiju_node_layers"):]
        stage, node = re.fullmatch(r'{stage="(\d+)",node="(\S+)"}', labels).groups()
        first = metrics["kaiju_node_first_layer" + labels]
        last = first + metrics[name] - 1
        assert re.search(rf"^ +{stage}  {node} +{first:.0f}-{last:.0f} ", shown, re.MULTILINE), shown


def test_once_shows_what_runs(trio):
    with trio.client() as client:
        stream = client.completions.create(model="m", prompt="def f(", max_tokens=2000, stream=True,
                                           extra_body={"ignore_eos": True})
        next(stream)
        shown = frame(trio)
        stream.close()
    assert " 1 running" in shown
    assert float(re.search(r"([\d.]+)/s generated", shown)[1]) > 0
    assert re.search(r"^ITL +p50 [\d.]+ m?s, p95 [\d.]+ m?s", shown, re.MULTILINE)


def test_once_says_why_the_engine_is_not_ready(cluster):
    lead = cluster.lead([f"127.0.0.1:{free_port()}"])
    eventually(lambda: "127.0.0.1:" in lead.get("/health")[2].split("error")[1], "the lead says whom it waits for")
    shown = frame(lead)
    assert ", connecting, up " in shown
    assert shown.splitlines()[1].startswith("the engine is connecting: 127.0.0.1:")


def test_once_without_a_server_fails():
    port = free_port()
    done = top("--once", f"127.0.0.1:{port}")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"kaiju top: nobody answers at http://127.0.0.1:{port}: is the server running there?\n"


@pytest.mark.parametrize("status, body, says", [
    (404, b"", "/metrics answers with status 404"),
    (200, b"<html></html>", "line 1 of the metrics"),
    (200, b"up 1\n", "kaiju_engine_state is missing"),
    (200, b"a" * (5 << 20), "too long"),
])  # fmt: skip
def test_once_with_another_server_fails(status, body, says):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except ConnectionError:
                pass

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        done = top("--once", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
        thread.join()
    assert done.returncode == 1 and done.stdout == ""
    assert says in done.stderr


@pytest.mark.parametrize("arguments", [["--interval", "0"], ["--interval", "x"], ["--interval", "nan"], ["a", "b"],
                                       ["--fast"]])  # fmt: skip
def test_wrong_usage(arguments):
    done = top(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert "kaiju top --help" in done.stderr


@pytest.mark.parametrize("url", ["https://127.0.0.1:1", "ftp://h", "http://", "http://[", "h:99999"])
def test_wrong_urls(url):
    done = top("--once", url)
    assert done.returncode == 1 and done.stdout == ""
    assert url in done.stderr


class Screen:
    """kaiju top on a terminal of its own."""

    def __init__(self, url, columns=100, rows=30):
        self.inside, self.outside = os.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self.outside)
        self.text = ""
        self.popen = subprocess.Popen([KAIJU, "top", url, "--interval", "0.1"], stdin=self.outside,
                                      stdout=self.outside, stderr=self.outside, env={**os.environ, "TERM": "xterm"})
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        undecoded = b""
        while True:
            try:
                undecoded += os.read(self.inside, 65536)
            except OSError:
                return
            text = undecoded.decode(errors="ignore")
            undecoded = undecoded[len(text.encode()):]
            self.text += text

    def resize(self, columns, rows):
        fcntl.ioctl(self.outside, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def frames(self):
        """The whole frames so far, as lines."""
        parts = self.text.split("\x1b[H")[1:]
        return [part.split("\x1b[J")[0].replace("\x1b[K", "").replace("\r", "").split("\n")
                for part in parts if "\x1b[J" in part]

    def wait_for(self, text):
        seen = len(self.frames())
        eventually(lambda: any(text in line for lines in self.frames()[seen:] for line in lines), f"it shows {text}")

    def end(self, how):
        """The terminal is as it was, and the program has ended well."""
        if isinstance(how, str):
            os.write(self.inside, how.encode())
        else:
            self.popen.send_signal(how)
        assert self.popen.wait(PATIENCE) == 0
        eventually(lambda: self.text.endswith(LEAVE), "it leaves the screen")
        assert termios.tcgetattr(self.outside) == self.before
        assert self.text.startswith(ENTER)
        assert self.text.count(ENTER) == self.text.count(LEAVE) == 1
        self.close()

    def close(self):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
        if self.inside is not None:
            os.close(self.outside)
            self.reader.join(PATIENCE)
            os.close(self.inside)
            self.inside = None


@pytest.mark.parametrize("how", ["q", signal.SIGINT, signal.SIGTERM], ids=["q", "SIGINT", "SIGTERM"])
def test_live_view_ends_and_gives_the_terminal_back(trio, how):
    screen = Screen(trio.url)
    try:
        screen.wait_for(", ready, up ")
        assert termios.tcgetattr(screen.outside) != screen.before
        screen.end(how)
    finally:
        screen.close()


def test_live_view_fits_the_window(trio):
    screen = Screen(trio.url, 100, 30)
    try:
        for columns, rows in ((100, 30), (50, 12), (30, 5), (200, 50)):
            screen.resize(columns, rows)
            # A window tells its program by a signal; this one is nobody's controlling terminal.
            screen.popen.send_signal(signal.SIGWINCH)
            seen = len(screen.frames())
            eventually(lambda: len(screen.frames()) > seen + 2, "it is drawn again")
            lines = screen.frames()[-1]
            assert 1 < len(lines) <= rows
            assert 10 < max(map(len, lines)) < columns
        screen.end("q")
    finally:
        screen.close()


def test_live_view_waits_for_a_server(cluster):
    port = free_port()
    screen = Screen(f"http://127.0.0.1:{port}")
    try:
        screen.wait_for("nobody answers at")
        screen.wait_for("trying again")
        lead = cluster.lead([], port=port)
        screen.wait_for(", ready, up ")
        lead.kill()
        screen.wait_for("trying again")
        assert "up" not in screen.frames()[-1][0]
        cluster.lead([], port=port)
        screen.wait_for(", ready, up ")
        screen.end("q")
    finally:
        screen.close()
