"""What cannot work is refused with the reason, by every process, and nothing hangs (C2, C3, C8, C9, C15)."""

import pathlib
import re
import struct
import subprocess

import pytest

from cluster import KAIJU, MINI, TOOLS, altered_model

AT_ONCE = 5  # seconds within which every process of a cluster that cannot be formed has ended


def kaiju(*arguments):
    return subprocess.run([KAIJU, *map(str, arguments)], capture_output=True, text=True, timeout=AT_ONCE)


def ends_with(process, *texts, code=1, patience=AT_ONCE):
    assert process.wait(patience) == code, process.log()
    last = process.log().splitlines()[-1]
    for text in texts:
        assert text in last, process.log()


@pytest.mark.parametrize(
    "split, code, text",
    [
        ("4,4,5", 1, 'gives node 3 ("127.0.0.1:2") layers 8-12, but the model has 12 layers (0-11)'),
        ("4,4,3", 1, "leaves layer 11 on no node"),
        ("2,2,2", 1, "leaves layers 6-11 on no node"),
        ("12,0,0", 1, 'gives node 2 ("127.0.0.1:1") no layer, before layer 12'),
        ("6,6,0", 1, 'gives node 3 ("127.0.0.1:2") no layer, before layer 12'),
        ("6,0,6", 1, 'gives node 2 ("127.0.0.1:1") no layer, before layer 6'),
        ("6,6", 1, 'no layer is left for node 3 ("127.0.0.1:2") after layer 11'),
        ("3,3,3,3", 1, "layers 9-11 would be on no node"),
        ("-1,6,7", 2, 'part 1 ("-1") is not a number of layers'),
        ("4,four,4", 2, 'part 2 ("four") is not a number of layers'),
        ("4,,8", 2, 'part 2 ("") is not a number of layers'),
        ("4,4,18446744073709551620", 2, "is not a number of layers"),
    ],
)
@pytest.mark.parametrize("command", ["serve", "run"])
def test_C2_bad_split(command, split, code, text):
    options = ["--port", 0] if command == "serve" else ["-p", "x"]
    done = kaiju(command, MINI, "--nodes", "127.0.0.1:1,127.0.0.1:2", "--split", split, *options)
    assert done.returncode == code
    assert text in done.stderr
    assert done.stdout == ""


def test_C2_lead_without_layers_is_allowed(cluster, solo):
    node = cluster.node()
    lead = cluster.lead([node], "--split", "0,12").wait_ready()
    assert lead.metric('kaiju_node_layers{stage="0",node="lead"}') == 0
    assert lead.complete("def ", max_tokens=8, temperature=0) == solo.complete("def ", max_tokens=8, temperature=0)


