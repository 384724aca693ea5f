"""Clients from npm: openai, @anthropic-ai/sdk, and ai with @ai-sdk/openai-compatible (tests/clients/)."""

import json

import pytest

import client_replies as replies
import npm_clients
from cluster import Cluster, eventually

QUESTIONS = {"tool": replies.TOOL_NAME, "description": replies.TOOL_DESCRIPTION, "parameters": replies.TOOL_PARAMETERS,
             "result": replies.RESULT, "weather": replies.ASK_WEATHER, "towns": replies.ASK_TOWNS,
             "person": replies.ASK_PERSON, "sum": replies.ASK_SUM, "slowly": replies.ASK_SLOWLY}
BERN, BOTH = [{"town": "Bern", "days": 2}], [{"town": "Bern", "days": 1}, {"town": "Zürich", "days": 1}]
PERSON = json.loads(replies.PERSON)


@pytest.fixture(scope="module")
def lead(tmp_path_factory):
    with Cluster() as cluster:
        yield replies.lead(cluster, tmp_path_factory.mktemp("npm"))


def told(name):
    """A fixture: what the script NAME told of its scenarios."""
    @pytest.fixture(scope="module")
    def fixture(lead, tmp_path_factory):
        return npm_clients.scenarios(name, lead.url, QUESTIONS, tmp_path_factory.mktemp("home"))
    return fixture


openai, anthropic, ai = told("openai"), told("anthropic"), told("ai")


@pytest.mark.client("openai (JavaScript)", "chat")
def test_openai_chat(openai):
    assert (openai["chat"]["text"], openai["chat"]["reason"]) == (replies.GREETING, "stop")
    assert openai["chat"]["usage"]["completion_tokens"] > 0
    assert openai["models"] == ["scripted"]


@pytest.mark.client("openai (JavaScript)", "stream")
def test_openai_stream(openai, lead):
    assert openai["stream"]["text"] == openai["stream"]["final"] == replies.GREETING
    assert openai["stream"]["usage"]["total_tokens"] == openai["chat"]["usage"]["total_tokens"]
    assert openai["abort"] == {"chunks": 3}
    eventually(lambda: lead.metric("kaiju_requests_cancelled_total") == 1, "the request that was left is cancelled")


@pytest.mark.client("openai (JavaScript)", "tools")
def test_openai_tools(openai):
    assert openai["tools"] == {"text": replies.ANSWER, "asked": BOTH}


@pytest.mark.client("openai (JavaScript)", "structured output")
def test_openai_structured_output(openai):
    assert openai["structured output"] == PERSON


@pytest.mark.client("openai (JavaScript)", "logprobs")
def test_openai_logprobs(openai):
    assert openai["logprobs"]["text"] == replies.GREETING and set(openai["logprobs"]["tops"]) == {2}


@pytest.mark.client("openai (JavaScript)", "completions")
def test_openai_completions(openai):
    assert openai["completions"] == {"text": replies.GREETING}


@pytest.mark.client("openai (JavaScript)", "responses")
def test_openai_responses(openai):
    assert openai["responses"] == {"text": replies.GREETING, "status": "completed"}
    stream = openai["responses stream"]
    assert stream["kinds"][0] == "response.created" and stream["kinds"][-1] == "response.completed"
    assert {"response.output_text.delta", "response.function_call_arguments.delta"} <= set(stream["kinds"])
    assert (stream["name"], stream["input"], stream["text"]) == (replies.TOOL_NAME, *BERN, replies.ANSWER)


@pytest.mark.client("openai (JavaScript)", "errors")
def test_openai_errors(openai):
    error = openai["errors"]["error"]
    assert (error["name"], error["status"], error["param"], error["code"]) == (
        "BadRequestError", 400, "temperature", "invalid_value")


@pytest.mark.client("@anthropic-ai/sdk", "chat")
def test_h18_anthropic_chat(anthropic):
    assert anthropic["chat"]["content"] == [{"type": "text", "text": replies.GREETING}]
    assert anthropic["chat"]["reason"] == "end_turn" and anthropic["chat"]["usage"]["output_tokens"] > 0


@pytest.mark.client("@anthropic-ai/sdk", "stream")
def test_h18_anthropic_stream(anthropic):
    assert anthropic["stream"]["text"] == anthropic["stream"]["final"][0]["text"] == replies.GREETING
    assert anthropic["stream"]["reason"] == "end_turn" and anthropic["stream"]["usage"]["output_tokens"] > 0


@pytest.mark.client("@anthropic-ai/sdk", "tools")
def test_h18_anthropic_tools(anthropic):
    assert anthropic["tools"] == {"reason": "tool_use", "asked": BOTH, "text": replies.ANSWER}


@pytest.mark.client("@anthropic-ai/sdk", "structured output")
def test_anthropic_structured_output(anthropic):
    assert anthropic["structured output"] == PERSON


@pytest.mark.client("@anthropic-ai/sdk", "count tokens")
def test_anthropic_counts_tokens(anthropic):
    used = anthropic["count tokens"]["used"]
    assert anthropic["count tokens"]["counted"] == used["input_tokens"] + used["cache_read_input_tokens"] > 0


@pytest.mark.client("@anthropic-ai/sdk", "errors")
def test_anthropic_errors(anthropic):
    error = anthropic["errors"]["error"]
    assert (error["name"], error["status"], error["type"]) == ("BadRequestError", 400, "invalid_request_error")
    assert "temperature" in error["message"]


@pytest.mark.client("ai, @ai-sdk/openai-compatible", "chat")
def test_ai_chat(ai):
    assert (ai["chat"]["text"], ai["chat"]["reason"]) == (replies.GREETING, "stop")
    assert ai["chat"]["usage"]["outputTokens"] > 0


@pytest.mark.client("ai, @ai-sdk/openai-compatible", "thinking")
def test_ai_thoughts(ai):
    assert ai["thinking"] == {"text": replies.SUM, "thought": replies.THOUGHT}


@pytest.mark.client("ai, @ai-sdk/openai-compatible", "stream")
def test_ai_stream(ai):
    assert (ai["stream"]["text"], ai["stream"]["reason"]) == (replies.GREETING, "stop")
    assert ai["stream"]["parts"] > 3 and ai["stream"]["usage"]["outputTokens"] > 0


@pytest.mark.client("ai, @ai-sdk/openai-compatible", "tools")
def test_ai_tools_in_several_steps(ai):
    steps = {"text": replies.ANSWER, "reasons": ["tool-calls", "stop"]}
    assert ai["tools"] == {**steps, "asked": BERN} and ai["tools stream"] == {**steps, "asked": BOTH}


@pytest.mark.client("ai, @ai-sdk/openai-compatible", "structured output")
def test_ai_structured_output(ai):
    assert ai["structured output"] == {"object": PERSON, "output": PERSON}


@pytest.mark.client("ai, @ai-sdk/openai-compatible", "errors")
def test_ai_errors(ai):
    assert ai["errors"]["error"]["name"] == "APICallError" and "temperature" in ai["errors"]["error"]["message"]
