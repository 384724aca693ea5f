"""KV blocks on disk: a cluster that is started anew goes on with what it has computed, and never with anything else."""

import time

import pytest

from cluster import eventually

PROMPT = "\n\n".join(f"def function_{number}(value):\n    return value * {number}" for number in range(30))
FIELDS = {"max_tokens": 40, "temperature": 0.7, "seed": 11}


@pytest.fixture(scope="module")
def expected(solo):
    return answer(solo)


def answer(lead, prompt=PROMPT):
    """Text, prompt tokens and how many of these were not computed."""
    with lead.client() as client:
        got = client.completions.create(model="kaiju-mini", prompt=prompt, extra_body={"ignore_eos": True}, **FIELDS)
    return got.choices[0].text, got.usage.prompt_tokens, got.usage.prompt_tokens_details.cached_tokens


class Machines:
    """The disks of a cluster's machines, and the cluster while it runs."""

    def __init__(self, cluster, directory, count):
        self.cluster = cluster
        self.directories = [directory / f"disk-{number}" for number in range(count)]
        self.processes = []

    def start(self, *options):
        lead_disk, *node_disks = self.directories
        nodes = [self.cluster.node("--kv-disk", disk) for disk in node_disks]
        for node in nodes:
            node.address
        lead = self.cluster.lead(nodes, "--parallel", 4, "--kv-disk", lead_disk, *options).wait_ready()
        self.processes = [lead, *nodes]
        return lead

    def kill(self):
        for process in self.processes:
            process.kill()

    def files(self, number):
        return sorted(self.directories[number].glob("*/*.kv"))

    def wait_for_blocks(self, count):
        for number in range(len(self.directories)):
            eventually(lambda n=number: len(self.files(n)) >= count, f"disk {number} has {count} blocks")


@pytest.mark.parametrize("count", [1, 3], ids=["lead alone", "lead and two nodes"])
def test_whole_cluster_is_killed_and_started_again(cluster, tmp_path, expected, count):
    machines = Machines(cluster, tmp_path, count)
    text, prompt_tokens, cached = answer(machines.start())
    assert text == expected[0] and cached == 0
    full = (prompt_tokens + FIELDS["max_tokens"] - 1) // 64
    machines.wait_for_blocks(full)
    machines.kill()
    lead = machines.start()
    again = answer(lead)
    assert again == (text, prompt_tokens, (prompt_tokens - 1) // 64 * 64)
    assert lead.metric("kaiju_engine_epoch") <= 1
    # What begins alike and goes on otherwise.
    other = PROMPT[: len(PROMPT) // 2] + "\n\nclass Other:"
    mixed = answer(lead, other)
    assert 0 < mixed[2] < mixed[1]
    machines.kill()
    for directory in machines.directories:
        assert all(path.suffix == ".kv" or path.name == "lock" for path in directory.glob("*/*"))


def test_lead_without_layers(cluster, tmp_path, expected):
    machines = Machines(cluster, tmp_path, 3)
    _, prompt_tokens, _ = answer(machines.start("--split", "0,5,7"))
    for number in (1, 2):
        eventually(lambda n=number: len(machines.files(n)) >= (prompt_tokens - 1) // 64, f"disk {number} has its blocks")
    assert not machines.files(0)
    machines.kill()
    assert answer(machines.start("--split", "0,5,7")) == (expected[0], prompt_tokens, (prompt_tokens - 1) // 64 * 64)


@pytest.mark.parametrize("victim, damage", [(0, "flip"), (1, "cut"), (2, "remove"), (2, "flip")],
                         ids=["lead", "first node", "last node", "last node's bits"])
def test_damaged_files_cost_time_only(cluster, tmp_path, expected, victim, damage):
    machines = Machines(cluster, tmp_path, 3)
    text, prompt_tokens, _ = answer(machines.start())
    machines.wait_for_blocks((prompt_tokens - 1) // 64)
    machines.kill()
    lead = machines.start()
    for path in machines.files(victim)[1:]:
        content = path.read_bytes()
        if damage == "remove":
            path.unlink()
        else:
            path.write_bytes(content[: len(content) // 2] if damage == "cut"
                             else content[:5000] + bytes([content[5000] ^ 1]) + content[5001:])
    assert answer(lead)[:2] == expected[:2] == (text, prompt_tokens)
    lead.wait_state("ready")
    assert answer(lead)[:2] == expected[:2]
    machines.processes[victim].wait_for_line("kept no longer")
    assert lead.metric("kaiju_engine_epoch") == (1 if victim == 0 else 2)


def test_killed_at_any_moment(cluster, tmp_path, solo):
    """Whatever lies on the disks after a kill -9 in the middle of writing gives the same answers."""
    prompts = [f"# file {number}\n{PROMPT}" for number in range(4)]
    expected = [answer(solo, prompt)[0] for prompt in prompts]
    machines = Machines(cluster, tmp_path, 2)
    found = 0
    for turn in range(6):
        lead = machines.start("--chunk", 64)
        for number, prompt in enumerate(prompts[: 1 + turn % 4]):
            text, _, cached = answer(lead, prompt)
            assert text == expected[number]
            found += cached
        time.sleep(0.002 * turn)
        machines.kill()
    assert found > 0


def test_another_split_has_blocks_of_its_own(cluster, tmp_path, expected):
    machines = Machines(cluster, tmp_path, 2)
    _, prompt_tokens, _ = answer(machines.start("--split", "6,6"))
    machines.wait_for_blocks((prompt_tokens - 1) // 64)
    machines.kill()
    lead = machines.start("--split", "5,7")
    assert answer(lead) == (expected[0], prompt_tokens, 0)
    machines.kill()
    lead = machines.start("--split", "6,6")
    assert answer(lead) == (expected[0], prompt_tokens, (prompt_tokens - 1) // 64 * 64)


def test_directories_that_cannot_be_used(cluster, tmp_path):
    (tmp_path / "file").write_text("")
    node = cluster.node("--kv-disk", tmp_path / "file")
    assert node.wait() != 0
    assert "--kv-disk" in node.log() and str(tmp_path / "file") in node.log()
    lead = cluster.lead([], "--kv-disk", tmp_path / "disk").wait_ready()
    second = cluster.lead([], "--kv-disk", tmp_path / "disk")
    assert second.wait() != 0
    assert "in use by another process" in second.log()
    assert lead.running()
