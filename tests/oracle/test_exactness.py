"""The logits of every position are the same to the bit whatever the split, the chunks of the prefill, the threads and
the instruction set, 64-bit Arm's under emulation included.

KAIJU_BUILD_AARCH64 names a build directory of cmake/aarch64-linux-gnu.cmake. Without it the tests of Arm fail, unless
KAIJU_SKIP_AARCH64=1 says that they are not wanted.
"""

import os
import pathlib

import pytest

from logits_tool import MINI, digest, raw_logits, read_json

SPLITS = ["12", "1,11", "8,4", "4,4,4", "3,3,3,3"]
CHUNKS = [1, 7, 64, 512]


def golden_tokens(count):
    """The first tokens of the golden prompts and continuations, one after the other."""
    tokens = []
    for vector in read_json(MINI / "golden.json")["vectors"]:
        tokens += vector["tokens"] + vector["greedy"]
    assert len(tokens) >= count
    return tokens[:count]


def has_kernels(isa):
    flags = next(line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    return {"avx2": "avx2", "avxvnni": "avx_vnni", "avx512": "avx512_vnni"}[isa] in flags.split()


@pytest.fixture(scope="module")
def middle():
    """Two sequences, of which one ends within the third KV block, and what all splits and chunks must give."""
    sequences = [golden_tokens(131), golden_tokens(30)[::-1]]
    return sequences, digest(MINI, sequences, "12")


@pytest.mark.parametrize("split", SPLITS)
def test_splits_and_chunks(split, middle):
    sequences, expected = middle
    for chunk in CHUNKS:
        assert digest(MINI, sequences, split, chunk=chunk) == expected, f"chunks of {chunk}"


def test_prompt_longer_than_any_chunk():
    sequences = [golden_tokens(520)]
    expected = digest(MINI, sequences, "12", chunk=1024)
    for split, chunk in [("8,4", 512), ("3,3,3,3", 64), ("4,4,4", 7), ("1,11", 1)]:
        assert digest(MINI, sequences, split, chunk=chunk) == expected, f"{split}, chunks of {chunk}"


@pytest.mark.parametrize("threads", [1, 3])
def test_threads(threads, middle):
    sequences, expected = middle
    assert digest(MINI, sequences, "8,4", chunk=64, threads=threads) == expected
    assert digest(MINI, sequences, "12", chunk=1, threads=threads) == expected


@pytest.fixture(scope="module")
def short():
    """Two sequences, of which one reaches the second KV block, and what every instruction set must give."""
    sequences = [golden_tokens(68), golden_tokens(9)[::-1]]
    return sequences, digest(MINI, sequences, "12")


def test_reference_kernels(short):
    sequences, expected = short
    assert digest(MINI, sequences, "12", isa="reference") == expected


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_reference_kernels_in_small_chunks(threads):
    sequences = [golden_tokens(9)]
    expected = digest(MINI, sequences, "12")
    assert digest(MINI, sequences, "4,4,4", isa="reference", chunk=4, threads=threads) == expected


@pytest.mark.parametrize("isa", ["avx2", "avxvnni", "avx512"])
def test_kernels_of_this_machine(isa, short):
    sequences, expected = short
    if not has_kernels(isa):
        with pytest.raises(AssertionError, match=isa):
            digest(MINI, sequences, "12", isa=isa)
        return
    for threads in [1, 2, 3]:
        for chunk in [7, 512]:
            assert digest(MINI, sequences, "8,4", chunk=chunk, isa=isa, threads=threads) == expected


@pytest.fixture(scope="module")
def arm():
    """Options with which logits_tool runs the tool of the Arm build."""
    directory = os.environ.get("KAIJU_BUILD_AARCH64")
    if not directory and os.environ.get("KAIJU_SKIP_AARCH64") == "1":
        pytest.skip("KAIJU_SKIP_AARCH64=1")
    assert directory, "KAIJU_BUILD_AARCH64 must name the build directory for 64-bit Arm, or KAIJU_SKIP_AARCH64 be 1"
    cache = {}
    for line in (pathlib.Path(directory) / "CMakeCache.txt").read_text().splitlines():
        name, separator, value = line.partition("=")
        cache[name.partition(":")[0]] = value if separator else None
    emulator = [cache["KAIJU_QEMU"], "-L", pathlib.Path(cache["KAIJU_SYSROOT"]).resolve()]
    return {"build": pathlib.Path(directory), "emulator": emulator}


@pytest.mark.parametrize("isa", ["neon", "neon-i8mm"])
def test_neon_kernels(arm, short, isa):
    sequences, expected = short
    assert digest(MINI, sequences, "8,4", isa=isa, chunk=64, **arm) == expected


def test_reference_kernels_on_arm(arm):
    sequences = [golden_tokens(4)]
    assert digest(MINI, sequences, "12", isa="reference", **arm) == digest(MINI, sequences, "12")


def test_digests_tell_logits_apart(short):
    """Other tokens, or the same after others, give other logits: equality above is not that of constants."""
    sequences, expected = short
    other = [sequences[0][:-1] + [sequences[0][-1] + 1], sequences[1]]
    assert digest(MINI, other, "12") != expected
    token = sequences[0][5]
    alone, after = raw_logits(MINI, [[token]], "12"), raw_logits(MINI, [[3, token]], "12")
    assert alone != after[-len(alone) :]
