"""What clients of llama.cpp and of OpenAI ask besides answers: tokens, prompts, names, and fields that change nothing."""

import httpx2
import openai
import pytest

from cluster import KAIJU, MINI, completion

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Grüße 漢字 👩\u200d💻: add two numbers."}]
TEXT = "def add(a, b):\n    return a + b  # 漢字 👩\u200d💻\n<|im_end|>"


@pytest.fixture
def web(solo):
    with httpx2.Client(base_url=solo.url) as client:
        yield client


def post(web, path, **body):
    answer = web.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_tokens_are_those_of_a_prompt(solo, web):
    tokens = post(web, "/tokenize", content=TEXT)["tokens"]
    with solo.client() as client:
        by_text = client.completions.create(**completion(TEXT, max_tokens=12, temperature=0))
        by_ids = client.completions.create(**completion(tokens, max_tokens=12, temperature=0))
    assert by_text.usage.prompt_tokens == len(tokens)
    assert by_text.choices[0].text == by_ids.choices[0].text
    assert post(web, "/detokenize", tokens=tokens) == {"content": TEXT}


def test_tokens_are_those_of_the_library(web):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(MINI / "tokenizer.json"))
    assert post(web, "/tokenize", content=TEXT)["tokens"] == tokenizer.encode(TEXT, add_special_tokens=False).ids
    tokenizer.encode_special_tokens = True
    plain = tokenizer.encode(TEXT, add_special_tokens=False).ids
    assert post(web, "/tokenize", content=TEXT, parse_special=False)["tokens"] == plain


def test_pieces_join_to_the_text(web):
    tokens = post(web, "/tokenize", content=TEXT, with_pieces=True)["tokens"]
    pieces = [token["piece"] for token in tokens]
    assert b"".join(piece.encode() if isinstance(piece, str) else bytes(piece) for piece in pieces).decode() == TEXT


def test_the_rendered_prompt_is_the_one_that_chat_uses(solo, web):
    prompt = post(web, "/apply-template", messages=MESSAGES)["prompt"]
    tokens = post(web, "/tokenize", content=prompt)["tokens"]
    fields = {"model": "any", "temperature": 0, "max_tokens": 16}
    with solo.client() as client:
        chat = client.chat.completions.create(messages=MESSAGES, **fields)
        text = client.completions.create(prompt=prompt, **fields)
    assert chat.usage.prompt_tokens == len(tokens)
    assert chat.choices[0].message.content == text.choices[0].text


def test_aliases(cluster):
    lead = cluster.lead([], "--alias", "gpt-4o-mini,org/alias").wait_ready()
    with lead.client() as client:
        assert [model.id for model in client.models.list()] == ["kaiju-mini", "gpt-4o-mini", "org/alias"]
        assert client.models.retrieve("org/alias").id == "org/alias"
        for asked, answered in (("gpt-4o-mini", "gpt-4o-mini"), ("org/alias", "org/alias"), ("another", "kaiju-mini")):
            answer = client.chat.completions.create(model=asked, messages=MESSAGES, max_tokens=1)
            assert answer.model == answered
            chunks = client.chat.completions.create(model=asked, messages=MESSAGES, max_tokens=1, stream=True)
            assert {chunk.model for chunk in chunks} == {answered}
    bad = cluster.start("lead", KAIJU, "serve", MINI, "--port", 0, "--alias", "a,,b")
    assert bad.wait() == 1 and "a name of the model is empty" in bad.log()


def test_the_fingerprint_is_that_of_the_model_whatever_the_split(solo, trio):
    seen = set()
    for lead in (solo, trio):
        with lead.client() as client:
            seen.add(client.chat.completions.create(model="m", messages=MESSAGES, max_tokens=1).system_fingerprint)
            chunks = client.chat.completions.create(model="m", messages=MESSAGES, max_tokens=2, stream=True)
            seen |= {chunk.system_fingerprint for chunk in chunks}
            seen.add(client.completions.create(model="m", prompt="a", max_tokens=1).system_fingerprint)
    assert len(seen) == 1 and seen.pop().startswith("fp_")


def test_service_fields_change_nothing(solo):
    fields = {"model": "m", "messages": MESSAGES, "temperature": 0, "max_completion_tokens": 16}
    with solo.client() as client:
        plain = client.chat.completions.create(**fields)
        more = client.chat.completions.create(
            **fields, user="somebody", store=True, metadata={"run": "7"}, service_tier="auto", safety_identifier="x",
            prompt_cache_key="x", reasoning_effort="low", verbosity="low", modalities=["text"])
    assert plain.choices == more.choices and plain.usage.completion_tokens == more.usage.completion_tokens
    assert plain.usage.completion_tokens <= 16


def test_choices_are_what_their_seeds_give(solo):
    fields = {"model": "m", "messages": MESSAGES, "temperature": 1, "max_tokens": 12, "seed": 7}
    with solo.client() as client:
        first, again = (client.chat.completions.create(**fields, n=3) for _ in range(2))
        alone = client.chat.completions.create(**fields)
        texts = [choice.message.content for choice in first.choices]
        assert texts == [choice.message.content for choice in again.choices] and len(set(texts)) > 1
        assert texts[0] == alone.choices[0].message.content
        streamed = ["", "", ""]
        for chunk in client.chat.completions.create(**fields, n=3, stream=True):
            streamed[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert streamed == texts
    assert first.usage.prompt_tokens == alone.usage.prompt_tokens
    assert first.usage.completion_tokens > alone.usage.completion_tokens


def test_several_prompts_answer_as_one_by_one(trio):
    prompts = ["def add(a, b):", [750, 912, 4], "The capital"]
    with trio.client() as client:
        fields = {"model": "m", "temperature": 0, "max_tokens": 8}
        alone = [client.completions.create(**fields, prompt=prompt).choices[0].text for prompt in prompts]
        together = client.completions.create(**fields, prompt=prompts, echo=True)
    texts = [choice.text for choice in together.choices]
    assert texts[0] == prompts[0] + alone[0] and texts[2] == prompts[2] + alone[2] and texts[1].endswith(alone[1])


def test_a_gap_is_filled_in_with_the_tokens_of_the_model(solo):
    with solo.client() as client:
        fields = {"model": "m", "temperature": 0, "max_tokens": 8}
        gap = client.completions.create(**fields, prompt="def add(a", suffix="  return a + b")
        written = client.completions.create(
            **fields, prompt="<|fim_prefix|>def add(a<|fim_suffix|>  return a + b<|fim_middle|>")
    assert gap.choices[0].text == written.choices[0].text
    assert gap.usage.prompt_tokens == written.usage.prompt_tokens
