"""The Jinja interpreter against Python's jinja2, set up as Transformers does.

KAIJU_BUILD names the build directory (default: build).
"""

import json
import re
from pathlib import Path

import pytest

import jinja_cases
import jinja_conversations
import jinja_reference
import model_files
import tools
from tools import SOURCE


def answers(requests):
    return tools.answers("render_template", requests)


def incomparable(text):
    """Python prints addresses of generators and methods, and integers beyond 64 bits, which Kaiju refuses."""
    return text is not None and re.search(r" at 0x[0-9a-f]+>|<class '|\d{19}", text)


def difference(template, answer, expected, reason):
    """What is wrong with an answer, or None."""
    if expected is None:
        return None if "error" in answer else f"{template!r}: python fails ({reason}), kaiju gives {answer['text']!r}"
    if answer.get("text") == expected:
        return None
    return f"{template!r}:\n  python {expected!r}\n  kaiju  {answer.get('text', answer)!r}"


def compare(templates, variables):
    """Renders all; returns how many could be compared, and how many gave text."""
    wrong, compared, texts = [], 0, 0
    found = answers([{"template": template, "variables": variables} for template in templates])
    for template, answer in zip(templates, found):
        expected, reason = jinja_reference.render(template, variables)
        if incomparable(expected):
            continue
        compared += 1
        texts += expected is not None
        problem = difference(template, answer, expected, reason)
        if problem:
            wrong.append(problem)
    assert not wrong, f"{len(wrong)} of {len(templates)} differ:\n" + "\n".join(wrong[:25])
    return compared, texts


def test_expressions_one_by_one():
    """Each expression of the list alone, so that one that fails hides no other."""
    cases = []
    for line in jinja_cases.EXPRESSIONS:
        cases.append("{{ " + line + " }}")
        cases += ["{{ " + part + " }}" for part in line.split(", ")]
    compared, texts = compare(cases, jinja_cases.VARIABLES)
    assert compared > 600 and texts > 400


def test_statements_and_white_space():
    compared, _ = compare(jinja_cases.STATEMENTS, jinja_cases.VARIABLES)
    assert compared == len(jinja_cases.STATEMENTS)


@pytest.mark.parametrize("seed", range(4))
def test_generated(seed):
    compared, texts = compare(jinja_cases.generated(seed, 2500, 500), jinja_cases.VARIABLES)
    assert compared > 2500 and texts > 1000


def test_line_of_a_failure():
    template = "a\n{# two\nlines #}\n{% if t %}\n{{ 1 + missing }}\n{% endif %}"
    assert answers([{"template": template, "variables": {"t": True}}])[0]["error"].startswith("template line 5: ")


# The real templates.

# These use the filter `from_json`, which neither jinja2 nor Transformers has.
REFUSED = {"deepseek-ai-DeepSeek-V3.2", "deepseek-ai-DeepSeek-V4", "deepseek-ai-DeepSeek-V4-Flash-0731"}


@pytest.fixture(scope="module")
def templates():
    found = model_files.llama_cpp_templates()
    assert len(found) == 70, f"{model_files.LLAMA_CPP} has {len(found)} templates"
    for name in model_files.TOKENIZERS:
        source = model_files.tokenizer_template(name)
        if isinstance(source, str):
            found[name] = source
    found["kaiju-mini"] = json.loads((SOURCE / "models/kaiju-mini/tokenizer_config.json").read_text())["chat_template"]
    found["tool-parameters-in-xml"] = (Path(__file__).parent / "tool_parameters_in_xml.jinja").read_text()
    assert len(found) >= 78
    return found


def test_real_templates_on_conversations(templates):
    """Every template on every conversation gives the text that Python gives, or fails where Python fails."""
    conversations = jinja_conversations.conversations(seed=1, count=60)
    requests, texts = [], {}
    for name, source in templates.items():
        for conversation in conversations if name not in REFUSED else []:
            requests.append((name, {"template": source, **conversation}))
    wrong = []
    for (name, request), answer in zip(requests, answers([request for _, request in requests])):
        arguments = {key: value for key, value in request.items() if key != "template"}
        expected, reason = jinja_reference.render(request["template"], jinja_reference.chat_variables(**arguments))
        if incomparable(expected):
            continue
        texts[name] = texts.get(name, 0) + (expected is not None)
        problem = difference(name, answer, expected, reason)
        if problem:
            wrong.append(problem + f"\n  {json.dumps(arguments)[:1500]}")
    assert not wrong, f"{len(wrong)} of {len(requests)} differ:\n" + "\n".join(wrong[:5])
    silent = {name for name in templates if not texts.get(name)}
    assert silent == REFUSED, f"templates that never gave a text: {silent}"


def test_template_that_uses_an_unknown_filter_is_refused_when_compiled(templates):
    for name in REFUSED:
        answer = answers([{"template": templates[name], "messages": []}])[0]
        assert answer["stage"] == "compile"
        assert re.search(r"template line \d+: no filter named 'from_json'", answer["error"])
