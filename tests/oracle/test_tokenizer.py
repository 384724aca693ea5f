"""The tokenizer against Hugging Face `tokenizers`: the shipped tokenizer and Qwen3's own, to the last id.

KAIJU_BUILD names the build directory (default: build).
"""

import json
import random
import struct
import subprocess
from pathlib import Path

import pytest
from tokenizers import Tokenizer

import model_files
from tokenizer_strings import every_character, generate, long_strings
from tools import BUILD, SOURCE

GENERATED = 25_000


class Pair:
    """Kaiju's tokenizer and Hugging Face's on one tokenizer.json."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.reference = Tokenizer.from_file(str(self.directory / "tokenizer.json"))

    def run(self, mode, records):
        stdin = b"".join(struct.pack("=I", len(record)) + record for record in records)
        program = BUILD / "tests" / "tools" / "tokenize"
        done = subprocess.run([program, self.directory, mode], input=stdin, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        lines = done.stdout.decode().split("\n")[:-1]
        assert len(lines) == len(records)
        return lines

    def encode(self, texts, special=True):
        lines = self.run("encode" if special else "encode-plain", [text.encode() for text in texts])
        assert not [line for line in lines if line.startswith("error")]
        return [[int(word) for word in line.split()] for line in lines]

    def encode_reference(self, texts, special=True):
        self.reference.encode_special_tokens = not special
        encodings = self.reference.encode_batch(texts, add_special_tokens=False)
        self.reference.encode_special_tokens = False
        return [encoding.ids for encoding in encodings]

    def decode(self, sequences):
        """What each token released, and the end, as bytes."""
        lines = self.run("decode", [struct.pack(f"={len(ids)}I", *ids) for ids in sequences])
        return [[bytes.fromhex(part) for part in line.split(",")[:-1]] for line in lines]

    def decode_with_special(self, sequences):
        lines = self.run("bytes", [struct.pack(f"={len(ids)}I", *ids) for ids in sequences])
        return [bytes.fromhex(line).decode(errors="replace") for line in lines]

    def assert_same_ids(self, texts, special=True):
        ours, theirs = self.encode(texts, special), self.encode_reference(texts, special)
        wrong = [(text, a, b) for text, a, b in zip(texts, ours, theirs) if a != b]
        assert not wrong, f"{len(wrong)} of {len(texts)} differ, first: {wrong[0]!r:.2000}"
        return ours

    def assert_same_text(self, sequences):
        for ids, parts in zip(sequences, self.decode(sequences)):
            assert len(parts) == len(ids) + 1
            for part in parts:
                part.decode()  # H2: whole characters only
            assert b"".join(parts).decode() == self.reference.decode(ids, skip_special_tokens=True)
        texts = [self.reference.decode(ids, skip_special_tokens=False) for ids in sequences]
        assert self.decode_with_special(sequences) == texts


@pytest.fixture(scope="session")
def mini():
    return Pair(SOURCE / "models" / "kaiju-mini")


@pytest.fixture(scope="session")
def qwen3():
    return Pair(model_files.qwen3_directory())


@pytest.fixture(params=["mini", "qwen3"])
def pair(request):
    return request.getfixturevalue(request.param)


def test_golden_tokens_of_the_shipped_model(mini):
    golden = json.loads((mini.directory / "golden_tokens.json").read_text())
    assert len(golden) > 200
    assert mini.encode([case["text"] for case in golden]) == [case["ids"] for case in golden]
    assert mini.decode_with_special([case["ids"] for case in golden]) == [case["decoded"] for case in golden]
    mini.assert_same_text([case["ids"] for case in golden])


def test_generated_strings_with_special_tokens(pair):
    texts = generate(GENERATED, seed=1)
    ids = pair.assert_same_ids(texts)
    assert len(set(texts)) > 20_000
    pair.assert_same_text(ids)


def test_generated_strings_with_special_tokens_as_text(pair):
    pair.assert_same_ids(generate(GENERATED, seed=2), special=False)


def test_every_character_of_unicode(pair):
    """Behind a letter and before one, and where it reorders with the marks beside it, or composes."""
    pair.assert_same_ids(list(every_character(lambda c: f"a{c}s {c}\u0323. a\u0301{c}\u0323\n")))


def test_long_strings(pair):
    pair.assert_same_text(pair.assert_same_ids(list(long_strings(seed=3))))


def test_H2_random_tokens_decode_as_a_stream_and_at_once(pair):
    rng = random.Random(4)
    size = pair.reference.get_vocab_size()
    bytes_only = [pair.reference.token_to_id(c) for c in "ĀðŁĺÃ©ä½łæĿ"]
    sequences = [[rng.randrange(size) for _ in range(rng.randrange(1, 12))] for _ in range(10_000)]
    sequences += [[rng.choice(bytes_only) for _ in range(rng.randrange(1, 9))] for _ in range(10_000)]
    pair.assert_same_text(sequences)


def test_text_that_is_not_utf8_is_refused_with_its_place(mini):
    bad = [b"ab\xff", b"\xed\xa0\x80", b"\xc0\x80", b"abc\xe4\xbd", b"\xf4\x90\x80\x80", b"12345678\x80"]
    offsets = [2, 0, 0, 3, 0, 8]
    lines = mini.run("encode", bad)
    assert lines == [f"error: the text is not UTF-8 at byte {offset}" for offset in offsets]


def variant(mini, directory, change):
    """A tokenizer.json changed by a function of its parsed form, or what Hugging Face says against it."""
    content = json.loads((mini.directory / "tokenizer.json").read_text())
    change(content)
    directory.mkdir(exist_ok=True)
    (directory / "tokenizer.json").write_text(json.dumps(content))
    return Pair(directory)


def add_tokens(content, *tokens):
    for token in tokens:
        following = max(entry["id"] for entry in content["added_tokens"]) + 1
        number = content["model"]["vocab"].get(token["content"], following)
        flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=False)
        content["added_tokens"].append({"id": number, **flags, **token})


def test_added_tokens_with_every_flag(mini, tmp_path):
    def change(content):
        add_tokens(
            content, dict(content="<left>", lstrip=True), dict(content="<right>", rstrip=True),
            dict(content="<both>", lstrip=True, rstrip=True, special=True), dict(content="word", single_word=True),
            dict(content="café", normalized=True), dict(content="wordy", normalized=True, single_word=True),
            dict(content="<le"), dict(content="<left><right>", special=True), dict(content="Ġé"), dict(content="  "),
        )

    pair = variant(mini, tmp_path, change)
    rng = random.Random(5)
    parts = ["<left>", "<right>", "<both>", "word", "wordy", "café", "cafe\u0301", "<le", "<left", " ", "  ", "\n", "\u00a0", "\u180e",
             "x", "é", "_", "-", "1", "\u0301", "Ⓐ", "²", "‿", "<|im_end|>", "Ġé", "\u200d", "字", "😀"]
    texts = ["".join(rng.choice(parts) for _ in range(rng.randrange(1, 10))) for _ in range(20_000)]
    ids = pair.assert_same_ids(texts)
    pair.assert_same_text(ids)
    pair.assert_same_ids(texts, special=False)


def test_single_word_beside_every_character(mini, tmp_path):
    pair = variant(mini, tmp_path, lambda content: add_tokens(content, dict(content="word", single_word=True)))
    pair.assert_same_ids(list(every_character(lambda c: f"word{c}. ")))


GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
EXPRESSIONS = {
    "llama 3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen 3.5": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "empty matches": r"x*", "sets": r"[\S]|[^\S\r\n]+|\P{L}", "lookbehind": r"(?<=a)\s+|(?<!a)[\x{4e00}-\u9fff\x61]+",
}


@pytest.mark.parametrize("name", [*EXPRESSIONS, "gpt 2", "string"])
def test_other_split_expressions(mini, tmp_path, name):
    def change(content):
        if name == "gpt 2":
            content["pre_tokenizer"] = GPT2
        else:
            content["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {"Regex": EXPRESSIONS[name]} if name in EXPRESSIONS else {"String": " "}

    variant(mini, tmp_path, change).assert_same_ids(generate(5_000, seed=6))


def test_several_splits_no_normalizer_and_ignore_merges(mini, tmp_path):
    def change(content):
        first = content["pre_tokenizer"]["pretokenizers"][0]
        second = dict(first, pattern={"Regex": r"\p{N}{1,3}"})
        third = dict(first, pattern={"Regex": r"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"})
        content["pre_tokenizer"]["pretokenizers"] = [second, third, first, dict(GPT2)]
        content["normalizer"] = None
        content["model"]["ignore_merges"] = True
        content["model"]["merges"] = [" ".join(merge) for merge in content["model"]["merges"][:2000]]

    variant(mini, tmp_path, change).assert_same_ids(generate(5_000, seed=7))


def shuffled_merges(content):
    random.Random(8).shuffle(content["model"]["merges"])


def repeated_merges(content):
    merges = content["model"]["merges"]
    content["model"]["merges"] = merges + merges[:3000]


def merges_with_one_result(content):
    """Several pairs with the same result, so that an entry of the queue that has expired still fits."""
    vocabulary = content["model"]["vocab"]
    more = [[t[:i], t[i:]] for t in list(vocabulary)[300:4000] for i in range(1, len(t)) if t[:i] in vocabulary and t[i:] in vocabulary]
    random.Random(9).shuffle(more)
    content["model"]["merges"] = more + content["model"]["merges"]


def merges_in_a_circle(content):
    content["model"]["vocab"][""] = len(content["model"]["vocab"])
    for token in content["added_tokens"]:
        token["id"] += 1
    content["model"]["merges"] = [["", "a"], ["a", ""], ["", ""]] + content["model"]["merges"]


@pytest.mark.parametrize("change", [shuffled_merges, repeated_merges, merges_with_one_result, merges_in_a_circle])
def test_F2_unusual_merges_mean_what_they_mean_to_hugging_face(mini, tmp_path, change):
    variant(mini, tmp_path, change).assert_same_ids(generate(5_000, seed=10))


def remove_merged(content):
    del content["model"]["vocab"]["".join(content["model"]["merges"][0])]


@pytest.mark.parametrize("change", [
    lambda c: c["model"]["merges"].append(["no", "such\u0000token"[:7]]), lambda c: c["model"]["merges"].append(["a"]),
    lambda c: c["model"]["merges"].append("a b"), lambda c: c["model"].pop("vocab"), lambda c: c["model"].pop("merges"), remove_merged,
    lambda c: c["model"]["vocab"].update(a=-1), lambda c: c["model"]["vocab"].update(a=1 << 32), lambda c: c["model"]["vocab"].update(a="1"),
    lambda c: c["added_tokens"][0].pop("special"), lambda c: c["added_tokens"][0].pop("id"), lambda c: c.update(version="2.0"),
    lambda c: c.update(normalizer={"type": "Nonsense"}), lambda c: c["model"].update(dropout=2),
])
def test_F2_what_hugging_face_refuses_is_refused(mini, tmp_path, change):
    with pytest.raises(Exception):
        variant(mini, tmp_path, change)
    done = subprocess.run([BUILD / "tests" / "tools" / "tokenize", tmp_path, "encode"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 1 and "tokenizer.json: " in done.stderr
