#!/usr/bin/env python3
"""What a pipeline of two nodes gives, measured on one machine: two processes on a CPU of their own against one on one.

    bench/pipeline.py KAIJU streams   tokens/s of many streams at once, and how busy each stage is
    bench/pipeline.py KAIJU prefill   time to the first token of one long prompt
    bench/pipeline.py KAIJU chat      the second turn of a chat with a long history
    bench/pipeline.py KAIJU drafts    an answer that copies, with and without drafts
    bench/pipeline.py KAIJU soak      many clients at once for minutes (bench/soak.py)
    bench/pipeline.py KAIJU all       one after the other

Starts nodes and servers by itself, takes what is compared in turn, round by round, and prints medians of the rounds with their
range; ratios are formed within a round. Models are kaiju-mini, and the 30B shape with 8 layers (`kaiju synth`, 3.2 GB,
made in --thirty unless it is there). Needs Python 3 alone.
"""

import argparse
import contextlib
import json
import pathlib
import shlex
import statistics
import sys
import time

import serving
import soak
from serving import BenchError, Cluster, decimals, percent, spread

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
MODELS = ("kaiju-mini", "30b-8")


class Bench:
    """One subcommand's run: its arguments, what it has measured, and its table."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.kaiju = arguments.kaiju
        self.measured = []
        self.rows = []

    def options(self, model, longest, *more, drafts=False):
        """The lead's; sequences of `longest` tokens at most."""
        options = ["--ctx", str(min(longest, model.longest)), *more, *shlex.split(self.arguments.serve_options)]
        if not drafts and serving.knows_option(self.kaiju, "--draft"):
            options += ["--draft", "0"]
        return options

    def cluster(self, model, nodes, options, even=False):
        """With the split that was asked for, or else the automatic one, or `even`: as many layers on each node."""
        split = self.arguments.split or (f"{model.layers - model.layers // 2},{model.layers // 2}" if even else None)
        if nodes > 1 and split:
            options = [*options, "--split", split]
        return Cluster(self.kaiju, model.directory, self.arguments.cpus[:nodes], options)

    def models(self):
        for name in self.arguments.models:
            with serving.open_model(name, self.kaiju, self.arguments.thirty) as model:
                yield model

    def rounds(self):
        for number in range(self.arguments.rounds):
            if sys.stderr.isatty():
                print(f"\rround {number + 1} of {self.arguments.rounds} ", end="", file=sys.stderr, flush=True)
            yield number

    def note(self, **measured):
        self.measured.append(measured)
        return measured


def stages(before, after):
    """Share of compute in compute and wait, stage by stage, between two readings of /metrics while there is work."""
    shares = []
    for name in stage_names(after):
        compute, wait = (after[each] - before[each] for each in (name, name.replace("compute", "wait")))
        shares.append(compute / (compute + wait) if compute + wait > 0 else 0)
    return shares


def stage_names(metrics):
    return sorted(name for name in metrics if name.startswith("kaiju_node_compute_seconds_total{"))


def split_of(metrics):
    return ", ".join(f"{metrics[name.replace('compute_seconds_total', 'layers')]:.0f}" for name in stage_names(metrics))


def steady_decode(cluster, model, streams, tokens, seed):
    """Streams at once: tokens/s of all and the stages' busy shares, from the moment that all of them decode."""
    start = cluster.wait_idle()
    prompt, slack = 256, 64
    bodies = [{"prompt": model.ids(prompt, seed * 1000 + number), "max_tokens": tokens + slack, "ignore_eos": True,
               "temperature": 0} for number in range(streams)]
    with serving.Streams(cluster, bodies) as opened:
        def reading():
            metrics = cluster.metrics()
            if opened.failed or metrics["kaiju_requests_failed_total"] > start["kaiju_requests_failed_total"]:
                raise BenchError(f"a stream failed: {opened.failed}")
            grown = {name: value - start.get(name, 0) for name, value in metrics.items()}
            return time.monotonic(), metrics, grown["kaiju_prompt_tokens_total"], grown["kaiju_completion_tokens_total"]

        while (begin := reading())[2] < prompt * streams or begin[3] < 4 * streams:
            time.sleep(0.02)
        end = None
        while True:
            time.sleep(0.1)
            now = reading()
            if now[1]["kaiju_requests_running"] < streams:
                break  # the rest would not be all streams' decoding
            end = now
            if now[3] - begin[3] >= tokens * streams:
                break
    cluster.wait_idle()
    if not end:
        raise BenchError("the streams ended before they were measured: more --tokens are needed")
    return {"tokens_per_second": (end[3] - begin[3]) / (end[0] - begin[0]), "seconds": end[0] - begin[0],
            "busy": stages(begin[1], end[1]), "split": split_of(end[1])}


