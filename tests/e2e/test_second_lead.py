"""A node serves one lead, the first: another one may not disturb it."""

import subprocess

import pytest

from cluster import KAIJU, MINI


@pytest.fixture
def other_model(tmp_path):
    """A checkpoint of another configuration, with the same tokenizer."""
    directory = tmp_path / "other"
    command = [KAIJU, "synth", "--config", MINI / "config.json", directory, "--layers", "2", "--tokenizer", MINI]
    subprocess.run(command, check=True, capture_output=True)
    return directory


def test_a_second_lead_of_the_same_model_is_turned_away(cluster):
    nodes = cluster.nodes(1)
    first = cluster.lead(nodes).wait_ready()
    answer = first.complete("def f(", max_tokens=8, temperature=0)
    second = cluster.lead(nodes)
    assert second.wait() == 1
    assert "serves another lead" in second.log()
    assert first.complete("def f(", max_tokens=8, temperature=0) == answer
    assert first.metric("kaiju_engine_epoch") == 1


def test_a_second_lead_of_another_model_is_turned_away(cluster, other_model):
    node = cluster.node()
    first = cluster.lead([node.address]).wait_ready()
    second = cluster.lead([node.address], model=other_model)
    assert second.wait() == 1
    assert node.running()
    assert first.complete("def f(", max_tokens=8, temperature=0)
    assert first.metric("kaiju_engine_epoch") == 1


def test_the_next_lead_is_welcome_when_the_first_has_gone(cluster):
    nodes = cluster.nodes(1)
    first = cluster.lead(nodes).wait_ready()
    answer = first.complete("def f(", max_tokens=8, temperature=0)
    first.kill()
    assert cluster.lead(nodes).wait_ready().complete("def f(", max_tokens=8, temperature=0) == answer
