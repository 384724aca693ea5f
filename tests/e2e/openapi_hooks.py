"""What schemathesis does beside its own checks (SCHEMATHESIS_HOOKS): requests are kept short, and every event of a stream is
checked against the schema that the description (KAIJU_OPENAPI) gives for it under x-event-data. What was answered is written to
KAIJU_OPENAPI_ANSWERS."""

import functools
import itertools
import json
import os
import pathlib

import jsonschema
import schemathesis

MOST_TOKENS, MOST_CHOICES = 3, 2
LENGTHS = {  # the field that bounds an answer, and whether it may be left out
    "/v1/chat/completions": ("max_completion_tokens", True),
    "/v1/completions": ("max_tokens", True),
    "/v1/responses": ("max_output_tokens", True),
    "/v1/messages": ("max_tokens", False),
}


# What types alone do not make right: half of the requests that are to be taken go without.
MEANINGFUL = ("grammar", "json_schema", "response_format", "tool_choice", "continue_final_message", "suffix", "logit_bias", "text",
              "previous_response_id", "output_config", "output_format", "best_of", "chat_template_kwargs")
responses = []  # ids of those that the server keeps
calls = itertools.count()


def whole(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def shorten(path, body):
    """Where an answer could be long it is made short; what is wrong in a request stays wrong."""
    name, may_be_absent = LENGTHS[path]
    for field in {name, "max_tokens"}:
        if whole(body.get(field)) and MOST_TOKENS < body[field] <= 2**32 - 1:
            body[field] = MOST_TOKENS
    if may_be_absent and body.get(name) is None:
        body[name] = MOST_TOKENS
    if whole(body.get("n")) and MOST_CHOICES < body["n"] <= 128 and body.get("best_of") is None:
        body["n"] = MOST_CHOICES


@schemathesis.hook
def before_call(context, case, kwargs):
    path, body = case.operation.path, case.body
    right = not case.meta or case.meta.generation.mode.is_positive
    number = next(calls)
    simplify = right and number % 2 == 0
    if simplify and path.startswith("/v1/responses/{id}") and responses and case.method != "DELETE":
        case.path_parameters["id"] = responses[-1]
    if not isinstance(body, dict):
        return
    if simplify:
        for name in MEANINGFUL:
            body.pop(name, None)
        if path in LENGTHS and number % 4 == 0:
            body["stream"] = True
    if path in LENGTHS:
        shorten(path, body)


@schemathesis.hook
def after_call(context, case, response):
    if case.operation.path == "/v1/responses" and response.status_code == 200 and "json" in response.headers["content-type"][0]:
        if response.json()["store"]:
            responses.append(response.json()["id"])


@functools.cache
def event_validator(path):
    description = json.loads(pathlib.Path(os.environ["KAIJU_OPENAPI"]).read_text())
    content = description["paths"][path]["post"]["responses"]["200"]["content"]["text/event-stream"]
    return jsonschema.Draft202012Validator({**content["x-event-data"], "components": description["components"]})


@schemathesis.check
def events_conform(context, response, case):
    kind = response.headers.get("content-type", [""])[0].split(";")[0]
    with open(os.environ["KAIJU_OPENAPI_ANSWERS"], "a") as answers:
        print(json.dumps([case.operation.method.upper(), case.operation.path, response.status_code, kind]), file=answers)
    if kind != "text/event-stream":
        return
    events = [event for event in response.text.split("\n\n") if event and not event.startswith(":")]
    data = []
    for event in events:
        lines = dict(line.split(": ", 1) for line in event.split("\n"))
        if lines["data"] == "[DONE]":
            continue
        data.append(json.loads(lines["data"]))
        event_validator(case.operation.path).validate(data[-1])
        assert lines.get("event", data[-1].get("type")) == data[-1].get("type")
    assert data, "a stream without events"
    assert response.text.endswith("\n\n")
    if case.operation.path in ("/v1/chat/completions", "/v1/completions"):
        assert events[-1] == "data: [DONE]", events[-1]
    else:
        assert data[-1]["type"] in ("response.completed", "response.incomplete", "message_stop"), data[-1]
