"""langchain-openai: models in chains, with tools and with answers of a given form."""

import asyncio
import functools
import operator

import langchain_core.messages
import langchain_core.tools
import langchain_openai
import openai
import pydantic
import pytest

import client_replies as replies
from cluster import Cluster


class Person(pydantic.BaseModel):
    """A person."""

    name: str
    born: int
    fields: list[str]


@langchain_core.tools.tool
def get_weather(town: str, days: int) -> str:
    """The weather of some days."""
    return replies.RESULT


@pytest.fixture(scope="module")
def lead(tmp_path_factory):
    with Cluster() as cluster:
        yield replies.lead(cluster, tmp_path_factory.mktemp("langchain"))


@pytest.fixture(scope="module")
def model(lead):
    return langchain_openai.ChatOpenAI(model="m", base_url=lead.url + "/v1", api_key="none", max_retries=0)


@pytest.mark.client("langchain-openai", "chat")
def test_a_message_and_a_batch_of_them(model):
    answer = model.invoke([("system", "Be short."), ("human", "Hello")])
    assert answer.content == replies.GREETING and answer.response_metadata["finish_reason"] == "stop"
    assert answer.usage_metadata["output_tokens"] > 0
    answers = asyncio.run(model.abatch([f"Hello {number}" for number in range(6)]))
    assert [answer.content for answer in answers] == 6 * [replies.GREETING]


@pytest.mark.client("langchain-openai", "stream")
def test_a_stream(model):
    chunks = list(model.stream("Hello", stream_usage=True))
    assert "".join(chunk.content for chunk in chunks) == replies.GREETING and len(chunks) > 3
    assert functools.reduce(operator.add, chunks).usage_metadata["output_tokens"] > 0


@pytest.mark.client("langchain-openai", "tools")
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("question, towns", [(replies.ASK_WEATHER, ["Bern"]), (replies.ASK_TOWNS, ["Bern", "Zürich"])])
def test_a_loop_of_calls_and_results(model, question, towns, streamed):
    with_tools = model.bind_tools([get_weather])
    messages = [langchain_core.messages.HumanMessage(question)]
    turn = functools.reduce(operator.add, with_tools.stream(messages)) if streamed else with_tools.invoke(messages)
    assert [call["args"]["town"] for call in turn.tool_calls] == towns and not turn.invalid_tool_calls
    answer = with_tools.invoke([*messages, turn, *(get_weather.invoke(call) for call in turn.tool_calls)])
    assert answer.content == replies.ANSWER


@pytest.mark.client("langchain-openai", "responses")
@pytest.mark.parametrize("streamed", [False, True])
def test_a_loop_over_the_responses_api(lead, streamed):
    model = langchain_openai.ChatOpenAI(model="m", base_url=lead.url + "/v1", api_key="none", max_retries=0,
                                        use_responses_api=True).bind_tools([get_weather])
    messages = [langchain_core.messages.HumanMessage(replies.ASK_TOWNS)]
    turn = functools.reduce(operator.add, model.stream(messages)) if streamed else model.invoke(messages)
    assert [call["args"]["town"] for call in turn.tool_calls] == ["Bern", "Zürich"]
    answer = model.invoke([*messages, turn, *(get_weather.invoke(call) for call in turn.tool_calls)])
    assert answer.text == replies.ANSWER


@pytest.mark.client("langchain-openai", "logprobs")
def test_log_probabilities(lead):
    model = langchain_openai.ChatOpenAI(model="m", base_url=lead.url + "/v1", api_key="none", logprobs=True,
                                        top_logprobs=2)
    entries = model.invoke("Hello").response_metadata["logprobs"]["content"]
    assert b"".join(bytes(entry["bytes"]) for entry in entries).decode() == replies.GREETING


@pytest.mark.client("langchain-openai", "errors")
def test_an_error(lead):
    model = langchain_openai.ChatOpenAI(model="m", base_url=lead.url + "/v1", api_key="none", max_retries=0,
                                        temperature=-1)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        model.invoke("Hello")


@pytest.mark.client("langchain-openai", "structured output")
@pytest.mark.parametrize("method", ["json_schema", "json_mode", "function_calling"])
def test_an_answer_of_a_given_form(model, method):
    person = model.with_structured_output(Person, method=method).invoke(replies.ASK_PERSON)
    assert person == Person.model_validate_json(replies.PERSON)
