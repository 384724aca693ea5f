"""scripts/demo.sh, which `make demo` runs: the answer of a two-node pipeline and the URL of its server."""

import os
import pty
import re
import subprocess
import urllib.request

from cluster import KAIJU, PATIENCE, ROOT, eventually

DEMO = [ROOT / "scripts" / "demo.sh", KAIJU]
SERVES = r"serves the OpenAI API at (http://\S+)/v1"


def test_it_ends_after_the_answer_where_its_output_is_no_terminal():
    outcome = subprocess.run(DEMO, capture_output=True, text=True, timeout=PATIENCE)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "def is_prime(n):" in outcome.stdout
    assert re.search(r"^        layers warm: .*4 of 4", outcome.stdout, re.M)
    assert re.search(SERVES, outcome.stdout)


def test_it_serves_until_control_c_on_a_terminal():
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(DEMO[0], [str(part) for part in DEMO])
    shown = b""

    def serves():
        nonlocal shown
        shown += os.read(terminal, 65536)
        return re.search(SERVES.encode() + rb"[^\0]*Ctrl-C ends it", shown)

    url = eventually(serves, "the demo serves")[1].decode()
    with urllib.request.urlopen(url + "/health", timeout=PATIENCE) as response:
        assert response.status == 200
    os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    os.close(terminal)
    try:
        urllib.request.urlopen(url + "/health", timeout=PATIENCE)
    except OSError:
        return
    raise AssertionError("the lead outlives the demo")