def run_streams(bench):
    head = ["model", "nodes", "streams", "tokens/s", "ratio to one stream", "ratio to one node", "split",
            "busy share of each stage"]
    counts = [1] + [count for count in bench.arguments.streams if count > 1]
    for model in bench.models():
        tokens = bench.arguments.tokens or (512 if model.name == "kaiju-mini" else 96)
        options = bench.options(model, 256 + tokens + 64, "--parallel", str(max(counts)))
        with bench.cluster(model, 1, options) as one, bench.cluster(model, 2, options) as two:
            for number in bench.rounds():
                for cluster in (two, one):
                    for count in counts:
                        bench.note(model=model.name, nodes=cluster.nodes, streams=count, round=number,
                                   **steady_decode(cluster, model, count, tokens, number * 100 + count))
        of = {(m["nodes"], m["streams"], m["round"]): m for m in bench.measured if m["model"] == model.name}
        for nodes in (2, 1):
            for count in counts:
                got = [of[nodes, count, number] for number in range(bench.arguments.rounds)]
                speeds = [each["tokens_per_second"] for each in got]
                to_one = [each["tokens_per_second"] / of[nodes, 1, each["round"]]["tokens_per_second"] for each in got]
                to_single = [each["tokens_per_second"] / of[1, count, each["round"]]["tokens_per_second"] for each in got]
                busy = [statistics.median(stage) for stage in zip(*(each["busy"] for each in got))]
                bench.rows.append([model.name, str(nodes), str(count), spread(speeds), spread(to_one),
                                   spread(to_single), got[0]["split"], ", ".join(percent(share) for share in busy)])
    return head


def run_prefill(bench):
    head = ["model", "prompt tokens", "1 node", "2 nodes", "ratio", "split", "busy share of each stage",
            "steps that overlap"]
    for model in bench.models():
        length = min(bench.arguments.prompt_tokens, model.longest - 8)
        options = bench.options(model, length + 8, "--parallel", "1")
        seconds = {1: [], 2: []}
        with bench.cluster(model, 1, options) as one, bench.cluster(model, 2, options, even=True) as two:
            for number in bench.rounds():
                for cluster in (one, two):
                    before = cluster.wait_idle()
                    answer = cluster.ask_whole(COMPLETIONS, prompt=model.ids(length, number), max_tokens=1,
                                               temperature=0, ignore_eos=True)
                    after = cluster.wait_idle()
                    seconds[cluster.nodes].append(answer.first_token)
                steps, overlapped = (after[name] - before[name]
                                     for name in ("kaiju_steps_total", "kaiju_steps_overlapped_total"))
                bench.note(model=model.name, round=number, prompt_tokens=length, seconds_one_node=seconds[1][-1],
                           seconds_two_nodes=seconds[2][-1], steps=steps, overlapped=overlapped, split=split_of(after),
                           busy=[(after[name] - before[name]) / seconds[2][-1] for name in stage_names(after)])
        got = [m for m in bench.measured if m["model"] == model.name]
        busy = [statistics.median(stage) for stage in zip(*(each["busy"] for each in got))]
        bench.rows.append([model.name, str(length), *(spread(seconds[nodes]) + " s" for nodes in (1, 2)),
                           spread([one / two for one, two in zip(seconds[1], seconds[2])]),
                           got[0]["split"], ", ".join(percent(share) for share in busy),
                           f"{got[0]['overlapped']:.0f} of {got[0]['steps']:.0f}"])
    return head


