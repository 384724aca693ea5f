"""`kaiju plan` and `kaiju synth` as a person calls them: output, exit codes, and what a plan of 270 GB costs."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KAIJU = pathlib.Path(os.environ.get("KAIJU_BUILD", ROOT / "build")).resolve() / "kaiju"
MINI = ROOT / "models" / "kaiju-mini"
MEMORY_LIMIT = 200_000_000


def kaiju(*arguments):
    return subprocess.run([KAIJU, *map(str, arguments)], capture_output=True, text=True)


def refused(code, *arguments, says=()):
    done = kaiju(*arguments)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(f"kaiju {arguments[0]}: ")
    for text in says:
        assert text in done.stderr
    return done


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    directory = tmp_path_factory.mktemp("synth") / "qwen3-coder-480b"
    done = kaiju("synth", "qwen3-coder-480b", directory, "--sparse")
    assert done.returncode == 0, done.stderr
    assert "270.119 GB" in done.stdout
    return directory


def test_sparse_checkpoint_takes_little_disk(big):
    files = list(big.iterdir())
    assert sum(path.stat().st_size for path in files) > 270e9
    assert sum(path.stat().st_blocks * 512 for path in files) < 5e6


def test_figures_of_the_480b_shape(big):
    done = kaiju("plan", big, "--node", "a=256GB", "--node", "b=256GB", "--split", "42,20", "--head-on-last", "--ctx", 32768)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for text in ("270.1 GB", "62 layers", "4.340 GB", "248 KiB of KV a token"):
        assert text in lines[0]
    (first,) = [line for line in lines if line.startswith("a ")]
    (second,) = [line for line in lines if line.startswith("b ")]
    assert "0-41" in first and "183.3 GB" in first
    assert "42-61" in second and "87.8 GB" in second
    assert sum(line.startswith("  [####") for line in lines) == 2


def test_plan_of_270_gb_needs_little_memory(big):
    """The peak of a child of a fresh process, so that no other child counts."""
    script = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)\n"
    )
    command = [sys.executable, "-c", script, str(KAIJU), "plan", str(big), "--node", "a=300GB", "--node", "b=300GB", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) < MEMORY_LIMIT


def test_automatic_split_follows_bandwidth(big):
    nodes = ["--node", "a=300GB,800GB/s", "--node", "b=300GB,400GB/s"]
    plan = json.loads(kaiju("plan", big, *nodes, "--ctx", 8192, "--json").stdout)
    assert plan["fits"] and plan["total_weights_bytes"] == 270118718464 and plan["kv_bytes_per_token"] == 248 * 1024
    first, second = plan["nodes"]
    assert first["layers"] + second["layers"] == 62 and second["first_layer"] == first["layers"]
    assert plan["step_rows"] == 2 and first["bytes_per_step"] > first["bytes_per_token"]
    assert first["seconds_per_step"] == pytest.approx(first["bytes_per_step"] / 800e9)
    slowest = max(first["seconds_per_step"], second["seconds_per_step"])
    for moved in (-1, 1):
        split = f"{first['layers'] + moved},{second['layers'] - moved}"
        other = json.loads(kaiju("plan", big, *nodes, "--ctx", 8192, "--json", "--split", split).stdout)
        assert max(node["seconds_per_step"] for node in other["nodes"]) >= slowest


def test_a_step_has_as_many_rows_as_a_micro_batch(big):
    """By default 4 sequences, dealt into a micro-batch for each node."""

    def planned(*arguments):
        nodes = ["--node", "a=300GB", "--node", "b=300GB"]
        plan = json.loads(kaiju("plan", big, *nodes, "--ctx", 8192, "--json", *arguments).stdout)
        return plan, sum(node["bytes_per_token"] for node in plan["nodes"]), sum(node["bytes_per_step"] for node in plan["nodes"])

    plan, token, step = planned()
    assert (plan["parallel"], plan["micro_batches"], plan["step_rows"]) == (4, 2, 2)
    # Nearly twice the experts, which are most of what is read; the rest once.
    assert 1.5 * token < step < 2 * token
    plan, same_token, all_at_once = planned("--micro-batches", 1)
    assert plan["step_rows"] == 4 and same_token == token and all_at_once > 1.5 * step
    plan, _, alone = planned("--parallel", 1)
    assert plan["step_rows"] == 1 and alone == token
    fewer = planned("--kv-tokens", 8192)[0]
    assert fewer["kv_blocks"] == 8192 // 64 and planned()[0]["kv_blocks"] == 4 * 8192 // 64


def test_the_table_has_a_column_for_steps_of_several_sequences(big):
    nodes = ["--node", "a=300GB,800GB/s", "--node", "b=300GB", "--ctx", 8192]
    lines = kaiju("plan", big, *nodes).stdout.splitlines()
    (heading,) = [line for line in lines if line.startswith("node ")]
    assert heading.rstrip().endswith("reads   a token in    a step           in")
    (first,) = [line for line in lines if line.startswith("a ")]
    (second,) = [line for line in lines if line.startswith("b ")]
    # The column ends at the same place whether or not a node's bandwidth is known.
    end = heading.index("a step") + len("a step")
    assert first[:end].endswith("GB") and second.endswith("GB") and len(second) == end
    assert "a token each of the 2 sequences of a micro-batch (of 2)" in lines[-1]
    alone = kaiju("plan", big, *nodes, "--parallel", 1).stdout
    assert "a step" not in alone and "a token in" in alone


def test_C9_too_little_memory_shows_the_plan_and_fails(big):
    done = refused(1, "plan", big, "--node", "a=90GB", "--node", "b=60GB", "--node", "c=30GB", "--ctx", 4096,
                   says=["a needs", "b needs", "c needs", "has 30000000000 B"])  # fmt: skip
    assert done.stdout.count("too big by") == 3
    done = kaiju("plan", big, "--node", "a=90GB", "--node", "b=60GB", "--node", "c=30GB", "--ctx", 4096, "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["fits"] is False


def test_without_nodes_there_are_no_ceilings():
    plan = json.loads(kaiju("plan", MINI, "--json", "--split", "4,8").stdout)
    assert [node["name"] for node in plan["nodes"]] == ["lead", "node1"]
    assert [node["memory_bytes"] for node in plan["nodes"]] == [None, None]


@pytest.mark.parametrize(
    "arguments, code, says",
    [
        (["--split", "8,5", "--node", "a=1GB", "--node", "b=1GB"], 1, ["layers 8-12", "12 layers"]),
        (["--split", "8,3"], 1, ["layer 11 on no node"]),
        (["--split", "12,0"], 1, ["no layer"]),
        (["--split", "6,6", "--node", "a=1GB"], 1, ["2 parts for 1 nodes", "layers 6-11"]),
        (["--node", "a=1GB", "--node", "a=2GB"], 1, ["\"a\" is given twice"]),
        (["--ctx", "4097"], 1, ["4097", "4096"]),
        (["--split", "-4,16"], 2, ["not a number of layers"]),
        (["--split", "x"], 2, ["not a number of layers"]),
        (["--node", "a"], 2, ["NAME=MEMORY"]),
        (["--node", "a=lots"], 2, ["\"lots\" is not a size"]),
        (["--ctx", "-1"], 2, ["--ctx"]),
        (["--parallel", "0"], 2, ["--parallel"]),
        (["--fast"], 2, ["--fast"]),
        (["--split"], 2, ["--split"]),
        (["second"], 2, ["MODEL"]),
    ],
)
def test_C2_wrong_plans_are_refused(arguments, code, says):
    done = refused(code, "plan", MINI, *arguments, says=says)
    assert done.stdout == ""
    assert ("--help" in done.stderr) == (code == 2)


def test_missing_checkpoint_is_named(tmp_path):
    refused(1, "plan", tmp_path / "nowhere", says=["nowhere"])
    refused(2, "plan", says=["MODEL"])


def test_synth_refuses_wrong_usage(tmp_path):
    refused(2, "synth", "qwen3-coder-30b", says=["SHAPE"])
    refused(2, "synth", "--config", "c.json", says=["DIR"])
    refused(2, "synth", "qwen3-coder-30b", tmp_path / "x", "--seed", "-1", says=["--seed"])
    refused(1, "synth", "gpt", tmp_path / "x", says=["gpt", "qwen3-coder-480b"])
    refused(1, "synth", "qwen3-coder-30b", tmp_path / "x", "--bits", "5", says=["5 bits"])
    refused(1, "synth", "qwen3-coder-30b", MINI, says=["config.json exists"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["plan", "synth"])
def test_help_is_a_manual(command):
    done = kaiju(command, "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith(f"Usage: kaiju {command} ") and "--help" in done.stdout
