"""/v1/messages with the anthropic SDK, over a model that says recorded replies (H18)."""

import asyncio
import json

import anthropic
import pydantic
import pytest

import client_replies as replies
import scripted
from cluster import Cluster, eventually

KEY = "a-key-of-the-tests"
PLAN = "<think>\nI need the weather.\n</think>\n\nI look it up."
CALLS = scripted.call("get_weather", city="Bern") + "\n" + scripted.call("get_weather", city="Zürich \"HB\"", days=2)
LONG = "one two three four five six seven eight nine ten"
RULES = [
    {"when": "Sunny in Bern", "say": "Sun in Bern, rain in Zürich."},
    {"when": ["What is the weather", "get_weather"], "say": PLAN + CALLS},
    {"when": "Count to ten", "say": LONG},
    {"when": "Yes or no", "say": "no"},
    {"when": "list the files", "say": "I list them." + scripted.call("Bash", command="ls")},
    {"when": "Write it down", "say": scripted.call("get_weather", city=LONG, days=3)},
    {"when": replies.ASK_PERSON, "say": replies.PERSON + replies.TOO_MUCH},
    {"when": "Count slowly", "delay_ms": 20, "say": " ".join(str(number) for number in range(500))},
    {"when": "Talk", "say": "<think>\nI would rather talk.\n</think>\n\nFreely"},
    {"when": "Describe the city", "say": '{"city": "Bern", "river": null}'},
    {"when": "umbrella of 27", "say": "It is 27 °C: 傘 👩‍💻."},
]
WEATHER = {"name": "get_weather", "description": "The weather of a city.", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}}


@pytest.fixture(scope="module")
def lead(tmp_path_factory):
    directory = tmp_path_factory.mktemp("anthropic")
    keys = directory / "keys"
    keys.touch(mode=0o600)
    keys.write_text(KEY + "\n")
    with Cluster() as owned:
        yield scripted.lead(owned, directory / "lead", RULES, "--api-key-file", keys, "--alias", "claude-test").wait_ready()


@pytest.fixture
def client(lead):
    with anthropic.Anthropic(base_url=lead.url, api_key=KEY, max_retries=0, timeout=60) as made:
        yield made


def ask(text, **fields):
    return {"model": "claude-test", "max_tokens": 200, "messages": [{"role": "user", "content": text}], **fields}


def without_ids(message):
    return [block.model_dump(exclude={"id"}) for block in message.content]


@pytest.mark.client("anthropic (Python)", "chat")
@pytest.mark.client("anthropic (Python)", "stream")
def test_h18_a_message_whole_and_streamed(client):
    whole = client.messages.create(**ask("The umbrella of 27 degrees?"))
    assert whole.id.startswith("msg_") and whole.type == "message" and whole.role == "assistant"
    assert whole.model == "claude-test" and whole.stop_reason == "end_turn" and whole.stop_sequence is None
    assert [block.text for block in whole.content] == ["It is 27 °C: 傘 👩‍💻."]
    with client.messages.stream(**ask("The umbrella of 27 degrees?")) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == whole.content[0].text and without_ids(final) == without_ids(whole)
    assert (final.stop_reason, final.stop_sequence) == ("end_turn", None)
    assert final.usage.output_tokens == whole.usage.output_tokens > 5


@pytest.mark.client("anthropic (Python)", "count tokens")
def test_h18_counting_says_what_a_message_uses(client):
    request = ask([{"type": "text", "text": "Count to ten"}, {"type": "text", "text": "please " * 100}],
                  system=[{"type": "text", "text": "Be exact.", "cache_control": {"type": "ephemeral"}}], tools=[WEATHER])
    counted = client.messages.count_tokens(**{name: value for name, value in request.items() if name != "max_tokens"})
    first, second = (client.messages.create(**request).usage for _ in range(2))
    for usage in (first, second):
        assert usage.input_tokens + usage.cache_read_input_tokens == counted.input_tokens > 100
        assert usage.cache_creation_input_tokens == 0
    assert second.cache_read_input_tokens > 0


