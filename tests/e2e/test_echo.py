"""Legacy completions that repeat their prompt, with the log-probabilities of its tokens."""

import json

import openai
import pytest

PROMPT = "<|im_start|>user\nWrite a function that adds é numbers.<|im_end|>\n<|im_start|>assistant\n"


def complete(lead, **fields):
    with lead.client() as client:
        return client.completions.create(model="m", temperature=0, **fields)


def test_prompt_and_answer_are_foreseen_alike(solo, trio):
    """What generating a token reported is what reading it reports, to the bit, on one node and on three."""
    written = complete(solo, prompt=PROMPT, max_tokens=24, logprobs=3)
    whole = PROMPT + written.choices[0].text
    seen = []
    for lead in (solo, trio):
        read = complete(lead, prompt=whole, max_tokens=0, echo=True, logprobs=3)
        choice = read.choices[0]
        assert choice.text == whole and choice.finish_reason == "length"
        assert read.usage.completion_tokens == 0 and read.usage.prompt_tokens == len(choice.logprobs.tokens)
        assert read.usage.prompt_tokens_details.cached_tokens == 0
        assert choice.logprobs.token_logprobs[0] is None and choice.logprobs.top_logprobs[0] is None
        assert "".join(choice.logprobs.tokens) == whole
        assert [whole[offset:].startswith(token) for offset, token
                in zip(choice.logprobs.text_offset, choice.logprobs.tokens)] == [True] * len(choice.logprobs.tokens)
        count = len(written.choices[0].logprobs.tokens)
        assert choice.logprobs.tokens[-count:] == written.choices[0].logprobs.tokens
        assert choice.logprobs.token_logprobs[-count:] == written.choices[0].logprobs.token_logprobs
        assert choice.logprobs.top_logprobs[-count:] == written.choices[0].logprobs.top_logprobs
        seen.append(choice.logprobs)
    assert seen[0] == seen[1]


def test_a_long_prompt_is_foreseen_chunk_by_chunk(trio):
    ids = [(7 * i) % 900 + 100 for i in range(1300)]
    read = complete(trio, prompt=ids, max_tokens=2, echo=True, logprobs=0)
    assert len(read.choices[0].logprobs.tokens) == 1302 and None not in read.choices[0].logprobs.token_logprobs[1:]
    again = complete(trio, prompt=ids[:700], max_tokens=0, echo=True, logprobs=0)
    assert again.choices[0].logprobs.token_logprobs == read.choices[0].logprobs.token_logprobs[:700]


def test_streamed_as_whole(solo):
    fields = {"prompt": PROMPT, "max_tokens": 5, "echo": True, "logprobs": 1}
    whole = complete(solo, **fields).choices[0]
    with solo.client() as client:
        stream = client.completions.create(model="m", temperature=0, **fields, stream=True)
        chunks = [chunk.choices[0] for chunk in stream]
    assert "".join(chunk.text for chunk in chunks) == whole.text
    joined = {name: sum((getattr(chunk.logprobs, name) for chunk in chunks if chunk.logprobs), [])
              for name in ("tokens", "token_logprobs", "text_offset")}
    assert joined == {name: getattr(whole.logprobs, name) for name in joined}


def test_only_the_prompt(solo):
    answer = complete(solo, prompt=["one", [400, 500]], max_tokens=0, echo=True)
    assert answer.choices[0].text == "one" and answer.usage.completion_tokens == 0
    assert answer.choices[0].logprobs is None
    with pytest.raises(openai.BadRequestError) as refusal:
        complete(solo, prompt="one", max_tokens=0)
    assert refusal.value.param == "max_tokens"
    assert json.dumps(refusal.value.body).count("echo")
