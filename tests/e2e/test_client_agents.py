"""Coding agents at work: the model says a call, the agent obeys, and what came of it is in its next request.

Each agent is asked for a greeting in a file. It is told to write the file, then to count its bytes in a shell, and has the
last word then. An agent's home, its working directory and its settings are its own, and what it would fetch from
elsewhere it does not get.
"""

import json
import re
import subprocess

import pytest

import npm_clients
import scripted
from cluster import Cluster, PATIENCE

GREETING = "Hello, Kaiju!"
LAST_WORD = "All done, 14 bytes."
COUNT = "echo counted $(wc -c < {file})"
RESULT = "<|im_start|>user\n<tool_response>\n"  # as the template writes what came of a call


class Agent:
    """What differs between agents: how they are started, and how the model calls their tools to write a file and to run
    a command."""

    def __init__(self, name, start, write, shell, *features):
        self.name, self.start, self.write, self.shell = name, start, write, shell
        self.features = ["chat", "stream", "tools", *features]
        self.file = re.sub(r"\W+", "-", name) + ".txt"
        self.question = f"Write a greeting to {self.file}, please."

    def rules(self, workplace):
        """The last request first, since it has the earlier ones in it. Besides, agents ask for titles and the like."""
        return [
            {"when": [self.question, "counted 14"], "say": LAST_WORD},
            {"when": [self.question, RESULT], "say": "Now I count. " + self.shell(COUNT.format(file=self.file))},
            {"when": self.question, "unless": "title generator",
             "say": "I write it. " + self.write(str(workplace / self.file), GREETING + "\n")},
        ]


def qwen_code(url, workplace, home, question):
    (home / ".qwen").mkdir()
    (home / ".qwen" / "settings.json").write_text(json.dumps({
        "general": {"enableAutoUpdate": False}, "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False}, "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False}}))
    return ([npm_clients.COMMANDS / "qwen", "--auth-type", "openai", "--approval-mode", "yolo", question],
            {"OPENAI_BASE_URL": url + "/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "m"})


def opencode(url, workplace, home, question):
    (workplace / "opencode.json").write_text(json.dumps({
        "$schema": "https://opencode.ai/config.json", "autoupdate": False, "share": "disabled", "permission": {"*": "allow"},
        "model": "kaiju/m", "small_model": "kaiju/m",
        "provider": {"kaiju": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": url + "/v1", "apiKey": "none"},
                               "models": {"m": {"limit": {"context": 65536, "output": 4096}}}}}}))
    switches = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return ([npm_clients.COMMANDS / "opencode", "run", question],
            {**{f"OPENCODE_DISABLE_{switch}": "1" for switch in switches}, "npm_config_offline": "true"})


def claude_code(url, workplace, home, question):
    # Without a sandbox, root may not let it work without asking.
    return ([npm_clients.COMMANDS / "claude", "-p", question, "--dangerously-skip-permissions"],
            {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": "none", "ANTHROPIC_MODEL": "m", "IS_SANDBOX": "1",
             "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"})


def codex(url, workplace, home, question):
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(f"""\
model = "m"
model_provider = "kaiju"
model_context_window = 65536
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.kaiju]
name = "Kaiju"
base_url = "{url}/v1"
wire_api = "responses"
""")
    return [npm_clients.COMMANDS / "codex", "exec", "--skip-git-repo-check", question], {}


def tools(write, file, shell):
    """Calls of an agent whose tools are called so: `write` with a parameter `file`, and `shell`."""
    return (lambda path, text: scripted.call(write, **{file: path, "content": text}),
            lambda command: scripted.call(shell, command=command, description="Counts."))


def codex_patch(path, text):
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    patch = f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch"
    return scripted.call("exec_command", cmd=f"apply_patch <<'EOF'\n{patch}\nEOF\n")


AGENTS = [
    Agent("qwen-code", qwen_code, *tools("write_file", "file_path", "run_shell_command")),
    Agent("Claude Code", claude_code, *tools("Write", "file_path", "Bash")),
    Agent("Codex", codex, codex_patch, lambda command: scripted.call("exec_command", cmd=command), "responses"),
    Agent("opencode", opencode, *tools("write", "filePath", "bash")),
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
    pytest.param(agent, id=agent.name, marks=[pytest.mark.client(agent.name, feature) for feature in agent.features])
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
        assert following.count(RESULT) == prompt.count(RESULT) + 1
    assert "counted 14" in turns[2][1].rpartition(RESULT)[2]

    # Each request begins with the one before it: only what is new is computed.
    after = lead.metrics()
    computed, cached = (after[name] - before[name] for name in
                        ("kaiju_prompt_tokens_total", "kaiju_cached_prompt_tokens_total"))
    assert cached > 0.6 * (computed + cached)
