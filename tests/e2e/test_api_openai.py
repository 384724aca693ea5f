"""The API as the openai SDK uses it, against a lead without nodes."""

import math

import openai
import pytest

MESSAGES = [{"role": "user", "content": "Write a Python function that adds two numbers."}]
GREEDY = {"model": "any", "temperature": 0, "max_tokens": 24}


def chat(lead, messages=MESSAGES, **fields):
    return lead.client().chat.completions.create(messages=messages, **{**GREEDY, **fields})


def chat_stream(lead, messages=MESSAGES, **fields):
    return list(chat(lead, messages, stream=True, **fields))


def joined(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def test_the_model_is_listed(solo):
    client = solo.client()
    models = client.models.list().data
    assert len(models) == 1
    assert client.models.retrieve(models[0].id) == models[0]
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("another")


def test_h2_a_stream_joins_to_the_unstreamed_text(solo):
    for messages in (MESSAGES, [{"role": "user", "content": "Repeat: 漢字 e\u0301 👩\u200d💻 ŝ"}]):
        for limit in (1, 2, 3, 4, 5, 40):
            whole = chat(solo, messages, max_tokens=limit)
            chunks = chat_stream(solo, messages, max_tokens=limit)
            assert joined(chunks) == whole.choices[0].message.content
            assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason
            assert "\ufffd" not in joined(chunks)


def test_h4_usage_comes_only_when_asked(solo):
    whole = chat(solo)
    assert all(chunk.usage is None for chunk in chat_stream(solo))
    chunks = chat_stream(solo, stream_options={"include_usage": True})
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    assert whole.usage.completion_tokens <= GREEDY["max_tokens"]


def test_h5_a_stop_string_cuts_the_text_before_it(solo):
    text = chat(solo).choices[0].message.content
    for start in range(1, len(text), 11):
        for length in (1, 4, 9):
            stop = text[start:start + length]
            whole = chat(solo, stop=[stop, "\x01never"])
            assert whole.choices[0].message.content == text[:text.index(stop)]
            assert whole.choices[0].finish_reason == "stop"
            assert joined(chat_stream(solo, stop=stop)) == text[:text.index(stop)]


def test_h7_developer_is_system_wherever_it_stands(solo):
    for place in (0, 1):
        answers = []
        for role in ("system", "developer"):
            messages = list(MESSAGES)
            messages.insert(place, {"role": role, "content": "Answer in one word."})
            answer = chat(solo, messages)
            answers.append((answer.choices[0].message.content, answer.usage.prompt_tokens))
        assert answers[0] == answers[1]


def test_h6_parts_give_the_prompt_of_the_joined_text(solo):
    parts = [{"type": "text", "text": "Write a Python function "}, {"type": "text", "text": "that adds two numbers."}]
    assert chat(solo, [{"role": "user", "content": parts}]).usage == chat(solo).usage


def test_h8_a_prompt_of_the_context_is_refused_with_both_numbers(solo):
    client = solo.client()
    context = client.models.list().data[0].max_model_len
    fields = {"model": "any", "max_tokens": 5, "temperature": 0}
    answer = client.completions.create(prompt=[100] * (context - 1), **fields)
    assert answer.usage.completion_tokens == 1 and answer.choices[0].finish_reason in ("length", "stop")
    for count in (context, context + 1):
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError) as refusal:
                client.completions.create(prompt=[100] * count, stream=stream, **fields)
            assert refusal.value.code == "context_length_exceeded"
            assert str(context) in refusal.value.message and str(count) in refusal.value.message


def test_h10_log_probabilities_of_chat(solo):
    whole = chat(solo, logprobs=True, top_logprobs=5)
    entries = whole.choices[0].logprobs.content
    chunks = chat_stream(solo, logprobs=True, top_logprobs=5)
    streamed = [entry for chunk in chunks if chunk.choices[0].logprobs for entry in chunk.choices[0].logprobs.content]
    assert entries == streamed
    text = whole.choices[0].message.content.encode()
    assert b"".join(bytes(entry.bytes) for entry in entries).startswith(text)
    for entry in entries:
        assert entry.logprob <= 0 and len(entry.top_logprobs) == 5
        assert sum(math.exp(top.logprob) for top in entry.top_logprobs) <= 1 + 1e-5
        logprobs = [top.logprob for top in entry.top_logprobs]
        assert logprobs == sorted(logprobs, reverse=True)
        assert entry.logprob in logprobs


def test_h10_log_probabilities_of_completions(solo):
    answer = solo.client().completions.create(model="any", prompt="def add(", max_tokens=8, temperature=0, logprobs=2)
    logprobs = answer.choices[0].logprobs
    count = answer.usage.completion_tokens
    assert len(logprobs.token_logprobs) == len(logprobs.top_logprobs) == len(logprobs.text_offset)
    assert count - 1 <= len(logprobs.tokens) <= count
    for token, offset in zip(logprobs.tokens, logprobs.text_offset):
        assert answer.choices[0].text[offset:offset + len(token)] == token


def test_h11_a_seed_gives_the_same_text_again(solo):
    sampled = {"temperature": 1, "max_tokens": 16}
    texts = {chat(solo, seed=7, **sampled).choices[0].message.content for _ in range(20)}
    assert len(texts) == 1
    assert len({chat(solo, **sampled).choices[0].message.content for _ in range(10)}) > 1


def test_a_biased_token_is_the_only_one(solo):
    client = solo.client()
    first = client.completions.create(model="any", prompt="x = ", max_tokens=1, temperature=0, logprobs=1)
    for token in range(300, 303):
        answer = client.completions.create(model="any", prompt="x = ", max_tokens=4, temperature=0, logprobs=1,
                                           logit_bias={str(token): 100},
                                           extra_body={"repetition_penalty": 1.0, "ignore_eos": True})
        assert len(set(answer.choices[0].logprobs.tokens)) == 1
    assert len(first.choices[0].logprobs.tokens) <= 1


@pytest.mark.parametrize("fields, param", [
    ({"temperature": -1}, "temperature"), ({"top_p": 2}, "top_p"), ({"max_tokens": 0}, "max_tokens"),
    ({"stop": [""]}, "stop"), ({"top_logprobs": 3}, "top_logprobs"),
    ({"logit_bias": {"99999999": 1}}, "logit_bias"), ({"messages": []}, "messages"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
     "messages[0].content[0].type"),
])
def test_h12_h13_the_sdk_sees_which_field_is_wrong(solo, fields, param):
    with pytest.raises(openai.BadRequestError) as refusal:
        chat(solo, **{"messages": MESSAGES, **fields})
    assert refusal.value.param == param
    assert param in refusal.value.message


def test_h6_null_content_with_tool_calls_is_taken(solo):
    messages = [*MESSAGES,
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}]},
                {"role": "tool", "tool_call_id": "1", "content": "3"}]
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]
    assert chat(solo, messages, tools=tools, max_tokens=2).usage.prompt_tokens > chat(solo).usage.prompt_tokens