def history(model, tokens, seed):
    """A chat of that many tokens that ends with a question; no two begin alike."""
    messages = [{"role": "system", "content": model.text(200, seed)[1:]}]
    turn, part, count = 0, 300, 210
    while count < tokens - part // 2:
        length = min(part, tokens - count)
        messages.append({"role": "assistant" if turn % 2 else "user",
                         "content": model.text(length, f"{seed} {turn}")[1:]})
        count += length + 6
        turn += 1
    if messages[-1]["role"] != "user":
        messages.append({"role": "user", "content": "Go on."})
    return messages


def cached(answer):
    return (answer.usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)


def run_chat(bench):
    head = ["model", "nodes", "prompt tokens, turn 1", "first token, turn 1", "first token, turn 2", "ratio",
            "cached tokens, turn 2", "share of turn 1"]
    reply = 48
    for model in bench.models():
        length = min(bench.arguments.history_tokens, model.longest - 256)
        options = bench.options(model, length + 512, "--parallel", "2")
        with contextlib.ExitStack() as running:
            clusters = [running.enter_context(bench.cluster(model, nodes, options)) for nodes in (1, 2)]
            for number in bench.rounds():
                for cluster in clusters:
                    fields = {"max_tokens": reply, "temperature": 0, "ignore_eos": True, **model.bias()}
                    messages = history(model, length, number)
                    first = cluster.ask(CHAT, messages=messages, **fields)
                    messages += [{"role": "assistant", "content": first.text},
                                 {"role": "user", "content": "What follows from this? Answer in a few words."}]
                    second = cluster.ask(CHAT, messages=messages, **fields)
                    bench.note(model=model.name, nodes=cluster.nodes, round=number,
                               prompt_tokens=[first.usage["prompt_tokens"], second.usage["prompt_tokens"]],
                               first_token=[first.first_token, second.first_token], cached_tokens=cached(second))
        for nodes in (1, 2):
            got = [m for m in bench.measured if m["model"] == model.name and m["nodes"] == nodes]
            times = [[each["first_token"][turn] for each in got] for turn in (0, 1)]
            bench.rows.append([
                model.name, str(nodes), spread([each["prompt_tokens"][0] for each in got]),
                *(spread(each) + " s" for each in times),
                spread([each["first_token"][1] / each["first_token"][0] for each in got], percent),
                spread([each["cached_tokens"] for each in got]),
                spread([each["cached_tokens"] / each["prompt_tokens"][0] for each in got], percent)])
    return head


def conversation(cluster, questions):
    """Asks one after the other: tokens/s of the answers after their first token, drafted tokens, and the texts."""
    tokens, seconds, accepted, rejected, texts = 0, 0, 0, 0, []
    for question in questions:
        fields = {"messages": [{"role": "user", "content": question}], "max_tokens": 512, "temperature": 0}
        answer = cluster.ask(CHAT, **fields)
        details = answer.usage.get("completion_tokens_details") or {}
        tokens += answer.usage["completion_tokens"] - 1
        seconds += answer.rest
        accepted += details.get("accepted_prediction_tokens", 0)
        rejected += details.get("rejected_prediction_tokens", 0)
        texts.append(answer.text)
    return {"tokens": tokens, "tokens_per_second": tokens / seconds, "accepted": accepted, "rejected": rejected,
            "texts": texts}


