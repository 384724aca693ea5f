"""What the model says to the clients of the test_client_ files, the same to all of them."""

import json

import scripted

GREETING = "Grüezi 👩\u200d💻, here is Kaiju."
RESULT = "12 degrees"  # what the clients' get_weather answers
ANSWER = "It is 12 degrees in Bern."
TOOL_NAME, TOOL_DESCRIPTION = "get_weather", "The weather of some days."
TOOL_PARAMETERS = {"type": "object", "properties": {"town": {"type": "string"}, "days": {"type": "integer"}},
                   "required": ["town", "days"], "additionalProperties": False}
ASK_WEATHER, ASK_TOWNS = "What is the weather in Bern?", "What is the weather in both towns?"
ASK_PERSON = "Describe Ada."
PERSON = '{"name": "Ada Lovelace", "born": 1815, "fields": ["mathematics", "poetry"]}'
TOO_MUCH = " Is there anything else?"  # what a constraint does not let the model say behind PERSON
ASK_SUM, THOUGHT, SUM = "Think about two and two.", "Two more than two is four.", "Four."
ASK_SLOWLY = "Count slowly."

RULES = [
    {"when": [ASK_WEATHER, RESULT], "say": ANSWER},
    {"when": ASK_WEATHER, "say": "I look it up.\n" + scripted.call(TOOL_NAME, town="Bern", days=2)},
    {"when": [ASK_TOWNS, RESULT], "say": ANSWER},
    {"when": ASK_TOWNS, "say": "\n".join(scripted.call(TOOL_NAME, town=town, days=1) for town in ("Bern", "Zürich"))},
    {"when": [ASK_PERSON, '"name": "Person"'], "say": scripted.call("Person", **json.loads(PERSON))},
    {"when": ASK_PERSON, "say": PERSON + TOO_MUCH},
    {"when": ASK_SUM, "say": f"<think>\n{THOUGHT}\n</think>\n\n{SUM}"},
    {"when": ASK_SLOWLY, "delay_ms": 20, "say": " ".join(str(number) for number in range(500))},
]


def lead(cluster, directory, *options):
    return scripted.lead(cluster, directory, RULES, *options, otherwise=GREETING).wait_ready()
