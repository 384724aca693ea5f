"""/metrics and /health of a lead at work: answered whatever it computes (H16), and true about every stage (C12)."""

import openai
import pytest

from cluster import RawRequest, eventually

LONG = [100 + i % 1000 for i in range(3500)]


def stages(metrics, name):
    return [value for key, value in sorted(metrics.items()) if key.startswith(name + "{")]


@pytest.fixture
def slow(cluster):
    """Kernels that need some ten seconds for the long prompt, on one place."""
    return cluster.lead([], "--cpu", "reference", "--threads", 1, "--parallel", 1, "--chunk", 16).wait_ready()


def test_H16_health_and_metrics_answer_during_a_prefill(slow):
    request = RawRequest(slow, prompt=LONG, max_tokens=1, stream=True)
    waiting = RawRequest(slow, prompt=LONG, max_tokens=1)
    eventually(lambda: slow.metric("kaiju_requests_running") == 1 and slow.metric("kaiju_requests_waiting") == 1,
               "one prefills, one waits")
    eventually(lambda: slow.metric("kaiju_prompt_tokens_total") > 0, "the first chunk is through")
    assert slow.health() == 200
    # Comments come after seconds without a token (H9), and in all this time the server answers.
    gathered = request.read_until(b": still working")
    assert b"data:" not in gathered
    assert slow.health() == 200
    metrics = slow.metrics()
    assert metrics["kaiju_time_to_first_token_seconds_count"] == 0
    assert metrics["kaiju_completion_tokens_total"] == 0
    assert 0 < metrics["kaiju_prompt_tokens_total"] < len(LONG)
    request.drop()
    waiting.drop()
    eventually(lambda: slow.metric("kaiju_requests_running") == 0, "the work ends with its clients")
    assert slow.metric("kaiju_requests_cancelled_total") == 2


def test_a_full_queue_is_429_and_counted(cluster):
    lead = cluster.lead([], "--parallel", 1, "--queue", 1).wait_ready()
    streams = [RawRequest(lead, prompt="def f(", max_tokens=4000, ignore_eos=True, stream=True)]
    eventually(lambda: lead.metric("kaiju_requests_running") == 1, "one runs")
    streams.append(RawRequest(lead, prompt="def g(", max_tokens=4000, ignore_eos=True, stream=True))
    eventually(lambda: lead.metric("kaiju_requests_waiting") == 1, "one waits")
    with lead.client() as client, pytest.raises(openai.RateLimitError) as refused:
        client.completions.create(model="m", prompt="def h(", max_tokens=1)
    assert int(refused.value.response.headers["Retry-After"]) >= 1
    assert refused.value.code == "rate_limit_exceeded"
    assert "1" in refused.value.body["message"]
    metrics = lead.metrics()
    assert metrics["kaiju_requests_refused_total"] == 1
    assert metrics["kaiju_requests_waiting_limit"] == 1
    assert metrics['kaiju_http_responses_total{status="429"}'] == 1
    for stream in streams:
        stream.drop()
    eventually(lambda: lead.metric("kaiju_requests_running") == 0, "nothing runs")
    assert lead.complete("def h(", max_tokens=2)


def test_C12_every_stage_tells_its_time_and_work(cluster):
    lead = cluster.lead(cluster.nodes(2)).wait_ready()
    before = lead.metrics()
    lead.complete([100 + i % 1000 for i in range(300)], max_tokens=40, temperature=0)
    # What nodes say of themselves comes with their results and heartbeats.
    rows = 300 + 40 - 1
    eventually(lambda: min(stages(lead.metrics(), "kaiju_node_tokens_total")) >= rows, "every stage has counted")
    metrics = lead.metrics()
    for name in ("compute", "wait", "transfer"):
        name = f"kaiju_node_{name}_seconds_total"
        assert len(stages(metrics, name)) == 3
        for now, then in zip(stages(metrics, name), stages(before, name)):
            assert now > then, name
    assert all(0 <= busy <= 1 for busy in stages(metrics, "kaiju_node_busy_ratio"))
    assert sum(stages(metrics, "kaiju_node_layers")) == 12
    assert metrics["kaiju_prompt_tokens_total"] - before["kaiju_prompt_tokens_total"] == 300
    assert metrics["kaiju_completion_tokens_total"] - before["kaiju_completion_tokens_total"] == 40
    assert metrics["kaiju_time_to_first_token_seconds_count"] == before["kaiju_time_to_first_token_seconds_count"] + 1
    assert metrics["kaiju_inter_token_seconds_count"] == before["kaiju_inter_token_seconds_count"] + 39
    steps = metrics["kaiju_steps_total"] - before["kaiju_steps_total"]
    batches = metrics["kaiju_micro_batch_tokens_count"] - before["kaiju_micro_batch_tokens_count"]
    assert 0 < steps == batches


def test_cache_and_drafts_are_told_alike_in_usage_and_metrics(cluster):
    lead = cluster.lead([], "--parallel", 2).wait_ready()
    text = "def add(first, second):\n    return first + second\n\n" * 12
    usages = []
    with lead.client() as client:
        for fields in ({}, {}, {"cache_prompt": False}):
            answer = client.completions.create(model="m", prompt=text, max_tokens=60, temperature=0, extra_body=fields)
            usages.append(answer.usage)
    cached = [usage.prompt_tokens_details.cached_tokens for usage in usages]
    assert cached[0] == cached[2] == 0
    assert usages[1].prompt_tokens - 64 <= cached[1] < usages[1].prompt_tokens
    metrics = lead.metrics()
    assert metrics["kaiju_cached_prompt_tokens_total"] == sum(cached)
    assert metrics["kaiju_prompt_tokens_total"] == sum(usage.prompt_tokens for usage in usages) - sum(cached)
    assert metrics["kaiju_kv_blocks_cached"] > 0
    accepted = sum(usage.completion_tokens_details.accepted_prediction_tokens for usage in usages)
    rejected = sum(usage.completion_tokens_details.rejected_prediction_tokens for usage in usages)
    assert accepted > 0
    assert metrics["kaiju_accepted_draft_tokens_total"] == accepted
    assert metrics["kaiju_drafted_tokens_total"] == accepted + rejected
