"""Tool calls read from what the chat templates of real models write of them: the same calls come back, and rendered
again they give the same prompt (T5, T7: an agent's history is then in the prefix cache)."""

import json
import random
from pathlib import Path

import pytest

import jinja_reference
import model_files
import tools

ASSISTANT, END = "<|im_start|>assistant\n", "<|im_end|>\n"
TEXTS = ["a", "Zürich 東京 👩‍💻", "", " ", "two\nlines\n", "\n\n\tindented\n", "5", "true", "{\"a\": 1}", "it's \"quoted\" \\ \\n",
         "<b>\n</b>", "a < b </parameter> c", "<parameter=x>", "def f():\n    return '</function>'\n", "[1, 2]", "null", "\x01\x7f\u2028"]
NUMBERS = [0, -1, 7, 2.5, -1e-7, 1e20, 123456789]
NESTED = [{}, {"k": [1, {"z": "ü \"\n<b>"}], "n": None}, {"b": True, "deep": [[[]]]}]
LISTS = [[], ["a", 1], [None, False, {"k": 0.5}], ["</parameter>\n"]]
KINDS = {
    "text": ({"type": "string"}, TEXTS),
    "whole": ({"type": "integer"}, [0, -5, 10**15]),
    "number": ({"type": "number", "minimum": -10}, NUMBERS),
    "flag": ({"type": "boolean"}, [True, False]),
    "object": ({"type": "object", "properties": {"k": {"type": "array"}}}, NESTED),
    "list": ({"type": "array", "items": {}}, LISTS),
    "maybe": ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, [None, 3]),
    "reference": ({"$ref": "#/$defs/whole"}, [4, 5]),
    "choice": ({"enum": ["x y", "2"]}, ["x y", "2"]),
    "text or list": ({"type": ["string", "array"]}, ["plain", *LISTS]),
    "text or none": ({"oneOf": [{"type": "string"}, {"type": "null"}]}, [None, "none", "x"]),
}
TOOLS = [
    {"type": "function", "function": {
        "name": name, "description": "Does things.", "parameters": {
            "type": "object", "properties": {kind: KINDS[kind][0] for kind in kinds},
            "$defs": {"whole": {"type": "integer"}}}}}
    for name, kinds in [("all", KINDS), ("write_file", ["text"]), ("nothing", [])]
]
FORMS = {"Qwen3-Coder": "xml", "tool_parameters_in_xml": "xml", "Qwen-Qwen3-0.6B": "json", "Qwen-Qwen2.5-7B-Instruct": "json",
         "qwen3": "json", "qwen2_5": "json"}


@pytest.fixture(scope="module")
def templates():
    found = model_files.llama_cpp_templates()
    found["tool_parameters_in_xml"] = (Path(__file__).parent / "tool_parameters_in_xml.jinja").read_text()
    for name in ("qwen3", "qwen2_5"):
        found[name] = model_files.tokenizer_template(name)
    return found


def parse(requests):
    return tools.answers("parse_tool_calls", requests)


def message_of(content, calls):
    return {"role": "assistant", "content": content, "tool_calls": [
        {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for index, (name, arguments) in enumerate(calls)]}


def random_calls(source):
    calls = []
    for _ in range(source.randrange(1, 4)):
        tool = source.choice(TOOLS)["function"]
        names = list(tool["parameters"]["properties"])
        names = source.sample(names, source.randrange(len(names) + 1))
        calls.append((tool["name"], {name: source.choice(KINDS[name][1]) for name in names}))
    return calls


def written(template, message):
    """What the model would have written, for the template to give this prompt, and the whole prompt."""
    variables = jinja_reference.chat_variables([{"role": "user", "content": "Do it."}, message], TOOLS)
    prompt, reason = jinja_reference.render(template, variables)
    assert prompt is not None, reason
    text = prompt[prompt.rindex(ASSISTANT) + len(ASSISTANT):]
    assert text.endswith(END)
    return text[: -len(END)], prompt


@pytest.mark.parametrize("name", FORMS)
def test_t5_t7_calls_survive_the_template(templates, name):
    source = random.Random(name)
    messages = [message_of(source.choice(["", "", "I look.", "First é.\n\nThen:"]), random_calls(source)) for _ in range(400)]
    texts = [written(templates[name], message) for message in messages]
    found = parse([{"template": templates[name], "tools": TOOLS, "text": text} for text, _ in texts])
    for message, (text, prompt), answer in zip(messages, texts, found):
        assert answer["form"] == FORMS[name]
        calls = [(call["name"], json.loads(call["arguments"])) for call in answer["calls"]]
        assert calls == [(call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]], text
        content = answer["content"]
        assert content.split("</think>")[-1].strip() == message["content"], text
        assert written(templates[name], message_of(content, calls))[1] == prompt


def test_templates_of_other_notations_have_no_form(templates):
    others = ["meta-llama-Llama-3.1-8B-Instruct", "mistralai-Mistral-Nemo-Instruct-2407", "google-gemma-2-2b-it"]
    text = "<tool_call>\n{\"name\": \"all\", \"arguments\": {}}\n</tool_call>"
    for answer in parse([{"template": templates[name], "tools": TOOLS, "text": text} for name in others]):
        assert answer == {"form": "none", "content": text, "calls": []}