@pytest.mark.client("anthropic (Python)", "stream")
def test_h1_leaving_a_stream_cancels_the_request(client, lead):
    name = "kaiju_requests_cancelled_total"
    headers = {"Authorization": f"Bearer {KEY}"}

    def cancelled():
        return float(client.get("/metrics", cast_to=str, options={"headers": headers}).partition(f"\n{name} ")[2].split()[0])

    before = cancelled()
    with client.messages.stream(**ask("Count slowly", max_tokens=1000)) as stream:
        next(iter(stream.text_stream))
    eventually(lambda: cancelled() == before + 1, "the request that was left is cancelled")


@pytest.mark.client("anthropic (Python)", "chat")
def test_h18_several_at_once(lead):
    async def several():
        async with anthropic.AsyncAnthropic(base_url=lead.url, api_key=KEY) as client:
            answers = await asyncio.gather(*(client.messages.create(**ask(f"Yes or no, {number}?")) for number in range(6)))
            return [answer.content[0].text for answer in answers]

    assert asyncio.run(several()) == 6 * ["no"]


def test_h18_ends(client):
    stopped = client.messages.create(**ask("Count to ten", stop_sequences=["zero", " four"]))
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", " four")
    assert stopped.content[0].text == "one two three"
    with client.messages.stream(**ask("Count to ten", stop_sequences=[" four"])) as stream:
        final = stream.get_final_message()
    assert (final.stop_reason, final.stop_sequence) == ("stop_sequence", " four")
    cut = client.messages.create(**ask("Count to ten", max_tokens=3))
    assert cut.stop_reason == "max_tokens" and cut.usage.output_tokens == 3
    assert LONG.startswith(cut.content[0].text)


@pytest.mark.client("anthropic (Python)", "tools")
@pytest.mark.client("anthropic (Python)", "thinking")
def test_h18_a_tool_loop(client, lead):
    messages = [{"role": "user", "content": "What is the weather?"}]
    whole = client.messages.create(**ask("", messages=messages, tools=[WEATHER]))
    with client.messages.stream(**ask("", messages=messages, tools=[WEATHER])) as stream:
        kinds = {event.type for event in stream}
        streamed = stream.get_final_message()
    assert {"thinking", "text", "input_json", "signature", "content_block_stop"} <= kinds
    for answer in (whole, streamed):
        assert answer.stop_reason == "tool_use"
        assert [block.type for block in answer.content] == ["thinking", "text", "tool_use", "tool_use"]
        thought, text, bern, zurich = answer.content
        assert thought.thinking == "I need the weather." and thought.signature and text.text == "I look it up."
        assert (bern.name, bern.input) == ("get_weather", {"city": "Bern"})
        assert (zurich.name, zurich.input) == ("get_weather", {"city": "Zürich \"HB\"", "days": 2})
        assert 3 < answer.usage.output_tokens_details.thinking_tokens < answer.usage.output_tokens
        assert bern.id.startswith("toolu_") and bern.id != zurich.id
    messages += [
        {"role": "assistant", "content": streamed.content},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": streamed.content[2].id, "content": "Sunny in Bern"},
            {"type": "tool_result", "tool_use_id": streamed.content[3].id, "is_error": True,
             "content": [{"type": "text", "text": "no such station"}]},
            {"type": "text", "text": "Sum it up."}]}]
    final = client.messages.create(**ask("", messages=messages, tools=[WEATHER]))
    assert final.content[0].text == "Sun in Bern, rain in Zürich." and final.stop_reason == "end_turn"
    prompt = lead.prompts()[-1][1]
    assert ("<|im_start|>user\n<tool_response>\nSunny in Bern\n</tool_response>\n<tool_response>\nError: no such station\n"
            "</tool_response><|im_end|>\n<|im_start|>user\nSum it up.<|im_end|>\n") in prompt


def test_h18_one_call_at_a_time(client):
    answer = client.messages.create(**ask("What is the weather?", tools=[WEATHER],
                                          tool_choice={"type": "auto", "disable_parallel_tool_use": True}))
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use"]
    assert answer.stop_reason == "tool_use"
    answer = client.messages.create(**ask("What is the weather in get_weather?", tools=[WEATHER],
                                          tool_choice={"type": "none"}))
    assert "tool_use" not in {block.type for block in answer.content} and answer.stop_reason == "end_turn"


