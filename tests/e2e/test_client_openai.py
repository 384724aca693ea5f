"""The openai package of Python, beyond what test_api_openai.py and test_tool_calls.py ask of the model itself."""

import asyncio
import json

import openai
import pydantic
import pytest

import client_replies as replies
from cluster import Cluster, eventually

TOOLS = [{"type": "function", "function": {
    "name": replies.TOOL_NAME, "description": replies.TOOL_DESCRIPTION, "parameters": replies.TOOL_PARAMETERS}}]


class Person(pydantic.BaseModel):
    name: str
    born: int
    fields: list[str]


@pytest.fixture(scope="module")
def lead(tmp_path_factory):
    with Cluster() as cluster:
        yield replies.lead(cluster, tmp_path_factory.mktemp("openai"))


@pytest.fixture(scope="module")
def client(lead):
    with lead.client() as client:
        yield client


def user(text):
    return [{"role": "user", "content": text}]


@pytest.mark.client("openai (Python)", "chat")
def test_chat_synchronous_and_not(lead, client):
    assert client.chat.completions.create(model="m", messages=user("Hello")).choices[0].message.content == replies.GREETING

    async def ask():
        async with openai.AsyncOpenAI(base_url=lead.url + "/v1", api_key="none") as client:
            answers = await asyncio.gather(*(client.chat.completions.create(model="m", messages=user(f"Hello {number}"))
                                             for number in range(6)))
            return [answer.choices[0].message.content for answer in answers]

    assert asyncio.run(ask()) == 6 * [replies.GREETING]


@pytest.mark.client("openai (Python)", "chat")
def test_the_raw_response_and_its_request_id(client):
    raw = client.chat.completions.with_raw_response.create(model="m", messages=user("Hello"))
    assert raw.status_code == 200 and raw.parse().choices[0].message.content == replies.GREETING


@pytest.mark.client("openai (Python)", "stream")
def test_the_stream_helper_sees_text_calls_and_the_end(client):
    kinds, text = [], ""
    with client.chat.completions.stream(model="m", messages=user(replies.ASK_WEATHER), tools=TOOLS,
                                        stream_options={"include_usage": True}) as stream:
        for event in stream:
            kinds.append(event.type)
            text += event.delta if event.type == "content.delta" else ""
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "tool_calls.function.arguments.delta",
            "tool_calls.function.arguments.done"} <= set(kinds)
    assert text.strip() == "I look it up." == final.choices[0].message.content.strip()
    (call,) = final.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"town": "Bern", "days": 2}
    assert final.choices[0].finish_reason == "tool_calls" and final.usage.completion_tokens > 0


@pytest.mark.client("openai (Python)", "stream")
def test_leaving_a_stream_cancels_the_request(lead, client):
    before = lead.metric("kaiju_requests_cancelled_total")
    stream = client.chat.completions.create(model="m", messages=user(replies.ASK_SLOWLY), stream=True)
    assert next(iter(stream)).choices[0].delta.role == "assistant"
    stream.close()
    eventually(lambda: lead.metric("kaiju_requests_cancelled_total") == before + 1, "the request is cancelled")


@pytest.mark.client("openai (Python)", "tools")
@pytest.mark.parametrize("question, towns", [(replies.ASK_WEATHER, ["Bern"]), (replies.ASK_TOWNS, ["Bern", "Zürich"])])
def test_a_loop_of_calls_and_results(client, question, towns):
    messages = user(question)
    turn = client.chat.completions.create(model="m", messages=messages, tools=TOOLS, parallel_tool_calls=True).choices[0]
    assert turn.finish_reason == "tool_calls"
    assert [json.loads(call.function.arguments)["town"] for call in turn.message.tool_calls] == towns
    messages += [turn.message, *({"role": "tool", "tool_call_id": call.id, "content": replies.RESULT}
                                 for call in turn.message.tool_calls)]
    answer = client.chat.completions.create(model="m", messages=messages, tools=TOOLS).choices[0]
    assert (answer.message.content, answer.finish_reason) == (replies.ANSWER, "stop")


