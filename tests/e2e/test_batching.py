"""Many requests at once: no stage is idle (C13, C14), and nobody sees the others (H1, H11, H17)."""

import contextlib
import json
import random
import threading

import pytest

from cluster import PATIENCE, Cluster, RawRequest, completion, eventually


def prompt(seed, length):
    """Token ids that no other seed's begin with."""
    return random.Random(seed).choices(range(200, 12000), k=length)


@pytest.fixture(scope="module", params=[2, 3], ids=["2 stages", "3 stages"])
def pipeline(request):
    """A lead with nodes, and places for more requests than stages."""
    with Cluster() as owned:
        options = ["--parallel", 6, "--chunk", 64, "--queue", 64, "--draft", 0]
        lead = owned.lead(owned.nodes(request.param - 1), *options).wait_ready()
        lead.stages = request.param
        yield lead


def in_threads(*calls):
    """What each call gives, all of them made at once; the first failure is raised."""
    results = [None] * len(calls)

    def run(i):
        try:
            results[i] = calls[i]()
        except BaseException as failure:
            results[i] = failure

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a request hangs"
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def idle(lead):
    eventually(lambda: lead.metric("kaiju_requests_running") + lead.metric("kaiju_requests_waiting") == 0,
               "nothing runs")
    metrics = lead.metrics()
    assert metrics["kaiju_kv_blocks_used"] == 0
    assert metrics["kaiju_micro_batches_in_flight"] == 0
    return metrics


def grown(after, before, name):
    return after[name] - before[name]


def test_C13_as_many_streams_as_stages_overlap(pipeline):
    """Counted while all streams decode: most steps begin while another one is still on its way."""
    idle(pipeline)
    streams = [RawRequest(pipeline, prompt=prompt(f"C13 {i}", 40), max_tokens=1500, ignore_eos=True, temperature=0,
                          stream=True) for i in range(pipeline.stages)]
    for stream in streams:
        stream.read_until(b'"text"')
    before = pipeline.metrics()
    eventually(lambda: grown(pipeline.metrics(), before, "kaiju_steps_total") >= 200, "the streams decode")
    after = pipeline.metrics()
    assert after["kaiju_requests_running"] == pipeline.stages
    overlapped = grown(after, before, "kaiju_steps_overlapped_total")
    assert overlapped > grown(after, before, "kaiju_steps_total") / 2
    for stream in streams:
        stream.drop()
    idle(pipeline)


def test_C14_chunks_of_one_prompt_overlap(pipeline):
    before = idle(pipeline)
    text = pipeline.complete(prompt("C14", 2000), max_tokens=1, temperature=0)
    after = idle(pipeline)
    steps = grown(after, before, "kaiju_steps_total")
    assert steps >= 2000 / 64
    # All but the first chunk set out while the one before it is still in the pipeline.
    assert grown(after, before, "kaiju_steps_overlapped_total") >= steps - 3
    assert pipeline.complete(prompt("C14", 2000), max_tokens=1, temperature=0) == text


SAMPLED = {"greedy": {"temperature": 0}, "seeded": {"temperature": 0.9, "top_p": 0.9, "seed": 11}}


def answer(lead, cached=True, **fields):
    """Text and log-probabilities of the request that H11 repeats."""
    request = completion("class Account:\n    def __init__(self, owner, balance):\n" + "        # the owner\n" * 24,
                         max_tokens=24, logprobs=3, **fields)
    request["extra_body"]["cache_prompt"] = cached
    with lead.client() as client:
        given = client.completions.create(**request)
    assert cached or given.usage.prompt_tokens_details.cached_tokens == 0
    choice = given.choices[0]
    return choice.text, choice.logprobs.tokens, choice.logprobs.token_logprobs, choice.logprobs.top_logprobs


