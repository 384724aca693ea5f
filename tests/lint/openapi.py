#!/usr/bin/env python3
"""Checks that docs/openapi.json and the server's source speak of the same routes, methods and fields of requests."""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIELD = re.compile(r'\b(?:field_(?:number|integer|boolean|string|value|any)|json_object_get|required_string)\s*\(([^;")]*?)"(\w+)"')
NUMBER = re.compile(r'\bnumber\(fields, "(\w+)"')
# Names of JSON members that the source reads, but not from a request.
NOT_OF_REQUESTS = {
    "refusal", "conversation", "input_count", "response", "plain_reasoning",  # what a request carries along
    "enable_thinking",  # a variable of templates
    "data", "first_id", "last_id", "token_logprobs", "text_offset",  # of answers
}


def routes():
    """Methods of each path, with {id} for the star."""
    source = (ROOT / "src/http/router.c").read_text()
    table = re.search(r"static const struct route routes\[\] = \{(.*?)\n\};", source, re.S)[1]
    found = {}
    for path, methods in re.findall(r'\{"([^"]+)",\s*([A-Z_| ]+),', table):
        found[path.replace("*", "{id}")] = {name.strip()[len("HTTP_"):].lower() for name in methods.split("|")}
    return found


def described_fields(description):
    """Names of the members of requests' bodies and queries, and those among them that are taken and ignored."""
    names, ignored, seen = set(), set(), set()

    def walk(schema):
        if isinstance(schema, list):
            for entry in schema:
                walk(entry)
        if not isinstance(schema, dict):
            return
        reference = schema.get("$ref")
        if reference and reference not in seen:
            seen.add(reference)
            walk(description["components"]["schemas"][reference.rsplit("/", 1)[1]])
        for name, member in schema.get("properties", {}).items():
            names.add(name)
            if member.get("x-ignored"):
                ignored.add(name)
            walk(member)
        for key in ("anyOf", "items", "additionalProperties"):
            walk(schema.get(key))

    for methods in description["paths"].values():
        for operation in methods.values():
            walk(operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema"))
            names.update(parameter["name"] for parameter in operation.get("parameters", []) if parameter.get("in") == "query")
    return names, ignored


def read_fields(text):
    """Names that the source reads of JSON objects, and of the lists of names that it copies."""
    found = {name for _, name in FIELD.findall(text)} | set(NUMBER.findall(text))
    for names in re.findall(r"static const char \*const (?:names|kept)\[\] = \{(.*?)\};", text, re.S):
        found.update(re.findall(r'"(\w+)"', names))
    return found


def main():
    description = json.loads((ROOT / "docs/openapi.json").read_text())
    faults = []
    served = routes()
    described = {path: set(methods) for path, methods in description["paths"].items()}
    for path in sorted(served.keys() | described.keys()):
        if served.get(path) != described.get(path):
            faults.append(f"{path}: the router has {served.get(path)}, docs/openapi.json {described.get(path)}")
    sources = [path.read_text() for path in sorted((ROOT / "src/http").glob("*.c"))]
    read = set().union(*(read_fields(text) for text in sources)) - NOT_OF_REQUESTS
    names, ignored = described_fields(description)
    literals = set(re.findall(r'"(\w+)"', "\n".join(sources)))
    for name in sorted(read - names):
        faults.append(f"the source reads the field '{name}', which docs/openapi.json does not describe")
    for name in sorted(names - ignored - literals):
        faults.append(f"docs/openapi.json describes the field '{name}', which no source names")
    print("\n".join(faults) if faults else f"openapi: {len(served)} paths and {len(names)} fields, as in the source")
    return bool(faults) or not served or len(names) < 50


if __name__ == "__main__":
    sys.exit(main())
