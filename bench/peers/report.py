"""The table of bench/peers: medians over rounds, their spread, and how Kaiju compares."""

import json
import pathlib
import statistics

NAMES = {
    "kaiju": "Kaiju",
    "llama-q4_1": "llama.cpp Q4_1",
    "llama-q4_0": "llama.cpp Q4_0",
    "llama-q4_k": "llama.cpp Q4_K",
    "llama-bench": "llama-bench Q4_1",
    "mlx": "mlx-lm",
}


def read_results(path: pathlib.Path) -> list[dict]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def machine() -> str:
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else 'unknown CPU'}, {len(names) or '?'} CPUs"


def spread(values: list[float]) -> dict:
    return {"median": statistics.median(values), "least": min(values), "most": max(values), "rounds": len(values)}


def collect(results: list[dict]) -> dict:
    """{(kind, size, threads): {engine: spread, or None where it would have taken too long}}"""
    values: dict = {}
    for entry in results:
        if entry["kind"] == "read":
            continue
        cell = values.setdefault((entry["kind"], entry["size"], entry["threads"]), {})
        cell.setdefault(entry["engine"], []).append(entry["tokens_per_second"])
    return {
        key: {engine: None if None in rates else spread(rates) for engine, rates in cell.items()}
        for key, cell in values.items()
    }


def number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def describe(figure: dict | None, missing: bool) -> str:
    if figure is None:
        return "" if missing else "too long"
    if figure["rounds"] == 1:
        return number(figure["median"])
    return f"{number(figure['median'])} ({number(figure['least'])}…{number(figure['most'])})"


def read_speeds(results: list[dict]) -> dict[int, dict]:
    speeds: dict[int, list[float]] = {}
    for entry in results:
        if entry["kind"] == "read":
            speeds.setdefault(entry["threads"], []).append(entry["bytes_per_second"])
    return {threads: spread(values) for threads, values in sorted(speeds.items())}


def shares(results: list[dict], threads: int) -> dict | None:
    """Of the read speed measured around the same run, what Kaiju reads when one sequence decodes."""
    values = [
        entry["share_of_read_speed"]
        for entry in results
        if (entry["engine"], entry["kind"], entry.get("size"), entry["threads"]) == ("kaiju", "decode", 1, threads)
    ]
    return spread(values) if values else None


def ratio(cell: dict, engine: str) -> str:
    ours, theirs = cell.get("kaiju"), cell.get(engine)
    return f"{ours['median'] / theirs['median']:.1f}" if ours and theirs else ""


def table(results: list[dict], engines: list[str]) -> list[str]:
    cells = collect(results)
    shown = [engine for engine in engines if any(engine in cell for cell in cells.values())]
    peers = [engine for engine in shown if engine not in ("kaiju", "llama-bench")]
    heads = ["tokens/s", "threads", *(NAMES[engine] for engine in shown), *(f"÷ {NAMES[engine]}" for engine in peers)]
    lines = ["| " + " | ".join(heads) + " |", "| " + " | ".join(["---"] * len(heads)) + " |"]
    for kind, size, threads in sorted(cells, key=lambda key: (key[0] != "prefill", key[2], key[1])):
        cell = cells[kind, size, threads]
        name = f"prefill {size}" if kind == "prefill" else f"decode × {size}"
        figures = [describe(cell.get(engine), engine not in cell) for engine in shown]
        ratios = [ratio(cell, engine) for engine in peers]
        lines.append("| " + " | ".join([name, str(threads), *figures, *ratios]) + " |")
    return lines


def write(directory: pathlib.Path, shapes: list[str], engines: list[str]) -> None:
    """peers.md, which is printed, too, and peers.json."""
    agreement_path = directory / "results" / "agreement.json"
    agreements = json.loads(agreement_path.read_text()) if agreement_path.exists() else {}
    lines = [machine(), ""]
    lines += [f"kaiju-mini, {NAMES[engine]} and Kaiju: {text}  " for engine, text in agreements.items()]
    figures = {"machine": machine(), "agreement": agreements, "shapes": {}}
    for shape in shapes:
        results = read_results(directory / "results" / f"{shape}.jsonl")
        if not results:
            continue
        lines += ["", f"### {shape}", "", *table(results, engines), ""]
        speeds = read_speeds(results)
        for threads, speed in speeds.items():
            share = shares(results, threads)
            median, least, most = (speed[key] * 1e-9 for key in ("median", "least", "most"))
            held = f"{threads} thread{'s' if threads > 1 else ''}"
            line = f"Read speed of memory, {held}: {median:.1f} GB/s ({least:.1f}…{most:.1f})"
            if share:
                median, least, most = (share[key] * 100 for key in ("median", "least", "most"))
                line += f"; Kaiju's decode × 1 reads {median:.0f} % ({least:.0f}…{most:.0f}) of its run's"
            lines.append(line + "  ")
        figures["shapes"][shape] = {
            "read_bytes_per_second": speeds,
            "cells": [
                {"kind": kind, "size": size, "threads": threads, "tokens_per_second": cell}
                for (kind, size, threads), cell in sorted(collect(results).items())
            ],
        }
    text = "\n".join(lines) + "\n"
    (directory / "peers.md").write_text(text)
    (directory / "peers.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(text, end="")