@pytest.mark.parametrize("sampling", SAMPLED)
def test_H11_the_same_request_twenty_times(pipeline, solo, sampling):
    fields = SAMPLED[sampling]
    expected = answer(solo, cached=False, **fields)
    answers = [answer(pipeline, cached=i >= 2, **fields) for i in range(6)]  # two cold, then behind their own prefix
    others = [lambda i=i: pipeline.complete(prompt(f"H11 {sampling} {i}", 30 + 97 * i), max_tokens=40) for i in range(4)]
    answers += in_threads(*[lambda i=i: answer(pipeline, cached=i % 3 > 0, **fields) for i in range(14)], *others)[:14]
    assert len(answers) == 20
    assert all(each == expected for each in answers)


def test_H1_H17_some_leave_and_the_others_are_served(pipeline, solo):
    """Streamed and unstreamed clients together, more than there are places; every third one leaves at some moment."""
    kinds = [dict(prompt=prompt(f"H17 {i}", 20 + 61 * i), max_tokens=20 + i, temperature=0) for i in range(6)]
    expected = [solo.complete(**fields) for fields in kinds]
    before = idle(pipeline)
    leavers = 6

    def leave(i):
        """In the prompt, in the answer, or in the queue, whatever it has come to."""
        request = RawRequest(pipeline, prompt=prompt(f"leaves {i}", 1500), max_tokens=1500, ignore_eos=True,
                             temperature=0, stream=i % 2 == 0)
        grace = random.Random(i).choice([0, 8, 40])
        eventually(lambda: grown(pipeline.metrics(), before, "kaiju_completion_tokens_total") >= grace, "others go on")
        request.drop()

    calls = [lambda fields=fields: pipeline.complete(**fields) for fields in kinds]
    calls += [lambda fields=fields: "".join(pipeline.stream(**fields)) for fields in kinds]
    answers = in_threads(*calls, *[lambda i=i: leave(i) for i in range(leavers)])
    assert answers[:12] == expected * 2
    after = idle(pipeline)
    assert grown(after, before, "kaiju_requests_finished_total") == 12
    assert grown(after, before, "kaiju_requests_failed_total") == 0
    # One that leaves before its request has been read is no request.
    assert grown(after, before, "kaiju_requests_cancelled_total") <= leavers
    assert grown(after, before, "kaiju_prompt_tokens_total") < 12 * 350 + leavers * 1500


def test_H17_a_full_queue_refuses_and_a_place_that_is_left_is_taken(cluster, solo):
    lead = cluster.lead(cluster.nodes(1), "--parallel", 2, "--queue", 2, "--draft", 0).wait_ready()
    expected = solo.complete("import sys", max_tokens=6, temperature=0)
    long = dict(max_tokens=3000, ignore_eos=True, temperature=0)
    with contextlib.ExitStack() as left:
        running = [RawRequest(lead, prompt=f"def f{i}(", stream=True, **long) for i in range(2)]
        eventually(lambda: lead.metric("kaiju_requests_running") == 2, "two run")
        queued = [RawRequest(lead, prompt=f"def g{i}(", stream=i == 0, **long) for i in range(2)]
        for request in running + queued:
            left.callback(request.drop)
        eventually(lambda: lead.metric("kaiju_requests_waiting") == 2, "two wait")
        for stream in (False, True):
            refused = RawRequest(lead, prompt="import sys", stream=stream)
            head = refused.read_until(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 429 ")
            assert b"\r\nRetry-After: " in head
            refused.drop()
        before = lead.metrics()
        assert before["kaiju_requests_waiting"] == before["kaiju_requests_running"] == 2
        queued[0].drop()
        eventually(lambda: lead.metric("kaiju_requests_waiting") == 1, "one has left the queue")
        request = RawRequest(lead, prompt="import sys", max_tokens=6, temperature=0, ignore_eos=True)
        eventually(lambda: lead.metric("kaiju_requests_waiting") == 2, "another one has its place")
        running[0].drop()
        queued[1].drop()
        body = request.read_until(b'"usage"')
        assert json.dumps(expected).encode()[1:-1] in body
        assert lead.metric("kaiju_requests_running") >= 1
        assert lead.metric("kaiju_requests_failed_total") == 0
    idle(lead)
