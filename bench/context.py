#!/usr/bin/env python3
"""Decode speed over the length of the context, as a picture.

    bench/context.py [--contexts 1024,8192,32768] [--out docs/images/context.svg] KAIJU MODEL [option of kaiju bench]...

Runs `kaiju bench MODEL --json --contexts …` once and draws its medians, with the range of its rounds, next to what
the machine's memory allows: its read bandwidth divided by the bytes that a token moves at that context. The picture has
the figures in it; a table of them is printed. Needs Python 3 alone.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 24, 64, 92

# Readable on white and on black alike.
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #59636e }
  .title { font-size: 16px; font-weight: 600; fill: #1f2328 }
  .value { font-weight: 600; fill: #1f2328; paint-order: stroke; stroke: #ffffff; stroke-width: 4px }
  .page { fill: #ffffff }
  .grid { stroke: #d1d9e0; stroke-width: 1 }
  .speed { stroke: #0969da; fill: none; stroke-width: 2.5 }
  .dot { fill: #0969da }
  .limit { stroke: #9a6700; fill: none; stroke-width: 2; stroke-dasharray: 6 5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 }
    .title { fill: #f0f6fc }
    .value { fill: #f0f6fc; stroke: #0d1117 }
    .page { fill: #0d1117 }
    .grid { stroke: #3d444d }
    .speed { stroke: #4493f8 }
    .dot { fill: #4493f8 }
    .limit { stroke: #d29922 }
  }
"""


def short(tokens):
    return f"{tokens // 1024}k" if tokens >= 1024 and tokens % 1024 == 0 else str(tokens)


def decimals(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def step_of(highest):
    """The distance of about five round lines up to `highest`."""
    power = 10 ** math.floor(math.log10(highest / 5))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= highest / 5)


class Chart:
    """Speed upwards from zero, context to the right by its logarithm."""

    def __init__(self, contexts, highest):
        self.step = step_of(highest)
        self.lines = math.ceil(highest / self.step)
        self.low, self.high = math.log(contexts[0]), math.log(contexts[-1])
        self.parts = []

    def x(self, context):
        share = (math.log(context) - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return LEFT + 24 + share * (WIDTH - LEFT - RIGHT - 48)

    def y(self, speed):
        return HEIGHT - BOTTOM - speed / (self.step * self.lines) * (HEIGHT - TOP - BOTTOM)

    def text(self, x, y, text, anchor="middle", kind=""):
        kind = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(text)}</text>')

    def line(self, x1, y1, x2, y2, kind):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def path(self, points, kind):
        corners = " ".join(f"{self.x(context):.1f},{self.y(speed):.1f}" for context, speed in points)
        self.parts.append(f'<polyline points="{corners}" class="{kind}"/>')

    def svg(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">\n'
                f"<style>{STYLE}</style>\n" + "\n".join(self.parts) + "\n</svg>\n")


def draw(report, title):
    rows = report["decode"]
    limits = [report["read_bytes_per_second"] / row["bytes_per_token"] for row in rows]
    chart = Chart([row["context"] for row in rows], max(limits + [row["most"] for row in rows]) * 1.05)
    chart.parts.append(f"<title>{escape(title)}</title>")
    chart.parts.append(f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" class="page"/>')
    chart.text(LEFT, 30, title, "start", "title")
    chart.text(LEFT, 50, "decoded tokens/s", "start")
    for i in range(chart.lines + 1):
        y = chart.y(i * chart.step)
        chart.line(LEFT, y, WIDTH - RIGHT, y, "grid")
        chart.text(LEFT - 10, y + 4, f"{i * chart.step:g}", "end")
    chart.path([(row["context"], limit) for row, limit in zip(rows, limits)], "limit")
    for row in rows:
        x = chart.x(row["context"])
        chart.line(x, chart.y(row["least"]), x, chart.y(row["most"]), "speed")
    chart.path([(row["context"], row["tokens_per_second"]) for row in rows], "speed")
    for row in rows:
        x, y = chart.x(row["context"]), chart.y(row["tokens_per_second"])
        chart.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" class="dot"/>')
        below = y + 24 if y < HEIGHT - BOTTOM - 30 else y - 12
        chart.text(x, below, decimals(row["tokens_per_second"]), kind="value")
        chart.text(x, HEIGHT - BOTTOM + 20, short(row["context"]))
    chart.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 40, "tokens of context")
    legend = HEIGHT - 22
    chart.line(LEFT, legend - 4, LEFT + 30, legend - 4, "speed")
    chart.text(LEFT + 38, legend, f"Kaiju, median and range of {report['rounds']} rounds", "start")
    chart.line(LEFT + 300, legend - 4, LEFT + 330, legend - 4, "limit")
    chart.text(LEFT + 338, legend, f"limit of memory at {report['read_bytes_per_second'] / 1e9:.1f} GB/s", "start")
    return chart.svg()


def table(report):
    yield "| context | decode tokens/s | range | GB a token | GB/s | share |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in report["decode"]:
        yield (f"| {row['context']} | {decimals(row['tokens_per_second'])} "
               f"| {decimals(row['least'])}…{decimals(row['most'])} | {row['bytes_per_token'] / 1e9:.3f} "
               f"| {row['bytes_per_second'] / 1e9:.1f} | {row['share_of_read_speed'] * 100:.0f} % |")


def context_list(text):
    try:
        return sorted({int(item) for item in text.split(",")})
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{text}" is no list of whole numbers such as 1024,8192') from None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kaiju", help="the program")
    parser.add_argument("model", help="directory of the checkpoint")
    parser.add_argument("--contexts", type=context_list, default="1024,8192,32768", metavar="LIST",
                        help="(default: %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs/images/context.svg"),
                        help="(default: %(default)s)")
    arguments, options = parser.parse_known_args()
    contexts = ",".join(map(str, arguments.contexts))
    command = [arguments.kaiju, "bench", arguments.model, "--json", "--prompt-tokens", "64", "--contexts", contexts]
    outcome = subprocess.run(command + options, stdout=subprocess.PIPE, check=False)
    if outcome.returncode:
        sys.exit(outcome.returncode)
    report = json.loads(outcome.stdout)
    model = pathlib.Path(arguments.model).resolve().name
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(draw(report, f"{model}, {report['engine']}"))
    print(f"{report['machine']['cpu']}, {report['machine']['cpus']} CPUs; {arguments.out}\n")
    print("\n".join(table(report)))


if __name__ == "__main__":
    main()