@pytest.mark.client("openai (Python)", "structured output")
def test_answers_are_parsed(client):
    """Without a constraint the model would say more than a person."""
    person = Person.model_validate_json(replies.PERSON)
    answer = client.chat.completions.parse(model="m", messages=user(replies.ASK_PERSON), response_format=Person)
    assert answer.choices[0].message.parsed == person
    with client.chat.completions.stream(model="m", messages=user(replies.ASK_PERSON), response_format=Person) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == person
    answer = client.chat.completions.create(model="m", messages=user(replies.ASK_PERSON),
                                            response_format={"type": "json_object"})
    assert Person.model_validate_json(answer.choices[0].message.content) == person
    text = client.chat.completions.create(model="m", messages=user(replies.ASK_PERSON)).choices[0].message.content
    assert text == replies.PERSON + replies.TOO_MUCH


@pytest.mark.client("openai (Python)", "structured output")
def test_t6_a_tool_must_be_called(client):
    question = user(replies.ASK_PERSON)
    tool = openai.pydantic_function_tool(Person)
    for choice in ("required", {"type": "function", "function": {"name": "Person"}}):
        answer = client.chat.completions.parse(model="m", messages=question, tools=[tool], tool_choice=choice).choices[0]
        (call,) = answer.message.tool_calls
        assert call.function.parsed_arguments == Person.model_validate_json(replies.PERSON)


@pytest.mark.client("openai (Python)", "logprobs")
def test_h10_log_probabilities_beside_calls(client):
    choice = client.chat.completions.create(model="m", messages=user(replies.ASK_WEATHER), tools=TOOLS, logprobs=True,
                                            top_logprobs=2).choices[0]
    text = b"".join(bytes(entry.bytes) for entry in choice.logprobs.content).decode()
    assert choice.message.tool_calls and "<function=get_weather>" in text
    assert all(len(entry.top_logprobs) == 2 for entry in choice.logprobs.content)


@pytest.mark.client("openai (Python)", "completions")
def test_completions(client):
    answer = client.completions.create(model="m", prompt="Hello", max_tokens=100, logprobs=1)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == (replies.GREETING, "stop")
    logprobs = answer.choices[0].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) and all(value < 0 for value in logprobs.token_logprobs)
    stream = client.completions.create(model="m", prompt="Hello", max_tokens=100, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == replies.GREETING


@pytest.mark.client("openai (Python)", "errors")
def test_errors_are_those_of_the_sdk(lead, client):
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="m", messages=user("x"), temperature=-1)
    assert (wrong.value.param, wrong.value.code) == ("temperature", "invalid_value") and wrong.value.body["message"]
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nothing")
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="m", input="x")
    assert [model.id for model in client.models.list()] == [client.models.retrieve("scripted").id] == ["scripted"]


def test_a_key_is_sent_as_the_sdk_sends_it(tmp_path, cluster):
    key = tmp_path / "keys"
    key.write_text("secret\n")
    key.chmod(0o600)
    lead = replies.lead(cluster, tmp_path / "lead", "--api-key-file", key)
    with pytest.raises(openai.AuthenticationError) as refusal:
        lead.client().models.list()
    assert refusal.value.code == "invalid_api_key"
    with openai.OpenAI(base_url=lead.url + "/v1", api_key="secret") as client:
        assert client.chat.completions.create(model="m", messages=user("x")).choices[0].message.content == replies.GREETING


@pytest.mark.client("openai (Python)", "chat")
def test_several_choices_streamed_and_not(client):
    answer = client.chat.completions.create(model="m", messages=user("Hello"), n=3)
    assert [(choice.index, choice.message.content) for choice in answer.choices] == [
        (index, replies.GREETING) for index in range(3)]
    texts = ["", "", ""]
    for chunk in client.chat.completions.create(model="m", messages=user("Hello"), n=3, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == 3 * [replies.GREETING]


@pytest.mark.client("openai (Python)", "thinking")
def test_thoughts_are_apart_from_the_answer(client):
    message = client.chat.completions.create(model="m", messages=user(replies.ASK_SUM)).choices[0].message
    assert (message.content, message.reasoning_content) == (replies.SUM, replies.THOUGHT)
    chunks = client.chat.completions.create(model="m", messages=user(replies.ASK_SUM), stream=True)
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert "".join(delta.content or "" for delta in deltas) == replies.SUM
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == replies.THOUGHT
