"""JSON schemas as grammars, against jsonschema: the texts of a grammar are valid, and what is valid is in it."""

import json
import random

import jsonschema
import pytest

from schema_cases import CASES, LIBRARIES, OPENAPI, REFUSED
from tools import answers

ALL_WORDS = ["a", "b", "ab", "name", "", "ä", "x-y", "\"quoted\"", "\\", "0", "long name"]


def reference(schema):
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


def is_valid(schema, instance):
    # An array as items is a word of the drafts before 2020-12.
    old = '"items": [' in json.dumps(schema)
    validator = jsonschema.Draft7Validator(schema) if old else reference(schema)
    return validator.is_valid(instance)


def check(requests):
    """Every text in `texts` is found as `valid` says; every walk is valid."""
    seen = {"accepted": 0, "refused": 0, "walks": 0}
    for request, answer in zip(requests, answers("match_schema", requests)):
        schema = request["schema"]
        assert "error" not in answer, (schema, answer)
        for text, found in zip(request["texts"], answer["found"]):
            expected = "accepted" if is_valid(schema, json.loads(text)) else "refused"
            if expected == "refused" and found == "prefix":
                found = "refused"
            assert found == expected, (schema, text)
            seen[found] += 1
        for walk in filter(None, answer["walks"]):
            assert is_valid(schema, json.loads(walk)), (schema, walk)
            seen["walks"] += 1
    return seen


def test_cases_and_walks():
    requests = []
    for number, (schema, instances) in enumerate(CASES):
        texts = [json.dumps(instance, ensure_ascii=False, **style) for instance in instances
                 for style in ({}, {"indent": 2}, {"indent": 4}, {"separators": (",", ":")})]
        requests.append({"schema": schema, "texts": texts, "walks": 30, "seed": number})
    seen = check(requests)
    assert min(seen.values()) > 400, seen


def test_what_libraries_write():
    """Without the assertion of formats: zod's and jsonschema's are not the same."""
    requests = [{"schema": schema, "texts": [json.dumps(instance) for instance in instances], "walks": 40, "seed": 7}
                for schema, instances in LIBRARIES]
    for request, answer in zip(requests, answers("match_schema", requests)):
        validator = jsonschema.Draft202012Validator(request["schema"])
        assert "error" not in answer, answer
        for text, found in zip(request["texts"], answer["found"]):
            assert (found == "accepted") == validator.is_valid(json.loads(text)), (request["schema"], text)
        for walk in answer["walks"]:
            assert validator.is_valid(json.loads(walk)), (request["schema"], walk)


def test_words_of_openapi():
    requests = [{"schema": schema, "texts": [json.dumps(instance) for instance in instances], "walks": 0, "seed": 0}
                for schema, instances in OPENAPI]
    for (schema, instances), answer in zip(OPENAPI, answers("match_schema", requests)):
        assert [found == "accepted" for found in answer["found"]] == list(instances.values()), schema


@pytest.mark.parametrize("schema, path", REFUSED)
def test_what_is_not_supported_is_refused_by_name(schema, path):
    (answer, lenient) = answers("match_schema", [
        {"schema": schema, "texts": [], "walks": 0, "seed": 0},
        {"schema": schema, "lenient": True, "texts": [], "walks": 2, "seed": 0}])
    assert answer["path"] == path and f"'{path}'" in answer["error"], answer
    assert len(lenient["walks"]) == 2, lenient


