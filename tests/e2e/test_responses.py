"""/v1/responses as the openai SDK uses it: with the model itself, and with one that says what a script has."""

import json

import openai
import pydantic
import pytest

import client_replies as replies
from cluster import MINI, Cluster

BLOCK = 64  # positions of a KV block: what is cached is whole blocks
QUESTION = "Write a Python function that adds two numbers."
GREEDY = {"model": "any", "temperature": 0, "max_output_tokens": 24}
TOOLS = [{"type": "function", "name": replies.TOOL_NAME, "description": replies.TOOL_DESCRIPTION,
          "parameters": replies.TOOL_PARAMETERS, "strict": False}]
TURN = ["response.output_item.added", "response.content_part.added", "response.output_text.delta",
        "response.output_text.done", "response.content_part.done", "response.output_item.done"]
CALL = ["response.output_item.added", "response.function_call_arguments.delta",
        "response.function_call_arguments.done", "response.output_item.done"]


class Person(pydantic.BaseModel):
    name: str
    born: int
    fields: list[str]


@pytest.fixture(scope="module")
def scripted_lead(tmp_path_factory):
    with Cluster() as cluster:
        yield replies.lead(cluster, tmp_path_factory.mktemp("responses"))


def create(lead, content=QUESTION, **fields):
    with lead.client() as client:
        answer = client.responses.create(input=content, **{**GREEDY, **fields})
        return list(answer) if fields.get("stream") else answer


def ask(lead, content, **fields):
    return create(lead, content, max_output_tokens=None, **fields)


def kinds(events):
    """The types of a stream's events, repeated ones once, without those that frame it."""
    types = [event.type for event in events]
    assert types[:2] == ["response.created", "response.in_progress"]
    return [kind for i, kind in enumerate(types[2:-1], 2) if types[i - 1] != kind]


def without_identity(response):
    """What two answers to one request have in common."""
    told = response.model_dump(exclude={"id", "created_at", "completed_at"})
    for item in told["output"]:
        del item["id"]
        item.pop("call_id", None)
    return told


@pytest.mark.client("openai (Python)", "responses")
def test_the_answer_is_that_of_chat(solo):
    answer = create(solo)
    with solo.client() as client:
        chat = client.chat.completions.create(model="any", messages=[{"role": "user", "content": QUESTION}],
                                              temperature=0, max_tokens=24)
    assert answer.output_text == chat.choices[0].message.content
    assert answer.usage.input_tokens == chat.usage.prompt_tokens
    assert answer.usage.output_tokens == chat.usage.completion_tokens
    assert answer.model == MINI.name and answer.object == "response" and answer.error is None


@pytest.mark.client("openai (Python)", "responses")
def test_a_stream_comes_to_the_whole_answer(solo):
    for limit in (1, 5, 24):
        whole = create(solo, max_output_tokens=limit)
        events = create(solo, max_output_tokens=limit, stream=True)
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert kinds(events) == TURN
        text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert text == whole.output_text
        told, whole = without_identity(events[-1].response), without_identity(whole)
        assert told.pop("usage")["output_tokens"] == whole.pop("usage")["output_tokens"]
        assert told == whole


