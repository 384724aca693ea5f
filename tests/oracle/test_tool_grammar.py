"""Tool calls as their grammar has them, at random: what text/tool_calls.h reads back is what the tools' schemas allow."""

import json

import jsonschema
import pytest

from tools import answers

PARAMETERS = {
    "write": {"type": "object", "required": ["path", "content"],
              "properties": {"path": {"type": "string", "pattern": "^/[a-z/]*$"}, "content": {"type": "string"},
                             "mode": {"enum": ["create", "append"]}, "count": {"type": "integer", "minimum": 0},
                             "force": {"type": "boolean"}}},
    "edit": {"type": "object", "additionalProperties": False, "required": ["edits"],
             "$defs": {"Edit": {"type": "object", "properties": {"old": {"type": "string"}, "line": {"type": "integer"}},
                                "required": ["old", "line"], "additionalProperties": False}},
             "properties": {"edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}, "minItems": 1, "maxItems": 3},
                            "at": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                            "ratio": {"type": "number", "minimum": 0, "maximum": 1},
                            "options": {"type": "object", "properties": {"deep": {"type": "boolean"}},
                                        "additionalProperties": False}}},
    "find": {"type": "object", "required": ["name"], "additionalProperties": {"type": "integer"},
             "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 8},
                            "kind": {"anyOf": [{"enum": ["file", "folder"]}, {"type": "null"}]},
                            "when": {"type": "string", "format": "date"}}},
    "wait": {"type": "object", "properties": {}},
    "note": {"type": "object", "required": ["text"],
             "properties": {"text": {"type": ["string", "null"]}, "any": {}, "bad": {"type": "string", "not": {}}}},
}


def tools(*names):
    return [{"type": "function", "function": {"name": name, "parameters": PARAMETERS[name]}} for name in names]


def walked(form, names, **fields):
    (answer,) = answers("walk_tool_calls", [{"form": form, "tools": tools(*names), "walks": 60, "seed": 1, **fields}])
    walks = [walk for walk in answer["walks"] if walk]
    assert len(walks) > 30, answer
    return walks


def is_kept(name, arguments):
    """Are the arguments as the schema wants them? What is not supported narrows nothing."""
    schema = json.loads(json.dumps(PARAMETERS[name]).replace(', "not": {}', ""))
    return jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER).is_valid(arguments)


@pytest.mark.parametrize("form", ["xml", "json"])
@pytest.mark.parametrize("name", PARAMETERS)
def test_arguments_are_as_the_schema_wants_them(form, name):
    for walk in walked(form, [name]):
        assert walk["content"] == "" and walk["calls"], walk
        for call in walk["calls"]:
            assert call["name"] == name and is_kept(name, json.loads(call["arguments"])), walk


@pytest.mark.parametrize("form", ["xml", "json"])
def test_t6_which_and_how_many(form):
    names = list(PARAMETERS)
    several = walked(form, names)
    assert {call["name"] for walk in several for call in walk["calls"]} == set(names)
    assert any(len(walk["calls"]) > 1 for walk in several)
    single = walked(form, names, only_one=True)
    assert all(len(walk["calls"]) == 1 for walk in single)
    named = walked(form, names, allowed=["wait", "find"])
    assert {call["name"] for walk in named for call in walk["calls"]} == {"wait", "find"}
    (answer,) = answers("walk_tool_calls", [{"form": form, "tools": tools("wait"), "allowed": [], "walks": 1, "seed": 1}])
    assert "no tool" in answer["error"]


@pytest.mark.parametrize("form", ["xml", "json"])
def test_a_thought_may_come_first(form):
    walks = walked(form, ["wait"], thinks=True)
    thoughts = [walk for walk in walks if walk["text"].startswith("<think>")]
    assert 0 < len(thoughts) < len(walks)
    assert all(walk["calls"] and walk["content"] == "" for walk in walks)


def test_strings_are_read_back_to_the_byte():
    """The raw text of a parameter of the XML form, with newlines and angle brackets in it."""
    for walk in walked("xml", ["write"], only_one=True):
        content = walk["text"].split("<parameter=content>\n")[1].split("</parameter>")[0].removesuffix("\n")
        assert json.loads(walk["calls"][0]["arguments"])["content"] == content
