"""The programs in tests/tools that answer requests, one JSON value a line."""

import json
import os
import subprocess
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("KAIJU_BUILD", SOURCE / "build")).resolve()


def answers(tool, requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([BUILD / "tests" / "tools" / tool], input=lines.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    found = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
    assert len(found) == len(requests)
    return found