def test_what_max_output_tokens_cuts_is_incomplete(solo):
    whole = create(solo, max_output_tokens=3)
    assert (whole.status, whole.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert whole.output[0].status == "incomplete" and whole.max_output_tokens == 3
    assert create(solo, max_output_tokens=3, stream=True)[-1].type == "response.incomplete"


def test_t7_three_turns_go_on_from_each_other_and_from_the_cache(solo):
    system = "You are a careful reviewer. " * 20
    turn = create(solo, "First question.", instructions=system)
    items = [{"role": "user", "content": "First question."}]
    for content in ("And then?", "And after that?"):
        before, turn = turn, create(solo, content, instructions=system, previous_response_id=turn.id)
        assert turn.previous_response_id == before.id
        assert turn.usage.input_tokens_details.cached_tokens > before.usage.input_tokens - BLOCK
        items += [*before.output, {"role": "user", "content": content}]
        # The same as the whole conversation, sent as a client keeps it.
        assert create(solo, items, instructions=system).output_text == turn.output_text
    with solo.client() as client:
        kept = list(client.responses.input_items.list(turn.id, order="asc", limit=2))
        assert [item.role for item in kept] == ["user", "assistant", "user", "assistant", "user"]
        assert kept[0].content[0].text == "First question." and kept[4].content[0].text == "And after that?"
        references = [{"type": "item_reference", "id": item.id} for item in kept]
    assert create(solo, references, instructions=system).output_text == turn.output_text


def test_a_response_is_retrieved_and_deleted(solo):
    with solo.client() as client:
        answer = create(solo, metadata={"topic": "sums"})
        assert client.responses.retrieve(answer.id) == answer
        with pytest.raises(openai.BadRequestError):
            client.responses.cancel(answer.id)
        client.responses.delete(answer.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(answer.id)
        for forgotten in (answer, create(solo, store=False)):
            with pytest.raises(openai.BadRequestError) as refusal:
                create(solo, previous_response_id=forgotten.id)
            assert (refusal.value.param, refusal.value.code) == ("previous_response_id", "previous_response_not_found")


def test_h10_log_probabilities(solo):
    fields = {"include": ["message.output_text.logprobs"], "top_logprobs": 3}
    entries = create(solo, **fields).output[0].content[0].logprobs
    events = create(solo, stream=True, **fields)
    streamed = [entry for event in events if event.type == "response.output_text.delta" for entry in event.logprobs]
    assert [(entry.token, entry.logprob) for entry in streamed] == [(entry.token, entry.logprob) for entry in entries]
    assert b"".join(bytes(entry.bytes) for entry in entries).decode() == create(solo).output_text
    assert all(len(entry.top_logprobs) == 3 for entry in entries)


@pytest.mark.parametrize("fields, param", [
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[0].content[0].type"),
    ({"max_output_tokens": 0}, "max_output_tokens"), ({"background": True}, "background"),
    ({"tools": [{"type": "function"}]}, "tools[0].name"), ({"temperature": 11}, "temperature"),
    ({"text": {"format": {"type": "yaml"}}}, "text.format.type"), ({"input": 200 * "many words " * 500}, "input"),
])
def test_h12_the_sdk_sees_which_field_is_wrong(solo, fields, param):
    with solo.client() as client, pytest.raises(openai.BadRequestError) as refusal:
        client.responses.create(**{"input": QUESTION, **GREEDY, **fields})
    assert refusal.value.param == param


@pytest.mark.client("openai (Python)", "responses")
def test_t3_a_tool_is_called_and_its_result_answered(scripted_lead):
    whole = ask(scripted_lead, replies.ASK_WEATHER, tools=TOOLS)
    with scripted_lead.client() as client, client.responses.stream(
            model="any", input=replies.ASK_WEATHER, tools=TOOLS) as stream:
        events = list(stream)
        streamed = stream.get_final_response()
    assert kinds(events) == TURN + CALL
    message, call = streamed.output
    assert message.content[0].text.strip() == "I look it up."
    assert (call.name, json.loads(call.arguments), call.status) == \
        (replies.TOOL_NAME, {"town": "Bern", "days": 2}, "completed")
    assert without_identity(whole)["output"][1]["arguments"] == call.arguments
    result = {"type": "function_call_output", "call_id": call.call_id, "output": replies.RESULT}
    last = ask(scripted_lead, [result], tools=TOOLS, previous_response_id=streamed.id)
    assert last.output_text == replies.ANSWER
    # Without the server's memory: the items sent back.
    again = ask(scripted_lead, [{"role": "user", "content": replies.ASK_WEATHER}, *streamed.output, result],
                tools=TOOLS, store=False)
    assert again.output_text == replies.ANSWER
    (_, stored), (_, sent) = scripted_lead.prompts()[-2:]
    assert stored == sent


def test_t3_two_calls_in_one_turn(scripted_lead):
    calls = ask(scripted_lead, replies.ASK_TOWNS, tools=TOOLS).output
    assert [json.loads(call.arguments)["town"] for call in calls] == ["Bern", "Zürich"]
    assert len({call.id for call in calls} | {call.call_id for call in calls}) == 4
    results = [{"type": "function_call_output", "call_id": call.call_id, "output": replies.RESULT} for call in calls]
    items = [{"role": "user", "content": replies.ASK_TOWNS}, *calls, *results]
    assert ask(scripted_lead, items, tools=TOOLS).output_text == replies.ANSWER
    assert len(ask(scripted_lead, replies.ASK_TOWNS, tools=TOOLS, parallel_tool_calls=False).output) == 1


def test_thoughts_are_items_of_their_own(scripted_lead):
    events = ask(scripted_lead, replies.ASK_SUM, stream=True)
    assert "response.reasoning_text.delta" in kinds(events)
    thought, message = events[-1].response.output
    assert (thought.type, thought.content[0].text) == ("reasoning", replies.THOUGHT)
    assert (message.type, message.content[0].text) == ("message", replies.SUM)
    usage = events[-1].response.usage
    assert 0 < usage.output_tokens_details.reasoning_tokens < usage.output_tokens
    with scripted_lead.client() as client:
        chat = client.chat.completions.create(model="m", messages=[{"role": "user", "content": replies.ASK_SUM}])
    assert chat.usage.completion_tokens_details.reasoning_tokens == usage.output_tokens_details.reasoning_tokens


def test_the_tools_of_coding_agents_are_taken(scripted_lead):
    """Tools that only the service has are left out; one of a namespace is called under its own name."""
    description = {"type": "function", "name": "get_weather", "parameters": replies.TOOL_PARAMETERS}
    tools = [{"type": "web_search"}, {"type": "local_shell"}, {"type": "custom", "name": "apply_patch"},
             {"type": "namespace", "name": "", "description": "", "tools": []}]
    with pytest.raises(openai.BadRequestError):
        ask(scripted_lead, replies.ASK_WEATHER, tools=tools)
    tools[3] = {"type": "namespace", "name": "mcp__skies__", "description": "x", "tools": [description]}
    assert ask(scripted_lead, "Hello", tools=tools).output_text == replies.GREETING
    prompt = scripted_lead.prompts()[-1][1]
    assert "apply_patch" in prompt and "mcp__skies__get_weather" in prompt and "web_search" not in prompt


@pytest.mark.client("openai (Python)", "responses")
def test_text_is_parsed_into_a_model(scripted_lead):
    with scripted_lead.client() as client:
        answer = client.responses.parse(model="any", input=replies.ASK_PERSON, text_format=Person)
    assert answer.output_parsed == Person.model_validate_json(replies.PERSON)


def test_the_model_is_held_to_a_schema(solo):
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"],
              "additionalProperties": False}
    form = {"format": {"type": "json_schema", "name": "sum", "schema": schema, "strict": True}}
    answer = create(solo, "What is 2 + 2?", text=form)
    assert isinstance(json.loads(answer.output_text)["sum"], int) and answer.text.format.schema_ == schema
    schema["properties"]["sum"] = {"type": "string", "pattern": "("}
    with pytest.raises(openai.BadRequestError) as refusal:
        create(solo, text=form)
    assert refusal.value.param.startswith("text.format.schema") and "text.format.schema" in refusal.value.message


def test_t6_a_named_tool_is_called(scripted_lead):
    tools = [*TOOLS, {"type": "function", "name": "other", "parameters": {"type": "object", "properties": {}}}]
    for choice in ({"type": "function", "name": replies.TOOL_NAME},
                   {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]}):
        (call,) = ask(scripted_lead, replies.ASK_TOWNS, tools=tools, tool_choice=choice, parallel_tool_calls=False).output
        assert (call.type, call.name, call.status) == ("function_call", replies.TOOL_NAME, "completed")
    with pytest.raises(openai.BadRequestError) as refusal:
        ask(scripted_lead, replies.ASK_TOWNS, tools=tools, tool_choice={"type": "function", "name": "third"})
    assert refusal.value.param == "tool_choice.name"


def test_conversations_without_memory():
    with Cluster() as cluster:
        lead = cluster.lead([], "--max-responses", 0).wait_ready()
        answer = create(lead, max_output_tokens=1)
        assert answer.store is False
        with lead.client() as client, pytest.raises(openai.NotFoundError):
            client.responses.retrieve(answer.id)
