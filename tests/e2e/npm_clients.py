"""The clients from npm, which tests/run.sh installs in BUILD/clients, and the Node.js that the tests' Python has."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

from cluster import BUILD, PATIENCE, ROOT

INSTALLED = BUILD / "clients"
COMMANDS = INSTALLED / "node_modules" / ".bin"
NODE = pathlib.Path(sys.executable).parent / "node"
SCRIPTS = ROOT / "tests" / "clients"


def environment(home):
    """That of a program which must find nothing of the person who runs the tests, and no way out of this machine: what
    would be fetched is asked of a proxy that nobody is."""
    return {"HOME": str(home), "PATH": f"{NODE.parent}:{os.environ['PATH']}", "LANG": "C.UTF-8", "NO_COLOR": "1",
            "HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost"}


def scenarios(name, url, questions, home):
    """What tests/clients/NAME.mjs tells of its scenarios. It runs where the packages are: Node.js looks for what a
    module imports beside that module only."""
    for script in (f"{name}.mjs", "scenarios.mjs"):
        shutil.copy(SCRIPTS / script, INSTALLED / f"{script}.new")
        (INSTALLED / f"{script}.new").rename(INSTALLED / script)
    answer = subprocess.run([NODE, INSTALLED / f"{name}.mjs", url, json.dumps(questions)], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=PATIENCE, env=environment(home))
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)
