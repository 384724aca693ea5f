"""Conversations for chat templates, generated from a seed: tools, tool calls, null content, reasoning, Unicode."""

import json
import random

WORDS = ["hello", "Grüße", "東京", "😀👩‍👩‍👧", "<b>&amp;</b>", "{{ x }}", "it's \"quoted\"", "a\\b", "line\nbreak", "\ttab", "<think>", "</think>"]
WORDS += ["<|im_end|>", "1.5", "null", "é́", "[/INST]", "  spaced  ", "{\"a\": 1}"]

SCHEMAS = [
    {"type": "string", "description": "A city, e.g. Zürich"},
    {"type": "integer", "minimum": 0, "default": 3},
    {"type": "number", "enum": [0.5, 1e-7, 2]},
    {"type": "boolean"},
    {"type": ["string", "null"], "description": ""},
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "integer"}}}},
    {"type": "object", "properties": {"deep": {"type": "array", "items": {"type": "number"}}}, "required": ["deep"]},
    {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Either"},
    {"type": "string", "enum": ["a", "b\"c"], "nullable": True},
]
VALUES = ["text", "Zürich 東京", 3, -1, 2.5, 1e20, True, False, None, [], ["a", 1], {"k": [1, {"z": "ü"}]}, "", "multi\nline", "<x>&</x>"]


def text(source):
    return " ".join(source.choice(WORDS) for _ in range(source.randrange(1, 6)))


def tool(source, index):
    names = ["city", "count", "options", "ünit", "path"]
    properties = {name: source.choice(SCHEMAS) for name in source.sample(names, source.randrange(0, 4))}
    parameters = {"type": "object", "properties": properties}
    if source.random() < 0.7:
        parameters["required"] = list(properties)[:1]
    function = {"name": f"tool_{index}", "description": text(source), "parameters": parameters}
    if source.random() < 0.2:
        function["strict"] = True
    return {"type": "function", "function": function}


def tool_call(source, tools, index, as_text):
    name = source.choice(tools)["function"]["name"] if tools else "tool_0"
    arguments = {key: source.choice(VALUES) for key in source.sample(["city", "count", "x", "ü"], source.randrange(0, 4))}
    if as_text:
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {"id": f"call{index:05d}", "type": "function", "function": {"name": name, "arguments": arguments}}


def turn(source, tools, as_text):
    """One exchange: the user's message, and the assistant's, perhaps by way of tools."""
    messages = [{"role": "user", "content": text(source)}]
    if source.random() < 0.15:
        messages[0]["content"] = [{"type": "text", "text": text(source)}, {"type": "text", "text": text(source)}]
    while tools and source.random() < 0.5:
        count = source.randrange(1, 3)
        calls = [tool_call(source, tools, index, as_text) for index in range(count)]
        content = source.choice([None, "", text(source)])
        messages.append({"role": "assistant", "content": content, "tool_calls": calls})
        if source.random() < 0.3:
            messages[-1]["reasoning_content"] = text(source)
        for call in calls:
            content = source.choice([text(source), json.dumps({"ok": True}), ""])
            messages.append(
                {"role": "tool", "content": content, "tool_call_id": call["id"], "name": call["function"]["name"]}
            )
    answer = {"role": "assistant", "content": text(source)}
    if source.random() < 0.2:
        answer["content"] = f"<think>\n{text(source)}\n</think>\n\n{text(source)}"
    if source.random() < 0.2:
        answer[source.choice(["reasoning_content", "reasoning", "thinking"])] = text(source)
    return messages + [answer]


def conversation(source):
    tools = [tool(source, index) for index in range(source.randrange(1, 4))] if source.random() < 0.6 else None
    as_text = source.random() < 0.3
    messages = []
    if source.random() < 0.5:
        messages.append({"role": source.choice(["system", "system", "developer"]), "content": text(source)})
    for _ in range(source.randrange(1, 4)):
        messages += turn(source, tools, as_text)
    if source.random() < 0.7:
        messages.append({"role": "user", "content": text(source)})
    extra = {"bos_token": "<s>", "eos_token": "</s>"}
    if source.random() < 0.4:
        extra["enable_thinking"] = source.choice([True, False])
    if source.random() < 0.2:
        extra["date_string"] = "26 Jul 2024"
    return {"messages": messages, "tools": tools, "extra": extra, "add_generation_prompt": source.random() < 0.6}


PLAIN = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Why?"}]


def conversations(seed, count):
    """The plain one, the same with what a few templates insist on, none at all, and `count` generated ones."""
    source = random.Random(seed)
    needed = {"functions": "[]", "datetime": "now", "bos_token": "<s>", "eos_token": "</s>"}
    made = [
        {"messages": PLAIN, "tools": None, "extra": {"bos_token": "<s>"}, "add_generation_prompt": True},
        {"messages": PLAIN, "tools": None, "extra": needed, "add_generation_prompt": True},
        {"messages": [], "tools": None, "extra": {}, "add_generation_prompt": True},
    ]
    return made + [conversation(source) for _ in range(count)]