def test_h18_a_call_that_is_cut_is_told_as_far_as_it_came(client):
    fields = ask("Write it down", tools=[WEATHER], max_tokens=25)
    whole = client.messages.create(**fields)
    call = whole.content[-1]
    assert whole.stop_reason == "max_tokens" and call.type == "tool_use"
    partial = ""
    for event in client.messages.create(**fields, stream=True):
        if event.type == "content_block_start":
            partial = ""
        elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            partial += event.delta.partial_json
    with pytest.raises(json.JSONDecodeError):
        json.loads(partial)
    assert call.input == {"partial_json": partial}


@pytest.mark.client("anthropic (Python)", "tools")
def test_h18_the_sdk_runs_the_tools(client):
    asked = []

    @anthropic.beta_tool
    def get_weather(city: str, days: int = 1) -> str:
        """The weather of a city."""
        asked.append((city, days))
        return f"Sunny in {city}"

    runner = client.beta.messages.tool_runner(**ask("What is the weather?", tools=[get_weather]))
    final = runner.until_done()
    assert asked == [("Bern", 1), ("Zürich \"HB\"", 2)]
    assert final.content[-1].text == "Sun in Bern, rain in Zürich."


def test_h18_thinking_is_the_templates(client, lead):
    client.messages.create(**ask("Yes or no?", thinking={"type": "disabled"}))
    assert lead.prompts()[-1][1].endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    client.messages.create(**ask("Yes or no?", thinking={"type": "enabled", "budget_tokens": 1024}))
    assert lead.prompts()[-1][1].endswith("<|im_start|>assistant\n")


def test_h18_a_prefilled_answer_is_continued(client, lead):
    answer = client.messages.create(**ask("", messages=[{"role": "user", "content": "Yes or no?"},
                                                        {"role": "assistant", "content": "I say "}]))
    assert answer.content[0].text == "no"
    assert lead.prompts()[-1][1].endswith("Yes or no?<|im_end|>\n<|im_start|>assistant\nI say ")


PICK = {"name": "pick", "description": "Picks a colour.", "input_schema": {
    "type": "object", "properties": {"colour": {"enum": ["red", "green"]}}, "required": ["colour"],
    "additionalProperties": False}}


@pytest.mark.client("anthropic (Python)", "tools")
def test_h18_a_call_can_be_demanded(client):
    """The script says a text after its thought, and cannot."""
    for choice in ({"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "pick"}):
        for streamed in (False, True):
            fields = ask("Talk", tools=[WEATHER, PICK] if choice["type"] == "tool" else [PICK], tool_choice=choice)
            if streamed:
                with client.messages.stream(**fields) as stream:
                    answer = stream.get_final_message()
            else:
                answer = client.messages.create(**fields)
            thought, call = answer.content
            assert thought.thinking == "I would rather talk."
            assert answer.stop_reason == "tool_use" and (call.type, call.name) == ("tool_use", "pick")
            assert call.input in ({"colour": "red"}, {"colour": "green"})


class City(pydantic.BaseModel):
    city: str
    river: str | None


@pytest.mark.client("anthropic (Python)", "structured output")
def test_h18_an_answer_of_a_schema(client):
    parsed = client.messages.parse(**ask("Describe the city"), output_format=City)
    assert parsed.parsed_output == City(city="Bern", river=None)
    with client.messages.stream(**ask("Describe the city"), output_format=City) as stream:
        assert stream.get_final_message().parsed_output == City(city="Bern", river=None)
    schema = {"type": "object", "properties": {"days": {"enum": [1, 2]}}, "required": ["days"], "additionalProperties": False}
    answer = client.messages.create(**ask("Talk"), output_config={"format": {"type": "json_schema", "schema": schema}})
    assert answer.content[0].type == "thinking" and json.loads(answer.content[1].text)["days"] in (1, 2)
    error = refused(lambda: client.messages.create(
        **ask("x"), output_config={"format": {"type": "json_schema", "schema": {"not": {"type": "null"}}}}))
    assert isinstance(error, anthropic.BadRequestError) and "'output_config.format.schema.not'" in error.api_message


AGENT = {  # as Claude Code sends it
    "model": "claude-test", "max_tokens": 32000, "metadata": {"user_id": "user_1_account__session_2"},
    "system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.0.1; cch=1a2b3;"},
               {"type": "text", "text": "You are a coding agent.", "cache_control": {"type": "ephemeral"}}],
    "thinking": {"type": "enabled", "budget_tokens": 31999},
    "tools": [{"name": "Bash", "description": "Runs a command.", "input_schema": {
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}}, "required": ["command"],
        "additionalProperties": False}, "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>\nDates.\n</system-reminder>\n"},
        {"type": "text", "text": "list the files", "cache_control": {"type": "ephemeral"}}]}],
}


