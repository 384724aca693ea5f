"""Python's jinja2 set up as Transformers sets it up for chat templates."""

import copy
import functools
import json
import warnings
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    """{% generation %} … {% endgeneration %}: only marks what the model says."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def never_constant(self, eval_ctx=None):
    """jinja2 folds constants, and where it does, a slice of what has none, as in (5)[1:], is undefined instead of a
    failure. Kaiju fails always; so does jinja2 where slices are no constants."""
    raise jinja2.nodes.Impossible()


jinja2.nodes.Slice.as_const = never_constant


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda format: datetime.now().strftime(format)
    return made


ENVIRONMENT = environment()


@functools.lru_cache
def compiled(template):
    with warnings.catch_warnings():
        # Python's compiler comments on what generated templates subscript and escape.
        warnings.simplefilter("ignore")
        return ENVIRONMENT.from_string(template)


def render(template, variables):
    """The text, or None where Python refuses the template or fails to render it, and the reason."""
    try:
        # A copy, since jinja2's `indent` changes a list that it is wrongly given.
        return compiled(template).render(**copy.deepcopy(variables)), ""
    except Exception as problem:
        return None, f"{type(problem).__name__}: {problem}"


def chat_variables(messages, tools=None, extra=None, add_generation_prompt=False):
    """What Transformers' apply_chat_template makes of its arguments."""
    chat = []
    for message in messages:
        message = {key: value for key, value in message.items() if value is not None}
        names = ("reasoning_content", "thinking", "reasoning")
        reasoning = next((message[name] for name in names if name in message), None)
        if reasoning is not None:
            message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
        chat.append(message)
    return {
        "documents": None,
        **(extra or {}),
        "messages": chat,
        "tools": tools,
        "add_generation_prompt": add_generation_prompt,
    }
