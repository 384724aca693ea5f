"""Nodes and leads that die, hang up or fall silent, and come back (C4, C5, C7)."""

import ctypes
import os
import threading

import openai
import pytest

from cluster import PATIENCE, completion, eventually

PROMPT = "class Queue:"
LONG = {"max_tokens": 120, "temperature": 0.8, "seed": 5}


@pytest.fixture(scope="module")
def expected(solo):
    return solo.complete(PROMPT, **LONG)


def read_some(stream, pieces=8):
    return "".join(next(stream) for _ in range(pieces))


@pytest.mark.parametrize("victim", [0, 1], ids=["first node", "last node"])
def test_C4_stream_goes_on_with_the_same_tokens(cluster, expected, victim):
    nodes = cluster.nodes(2)
    lead = cluster.lead(nodes, "--parallel", 2).wait_ready()
    stream = lead.stream(PROMPT, **LONG)
    text = read_some(stream)
    nodes[victim].kill()
    lead.wait_state("recovering")
    status, headers, body = lead.get("/health")
    assert status == 503 and int(headers["Retry-After"]) > 0 and nodes[victim].address in body
    paused = lead.metrics()
    assert paused["kaiju_requests_running"] + paused["kaiju_requests_waiting"] == 1
    assert paused["kaiju_completion_tokens_total"] < LONG["max_tokens"]
    cluster.restart(nodes[victim])
    text += "".join(stream)
    assert text == expected
    metrics = lead.metrics()
    assert metrics["kaiju_engine_epoch"] > 1
    assert metrics["kaiju_requests_finished_total"] == 1
    assert metrics["kaiju_completion_tokens_total"] == LONG["max_tokens"]
    assert lead.health() == 200


def test_C4_node_dies_twice_under_several_requests(cluster, expected, solo):
    """Streamed, unstreamed and queued requests all come through two deaths of the same node."""
    node = cluster.node()
    lead = cluster.lead([node], "--parallel", 2, "--chunk", 16).wait_ready()
    prompts = [PROMPT, "def parse(", "import os\n"]
    answers = {}
    threads = [threading.Thread(target=lambda p=prompt: answers.update({p: lead.complete(p, **LONG)}))
               for prompt in prompts]
    stream = lead.stream(PROMPT, **LONG)
    text = read_some(stream)
    for thread in threads:
        thread.start()
    eventually(lambda: lead.metric("kaiju_requests_total") == 4, "all requests are there")
    for epoch in (1, 2):
        assert lead.metric("kaiju_engine_epoch") >= epoch
        node.kill()
        lead.wait_state("recovering")
        node = cluster.restart(node)
        lead.wait_ready()
    text += "".join(stream)
    for thread in threads:
        thread.join(PATIENCE)
    assert text == expected
    assert answers == {prompt: solo.complete(prompt, **LONG) for prompt in prompts}
    assert lead.metric("kaiju_requests_finished_total") == 4


def test_C4_node_dies_in_a_prefill(cluster, solo):
    prompt = [100 + i % 1000 for i in range(1200)]
    nodes = cluster.nodes(2)
    lead = cluster.lead(nodes, "--chunk", 8).wait_ready()
    stream = lead.client().completions.create(**completion(prompt, max_tokens=6, temperature=0, stream=True))
    eventually(lambda: lead.metric("kaiju_prompt_tokens_total") > 0, "the prefill has begun")
    nodes[0].kill()
    lead.wait_state("recovering")
    assert lead.metric("kaiju_completion_tokens_total") == 0
    cluster.restart(nodes[0])
    text = "".join(chunk.choices[0].text for chunk in stream)
    assert text == solo.complete(prompt, max_tokens=6, temperature=0)


def test_C4_deadline_bounds_the_wait(cluster, expected):
    node = cluster.node()
    lead = cluster.lead([node], "--recovery-timeout", 0.5, "--parallel", 2).wait_ready()
    whole = {}

    def unstreamed():
        try:
            lead.complete(PROMPT, max_tokens=2000)
        except openai.APIStatusError as error:
            whole.update(status=error.status_code, code=error.code)

    thread = threading.Thread(target=unstreamed)
    thread.start()
    stream = lead.stream(PROMPT, **LONG)
    read_some(stream)
    eventually(lambda: lead.metric("kaiju_requests_running") == 2, "both requests run")
    node.kill()
    with pytest.raises(openai.APIError) as failure:
        list(stream)
    assert failure.value.code == "node_unavailable"
    assert failure.value.body["type"] == "service_unavailable"
    assert "did not recover" in failure.value.message and node.address in failure.value.message
    thread.join(PATIENCE)
    assert whole == {"status": 503, "code": "node_unavailable"}
    assert lead.running() and lead.health() == 503
    metrics = lead.metrics()
    assert metrics["kaiju_requests_failed_total"] == 2
    assert metrics["kaiju_kv_blocks_used"] == 0
    with pytest.raises(openai.APIStatusError) as refused:
        lead.complete(PROMPT, max_tokens=1)
    assert refused.value.status_code == 503 and refused.value.code == "recovering"
    cluster.restart(node)
    lead.wait_ready()
    assert lead.complete(PROMPT, **LONG) == expected


