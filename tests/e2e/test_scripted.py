"""The double that tests of clients rely on: it says what its script has, and the server cannot tell."""

import json
import math

import pytest

import scripted
from cluster import Cluster

TEXT = "Zürich 👩\u200d💻\n<tool_call> 東京"
TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {
    "type": "object", "properties": {"town": {"type": "string"}, "days": {"type": "integer"}}}}}]


@pytest.fixture(scope="module", params=["xml", "json"])
def lead(request, tmp_path_factory):
    form = request.param
    rules = [
        {"when": ["It rains.", "weather"], "say": "Take an umbrella."},
        {"when": "weather", "say": "I look. " + scripted.call("look_up", form=form, town="Bern", days=2)},
        {"when": "rare", "unless": ["common", "usual"], "within": 60, "say": TEXT},
    ]
    with Cluster() as cluster:
        yield scripted.lead(cluster, tmp_path_factory.mktemp("scripted"), rules, template=form).wait_ready()


def ask(lead, *messages, **fields):
    messages = [{"role": "user", "content": message} if isinstance(message, str) else message for message in messages]
    with lead.client() as client:
        answer = client.chat.completions.create(model="m", messages=messages, **fields)
        return list(answer) if fields.get("stream") else answer


def test_a_tool_is_called_and_its_result_is_answered(lead):
    turn = ask(lead, "weather?", tools=TOOLS).choices[0]
    assert turn.finish_reason == "tool_calls" and turn.message.content.strip() == "I look."
    (call,) = turn.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("look_up", {"town": "Bern", "days": 2})
    result = {"role": "tool", "tool_call_id": call.id, "content": "It rains."}
    last = ask(lead, "weather?", turn.message.model_dump(exclude_none=True), result, tools=TOOLS).choices[0]
    assert (last.message.content, last.finish_reason) == ("Take an umbrella.", "stop")
    (first_rule, first), (second_rule, second) = lead.prompts()[-2:]
    assert (first_rule, second_rule) == (1, 0)
    assert "look_up" in first and "It rains." not in first and "<tool_response>\nIt rains.\n" in second


def test_the_rule_decides_whatever_the_sampling(lead):
    for fields in ({"temperature": 1.5, "frequency_penalty": 2}, {"logit_bias": {"5": 100}}, {"seed": 3}):
        assert ask(lead, "rare", **fields).choices[0].message.content == TEXT
    stream = ask(lead, "rare", stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices) == TEXT
    for message in ("rare, common", "usual and rare", "rare " + 60 * "x", "nothing"):
        assert ask(lead, message).choices[0].message.content == "No rule holds."
        assert lead.prompts()[-1][0] == -1


def test_log_probabilities_are_the_models(lead):
    entries = ask(lead, "rare", logprobs=True, top_logprobs=3).choices[0].logprobs.content
    assert b"".join(bytes(entry.bytes) for entry in entries).decode() == TEXT
    for entry in entries:
        assert len(entry.top_logprobs) == 3 and sum(math.exp(top.logprob) for top in entry.top_logprobs) <= 1 + 1e-5
        assert math.isfinite(entry.logprob) and entry.logprob < 0


def test_a_script_that_is_wrong_is_refused(tmp_path, cluster):
    for number, (rules, word) in enumerate([([{"when": 5, "say": "x"}], "when"), ([{"when": "x"}], "say")]):
        lead = scripted.lead(cluster, tmp_path / str(number), rules)
        assert lead.wait() == 1 and word in lead.log() and "rule 0" in lead.log()
