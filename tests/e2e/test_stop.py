"""SIGTERM and SIGINT end every role in good order (C16)."""

import signal
import threading

import openai
import pytest

from cluster import PATIENCE, RawRequest, eventually

SOON = 5  # seconds within which a process has ended after a signal
PROMPT = "class Queue:"
SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])


@SIGNALS
@pytest.mark.parametrize("count", [0, 2], ids=["alone", "two nodes"])
def test_C16_lead_in_the_middle_of_streams(cluster, solo, number, count):
    nodes = cluster.nodes(count)
    lead = cluster.lead(nodes, "--parallel", 2).wait_ready()
    stream = lead.stream(PROMPT, max_tokens=2000)
    next(stream)
    failures = []

    def whole():
        with pytest.raises(openai.APIStatusError) as failure:
            lead.complete(PROMPT, max_tokens=2000)
        failures.append(failure.value)

    # One runs, one is queued.
    threads = [threading.Thread(target=whole) for _ in range(2)]
    for thread in threads:
        thread.start()
    eventually(lambda: lead.metric("kaiju_requests_total") == 3, "all requests are there")
    assert lead.stop(number, SOON) == 0
    with pytest.raises(openai.APIError) as failure:
        list(stream)
    assert failure.value.code == "stopping"
    for thread in threads:
        thread.join(PATIENCE)
    assert [(error.status_code, error.code) for error in failures] == [(503, "stopping")] * 2
    for node in nodes:
        node.wait_for_line("the lead has gone: .*; waiting for the next one")
    again = cluster.lead(nodes, port=lead.port).wait_ready()
    assert again.complete(PROMPT, max_tokens=8, temperature=0) == solo.complete(PROMPT, max_tokens=8, temperature=0)


@SIGNALS
@pytest.mark.parametrize("which", [0, 1], ids=["first node", "last node"])
def test_C16_node_in_the_middle_of_a_stream(cluster, solo, number, which):
    nodes = cluster.nodes(2)
    lead = cluster.lead(nodes, "--recovery-timeout", 0.5).wait_ready()
    stream = lead.stream(PROMPT, max_tokens=2000)
    next(stream)
    assert nodes[which].stop(number, SOON) == 0
    with pytest.raises(openai.APIError) as failure:
        list(stream)
    assert failure.value.code == "node_unavailable"
    assert nodes[which].address in failure.value.message
    cluster.restart(nodes[which])
    lead.wait_ready()
    assert lead.complete(PROMPT, max_tokens=8, temperature=0) == solo.complete(PROMPT, max_tokens=8, temperature=0)


@SIGNALS
def test_C16_idle_processes(cluster, number):
    nodes = cluster.nodes(2)
    lead = cluster.lead(nodes).wait_ready()
    assert lead.stop(number, SOON) == 0
    for node in nodes:
        assert node.stop(number, SOON) == 0


@SIGNALS
def test_C16_lead_that_still_waits_for_a_node(cluster, number):
    node = cluster.node()
    node.address
    node.kill()
    lead = cluster.lead([node])
    lead.wait_for_line("waiting: ")
    assert lead.stop(number, SOON) == 0


def test_C16_while_recovering(cluster):
    node = cluster.node()
    lead = cluster.lead([node]).wait_ready()
    request = RawRequest(lead, prompt=PROMPT, max_tokens=2000, ignore_eos=True, stream=True)
    request.read_until(b"data: ")
    node.kill()
    lead.wait_state("recovering")
    assert lead.stop(signal.SIGTERM, SOON) == 0
    events = [line for line in request.read_to_end().splitlines() if line.startswith(b"data: ")]
    assert b'"code":"stopping"' in events[-1]
