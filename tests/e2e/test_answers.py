"""What a cluster answers over the OpenAI SDK: the same as one process, whatever the split (C1, C10, C11, H8)."""

import subprocess
import threading
import time

import openai
import pytest

from cluster import KAIJU, MINI, Cluster, completion, eventually

QUESTION = [{"role": "user", "content": "Write a Python function that counts the vowels of a string."}]
SAMPLING = {"greedy": {"temperature": 0}, "seeded": {"temperature": 0.9, "top_p": 0.95, "seed": 20261129}}


def ask(lead, stream, **fields):
    """The text of the answer to QUESTION, and its usage."""
    client = lead.client()
    fields = {"model": MINI.name, "messages": QUESTION, "max_tokens": 48, **fields}
    if not stream:
        answer = client.chat.completions.create(**fields)
        return answer.choices[0].message.content, answer.usage
    text, usage, reasons = "", None, []
    for chunk in client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **fields):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reasons.append(choice.finish_reason)
    assert reasons[-1] in ("stop", "length") and not any(reasons[:-1])
    return text, usage


def run_command(sampling, *options):
    flags = [part for name, value in sampling.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    done = subprocess.run(
        [KAIJU, "run", MINI, "-p", QUESTION[0]["content"], "--max-tokens", "48", *flags, *options],
        capture_output=True, text=True, timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.removesuffix("\n")


@pytest.fixture(scope="module")
def expected():
    """What one process without any network answers."""
    answers = {name: run_command(sampling) for name, sampling in SAMPLING.items()}
    assert len(set(answers.values())) == len(SAMPLING)
    assert all(len(answer) > 40 for answer in answers.values())
    return answers


@pytest.fixture(scope="module", params=[0, 1, 2, 3])
def any_cluster(request):
    with Cluster() as owned:
        lead = owned.lead(owned.nodes(request.param), "--chunk", 7).wait_ready()
        lead.node_count = request.param
        yield lead


@pytest.mark.parametrize("sampling", SAMPLING)
def test_C1_sdk_gives_the_same_text_over_any_number_of_nodes(any_cluster, expected, sampling):
    streamed, streamed_usage = ask(any_cluster, True, **SAMPLING[sampling])
    whole, usage = ask(any_cluster, False, **SAMPLING[sampling])
    assert streamed == whole == expected[sampling]
    for count in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert getattr(streamed_usage, count) == getattr(usage, count)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_C1_every_layer_is_on_one_node(any_cluster):
    layers = [value for name, value in any_cluster.metrics().items() if name.startswith("kaiju_node_layers{")]
    assert len(layers) == any_cluster.node_count + 1
    assert sum(layers) == 12


@pytest.mark.parametrize("sampling", SAMPLING)
def test_C1_run_command_over_nodes_gives_the_same_text(cluster, expected, sampling):
    nodes = ",".join(node.address for node in cluster.nodes(2))
    assert run_command(SAMPLING[sampling], "--nodes", nodes, "--split", "1,7,4") == expected[sampling]


def test_one_cluster_after_the_other_on_the_same_nodes(cluster, solo):
    """A node takes another split from the next lead without being restarted."""
    nodes = cluster.nodes(2)
    text = solo.complete("class Stack", max_tokens=12, temperature=0)
    for split in ("4,4,4", "10,1,1", "1,2,9"):
        lead = cluster.lead(nodes, "--split", split).wait_ready()
        assert lead.complete("class Stack", max_tokens=12, temperature=0) == text
        assert lead.stop() == 0


def test_sdk_lists_the_model(trio):
    (model,) = trio.client().models.list().data
    assert model.id == MINI.name


@pytest.mark.parametrize("stream", [False, True])
def test_H8_prompt_around_the_context(cluster, stream):
    context = 192
    lead = cluster.lead(cluster.nodes(2), "--ctx", context, "--chunk", 64).wait_ready()

    def complete(length):
        answer = lead.client().completions.create(
            **completion([100 + i % 1000 for i in range(length)], max_tokens=5, temperature=0, stream=stream))
        chunks = list(answer) if stream else [answer]
        return chunks[-1].choices[0].finish_reason

    assert complete(context - 1) == "length"
    for length in (context, context + 1):
        with pytest.raises(openai.BadRequestError) as refused:
            complete(length)
        assert refused.value.code == "context_length_exceeded"
        assert str(context) in refused.value.message and str(length) in refused.value.message
    assert complete(context - 1) == "length"


@pytest.mark.parametrize("room", [["--parallel", 2], ["--parallel", 4, "--kv-tokens", 320]], ids=["places", "KV pool"])
def test_C10_chats_that_grow_past_the_kv_pool(cluster, room):
    """Four clients share room for less; each chat grows until it can never fit, and is then refused before a header."""
    lead = cluster.lead(cluster.nodes(1), "--ctx", 256, "--chunk", 64, *room).wait_ready()
    turns, failures = [], []

    def chat(number):
        client = lead.client()
        messages, count = [], 0
        try:
            while True:
                messages.append({"role": "user", "content": f"Client {number}: sort the list of numbers, part {count}."})
                stream = client.chat.completions.create(
                    model=MINI.name, messages=messages, max_tokens=24, temperature=0, stream=True,
                    extra_body={"ignore_eos": True})
                reply = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
                messages.append({"role": "assistant", "content": reply})
                count += 1
        except openai.BadRequestError as refused:
            turns.append((count, refused.code))
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=chat, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    waited = 0
    while any(thread.is_alive() for thread in threads):
        waited = max(waited, lead.metric("kaiju_requests_waiting"))
        assert lead.metric("kaiju_requests_running") <= room[1]
    assert not failures
    assert len(turns) == 4
    assert all(count >= 2 and code == "context_length_exceeded" for count, code in turns)
    assert waited > 0
    metrics = lead.metrics()
    assert metrics["kaiju_kv_blocks_used"] == 0
    assert metrics["kaiju_requests_failed_total"] == 0
    assert metrics["kaiju_requests_finished_total"] == sum(count for count, _ in turns)
    assert lead.health() == 200


def test_C11_no_weights_on_the_wire(cluster, mini_weights):
    """Counted by relays through which all connections of the cluster go, and by the links themselves."""
    relays = [cluster.relay(node) for node in cluster.nodes(2)]
    lead = cluster.lead([relay.address for relay in relays], "--split", "2,5,5").wait_ready()
    carried = sum(relay.bytes for relay in relays)
    assert 0 < carried < mini_weights / 500
    counted = sum(value for name, value in lead.metrics().items()
                  if name.startswith(("kaiju_node_sent_bytes_total", "kaiju_node_received_bytes_total")))
    assert 0 < counted < mini_weights / 500


def test_C5_idle_cluster_uses_no_cpu(cluster):
    nodes = cluster.nodes(2)
    lead = cluster.lead(nodes).wait_ready()
    lead.complete("def ", max_tokens=4, temperature=0)
    processes = [lead, *nodes]
    eventually(lambda: lead.metric("kaiju_requests_running") == 0, "the lead is idle")
    begin, before = time.monotonic(), [process.cpu_seconds() for process in processes]
    time.sleep(5)  # the span that is measured
    used = [process.cpu_seconds() - seconds for process, seconds in zip(processes, before)]
    share = [seconds / (time.monotonic() - begin) for seconds in used]
    assert max(share) < 0.02, share
