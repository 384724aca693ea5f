"""A node opens and touches only what holds its own layers."""

import json
import pathlib
import re
import shutil

from cluster import MINI


def shards_of(layers):
    index = json.loads((MINI / "model.safetensors.index.json").read_text())["weight_map"]
    return {shard for name, shard in index.items()
            if (match := re.match(r"model\.layers\.(\d+)\.", name)) and int(match[1]) in layers}


def mapped_shards(process):
    maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
    return {pathlib.Path(path).name for path in re.findall(r"\S+\.safetensors", maps)}


def resident_weights(process):
    """Bytes of shards that the process has touched."""
    total, counted = 0, False
    for line in pathlib.Path(f"/proc/{process.pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            counted = line.endswith(".safetensors")
        elif counted and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


def test_each_node_maps_only_the_shards_of_its_layers(cluster):
    nodes = cluster.nodes(2)
    lead = cluster.lead(nodes, "--split", "2,3,7").wait_ready()
    assert lead.complete("def f(", max_tokens=4, temperature=0)
    assert mapped_shards(nodes[0]) == shards_of(range(2, 5))
    assert mapped_shards(nodes[1]) == shards_of(range(5, 12))


def test_a_node_works_with_the_shards_of_its_layers_alone(cluster, solo, tmp_path):
    needed = shards_of(range(8, 12))
    assert len(needed) < len(list(MINI.glob("*.safetensors")))
    for path in MINI.iterdir():
        if path.is_file() and (path.suffix != ".safetensors" or path.name in needed):
            shutil.copy(path, tmp_path)
    node = cluster.node(model=tmp_path)
    lead = cluster.lead([node.address], "--split", "8,4").wait_ready()
    fields = dict(max_tokens=8, temperature=0)
    assert lead.complete("def f(", **fields) == solo.complete("def f(", **fields)


def test_a_node_touches_only_the_pages_of_its_layers(cluster, mini_weights):
    node = cluster.node()
    cluster.lead([node.address], "--split", "11,1").wait_ready()
    # One layer of twelve, and the pages at its tensors' ends.
    assert 0 < resident_weights(node) < mini_weights / 6
