"""Runs tests/tools/logits: the logits of every position of token sequences, by Kaiju.

KAIJU_BUILD names the build directory (default: build).
"""

import hashlib
import json
import os
import pathlib
import subprocess

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("KAIJU_BUILD", ROOT / "build")).resolve()
MINI = ROOT / "models" / "kaiju-mini"


def read_json(path):
    return json.loads(pathlib.Path(path).read_text())


def raw_logits(model, sequences, split, chunk=512, isa="auto", threads=2, build=BUILD, emulator=()):
    """The bytes that the tool writes: f32 [positions of all sequences, vocabulary]."""
    program = [*emulator, build / "tests" / "tools" / "logits"]
    arguments = [model, split, str(chunk), isa, str(threads)]
    lines = "".join(" ".join(map(str, sequence)) + "\n" for sequence in sequences)
    done = subprocess.run([*program, *arguments], input=lines.encode(), capture_output=True)
    assert done.returncode == 0, f"{arguments}: {done.stderr.decode()}"
    expected = sum(map(len, sequences)) * read_json(pathlib.Path(model) / "config.json")["vocab_size"] * 4
    assert len(done.stdout) == expected, f"{arguments}: {len(done.stdout)} bytes instead of {expected}"
    return done.stdout


def digest(*arguments, **options):
    """SHA-256 of the logits: equal if they are equal to the bit."""
    return hashlib.sha256(raw_logits(*arguments, **options)).hexdigest()


def logits(model, sequences, **options):
    """A list of arrays [tokens, vocabulary], one a sequence, all layers in one stage."""
    config = read_json(pathlib.Path(model) / "config.json")
    options.setdefault("split", str(config["num_hidden_layers"]))
    rows = numpy.frombuffer(raw_logits(model, sequences, **options), "<f4").reshape(-1, config["vocab_size"])
    assert numpy.isfinite(rows).all()
    return numpy.split(rows, numpy.cumsum([len(sequence) for sequence in sequences])[:-1])


def log_softmax(z):
    z = z.astype(numpy.float64)
    z = z - z.max(-1, keepdims=True)
    return z - numpy.log(numpy.exp(z).sum(-1, keepdims=True))


def divergence(reference, z):
    """Kullback-Leibler divergence of each row's distribution from the reference's, in nats."""
    p, q = log_softmax(reference), log_softmax(z)
    return (numpy.exp(p) * (p - q)).sum(-1)
