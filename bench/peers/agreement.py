"""Whether the peers compute the same model as Kaiju: next-token distributions over kaiju-mini.

Kaiju continues the prompts of golden.json greedily and gives the log-probabilities of its 20 best tokens at each step.
A peer gets the same tokens, and its distribution at the same positions is compared. Its best token must be Kaiju's
wherever Kaiju prefers its own by more than MARGIN, and the mean Kullback-Leibler divergence must be below MEAN_KL: what
different roundings of activations (int8, bf16, f32) make of one model, and far below what another model would give.
"""

import json
import pathlib
import re
import subprocess
import urllib.request
from dataclasses import dataclass

import numpy

MARGIN = 0.5  # in nats
MEAN_KL = 0.01  # in nats
STEPS = 16
LONGEST_PROMPT = 100


@dataclass
class Step:
    sequence: int
    position: int  # of the token that the distribution follows
    best: list[tuple[int, float]]  # Kaiju's 20 best tokens with their log-probabilities


def token_ids(model: pathlib.Path) -> dict[bytes, int]:
    """The tokens by their bytes, from tokenizer.json's byte-level alphabet (GPT-2's: printable bytes are themselves,
    the others follow from U+0100 on)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    ids = {bytes(alphabet[c] for c in text): id for text, id in tokenizer["model"]["vocab"].items()}
    return ids | {token["content"].encode(): token["id"] for token in tokenizer["added_tokens"]}


def token_bytes(text: str) -> bytes:
    """Of a token as the API writes it."""
    if text.startswith("bytes:"):
        return bytes.fromhex(text.removeprefix("bytes:").replace("\\x", ""))
    return text.encode()


def complete(url: str, tokens: list[int]) -> dict:
    body = {"model": "x", "prompt": tokens, "max_tokens": STEPS, "temperature": 0, "logprobs": 20, "ignore_eos": True}
    body["repetition_penalty"] = 1
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["logprobs"]


def kaiju_steps(kaiju: pathlib.Path, model: pathlib.Path) -> tuple[list[list[int]], list[Step]]:
    """The sequences, prompt and continuation, and Kaiju's distribution at each step."""
    ids = token_ids(model)
    vectors = json.loads((model / "golden.json").read_text())["vectors"]
    prompts = [vector["tokens"] for vector in vectors if len(vector["tokens"]) <= LONGEST_PROMPT]
    sequences, steps = [], []
    command = [kaiju, "serve", model, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            output = ""
            while not (found := re.search(r"serving at (http://\S+)", output)):
                line = server.stdout.readline()
                if not line:
                    raise SystemExit(f"kaiju serve: {output}")
                output += line
            for prompt in prompts:
                answer = complete(found[1] + "/v1", prompt)
                sequence = list(prompt)
                for token, best in zip(answer["tokens"], answer["top_logprobs"]):
                    by_id = [(ids[token_bytes(text)], logprob) for text, logprob in best.items()]
                    steps.append(Step(len(sequences), len(sequence) - 1, sorted(by_id, key=lambda one: -one[1])[:20]))
                    sequence.append(ids[token_bytes(token)])
                sequences.append(sequence)
        finally:
            server.terminate()
    return sequences, steps


def divergence(best: list[tuple[int, float]], logits: numpy.ndarray) -> float:
    """Of the peer's distribution from Kaiju's, over the 20 best tokens and all others taken together."""
    logits = logits.astype(numpy.float64)
    peer = logits - logits.max()
    peer -= numpy.log(numpy.exp(peer).sum())
    p = numpy.exp([logprob for _, logprob in best])
    q = numpy.exp([peer[token] for token, _ in best])
    p, q = numpy.append(p, max(1 - p.sum(), 1e-9)), numpy.append(q, max(1 - q.sum(), 1e-9))
    return float((p * numpy.log(p / q)).sum())


@dataclass
class Agreement:
    positions: int
    same_best: int
    mean_kl: float
    largest_kl: float
    disagreements: list[str]

    @property
    def good(self) -> bool:
        return not self.disagreements and self.mean_kl < MEAN_KL

    def __str__(self) -> str:
        text = f"same best token at {self.same_best} of {self.positions} positions, mean KL {self.mean_kl:.5f} nats, "
        return text + f"largest {self.largest_kl:.5f}" + "".join(f"\n  {line}" for line in self.disagreements)


def compare(sequences: list[list[int]], steps: list[Step], logits: numpy.ndarray) -> Agreement:
    """`logits` of all positions of all sequences, one after another."""
    begins = numpy.cumsum([0, *map(len, sequences)])
    divergences, same, disagreements = [], 0, []
    for step in steps:
        here = logits[begins[step.sequence] + step.position]
        divergences.append(divergence(step.best, here))
        (first, first_logprob), (_, second_logprob) = step.best[:2]
        if int(here.argmax()) == first:
            same += 1
        elif first_logprob - second_logprob > MARGIN:
            disagreements.append(f"sequence {step.sequence}, position {step.position}: {here.argmax()}, not {first}")
    mean, largest = float(numpy.mean(divergences)), float(numpy.max(divergences))
    return Agreement(len(steps), same, mean, largest, disagreements)