def test_h18_a_request_as_an_agent_sends_it(client, lead):
    headers = {"x-app": "cli", "anthropic-dangerous-direct-browser-access": "true"}
    with client.beta.messages.stream(**AGENT, betas=["interleaved-thinking-2025-05-14", "claude-code-20250219"],
                                     extra_headers=headers,
                                     extra_body={"context_management": {"edits": []}}) as stream:
        answer = stream.get_final_message()
    assert [block.type for block in answer.content] == ["text", "tool_use"] and answer.stop_reason == "tool_use"
    assert answer.content[1].input == {"command": "ls"}
    prompt = lead.prompts()[-1][1]
    assert "cch=1a2b3;\nYou are a coding agent." in prompt and "cache_control" not in prompt
    assert "<system-reminder>\nDates.\n</system-reminder>\nlist the files<|im_end|>\n" in prompt


def refused(call):
    with pytest.raises(anthropic.APIStatusError) as caught:
        call()
    assert caught.value.request_id.startswith("req_")
    return caught.value


class Person(pydantic.BaseModel):
    name: str
    born: int
    fields: list[str]


@pytest.mark.client("anthropic (Python)", "structured output")
def test_answers_are_parsed(client):
    """Without a constraint the model would say more than a person."""
    answer = client.messages.parse(**ask(replies.ASK_PERSON), output_format=Person)
    assert answer.parsed_output == Person.model_validate_json(replies.PERSON)
    assert client.messages.create(**ask(replies.ASK_PERSON)).content[0].text == replies.PERSON + replies.TOO_MUCH


@pytest.mark.client("anthropic (Python)", "errors")
def test_h18_errors_are_the_sdks(client, lead):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    error = refused(lambda: client.messages.create(**ask([{"type": "text", "text": "see"}, image])))
    assert isinstance(error, anthropic.BadRequestError) and error.type == "invalid_request_error"
    assert error.error_code == "unsupported_content" and "messages[0].content[1].type" in error.api_message
    error = refused(lambda: client.messages.create(**ask("x", stop_sequences=[""]), stream=True))
    assert isinstance(error, anthropic.BadRequestError) and "'stop_sequences[0]'" in error.api_message
    search = {"type": "web_search_20250305", "name": "web_search"}
    error = refused(lambda: client.messages.create(**ask("x", tools=[WEATHER, search])))
    assert isinstance(error, anthropic.BadRequestError) and "tools[1].type" in error.api_message
    error = refused(lambda: client.messages.create(**ask("word " * 70000)))
    assert isinstance(error, anthropic.BadRequestError) and error.api_message.startswith("prompt is too long: ")
    error = refused(lambda: client.models.retrieve("gpt"))
    assert isinstance(error, anthropic.NotFoundError) and error.type == "not_found_error"
    for wrong in ({"api_key": "wrong"}, {"auth_token": "wrong"}):
        with anthropic.Anthropic(base_url=lead.url, max_retries=0, **wrong) as stranger:
            error = refused(lambda: stranger.messages.create(**ask("x")))
            assert isinstance(error, anthropic.AuthenticationError) and error.type == "authentication_error"
    with anthropic.Anthropic(base_url=lead.url, auth_token=KEY, max_retries=0) as bearer:
        assert bearer.messages.create(**ask("Yes or no?")).content[0].text == "no"


def test_h18_models(client):
    page = client.models.list()
    assert [model.id for model in page] == ["scripted", "claude-test"] and not page.has_more
    model = client.models.retrieve("claude-test")
    assert model.type == "model" and model.display_name == "claude-test" and model.created_at.year > 2020
    assert model.max_input_tokens == model.model_dump()["max_model_len"] > 4096
