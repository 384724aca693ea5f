"""Clients that leave: their work ends on all stages, nobody else's does (H1)."""

import threading

import pytest

from cluster import PATIENCE, RawRequest, eventually

OTHER = {"max_tokens": 60, "temperature": 0.8, "seed": 3}
LENGTH = 3000  # tokens of the prompt that is left in the middle; --chunk 8 makes 375 steps of it


@pytest.fixture(scope="module")
def expected(solo):
    return solo.complete("def main():", **OTHER)


class Bystander:
    """Another client's stream beside the one that leaves."""

    def __init__(self, lead):
        self.text = ""
        self.begun = threading.Event()
        self.thread = threading.Thread(target=self._read, args=(lead.stream("def main():", **OTHER),))
        self.thread.start()

    def _read(self, stream):
        for piece in stream:
            self.text += piece
            self.begun.set()

    def finish(self):
        self.thread.join(PATIENCE)
        return self.text


def after_cancel(lead, before):
    """The metrics once a request more than before has been cancelled."""
    eventually(lambda: lead.metric("kaiju_requests_cancelled_total") == before["kaiju_requests_cancelled_total"] + 1,
               "the request is cancelled")
    return lead.metrics()


def nothing_left(lead):
    eventually(lambda: lead.metric("kaiju_requests_running") == 0, "nothing runs")
    metrics = lead.metrics()
    assert metrics["kaiju_requests_waiting"] == 0
    assert metrics["kaiju_kv_blocks_used"] == 0
    return metrics


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_H1_client_leaves_in_a_prefill(trio, expected, stream):
    before = trio.metrics()
    bystander = Bystander(trio)
    request = RawRequest(trio, prompt=[100 + i % 1000 for i in range(LENGTH)], max_tokens=5, stream=stream)
    eventually(lambda: trio.metric("kaiju_prompt_tokens_total") > before["kaiju_prompt_tokens_total"] + 64,
               "the prefill has begun")
    request.drop()
    metrics = after_cancel(trio, before)
    assert metrics["kaiju_prompt_tokens_total"] - before["kaiju_prompt_tokens_total"] < LENGTH
    assert bystander.finish() == expected
    metrics = nothing_left(trio)
    assert metrics["kaiju_prompt_tokens_total"] - before["kaiju_prompt_tokens_total"] < LENGTH
    assert metrics["kaiju_requests_finished_total"] == before["kaiju_requests_finished_total"] + 1
    assert metrics["kaiju_http_clients_left_total"] == before["kaiju_http_clients_left_total"] + 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_H1_client_leaves_in_decode(trio, expected, stream):
    before = trio.metrics()
    bystander = Bystander(trio)
    request = RawRequest(trio, prompt="import os", max_tokens=2000, ignore_eos=True, stream=stream)
    eventually(lambda: trio.metric("kaiju_requests_running") == 2, "both run")
    if stream:
        request.read_until(b'"text"')
    request.drop()
    after_cancel(trio, before)
    assert bystander.finish() == expected
    metrics = nothing_left(trio)
    assert metrics["kaiju_requests_finished_total"] == before["kaiju_requests_finished_total"] + 1
    assert metrics["kaiju_completion_tokens_total"] - before["kaiju_completion_tokens_total"] < 2000


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_H1_client_leaves_the_queue(cluster, expected, stream):
    lead = cluster.lead(cluster.nodes(1), "--parallel", 1).wait_ready()
    bystander = Bystander(lead)
    eventually(lambda: lead.metric("kaiju_requests_running") == 1, "the other one runs")
    before = lead.metrics()
    request = RawRequest(lead, prompt=[100 + i % 1000 for i in range(LENGTH)], max_tokens=2000, stream=stream)
    eventually(lambda: lead.metric("kaiju_requests_waiting") == 1, "the request waits")
    request.drop()
    metrics = after_cancel(lead, before)
    assert metrics["kaiju_requests_running"] == 1
    assert bystander.finish() == expected
    metrics = nothing_left(lead)
    assert metrics["kaiju_prompt_tokens_total"] < LENGTH
    assert metrics["kaiju_completion_tokens_total"] == OTHER["max_tokens"]


def test_H1_client_leaves_while_a_node_is_away(cluster, expected):
    node = cluster.node()
    lead = cluster.lead([node], "--parallel", 2).wait_ready()
    bystander = Bystander(lead)
    request = RawRequest(lead, prompt="import os", max_tokens=2000, ignore_eos=True, stream=True)
    request.read_until(b'"text"')
    assert bystander.begun.wait(PATIENCE)
    node.kill()
    lead.wait_state("recovering")
    before = lead.metrics()
    request.drop()
    after_cancel(lead, before)
    cluster.restart(node)
    assert bystander.finish() == expected
    nothing_left(lead)
