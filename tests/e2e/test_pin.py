"""--pin: which CPUs the threads of a process keep to."""

import json
import os
import pathlib
import subprocess

import pytest

from cluster import KAIJU, MINI

USABLE = sorted(os.sched_getaffinity(0))
MISSING = next(cpu for cpu in range(1024) if cpu not in USABLE)


def kaiju(*arguments):
    return subprocess.run([KAIJU, *map(str, arguments)], capture_output=True, text=True)


def affinities(pid):
    """The CPUs of every thread, the main thread first."""
    threads = sorted(int(task.name) for task in pathlib.Path(f"/proc/{pid}/task").iterdir())
    return [os.sched_getaffinity(thread) for thread in threads]


def test_lead_and_node_keep_to_their_cpus(cluster):
    pin = ",".join(map(str, reversed(USABLE)))
    node = cluster.node("--pin", pin)
    lead = cluster.lead([node], "--pin", pin).wait_ready()
    for process in (node, lead):
        kept = affinities(process.pid)
        assert kept[0] == {USABLE[-1]}
        assert all(threads <= set(USABLE) for threads in kept)
        for cpu in USABLE:
            assert {cpu} in kept


def test_a_report_counts_the_listed_cpus():
    pin = ",".join(map(str, USABLE))
    outcome = kaiju("bench", "--pin", pin, "--prompt-tokens", 2, "--tokens", 1, "--rounds", 1, "--json")
    assert json.loads(outcome.stdout)["machine"]["cpus"] == len(USABLE)


def test_one_cpu_means_one_thread(cluster):
    lead = cluster.lead([], "--pin", USABLE[0]).wait_ready()
    assert all(threads == {USABLE[0]} for threads in affinities(lead.pid))
    outcome = kaiju("bench", "--pin", USABLE[0], "--prompt-tokens", 2, "--tokens", 1, "--rounds", 1, "--json")
    assert json.loads(outcome.stdout)["engine"].endswith(", 1 thread")


@pytest.mark.parametrize("command", [["serve", MINI, "--port", 0], ["run", MINI, "-p", "x"], ["bench", MINI],
                                     ["node", "--model", MINI, "--listen", "127.0.0.1:0"]])
@pytest.mark.parametrize("value, code, words", [
    ("two", 2, "no list of CPUs"), ("0-", 2, "no list of CPUs"), ("", 2, "no list of CPUs"),
    (f"{USABLE[0]},{USABLE[0]}", 2, "twice"), (MISSING, 1, f"CPU {MISSING} is not there")])
def test_lists_that_cannot_be_kept_to_are_refused(command, value, code, words):
    outcome = kaiju(*command, "--pin", value)
    assert outcome.returncode == code
    assert "--pin" in outcome.stderr and words in outcome.stderr


def test_more_threads_than_listed_cpus_are_refused():
    outcome = kaiju("bench", "--pin", USABLE[0], "--threads", 2)
    assert outcome.returncode == 1
    assert "2 threads cannot have a CPU each of a list of 1" in outcome.stderr
