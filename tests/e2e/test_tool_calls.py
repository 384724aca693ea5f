"""Tool calls with the openai SDK, of the model itself: after a prompt of nothing but calls it writes one more.

The shipped model has not learnt to call tools, and its template writes no calls: the tests give it one that does.
"""

import json

import openai
import pytest

from cluster import altered_model

BLOCK = 64  # positions of a KV block: what is cached is whole blocks
TEMPLATE = """\
{%- for message in messages %}
    {%- if message.tool_calls %}
        {%- for call in message.tool_calls %}
            {{- '<tool_call>\\n<function=' + call.function.name + '>\\n' }}
            {%- for name, value in call.function.arguments | items %}
                {{- '<parameter=' + name + '>\\n' ~ value ~ '\\n</parameter>\\n' }}
            {%- endfor %}
            {{- '</function>\\n</tool_call>\\n' }}
        {%- endfor %}
    {%- else %}
        {{- message.content }}
    {%- endif %}
{%- endfor %}"""
CALLS = 12 * "<tool_call>\n<function=add>\n<parameter=a>\n5\n</parameter>\n</function>\n</tool_call>\n"
TOOLS = [{"type": "function", "function": {
    "name": "add", "description": "Adds.",
    "parameters": {"type": "object", "properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}}}]


@pytest.fixture
def lead(cluster, tmp_path):
    model = altered_model(tmp_path / "model")
    (model / "chat_template.jinja").write_text(TEMPLATE)
    return cluster.lead([], model=model).wait_ready()


def ask(lead, content, messages=(), **fields):
    fields = {"tools": TOOLS, "max_tokens": 60, **fields}
    with lead.client() as client:
        answer = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": content}, *messages], temperature=0,
            extra_body={"repetition_penalty": 1.0}, **fields)
        return list(answer) if fields.get("stream") else answer


def joined(chunks):
    """The message of a stream: content, [[id, name, arguments]…], finish_reason."""
    content, calls, reason = "", [], None
    for chunk in chunks:
        choice = chunk.choices[0]
        content += choice.delta.content or ""
        for part in choice.delta.tool_calls or []:
            if part.index == len(calls):
                assert part.id.startswith("call_") and part.type == "function" and part.function.name
                calls.append([part.id, part.function.name, part.function.arguments])
            else:
                assert part.index == len(calls) - 1 and part.id is None and part.function.name is None
                calls[-1][2] += part.function.arguments
        reason = choice.finish_reason or reason
    return content, calls, reason


def test_t1_t3_one_call_streamed_and_not(lead):
    whole = ask(lead, CALLS, parallel_tool_calls=False).choices[0]
    content, calls, reason = joined(ask(lead, CALLS, parallel_tool_calls=False, stream=True))
    assert whole.finish_reason == reason == "tool_calls"
    assert whole.message.content is None and content == ""
    (call,) = whole.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("add", {"a": 5})
    assert call.id.startswith("call_") and call.id != calls[0][0]
    assert [name_and_arguments[1:] for name_and_arguments in calls] == [["add", call.function.arguments]]


def test_t3_several_calls_until_the_limit(lead):
    whole = ask(lead, CALLS).choices[0]
    content, calls, reason = joined(ask(lead, CALLS, stream=True))
    assert whole.finish_reason == reason == "length"
    assert (whole.message.content or "") == content
    found = [[call.function.name, call.function.arguments] for call in whole.message.tool_calls]
    assert found == [call[1:] for call in calls] and len(found) > 2
    assert all(json.loads(arguments) == {"a": 5} for _, arguments in found[:-1])
    assert len({call[0] for call in calls}) == len(calls)


def test_t6_without_tools_a_call_is_text(lead):
    for fields in ({"tools": openai.NOT_GIVEN}, {"tool_choice": "none"}):
        choice = ask(lead, CALLS, **fields).choices[0]
        assert choice.message.tool_calls is None and "<function=add>" in choice.message.content
        assert choice.finish_reason == "length"


def test_t5_t7_ten_turns_of_calls_and_results_stay_in_the_cache(lead):
    messages, before, called = [], None, 0
    for turn in range(10):
        answer = ask(lead, CALLS, messages, parallel_tool_calls=False)
        if before:
            assert answer.usage.prompt_tokens_details.cached_tokens > before.prompt_tokens - BLOCK
        before = answer.usage
        message = answer.choices[0].message
        calls = message.tool_calls or []
        called += len(calls)
        messages.append({"role": "assistant", "content": message.content,
                         **({"tool_calls": [call.model_dump() for call in calls]} if calls else {})})
        messages += [{"role": "tool", "tool_call_id": call.id, "content": f"{turn}\n"} for call in calls]
        messages.append({"role": "user", "content": CALLS})
    assert called == 10
