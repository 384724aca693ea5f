"""docs/openapi.json against the server: schemathesis sends what the description allows and what it does not, and every answer
must have a status, headers and a shape that it describes; members of answers that it does not describe are faults.

KAIJU_OPENAPI_SECONDS=600 makes it go on for so long, with other cases each time.
"""

import collections
import copy
import json
import os
import pathlib
import subprocess
import sys

from cluster import ROOT

DESCRIPTION = ROOT / "docs" / "openapi.json"
HERE = pathlib.Path(__file__).parent


def closed(description):
    """The description with answers that have no other members than described: their schemas are copies, since requests may."""
    description = copy.deepcopy(description)
    schemas = description["components"]["schemas"]

    def close(schema):
        if isinstance(schema, list):
            return [close(entry) for entry in schema]
        if not isinstance(schema, dict):
            return schema
        schema = {key: value if key in ("enum", "const", "required") else close(value) for key, value in schema.items()}
        reference = schema.get("$ref", "")
        if reference.startswith("#/components/schemas/") and not reference.endswith(".answer"):
            name = reference.rsplit("/", 1)[1]
            if name + ".answer" not in schemas:
                schemas[name + ".answer"] = {}
                schemas[name + ".answer"] = close(schemas[name])
            schema["$ref"] = reference + ".answer"
        if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
            schema.setdefault("additionalProperties", False)
        return schema

    description["components"]["responses"] = close(description["components"]["responses"])
    for methods in description["paths"].values():
        for operation in methods.values():
            operation["responses"] = close(operation["responses"])
    return description


def test_the_description_is_served(solo):
    status, headers, body = solo.get("/openapi.json")
    assert status == 200 and headers["content-type"].startswith("application/json")
    assert body == DESCRIPTION.read_text()


def test_the_server_is_as_described(solo, tmp_path):
    description = json.loads(DESCRIPTION.read_text())
    strict = tmp_path / "openapi.json"
    strict.write_text(json.dumps(closed(description)))
    settings = tmp_path / "schemathesis.toml"
    settings.write_text("max-stream-events = 1000000\n")  # streams are read to their end
    seconds = os.environ.get("KAIJU_OPENAPI_SECONDS")
    extent = ["--max-time", seconds] if seconds else ["--max-examples", "10", "--seed", "1"]
    command = [pathlib.Path(sys.executable).parent / "schemathesis", "--config-file", settings, "run", strict, "--url", solo.url, *extent,
               "--phases", "examples,coverage,fuzzing", "--exclude-checks", "positive_data_acceptance", "--continue-on-failure"]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "openapi_hooks", "PYTHONPATH": str(HERE), "KAIJU_OPENAPI": str(strict),
                   "KAIJU_OPENAPI_ANSWERS": str(tmp_path / "answers")}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    answers = collections.Counter(tuple(json.loads(line)) for line in (tmp_path / "answers").read_text().splitlines())
    print("\n".join(f"{count:6} {' '.join(map(str, answer))}" for answer, count in sorted(answers.items())))
    assert sum(answers.values()) > 500
    # What is described has been seen, and not only refusals.
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            for kind in operation["responses"].get("200", {}).get("content", {}):
                assert answers[method.upper(), path, 200, kind], f"no answer {kind} to {method} {path}"
    assert solo.running() and solo.health() == 200
