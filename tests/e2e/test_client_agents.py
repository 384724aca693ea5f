"""Coding agents at work: the model says a call, the agent obeys, and what came of it is in its next request.

Each agent is asked for a greeting in a file. It is told to write the file, then to count its bytes in a shell, and has the
last word then. An agent's home, its working directory and its settings are its own, and what it would fetch from
elsewhere it does not get.
"""

import json
import subprocess

import pytest

import npm_clients
import scripted
from cluster import Cluster, PATIENCE

GREETING = "Hello, Kaiju!"
LAST_WORD = "All done, 14 bytes."
COUNT = "echo counted $(wc -c < {file})"
BLOCK = 64  # positions of a KV block: what is cached is whole blocks


class Agent:
    """What differs between agents: the names of their tools, and how they are started. Its name is that of the file that
    it writes."""

    def __init__(self, name, write, shell, start):
        self.name, self.start = name, start
        self.file = f"{name}.txt"
        self.question = f"Write a greeting to {self.file}, please."
        self.write, self.shell = write, shell

    def rules(self, workplace):
        """The last request first, since it has the earlier ones in it. Besides, agents ask for titles and the like."""
        asked = {"when": [self.question], "within": 4000}
        count = COUNT.format(file=self.file)
        return [
            {"when": [self.question, "counted 14"], "say": LAST_WORD},
            {"when": [self.question, "<tool_response>"], "within": 4000, "say": "Now I count. " + self.shell(count)},
            {**asked, "unless": ["title generator"], "say": "I write it. " + self.write(workplace / self.file, GREETING + "\n")},
        ]


def qwen_code(url, workplace, home, question):
    (home / ".qwen").mkdir()
    (home / ".qwen" / "settings.json").write_text(json.dumps({
        "general": {"enableAutoUpdate": False}, "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False}, "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False}}))
    command = [npm_clients.COMMANDS / "qwen", "--auth-type", "openai", "--approval-mode", "yolo", question]
    return command, {"OPENAI_BASE_URL": url + "/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "m"}


def opencode(url, workplace, home, question):
    (workplace / "opencode.json").write_text(json.dumps({
        "$schema": "https://opencode.ai/config.json", "autoupdate": False, "share": "disabled", "permission": {"*": "allow"},
        "model": "kaiju/m", "small_model": "kaiju/m",
        "provider": {"kaiju": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": url + "/v1", "apiKey": "none"},
                               "models": {"m": {"limit": {"context": 65536, "output": 4096}}}}}}))
    switches = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return ([npm_clients.COMMANDS / "opencode", "run", question],
            {**{f"OPENCODE_DISABLE_{switch}": "1" for switch in switches}, "npm_config_offline": "true"})


AGENTS = [
    Agent("qwen-code", lambda file, text: scripted.call("write_file", file_path=str(file), content=text),
          lambda command: scripted.call("run_shell_command", command=command, description="Counts."), qwen_code),
    Agent("opencode", lambda file, text: scripted.call("write", filePath=str(file), content=text),
          lambda command: scripted.call("bash", command=command, description="Counts."), opencode),
]


@pytest.fixture(scope="module")
def workplaces(tmp_path_factory):
    return {agent.name: tmp_path_factory.mktemp("work") for agent in AGENTS}


@pytest.fixture(scope="module")
def lead(workplaces, tmp_path_factory):
    rules = [rule for agent in AGENTS for rule in agent.rules(workplaces[agent.name])]
    with Cluster() as cluster:
        yield scripted.lead(cluster, tmp_path_factory.mktemp("lead"), rules).wait_ready()


@pytest.mark.parametrize("agent", [
    pytest.param(agent, id=agent.name, marks=[pytest.mark.client(agent.name, feature)
                                              for feature in ("chat", "stream", "tools")])
    for agent in AGENTS])
def test_t7_an_agent_writes_a_file_runs_a_command_and_answers(agent, lead, workplaces, tmp_path):
    workplace = workplaces[agent.name]
    before = lead.metrics()
    command, environment = agent.start(lead.url, workplace, tmp_path, agent.question)
    done = subprocess.run(command, cwd=workplace, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3 * PATIENCE,
                          env={**npm_clients.environment(tmp_path), **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    assert LAST_WORD in done.stdout
    assert (workplace / agent.file).read_text() == GREETING + "\n"

    first = AGENTS.index(agent) * 3
    turns = [(rule - first, prompt) for rule, prompt in lead.prompts() if first <= rule < first + 3]
    assert [rule for rule, _ in turns] == [2, 1, 0]
    for (_, prompt), (_, following) in zip(turns, turns[1:]):
        assert following.count("<tool_response>") == prompt.count("<tool_response>") + 1
    assert "counted 14" in turns[2][1].rpartition("<tool_response>")[2]

    # Each request begins with the one before it: only what is new is computed.
    after = lead.metrics()
    computed, cached = (after[name] - before[name] for name in
                        ("kaiju_prompt_tokens_total", "kaiju_cached_prompt_tokens_total"))
    assert cached > 0.6 * (computed + cached)
