"""Strings that try a tokenizer: the same ones for the same seed."""

import random

SPECIAL_LOOKALIKES = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<tool_call>", "</tool_call>", "<think>", "</think>", "<|im_start|",
    "|im_end|>", "<|im_ end|>", "<|IM_END|>", "<|im_start|><|im_end|>", "<<|im_end|>>", "<|fim_prefix|>", "<|file_sep|>",
    "<tool_response>", "<|im_start|>system\n", "<|vision_pad|>", "<tool_call", "<|<|im_end|>|>",
]
WORDS = (
    "the a function return int void const self import def class printf malloc buffer error tokenizer attention don't "
    "we'll I'VE it's CAN'T o'clock they'RE 'quoted' naïve café über Straße ПРИВЕТ мир Ελληνικά ſ'ſ x'S 'sS ﬁne ŉ"
).split()
CODE = [
    "for (int i = 0; i < n; i++) {\n\t\tsum += a[i] * b[i];\n\t}\n", "def f(x):\n    return x ** 2\n\n\n", "#include <stdio.h>\r\n",
    "if (!p || p->next == NULL) return -1;", "SELECT * FROM t WHERE a >= 10 AND b != 'x';", "λ x → x + 1", "0xDEADBEEF",
    "https://example.org/a/b?c=d&e=f#g", "{\"key\": [1, 2.5e-10, null, true]}", "```python\nprint('hi')\n```", "a->b::c<d>()",
    "   \n   \n\n\t\t\n", "/* ---- */", "$$\\int_0^1 x\\,dx$$", "===========", "!!!???...", "\\n\\t\\\\",
]
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\r", "\v", "\f", "\u0085", "\u00a0", "\u1680", "\u180e", "\u2003", "\u2028", "\u2029",
          "\u202f", "\u205f", "\u3000", "\u200b", "\ufeff", "    ", "\n\n", " \n"]
EMOJI = ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "🇯🇵🇰🇷", "❤️", "☺", "1️⃣", "🧑🏿‍🚀", "🫠", "\U0001faf8"]
RANGES = {
    "latin": (0x20, 0x24F), "combining": (0x300, 0x36F), "greek": (0x370, 0x3FF), "cyrillic": (0x400, 0x52F),
    "hebrew": (0x590, 0x5FF), "arabic": (0x600, 0x6FF), "devanagari": (0x900, 0x97F), "bengali": (0x980, 0x9FF),
    "tamil": (0xB80, 0xBFF), "thai": (0xE00, 0xE7F), "tibetan": (0xF00, 0xFFF), "jamo": (0x1100, 0x11FF),
    "greek extended": (0x1F00, 0x1FFF), "punctuation": (0x2000, 0x206F), "symbols": (0x2100, 0x27BF),
    "kana": (0x3040, 0x30FF), "cjk": (0x4E00, 0x9FFF), "hangul": (0xAC00, 0xD7A3), "compatibility": (0xF900, 0xFAFF),
    "presentation": (0xFB00, 0xFDFF), "half width": (0xFF00, 0xFFEF), "music": (0x1D150, 0x1D1FF),
    "mathematics": (0x1D400, 0x1D7FF), "emoji": (0x1F300, 0x1FAFF), "cjk b": (0x20000, 0x2A6DF),
    "compatibility 2": (0x2F800, 0x2FA1F), "private": (0xE000, 0xF8FF), "control": (0, 0x9F),
}


def _character(rng, first=0, last=0x10FFFF):
    while True:
        code = rng.randint(first, last)
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def _run(rng, limit):
    return 1 + min(int(rng.expovariate(1.0 / limit * 3)), limit)


def _part(rng):
    kind = rng.randrange(14)
    if kind == 0:
        return rng.choice(WORDS)
    if kind == 1:
        return rng.choice(CODE)
    if kind == 2:
        return "".join(rng.choice(SPACES) for _ in range(_run(rng, 8)))
    if kind == 3:
        return "".join(rng.choice(EMOJI) for _ in range(_run(rng, 4)))
    if kind == 4:
        return "".join(rng.choice("0123456789٣४໕²Ⅷ½") for _ in range(_run(rng, 12)))
    if kind == 5:
        return rng.choice(SPECIAL_LOOKALIKES)
    if kind == 6:  # a base with marks in no order
        marks = "".join(rng.choice("\u0301\u0323\u0327\u0302\u0308\u031b\u0345\u05b0\u093c\u3099\u0338") for _ in range(_run(rng, 5)))
        return rng.choice("aeouAEOUdcαωかは=<>≠क") + marks
    if kind == 7:  # jamo that compose, or not
        return "".join(chr(rng.choice([0x1100, 0x1112, 0x1161, 0x1175, 0x11A7, 0x11A8, 0x11C2, 0xAC00, 0xD7A3])) for _ in range(_run(rng, 6)))
    if kind == 8:
        return rng.choice([" ", "", "\n"]) + "'" + rng.choice(["s", "T", "re", "VE", "ſ", "ll", "D", "x"]) + rng.choice(["", " ", "a"])
    if kind == 9:
        return "".join(rng.choice("!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(_run(rng, 10)))
    if kind == 10:
        return rng.choice("aAxz0-_ .") * _run(rng, 40)
    if kind == 11:
        return "".join(rng.choice("etaoinshrdlu") for _ in range(_run(rng, 30)))
    if kind == 12:
        return "".join(_character(rng) for _ in range(_run(rng, 4)))
    first, last = RANGES[rng.choice(list(RANGES))]
    return "".join(_character(rng, first, last) for _ in range(_run(rng, 12)))


def generate(count, seed):
    rng = random.Random(seed)
    return ["".join(_part(rng) for _ in range(_run(rng, 10))) for _ in range(count)]


def every_character(template, size=64):
    """The template, a function of a character, for each code point, `size` to a string. Of the planes from U+40000 on,
    where nothing but tags, selectors and private characters is assigned, every 16th."""
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and (c < 0x40000 or c % 16 == 0 or 0xE0000 <= c < 0xE0200)]
    for start in range(0, len(codes), size):
        yield "".join(template(chr(code)) for code in codes[start:start + size])


def long_strings(seed):
    rng = random.Random(seed)
    yield "a" * 300_000
    yield " " * 100_000
    yield " " * 50_000 + "x"
    yield "\n" * 70_000 + " x"
    yield " \n" * 30_000
    yield "ab" * 100_000
    yield "".join(rng.choice("etaoinshrdlu") for _ in range(200_000))
    yield "字" * 50_000
    yield "é" * 50_000
    yield "a" + "\u0301\u0323" * 20_000
    yield "=" * 100_000
    yield "1234567890" * 10_000
    yield "<|im_end|>" * 5_000
    yield "👍🏽" * 10_000
