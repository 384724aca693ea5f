"""A server whose model says recorded replies: kaiju-scripted, the program with a double of its sampler.

    lead = scripted.lead(cluster, tmp_path, [{"when": "weather", "say": scripted.call("look_up", town="Bern")},
                                             {"when": "It rains.", "say": "Take an umbrella."}]).wait_ready()
    lead.prompts()  # what the model was asked so far

Rules are those of tests/scripted/script.h; the first that holds counts, so later turns of a conversation, which have the
earlier ones in their prompt, come first (or have an "unless"). The checkpoint is a tiny synthetic one with the tokenizer of
kaiju-mini and a context of 65536: it reads 16,000 tokens of a coding agent's instructions in a fraction of a second.
"""

import json
import subprocess

from cluster import BUILD, KAIJU, MINI, ROOT, Lead

PROGRAM = BUILD / "tests" / "kaiju-scripted"
TEMPLATES = ROOT / "tests" / "scripted"  # xml.jinja writes calls as Qwen3-Coder does, json.jinja as Qwen3 does
CONFIG = {
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 64, "intermediate_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 32, "vocab_size": 12288,
    "max_position_embeddings": 65536, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": True,
    "eos_token_id": 12264, "hidden_act": "silu",
}


def model(directory, template="xml"):
    """A checkpoint in `directory` whose template writes tool calls as "xml" or "json"."""
    config = directory.with_name(directory.name + "-config.json")
    config.write_text(json.dumps(CONFIG))
    subprocess.run([KAIJU, "synth", "--config", config, directory, "--tokenizer", MINI], check=True,
                   stdout=subprocess.DEVNULL)
    (directory / "chat_template.jinja").write_text((TEMPLATES / f"{template}.jinja").read_text())
    return directory


def call(name, /, *, form="xml", **arguments):
    """What a model writes to call a tool."""
    if form == "json":
        return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"
    parameters = "".join(f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
                         for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


class ScriptedLead(Lead):
    def __init__(self, directory, rules, template, otherwise, options):
        self.prompt_log = directory / "prompts.jsonl"
        self.prompt_log.touch()
        checkpoint = model(directory / "scripted", template)
        script = directory / "script.json"
        script.write_text(json.dumps({"tokenizer": str(checkpoint), "log": str(self.prompt_log), "rules": rules,
                                      **({} if otherwise is None else {"otherwise": otherwise})}))
        super().__init__([], checkpoint, 0, options, program=PROGRAM, environment={"KAIJU_SCRIPT": str(script)})

    def prompts(self):
        """[(index of the rule that held, or -1, prompt)…], the oldest first."""
        lines = [json.loads(line) for line in self.prompt_log.read_text().splitlines()]
        return [(line["rule"], line["prompt"]) for line in lines]


def lead(cluster, directory, rules, *options, template="xml", otherwise=None):
    """`directory` gets the checkpoint, the script and the log of prompts."""
    directory.mkdir(exist_ok=True)
    started = ScriptedLead(directory, rules, template, otherwise, options)
    cluster.processes.append(started)
    return started
