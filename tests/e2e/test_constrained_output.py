"""Constrained output with the openai SDK: whatever the model and the seed, an answer is what was asked for."""

import json
import pathlib

import jsonschema
import openai
import pydantic
import pytest

from cluster import Cluster, altered_model

TEMPLATES = pathlib.Path(__file__).resolve().parents[1] / "scripted"


class Tag(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    weight: float = pydantic.Field(ge=0, le=1)


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    age: int = pydantic.Field(ge=0, le=150)
    born: str = pydantic.Field(json_schema_extra={"format": "date"})
    tags: list[Tag] = pydantic.Field(max_length=2)
    home: Tag | None


SCHEMA = {"type": "object", "additionalProperties": False, "required": ["kind", "size"],
          "properties": {"kind": {"enum": ["small", "large"]}, "size": {"type": "integer", "minimum": 1, "maximum": 99},
                         "note": {"type": "string", "maxLength": 10}}}
TOOLS = [{"type": "function", "function": {
    "name": name, "parameters": {
        "type": "object", "required": ["path"], "additionalProperties": False,
        "properties": {"path": {"type": "string", "maxLength": 16}, "line": {"type": "integer", "minimum": 0, "maximum": 9},
                       "mode": {"enum": ["read", "write"]}}}}} for name in ("open_file", "close_file")]


@pytest.fixture(scope="module")
def machines():
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def lead(machines):
    """Two nodes besides the lead; drafting is on by default."""
    return machines.lead(machines.nodes(2)).wait_ready()


@pytest.fixture(scope="module", params=["xml", "json"])
def caller(request, machines, tmp_path_factory):
    """A model whose template writes calls."""
    model = altered_model(tmp_path_factory.mktemp(request.param) / "model")
    (model / "chat_template.jinja").write_text((TEMPLATES / f"{request.param}.jinja").read_text())
    return machines.lead([], model=model).wait_ready()


def chat(lead, content="Describe it.", **fields):
    fields = {"max_tokens": 400, "temperature": 1, **fields}
    with lead.client() as client:
        answer = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": content}], **fields)
        return list(answer) if fields.get("stream") else answer


def format_of(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def test_pydantic_models_are_parsed(lead):
    with lead.client() as client:
        for seed in range(3):
            answer = client.chat.completions.parse(
                model="m", messages=[{"role": "user", "content": "Who is it?"}], response_format=Person,
                temperature=1, seed=seed, max_tokens=800)
            assert answer.choices[0].finish_reason == "stop"
            assert isinstance(answer.choices[0].message.parsed, Person)


def test_every_choice_of_every_seed_is_valid(lead):
    seen = set()
    for seed in range(4):
        for choice in chat(lead, seed=seed, n=2, response_format=format_of(SCHEMA)).choices:
            assert choice.finish_reason == "stop"
            jsonschema.validate(json.loads(choice.message.content), SCHEMA)
            seen.add(choice.message.content)
    assert len(seen) > 4


def test_a_stream_is_the_same_answer(lead):
    fields = {"seed": 5, "response_format": format_of(SCHEMA)}
    whole = chat(lead, **fields).choices[0].message.content
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chat(lead, stream=True, **fields)) == whole
    jsonschema.validate(json.loads(whole), SCHEMA)


def test_drafts_change_nothing(lead, machines):
    fields = {"temperature": 0, "response_format": format_of({"type": "array", "minItems": 12, "maxItems": 12,
                                                              "items": {"const": {"kind": "small"}}})}
    drafted = chat(lead, **fields)
    plain = chat(machines.lead([], "--draft", "0").wait_ready(), **fields)
    assert drafted.choices[0].message.content == plain.choices[0].message.content
    assert json.loads(plain.choices[0].message.content) == [{"kind": "small"}] * 12
    assert drafted.usage.completion_tokens_details.accepted_prediction_tokens > 0


def test_any_json_object(lead):
    for seed in range(3):
        choice = chat(lead, "Give an object.", seed=seed, response_format={"type": "json_object"}).choices[0]
        assert choice.finish_reason == "length" or isinstance(json.loads(choice.message.content), dict)
        assert choice.message.content.startswith("{")


def test_grammars_and_schemas_of_llama_cpp(lead):
    grammar = 'root ::= item ("," item){2}\nitem ::= [a-c] [0-9]?'
    with lead.client() as client:
        for extra, check in (({"grammar": grammar}, lambda text: len(text.split(",")) == 3 and text[0] in "abc"),
                             ({"json_schema": {"enum": [17, 29]}}, lambda text: json.loads(text) in (17, 29))):
            assert check(chat(lead, extra_body=extra).choices[0].message.content)
            completion = client.completions.create(model="m", prompt="x", max_tokens=50, extra_body=extra)
            assert check(completion.choices[0].text) and completion.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("fields, param, code", [
    ({"response_format": format_of({"properties": {"x": {"not": {}}}})},
     "response_format.json_schema.schema.properties.x.not", "unsupported"),
    ({"response_format": format_of({"type": "array", "items": {"$ref": "#/$defs/x"}})},
     "response_format.json_schema.schema.items.$ref", "invalid_value"),
    ({"response_format": format_of({"enum": []})}, "response_format.json_schema.schema", "invalid_value"),
    ({"response_format": {"type": "yaml"}}, "response_format.type", "unsupported"),
    ({"extra_body": {"grammar": "root ::= ("}}, "grammar", "invalid_value"),
    ({"extra_body": {"grammar": 'root ::= "a"'}, "response_format": {"type": "json_object"}}, "grammar",
     "invalid_value"),
    ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
    ({"tool_choice": "required", "tools": TOOLS}, "tool_choice", "unsupported"),
])
def test_what_cannot_be_kept_is_refused_by_name(lead, fields, param, code):
    with pytest.raises(openai.BadRequestError) as refusal:
        chat(lead, **fields)
    assert (refusal.value.param, refusal.value.code) == (param, code)


def arguments_of(call):
    arguments = json.loads(call.function.arguments)
    jsonschema.validate(arguments, TOOLS[0]["function"]["parameters"])
    return arguments


def test_t6_required_and_named_calls(caller):
    for seed in range(2):
        named = chat(caller, tools=TOOLS, seed=seed,
                     tool_choice={"type": "function", "function": {"name": "close_file"}}).choices[0]
        assert named.finish_reason == "tool_calls" and named.message.content is None
        assert [call.function.name for call in named.message.tool_calls] == ["close_file"]
        arguments_of(named.message.tool_calls[0])
        single = chat(caller, tools=TOOLS, seed=seed, tool_choice="required", parallel_tool_calls=False).choices[0]
        assert single.finish_reason == "tool_calls" and len(single.message.tool_calls) == 1
        arguments_of(single.message.tool_calls[0])


def test_t6_required_calls_streamed(caller):
    parts = {}
    for chunk in chat(caller, tools=TOOLS, tool_choice="required", stream=True, seed=3, max_tokens=300):
        assert not chunk.choices[0].delta.content
        for part in chunk.choices[0].delta.tool_calls or []:
            call = parts.setdefault(part.index, ["", ""])
            call[0] += part.function.name or ""
            call[1] += part.function.arguments or ""
        reason = chunk.choices[0].finish_reason
    names = [name for name, _ in parts.values()]
    assert names and set(names) <= {"open_file", "close_file"} and reason in ("tool_calls", "length")
    for _, arguments in list(parts.values())[:None if reason == "tool_calls" else -1]:
        jsonschema.validate(json.loads(arguments), TOOLS[0]["function"]["parameters"])


def test_a_form_binds_the_answer_and_leaves_the_tools(caller):
    """With tools to choose from, the model answers in the form or calls: which, is the model's choice."""
    for beginning, calls in (("<tool_call>", True), ("{", False)):
        with caller.client() as client:
            token, = client.post("/../tokenize", cast_to=object, body={"content": beginning})["tokens"]
        choice = chat(caller, tools=TOOLS, response_format=format_of(SCHEMA), parallel_tool_calls=False,
                      logit_bias={str(token): 100}).choices[0]
        assert bool(choice.message.tool_calls) == calls and choice.finish_reason == ("tool_calls" if calls else "stop")
        if calls:
            assert choice.message.content is None
            arguments_of(choice.message.tool_calls[0])
        else:
            jsonschema.validate(json.loads(choice.message.content), SCHEMA)
