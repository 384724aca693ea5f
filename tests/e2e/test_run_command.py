"""`kaiju run` as a person uses it: one prompt, standard input, and a chat on a terminal."""

import re
import signal
import subprocess

import pexpect
import pytest

from cluster import KAIJU, MINI, PATIENCE

QUESTION = "Write a Python function that reverses a string."
GREEDY = ["--temperature", "0", "--max-tokens", "48"]
STATISTICS = r"\[\d+ prompt tokens, first token after \d+\.\d+ s, \d+ tokens at \d+\.\d tokens/s(, \w[\w ]*)?\]"


def run(*arguments, code=0, input=""):
    done = subprocess.run([KAIJU, "run", MINI, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE,
                          input=input)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def answer():
    done = run("-p", QUESTION, *GREEDY)
    assert "def " in done.stdout
    return done.stdout


@pytest.fixture
def terminal():
    """Starts `kaiju run` on a pseudo-terminal."""
    started = []

    def start(*arguments):
        child = pexpect.spawn(str(KAIJU), ["run", str(MINI), *map(str, arguments)], timeout=PATIENCE, encoding="utf-8",
                              echo=False, dimensions=(24, 200))
        started.append(child)
        child.expect("> ")
        return child

    yield start
    for child in started:
        child.close(force=True)


def ends(child, code=0):
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, child.signalstatus) == (code, None)


def test_prompt_option(answer):
    done = run("-p", QUESTION, *GREEDY)
    assert done.stdout == answer
    assert re.fullmatch(STATISTICS + "\n", done.stderr)


def test_quiet(answer):
    done = run("-p", QUESTION, *GREEDY, "--quiet")
    assert (done.stdout, done.stderr) == (answer, "")


def test_standard_input(answer):
    assert run(*GREEDY, input=QUESTION).stdout == answer


def test_over_nodes(cluster, answer):
    nodes = ",".join(node.address for node in cluster.nodes(2))
    assert run("-p", QUESTION, *GREEDY, "--nodes", nodes).stdout == answer


def test_seed():
    options = ["-p", QUESTION, "--temperature", 1.5, "--max-tokens", 16]
    sampled = [run(*options, "--seed", seed).stdout for seed in (1, 1, 2)]
    assert sampled[0] == sampled[1] != sampled[2]


def test_raw_completes_the_prompt_itself(cluster):
    prompt = "def add(a, b):"
    raw = run("-p", prompt, "--raw", *GREEDY).stdout
    lead = cluster.lead([]).wait_ready()
    completed = lead.complete(prompt, ignore_eos=False, temperature=0, max_tokens=48)
    assert completed.strip() and raw.rstrip("\n") == completed.rstrip("\n")
    assert raw != run("-p", prompt, *GREEDY).stdout


def test_system_message(answer):
    done = run("-p", QUESTION, "--system", "Answer in one word.", *GREEDY)
    without = run("-p", QUESTION, *GREEDY)
    count = [int(text.stderr.split()[0].lstrip("[")) for text in (done, without)]
    assert count[0] > count[1]


def test_model_that_is_not_there():
    done = subprocess.run([KAIJU, "run", "/nonexistent/model", "-p", "x"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "/nonexistent/model" in done.stderr


def test_prompt_longer_than_the_context():
    done = run("-p", "word " * 200, "--ctx", 64, code=1)
    assert "64" in done.stderr


def test_nul_on_standard_input_is_refused():
    done = run(input="a\0b", code=1)
    assert "NUL" in done.stderr


def test_SIGTERM_ends_a_reply():
    child = subprocess.Popen([KAIJU, "run", MINI, "-p", "def ", "--raw", "--temperature", "0"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert child.stdout.read(20)
    child.send_signal(signal.SIGTERM)
    _, log = child.communicate(timeout=5)
    assert child.returncode == 0
    assert b"stopped" in log


def test_terminal_chat(terminal, answer):
    child = terminal(*GREEDY)
    child.sendline(QUESTION)
    child.expect(STATISTICS)
    assert child.before.replace("\r\n", "\n") == answer
    first = int(child.after.split()[0].lstrip("["))
    child.expect("> ")
    child.sendline("")
    child.expect("> ")
    child.sendline("Now with a loop.")
    child.expect(STATISTICS)
    # The conversation so far is part of the second prompt.
    assert int(child.after.split()[0].lstrip("[")) > first + 10
    child.expect("> ")
    child.sendeof()
    ends(child)


@pytest.mark.parametrize("nodes", [0, 2])
def test_terminal_ctrl_c_stops_the_reply_and_then_the_program(cluster, terminal, nodes):
    addresses = [node.address for node in cluster.nodes(nodes)]
    child = terminal("--raw", "--temperature", 0, *(["--nodes", ",".join(addresses)] if addresses else []))
    child.sendline("def ")
    child.expect("self")  # streamed while the reply goes on
    child.sendintr()
    child.expect(STATISTICS)
    assert child.after.endswith(", stopped]")
    child.expect("> ")
    child.sendline("import ")
    child.expect("import")
    child.sendintr()
    child.expect(r", stopped\]")
    child.expect("> ")
    child.sendintr()
    ends(child)


def test_terminal_error_does_not_end_the_chat(terminal):
    child = terminal("--ctx", 64, *GREEDY)
    child.sendline("word " * 100)
    child.expect("kaiju run: .*64")
    child.expect("> ")
    child.sendline("Hi")
    child.expect(STATISTICS)
    child.sendeof()
    ends(child)


def test_terminal_shows_progress_of_every_node(cluster, terminal):
    node = cluster.node()
    child = terminal("--nodes", node.address, "--split", "4,8")
    assert "lead ████████████████████ 4/4" in child.before
    assert f"{node.address} ████████████████████ 8/8" in child.before
    child.sendeof()
    ends(child)


def test_terminal_reply_survives_a_node(cluster, terminal):
    options = ["--raw", "--temperature", 0, "--max-tokens", 100]
    node = cluster.node()
    child = terminal("--nodes", node.address, *options)
    child.sendline("def ")
    child.expect("self")
    streamed = child.before + child.after
    node.kill()
    cluster.restart(node)
    child.expect(STATISTICS)
    assert " 100 tokens" in child.after
    # The terminal shows the log's warning about the node in the midst of the reply.
    text, warnings = re.subn(r"\d\d:\d\d:\d\d warning .*?\r\n", "", streamed + child.before)
    assert warnings == 1
    assert text.replace("\r\n", "\n") == run("-p", "def ", *options).stdout
    child.expect("> ")
    child.sendeof()
    ends(child)
