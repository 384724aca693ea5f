"""The anthropic package of Python against /v1/messages (H18)."""

import asyncio

import anthropic
import pytest

import client_replies as replies
from cluster import Cluster, eventually

COMMON = {"model": "m", "max_tokens": 500}
TOOLS = [{"name": replies.TOOL_NAME, "description": replies.TOOL_DESCRIPTION, "input_schema": replies.TOOL_PARAMETERS}]
THINKING = {"type": "enabled", "budget_tokens": 1024}


@pytest.fixture(scope="module")
def lead(tmp_path_factory):
    with Cluster() as cluster:
        yield replies.lead(cluster, tmp_path_factory.mktemp("anthropic"))


@pytest.fixture(scope="module")
def client(lead):
    with anthropic.Anthropic(base_url=lead.url, api_key="none", max_retries=0) as client:
        yield client


def user(text):
    return [{"role": "user", "content": text}]


@pytest.mark.client("anthropic (Python)", "chat")
def test_h18_a_message(lead, client):
    system = [{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "Be kind."}]
    answer = client.messages.create(**COMMON, system=system, messages=user([{"type": "text", "text": "Hello"}]))
    assert [(block.type, block.text) for block in answer.content] == [("text", replies.GREETING)]
    assert (answer.type, answer.role, answer.stop_reason) == ("message", "assistant", "end_turn")
    assert answer.usage.input_tokens > 0 and answer.usage.output_tokens > 0
    prompt = lead.prompts()[-1][1]
    assert prompt.index("Be short.") < prompt.index("Be kind.") < prompt.index("Hello")


@pytest.mark.client("anthropic (Python)", "chat")
def test_several_clients_at_once(lead):
    async def ask():
        async with anthropic.AsyncAnthropic(base_url=lead.url, api_key="none") as client:
            answers = await asyncio.gather(*(client.messages.create(**COMMON, messages=user(f"Hello {number}"))
                                             for number in range(6)))
            return [answer.content[0].text for answer in answers]

    assert asyncio.run(ask()) == 6 * [replies.GREETING]


@pytest.mark.client("anthropic (Python)", "chat")
def test_ends_of_an_answer(client):
    cut = client.messages.create(model="m", max_tokens=3, messages=user("Hello"))
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 3)
    stopped = client.messages.create(**COMMON, messages=user("Hello"), stop_sequences=["never", " is"])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", " is")
    assert stopped.content[0].text == replies.GREETING.partition(" is")[0]


@pytest.mark.client("anthropic (Python)", "stream")
def test_h18_the_stream_helper(lead, client):
    with client.messages.stream(**COMMON, messages=user("Hello")) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == final.content[0].text == replies.GREETING
    assert final.stop_reason == "end_turn" and final.usage.output_tokens > 0
    before = lead.metric("kaiju_requests_cancelled_total")
    with client.messages.stream(**COMMON, messages=user(replies.ASK_SLOWLY)) as stream:
        next(iter(stream.text_stream))
    eventually(lambda: lead.metric("kaiju_requests_cancelled_total") == before + 1, "the request that was left is cancelled")


@pytest.mark.client("anthropic (Python)", "tools")
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("question, inputs", [
    (replies.ASK_WEATHER, [{"town": "Bern", "days": 2}]),
    (replies.ASK_TOWNS, [{"town": "Bern", "days": 1}, {"town": "Zürich", "days": 1}])])
def test_h18_a_loop_of_calls_and_results(client, question, inputs, streamed):
    def ask(messages):
        if not streamed:
            return client.messages.create(**COMMON, messages=messages, tools=TOOLS)
        with client.messages.stream(**COMMON, messages=messages, tools=TOOLS) as stream:
            return stream.get_final_message()

    turn = ask(user(question))
    calls = [block for block in turn.content if block.type == "tool_use"]
    assert turn.stop_reason == "tool_use" and [call.input for call in calls] == inputs
    assert all(call.name == replies.TOOL_NAME and call.id for call in calls)
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": replies.RESULT}]}
               for call in calls]
    last = ask([*user(question), {"role": "assistant", "content": turn.content}, {"role": "user", "content": results}])
    assert (last.content[0].text, last.stop_reason) == (replies.ANSWER, "end_turn")


@pytest.mark.client("anthropic (Python)", "thinking")
def test_thoughts_are_blocks_and_go_back(client):
    messages = user(replies.ASK_SUM)
    answer = client.messages.create(model="m", max_tokens=2000, messages=messages, thinking=THINKING)
    assert [block.type for block in answer.content] == ["thinking", "text"]
    assert (answer.content[0].thinking, answer.content[1].text) == (replies.THOUGHT, replies.SUM)
    with client.messages.stream(model="m", max_tokens=2000, messages=messages, thinking=THINKING) as stream:
        thoughts = "".join(event.thinking for event in stream if event.type == "thinking")
        assert (thoughts, stream.get_final_message().content[1].text) == (replies.THOUGHT, replies.SUM)
    messages += [{"role": "assistant", "content": answer.content}, *user("Hello")]
    following = client.messages.create(model="m", max_tokens=2000, messages=messages, thinking=THINKING)
    assert following.stop_reason == "end_turn"


@pytest.mark.client("anthropic (Python)", "count tokens")
def test_tokens_are_counted_as_they_are_used(client):
    for fields in ({}, {"tools": TOOLS}, {"system": "Be short."}):
        counted = client.messages.count_tokens(model="m", messages=user(replies.ASK_WEATHER), **fields)
        usage = client.messages.create(**COMMON, messages=user(replies.ASK_WEATHER), **fields).usage
        assert counted.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)


@pytest.mark.client("anthropic (Python)", "errors")
def test_errors_are_those_of_the_sdk(client):
    with pytest.raises(anthropic.BadRequestError) as wrong:
        client.messages.create(**COMMON, messages=user("x"), extra_body={"top_p": 2})
    assert wrong.value.body["error"]["type"] == "invalid_request_error" and "top_p" in str(wrong.value)
    with pytest.raises(anthropic.BadRequestError, match=r"messages\[0\]"):
        client.messages.create(**COMMON, messages=user([{"type": "nothing"}]))
    assert [model.id for model in client.models.list()] == [client.models.retrieve("scripted").id] == ["scripted"]


@pytest.mark.client("anthropic (Python)", "errors")
def test_a_key_is_sent_as_the_sdk_sends_it(tmp_path, cluster):
    key = tmp_path / "keys"
    key.write_text("secret\n")
    key.chmod(0o600)
    lead = replies.lead(cluster, tmp_path / "lead", "--api-key-file", key)
    with anthropic.Anthropic(base_url=lead.url, api_key="wrong", max_retries=0) as client:
        with pytest.raises(anthropic.AuthenticationError):
            client.messages.create(**COMMON, messages=user("x"))
    with anthropic.Anthropic(base_url=lead.url, api_key="secret") as client:
        assert client.messages.create(**COMMON, messages=user("x")).content[0].text == replies.GREETING