def run_drafts(bench):
    head = ["model", "answers", "nodes", "tokens", "tokens/s without drafts", "with drafts", "ratio", "drafted",
            "accepted", "same text"]
    questions = json.loads(bench.arguments.questions.read_text())
    with serving.open_model("kaiju-mini", bench.kaiju, bench.arguments.thirty) as model, \
            contextlib.ExitStack() as running:
        options = [bench.options(model, 2048, "--parallel", "1", drafts=on) for on in (False, True)]
        pairs = [[running.enter_context(bench.cluster(model, nodes, each)) for each in options] for nodes in (1, 2)]
        for number in bench.rounds():
            for kind in questions:
                for pair in pairs:
                    without, drafting = (conversation(cluster, questions[kind]) for cluster in pair)
                    if without["texts"] != drafting["texts"]:
                        raise BenchError(f"drafts have changed the text: {without['texts']} {drafting['texts']}")
                    bench.note(model=model.name, answers=kind, nodes=pair[0].nodes, round=number, without=without,
                               drafting=drafting)
    for kind in questions:
        for nodes in (1, 2):
            got = [m for m in bench.measured if m["nodes"] == nodes and m["answers"] == kind]
            without, drafting = ([each[which]["tokens_per_second"] for each in got] for which in ("without", "drafting"))
            accepted, rejected = (sum(each["drafting"][which] for each in got) for which in ("accepted", "rejected"))
            bench.rows.append([model.name, kind, str(nodes), str(got[0]["without"]["tokens"]), spread(without),
                               spread(drafting), spread([b / a for a, b in zip(without, drafting)]),
                               str((accepted + rejected) // len(got)),
                               percent(accepted / (accepted + rejected)) if accepted + rejected else "none", "yes"])
    return head


COMMANDS = {"streams": run_streams, "prefill": run_prefill, "chat": run_chat, "drafts": run_drafts,
            "soak": soak.run_soak}


def run(name, arguments):
    bench = Bench(arguments)
    begin = time.monotonic()
    head = COMMANDS[name](bench)
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
    print(f"\n{name}: {len(bench.measured)} measurements in {time.monotonic() - begin:.0f} s\n")
    print(serving.table(head, bench.rows), flush=True)
    return {"bench": name, "command": sys.argv, "machine": serving.machine(arguments.kaiju),
            "measured": bench.measured, "head": head, "rows": bench.rows}


def list_of(kind):
    def parse(text):
        return [kind(item) for item in text.split(",")]
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kaiju", help="the program")
    parser.add_argument("bench", choices=[*COMMANDS, "all"])
    parser.add_argument("--models", type=list_of(str), default=",".join(MODELS), metavar="LIST")
    parser.add_argument("--thirty", type=pathlib.Path, default=pathlib.Path("build/bench/30b-8"), metavar="DIR",
                        help="directory of the 30B shape with 8 layers (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--cpus", type=list_of(int), metavar="LIST", help="one of each process (default: the first two)")
    parser.add_argument("--streams", type=list_of(int), default="4,8,16", metavar="LIST", help="(default: %(default)s)")
    parser.add_argument("--tokens", type=int, help="that each stream is measured over")
    parser.add_argument("--prompt-tokens", type=int, default=8000, help="of prefill (default: %(default)s)")
    parser.add_argument("--history-tokens", type=int, default=6000, help="of chat (default: %(default)s)")
    parser.add_argument("--questions", type=pathlib.Path, default=pathlib.Path(__file__).with_name("drafts.json"),
                        help="of drafts, by kind (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=10, help="of soak (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=64, help="of soak (default: %(default)s)")
    parser.add_argument("--split", metavar="N,N", help="layers of the lead and of the node (default: automatic, and even "
                        "for prefill: the automatic split counts what decode reads)")
    parser.add_argument("--serve-options", default="", metavar="OPTIONS", help="more options of kaiju serve")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="where all that was measured is written")
    arguments = parser.parse_args()
    for name in arguments.models:
        if name not in MODELS:
            parser.error(f'"{name}" is none of the models {", ".join(MODELS)}')
    return arguments


def main():
    arguments = parse_arguments()
    try:
        arguments.cpus = arguments.cpus or serving.usual_cpus(2)
        if len(arguments.cpus) < 2:
            raise BenchError("--cpus needs two CPUs")
        print(shlex.join(sys.argv))
        print(serving.machine(arguments.kaiju))
        reports = [run(name, arguments) for name in (COMMANDS if arguments.bench == "all" else [arguments.bench])]
    except BenchError as failure:
        sys.exit(f"{failure}")
    if arguments.json:
        arguments.json.write_text(json.dumps(reports, indent=1) + "\n")


if __name__ == "__main__":
    main()
