"""--huge-pages: weights that were moved give the same tokens, and hardly anything of the file stays mapped."""

import pathlib
import re
import subprocess

from cluster import KAIJU, eventually


def test_the_answer_is_the_same(cluster):
    node = cluster.node("--huge-pages")
    moved = cluster.lead([node], "--huge-pages").wait_ready()
    mapped = cluster.lead([cluster.node()]).wait_ready()
    answers = [lead.complete("Once upon a time", max_tokens=40, temperature=0) for lead in (moved, mapped)]
    assert len(answers[0]) > 20
    assert answers[0] == answers[1]


def mapped_bytes(pid, name):
    total = 0
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        begin, end, path = re.match(r"(\w+)-(\w+)(?: \S+){4} *(.*)", line).groups()
        if path.endswith(name):
            total += int(end, 16) - int(begin, 16)
    return total


def test_most_of_a_large_file_is_moved(tmp_path):
    directory = tmp_path / "model"
    subprocess.run([KAIJU, "synth", "qwen3-coder-30b", directory, "--layers", "1"], check=True, capture_output=True)
    size = (directory / "model.safetensors").stat().st_size
    command = [KAIJU, "bench", directory, "--huge-pages", "--prompt-tokens", "8", "--rounds", "100"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:

            def moved():
                assert process.poll() is None, "the benchmark has ended"
                return 0 < mapped_bytes(process.pid, "/model.safetensors") < 0.1 * size

            eventually(moved, "the weights are moved")
        finally:
            process.terminate()