def test_C2_same_node_twice():
    done = kaiju("serve", MINI, "--port", 0, "--nodes", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:1")
    assert done.returncode == 1
    assert "the node 127.0.0.1:1 is named twice" in done.stderr


def test_C2_same_node_twice_by_other_names(cluster):
    node = cluster.node()
    other = node.address.replace("127.0.0.1", "localhost")
    lead = cluster.lead([node, other])
    ends_with(lead, "this is the same node as ", node.address, other)
    ends_with(node, "this is the same node as ", node.address, other)


@pytest.mark.parametrize("command", ["serve", "run", "node", "bench"])
def test_C3_unknown_model_type(tmp_path, command):
    model = altered_model(tmp_path / "other", lambda config: config.update(model_type="mamba7"))
    arguments = {"serve": [model, "--port", 0], "run": [model, "-p", "x"], "bench": [model],
                 "node": ["--model", model, "--listen", "127.0.0.1:0"]}[command]
    done = kaiju(command, *arguments)
    assert done.returncode == 1
    assert "mamba7" in done.stderr


def test_C3_missing_shard_on_the_last_node_only(cluster, tmp_path):
    shard = "model-00003-of-00003.safetensors"
    nodes = [cluster.node(), cluster.node(model=altered_model(tmp_path / "part", without=[shard]))]
    lead = cluster.lead(nodes)
    ends_with(lead, nodes[1].address, shard)
    ends_with(nodes[1], shard)
    ends_with(nodes[0], nodes[1].address, shard)


def test_C3_missing_shard_on_the_first_node_only(cluster, tmp_path):
    shard = "model-00002-of-00003.safetensors"
    nodes = [cluster.node(model=altered_model(tmp_path / "part", without=[shard])), cluster.node()]
    lead = cluster.lead(nodes, "--split", "2,6,4")
    ends_with(lead, nodes[0].address, shard)
    ends_with(nodes[0], shard)
    ends_with(nodes[1], nodes[0].address, shard)


def test_C3_missing_shard_on_the_lead_only(tmp_path):
    shard = "model-00001-of-00003.safetensors"
    done = kaiju("serve", altered_model(tmp_path / "part", without=[shard]), "--port", 0, "--nodes", "127.0.0.1:1")
    assert done.returncode == 1
    assert shard in done.stderr


def test_C3_shards_of_other_nodes_are_not_needed(cluster, solo, tmp_path):
    first, second, third = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    lead_model = altered_model(tmp_path / "lead", without=[second])
    nodes = [cluster.node(model=altered_model(tmp_path / "middle", without=[third])),
             cluster.node(model=altered_model(tmp_path / "last", without=[first]))]
    lead = cluster.lead(nodes, "--split", "3,4,5", model=lead_model).wait_ready()
    assert lead.complete("def ", max_tokens=8, temperature=0) == solo.complete("def ", max_tokens=8, temperature=0)


def test_C3_shard_cut_short_on_node_2_only(cluster, tmp_path):
    shard = "model-00003-of-00003.safetensors"
    cut = altered_model(tmp_path / "cut", edit_file=(shard, lambda content: content[:-4096]))
    nodes = [cluster.node(), cluster.node(model=cut)]
    lead = cluster.lead(nodes)
    ends_with(lead, nodes[1].address, shard)
    ends_with(nodes[1], shard)
    ends_with(nodes[0], nodes[1].address, shard)


def test_C9_too_little_memory_on_node_2_only(cluster):
    nodes = [cluster.node(), cluster.node("--memory", "10MB")]
    lead = cluster.lead(nodes, "--split", "4,4,4")
    ends_with(lead, f"{nodes[1].address} needs ", "but has 10000000 B")
    ends_with(nodes[0], nodes[1].address)
    ends_with(nodes[1], nodes[1].address)


def test_C8_lead_meets_another_protocol_version(cluster):
    peer = cluster.start("foreign peer", TOOLS / "foreign_peer", "listen", 7)
    address = peer.wait_for_line(r"listens at (\S+)")[1]
    ends_with(cluster.lead([address]), address, "version 2", "version 7")
    assert peer.wait() == 0
    assert "refused with reason 1" in peer.log()


def test_C8_node_meets_another_protocol_version(cluster, solo):
    node = cluster.node()
    peer = cluster.start("foreign peer", TOOLS / "foreign_peer", "connect", 7, node.address)
    assert peer.wait() == 0
    assert "refused with reason 1" in peer.log()
    node.wait_for_line(r"127\.0\.0\.1:\d+: protocol versions differ: .* version 2, .* version 7")
    lead = cluster.lead([node]).wait_ready()
    assert lead.complete("def ", max_tokens=8, temperature=0) == solo.complete("def ", max_tokens=8, temperature=0)


def test_C8_another_checkpoint(cluster, tmp_path):
    other = altered_model(tmp_path / "other", lambda config: config.update(rope_theta=10000))
    nodes = [cluster.node(), cluster.node(model=other)]
    lead = cluster.lead(nodes)
    ends_with(lead, nodes[1].address)
    theirs, ours = re.search(r"its configuration is (\w{16}), here it is (\w{16})", lead.log()).groups()
    assert theirs != ours
    for node in nodes:
        assert node.wait(AT_ONCE) == 1, node.log()
        assert theirs in node.log() and ours in node.log()


def with_other_header(content):
    """The shard with a space at the end of its JSON header where there was none: the same weights, another file."""
    (length,) = struct.unpack("<Q", content[:8])
    return struct.pack("<Q", length + 8) + content[8 : 8 + length] + b" " * 8 + content[8 + length :]


def test_C8_altered_shard_header(cluster, tmp_path):
    shard = "model-00003-of-00003.safetensors"
    other = altered_model(tmp_path / "other", edit_file=(shard, with_other_header))
    nodes = [cluster.node(), cluster.node(model=other)]
    lead = cluster.lead(nodes)
    ends_with(lead, nodes[1].address, f"shard {shard} differs")
    theirs, ours = re.search(r"differs: (\w{16}) at this node, (\w{16}) at the lead", lead.log()).groups()
    assert theirs != ours
    for node in nodes:
        assert node.wait(AT_ONCE) == 1, node.log()
        assert theirs in node.log() and ours in node.log()


def keygen(path):
    done = kaiju("keygen", path)
    assert done.returncode == 0, done.stderr
    return path


def test_C8_wrong_key(cluster, tmp_path):
    node = cluster.node("--key-file", keygen(tmp_path / "a"))
    lead = cluster.lead([node], "--key-file", keygen(tmp_path / "b"))
    ends_with(lead, node.address, "cluster keys differ")
    ours, theirs = re.search(r"this end has key (\w{16}), the peer has key (\w{16})", lead.log()).groups()
    assert ours != theirs
    node.wait_for_line(rf"127\.0\.0\.1:\d+: cluster keys differ: this end has key {theirs}, the peer has key {ours}")
    assert node.running()


@pytest.mark.parametrize("keyed", ["node", "lead"])
def test_C8_one_end_without_a_key(cluster, tmp_path, keyed):
    key = ["--key-file", keygen(tmp_path / "key")]
    node = cluster.node(*(key if keyed == "node" else []))
    lead = cluster.lead([node], *(key if keyed == "lead" else []))
    ends_with(lead, node.address, "cluster keys differ", "key none")


def test_C8_nobody_listens(cluster):
    node = cluster.node()
    address = node.address
    node.kill()
    lead = cluster.lead([address], "--connect-timeout", 1)
    lead.wait_for_line(f"waiting: {address}: cannot connect: Connection refused")
    ends_with(lead, f"{address}: cannot connect: Connection refused")


def test_node_that_cannot_be_reached_ends_the_others(cluster):
    nodes = cluster.nodes(2)
    gone = nodes[1].address
    nodes[1].kill()
    ends_with(cluster.lead(nodes, "--connect-timeout", 1), f"{gone}: cannot connect")
    ends_with(nodes[0], f"{gone}: cannot connect")


def test_lead_waits_for_a_node_that_starts_later(cluster, solo):
    node = cluster.node()
    node.address
    node.kill()
    lead = cluster.lead([node])
    lead.wait_for_line("waiting: ")
    assert lead.health() == 503
    cluster.restart(node)
    lead.wait_ready()
    assert lead.complete("def ", max_tokens=8, temperature=0) == solo.complete("def ", max_tokens=8, temperature=0)


def test_two_leads_do_not_serve_each_other(cluster):
    node = cluster.node()
    cluster.lead([node]).wait_ready()
    other = cluster.lead(["127.0.0.1:1"], "--connect-timeout", 1)
    ends_with(other, "127.0.0.1:1")


@pytest.mark.skipif(
    pathlib.Path("/sys/class/infiniband").is_dir() and any(pathlib.Path("/sys/class/infiniband").iterdir()),
    reason="this machine has an RDMA device",
)
@pytest.mark.parametrize(
    "arguments",
    [("serve", MINI, "--port", 0, "--nodes", "127.0.0.1:1"), ("run", MINI, "-p", "x", "--nodes", "127.0.0.1:1"),
     ("node", "--model", MINI, "--listen", "127.0.0.1:0")],
    ids=["serve", "run", "node"],
)
def test_C15_verbs_where_there_is_no_device(arguments):
    done = kaiju(*arguments, "--provider", "verbs")
    assert done.returncode == 1
    assert "provider verbs: this machine has no RDMA device" in done.stderr


def test_C15_default_names_the_provider_it_uses(cluster):
    lead = cluster.lead([cluster.node()]).wait_ready()
    lead.wait_for_line("connecting to 1 node over tcp")


def test_C15_unknown_provider():
    done = kaiju("node", "--model", MINI, "--listen", "127.0.0.1:0", "--provider", "smoke")
    assert done.returncode == 2
    assert '"smoke": tcp or verbs is needed' in done.stderr


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_node_without_key_listens_on_loopback_only(address):
    done = kaiju("node", "--model", MINI, "--listen", address)
    assert done.returncode == 1
    assert address in done.stderr and "without a cluster key only loopback" in done.stderr


def test_lead_without_key_connects_to_loopback_only():
    done = kaiju("serve", MINI, "--port", 0, "--nodes", "192.0.2.1:7000")
    assert done.returncode == 1
    assert "192.0.2.1:7000" in done.stderr and "without a cluster key only loopback" in done.stderr


def test_keys_make_a_cluster(cluster, solo, tmp_path):
    key = keygen(tmp_path / "key")
    assert key.stat().st_mode & 0o077 == 0
    nodes = [cluster.node("--key-file", key, listen=address) for address in ("0.0.0.0:0", "127.0.0.1:0")]
    addresses = [node.address.replace("0.0.0.0", "127.0.0.1") for node in nodes]
    lead = cluster.lead(addresses, "--key-file", key).wait_ready()
    assert lead.complete("def ", max_tokens=8, temperature=0) == solo.complete("def ", max_tokens=8, temperature=0)


def test_key_file_that_others_may_read_is_refused(tmp_path):
    key = keygen(tmp_path / "key")
    key.chmod(0o644)
    done = kaiju("node", "--model", MINI, "--listen", "127.0.0.1:0", "--key-file", key)
    assert done.returncode != 0
    assert str(key) in done.stderr


def test_keygen_does_not_overwrite(tmp_path):
    key = keygen(tmp_path / "key")
    before = key.read_bytes()
    done = kaiju("keygen", key)
    assert done.returncode == 1
    assert str(key) in done.stderr
    assert key.read_bytes() == before


@pytest.mark.parametrize(
    "arguments, text",
    [
        (("serve", "--bogus"), "--bogus"),
        (("run", "--temperature", "hot"), '--temperature "hot"'),
        (("run", "--temperature"), "--temperature"),
        (("run", "--max-tokens", "0"), '--max-tokens "0"'),
        (("run", "--seed", "-1"), '--seed "-1"'),
        (("serve", "--port", "65536"), '--port "65536"'),
        (("serve", "--ctx", "1e3"), '--ctx "1e3"'),
        (("serve", "--deadline", "0"), '--deadline "0"'),
        (("serve", "--nodes", "127.0.0.1:1,"), "an address is empty"),
        (("serve", "one", "two"), '"two"'),
        (("node",), "--listen HOST:PORT is needed"),
        (("node", "--listen", "127.0.0.1:0", "extra"), '"extra"'),
    ],
)
def test_wrong_usage_exits_2_with_a_hint(arguments, text):
    done = kaiju(*arguments)
    assert done.returncode == 2
    assert text in done.stderr.splitlines()[0]
    assert f"Try: kaiju {arguments[0]} --help" in done.stderr
    assert done.stdout == ""