def test_C7_cut_network_is_noticed_within_the_deadline(cluster, expected):
    """All bytes between lead and node stop; no connection is closed, as when a cable is cut."""
    node = cluster.node("--deadline", 1.5)
    relay = cluster.relay(node)
    lead = cluster.lead([relay.address], "--deadline", 1.5).wait_ready()
    stream = lead.stream(PROMPT, **LONG)
    text = read_some(stream)
    relay.cut()
    lead.wait_for_line(f"epoch 1 ended: .*{relay.address}", patience=10)
    assert lead.state() == "recovering"
    node.wait_for_line("the lead has gone: ", patience=10)
    relay.mend()
    text += "".join(stream)
    assert text == expected


def test_C5_killed_node_serves_again_between_requests(cluster, expected):
    nodes = cluster.nodes(2)
    lead = cluster.lead(nodes).wait_ready()
    assert lead.complete(PROMPT, **LONG) == expected
    for victim in (0, 1):
        nodes[victim].kill()
        lead.wait_state("recovering")
        nodes[victim] = cluster.restart(nodes[victim])
        lead.wait_ready()
        assert lead.complete(PROMPT, **LONG) == expected


def test_C5_both_nodes_die_at_once(cluster, expected):
    nodes = cluster.nodes(2)
    lead = cluster.lead(nodes).wait_ready()
    for node in nodes:
        node.popen.kill()
    for node in nodes:
        node.wait()
    lead.wait_state("recovering")
    for node in nodes:
        cluster.restart(node)
    lead.wait_ready()
    assert lead.complete(PROMPT, **LONG) == expected


def test_C5_killed_lead_finds_its_nodes_again(cluster, expected):
    nodes = cluster.nodes(2)
    lead = cluster.lead(nodes).wait_ready()
    stream = lead.stream(PROMPT, **LONG)
    read_some(stream)
    port = lead.port
    lead.kill()
    stream.close()
    lead = cluster.lead(nodes, port=port).wait_ready()
    assert lead.complete(PROMPT, **LONG) == expected
    assert all(node.running() for node in nodes)


def test_C5_twenty_epochs_leave_no_descriptor_or_memory_behind(cluster, solo):
    """Each process dies and is restarted in turn; the ones that live on must not grow."""
    text = solo.complete(PROMPT, max_tokens=4, temperature=0)
    nodes = cluster.nodes(2)
    lead = cluster.lead(nodes).wait_ready()

    def epoch(victim):
        nonlocal lead
        if victim == 2:
            port = lead.port
            lead.kill()
            lead = cluster.lead(nodes, port=port)
        else:
            nodes[victim].kill()
            lead.wait_state("recovering")
            nodes[victim] = cluster.restart(nodes[victim])
        lead.wait_ready()
        assert lead.complete(PROMPT, max_tokens=4, temperature=0) == text

    def watch(survivors, victims):
        epoch(victims[0])
        before = [(process.descriptors(), process.resident_bytes()) for process in survivors]
        for victim in victims[1:]:
            epoch(victim)
        for process, (descriptors, resident) in zip(survivors, before):
            what = f"{process.name} is back at {descriptors} descriptors"
            eventually(lambda: process.descriptors() <= descriptors, what, patience=5)
            assert process.resident_bytes() - resident < 1 << 20, process.name

    watch([lead, nodes[1]], [0] * 7)
    watch([lead, nodes[0]], [1] * 7)
    watch(nodes, [2] * 6)


class HeldThread:
    """Stops one thread of a process, as a debugger does; the others run on."""

    ATTACH, DETACH, WAIT_FOR_ANY_THREAD = 16, 17, 0x40000000

    def __init__(self, thread):
        self.thread = thread

    def _trace(self, request):
        trace = ctypes.CDLL(None, use_errno=True).ptrace
        trace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        assert trace(request, self.thread, None, None) == 0, os.strerror(ctypes.get_errno())

    def __enter__(self):
        self._trace(self.ATTACH)
        _, status = os.waitpid(self.thread, self.WAIT_FOR_ANY_THREAD)
        assert os.WIFSTOPPED(status)

    def __exit__(self, *_):
        self._trace(self.DETACH)


def test_a_node_that_hangs_while_its_links_live_is_noticed(cluster, expected):
    node = cluster.node()
    lead = cluster.lead([node], "--step-timeout", 1, "--parallel", 2).wait_ready()
    stream = lead.stream(PROMPT, **LONG)
    text = read_some(stream)
    with HeldThread(node.popen.pid):
        lead.wait_state("recovering")
        assert "--step-timeout" in lead.get("/health")[2]
    text += "".join(stream)
    assert text == expected
