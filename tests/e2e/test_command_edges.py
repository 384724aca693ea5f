"""Commands at the edges of their input."""

import pathlib
import re
import signal
import subprocess

from cluster import KAIJU, PATIENCE, eventually


def blocks(pid, number):
    """Does the process keep this signal from interrupting it, to take it when it likes?"""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^SigBlk:\s*(\w+)", status, re.M)[1], 16) >> (number - 1) & 1


def test_run_ends_by_signal_while_it_reads_its_prompt():
    process = subprocess.Popen([KAIJU, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(b"half a prompt")
    process.stdin.flush()
    # Libraries that Kaiju loads handle SIGTERM in a way of their own until main has begun.
    eventually(lambda: blocks(process.pid, signal.SIGTERM), "signals are waited for")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert process.stdout.read() == b""
