"""kaiju serve --drop-prompt-lines: a header that changes every turn does not spoil the prefix cache (T7)."""

import subprocess

from cluster import KAIJU, MINI

BLOCK = 64  # positions of a KV block: what is cached is whole blocks
RULES = "\n".join(f"Rule {i}: keep function number {i} short and give it a name that says what it does." for i in range(40))


def turns(lead):
    """Usages of a conversation whose system prompt begins with another header in every turn."""
    messages = [{"role": "user", "content": "Write a function."}]
    usages = []
    with lead.client() as client:
        for turn in range(5):
            system = {"role": "system", "content": f"x-turn: {turn * 7919}\n{RULES}"}
            answer = client.chat.completions.create(model="m", messages=[system, *messages], max_tokens=20, temperature=0)
            usages.append(answer.usage)
            messages += [{"role": "assistant", "content": answer.choices[0].message.content},
                         {"role": "user", "content": f"Now another one, number {turn}."}]
    return usages


def cached(usage):
    return usage.prompt_tokens_details.cached_tokens


def test_T7_a_dropped_header_leaves_the_prefix_in_the_cache(cluster):
    lead = cluster.lead([], "--drop-prompt-lines", "^x-turn: ").wait_ready()
    usages = turns(lead)
    assert usages[0].prompt_tokens > 5 * BLOCK
    for before, now in zip(usages, usages[1:]):
        assert cached(now) > before.prompt_tokens - BLOCK


def test_T7_without_it_every_turn_is_computed_anew(cluster):
    lead = cluster.lead([]).wait_ready()
    assert all(cached(usage) < BLOCK for usage in turns(lead))


def test_an_expression_that_is_none_is_refused():
    done = subprocess.run([KAIJU, "serve", MINI, "--drop-prompt-lines", "a(b"], capture_output=True, text=True)
    assert done.returncode == 2
    assert '--drop-prompt-lines: "a(b" is not a regular expression: byte 3' in done.stderr