def random_schema(draw, depth=0):
    kinds = ["string", "integer", "number", "boolean", "null", "enum"]
    kind = draw.choice(kinds + (["object", "object", "array", "union", "all"] if depth < 3 else []))
    if kind == "string":
        low = draw.choice([None, None, 1, 2])
        return {"type": "string", **({"minLength": low} if low else {}),
                **({"maxLength": draw.randrange(2, 6)} if draw.random() < 0.5 else {}),
                **({"pattern": draw.choice(["^[a-z]*$", "^a", "b$", "[0-9]", "^(a|bc)*$"])} if draw.random() < 0.3 else {})}
    if kind in ("integer", "number"):
        low, high = sorted(draw.choice([draw.randrange(-20, 20), draw.randrange(-2000, 2000), 0, draw.randrange(10**9)])
                           for _ in range(2))
        if kind == "number" and draw.random() < 0.5:
            low, high = low / 4 - 0.5, high / 8 + 0.25 + abs(low)
        return {"type": kind, **({draw.choice(["minimum", "exclusiveMinimum"]): low} if draw.random() < 0.6 else {}),
                **({draw.choice(["maximum", "exclusiveMaximum"]): high + 2} if draw.random() < 0.6 else {})}
    if kind == "enum":
        return {"enum": draw.sample(["a", "b", "ab", 1, 2.5, None, True, [], {"a": 1}], draw.randrange(1, 5))}
    if kind == "object":
        names = draw.sample(ALL_WORDS, draw.randrange(0, 5))
        schema = {"type": "object", "properties": {name: random_schema(draw, depth + 1) for name in names},
                  "required": [name for name in names if draw.random() < 0.5]}
        if draw.random() < 0.7:
            schema["additionalProperties"] = draw.choice([False, True, random_schema(draw, depth + 1)])
        return schema
    if kind == "array":
        schema = {"type": "array", "items": random_schema(draw, depth + 1)}
        if draw.random() < 0.4:
            schema["prefixItems"] = [random_schema(draw, depth + 1) for _ in range(draw.randrange(1, 3))]
        low = draw.randrange(0, 3)
        return {**schema, **({"minItems": low} if draw.random() < 0.4 else {}),
                **({"maxItems": low + draw.randrange(0, 3)} if draw.random() < 0.4 else {})}
    branches = [random_schema(draw, depth + 1) for _ in range(2)]
    return {"anyOf": branches} if kind == "union" else {"allOf": [branches[0], {"title": "no more"}]}


def random_instance(draw, schema, depth=0):
    """Often valid, and its members in the order of the schema."""
    if draw.random() < 0.06 or depth > 6 or not isinstance(schema, dict):
        return draw.choice(["a", "", 1, 2.5, None, True, [], {}, {"a": 1}, -7, "zz9"])
    if "anyOf" in schema or "allOf" in schema:
        return random_instance(draw, draw.choice(schema.get("anyOf") or schema["allOf"][:1]), depth + 1)
    if "enum" in schema:
        return draw.choice(schema["enum"])
    kind = schema.get("type")
    if kind == "object":
        members = {}
        for name, member in schema["properties"].items():
            if name in schema["required"] or draw.random() < 0.5:
                members[name] = random_instance(draw, member, depth + 1)
        if draw.random() < 0.3:
            members[draw.choice(["other", "a", "nam", "names", "x"])] = random_instance(
                draw, schema.get("additionalProperties"), depth + 1)
        return members
    if kind == "array":
        prefix = schema.get("prefixItems", [])
        count = draw.randrange(schema.get("minItems", 0), min(schema.get("maxItems", 4), 4) + 1)
        return [random_instance(draw, prefix[i] if i < len(prefix) else schema["items"], depth + 1)
                for i in range(count)]
    if kind == "string":
        return "".join(draw.choice("abc019ä\"\\") for _ in range(draw.randrange(0, 6)))
    low = schema.get("minimum", schema.get("exclusiveMinimum", schema.get("maximum", schema.get("exclusiveMaximum", 0))))
    if kind == "integer":
        return int(low) + draw.randrange(-2, 40)
    if kind == "number":
        return round(low + draw.choice([-0.25, 0, 0.5, 1.125, 3, 1000]), 6)
    return draw.choice([True, False]) if kind == "boolean" else None


def test_random_schemas():
    draw = random.Random(5)
    requests = []
    while len(requests) < 400:
        schema = random_schema(draw)
        # No integers as 5.0, and no numbers with an exponent, which bounded ones do not have.
        texts = [text for text in (json.dumps(random_instance(draw, schema), ensure_ascii=False) for _ in range(12))
                 if "e-" not in text and "e+" not in text and ".0" not in text]
        requests.append({"schema": schema, "texts": texts, "walks": 4, "seed": len(requests)})
    found = answers("match_schema", requests)
    kept = [request for request, answer in zip(requests, found) if "no text" not in answer.get("error", "")]
    assert len(kept) > 380
    seen = check(kept)
    assert min(seen.values()) > 500, seen


def test_large_schemas_stay_small():
    """A thousand optional properties, and a thousand values: neither is refused as too large."""
    properties = {f"property_{i}": {"type": "integer"} for i in range(1000)}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    values = {"enum": [f"value {i}" for i in range(3000)]}
    few = {name: 1 for i, name in enumerate(properties) if i % 7 == 0}
    assert check([{"schema": schema, "texts": [json.dumps(few), "{}"],
                   "walks": 1, "seed": 1},
                  {"schema": values, "texts": ['"value 7"', '"value 2999"', '"value 3000"'], "walks": 1, "seed": 1}])["accepted"] == 4
