#!/usr/bin/env python3
"""Checks that data flows one way through src/: a folder includes only itself and the folders below it."""
import pathlib
import re
import sys

ABOVE_TO_BELOW = ["cmd", "http", "grammar", "text", "sched", "stage", "link", "model", "compute", "base"]


def main():
    root = pathlib.Path(__file__).resolve().parents[2] / "src"
    faults, checked = [], 0
    for path in sorted(root.rglob("*.[ch]")):
        folder = path.relative_to(root).parts[0]
        if folder == "main.c":
            folder = "cmd"
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'#include "([^"]+)"', line)
            if not match:
                continue
            checked += 1
            target = match.group(1).split("/")[0]
            if target not in ABOVE_TO_BELOW:
                faults.append(f"{path}:{number}: {match.group(1)} is not named from src/")
            elif ABOVE_TO_BELOW.index(target) < ABOVE_TO_BELOW.index(folder):
                faults.append(f"{path}:{number}: {folder} lies below {target} and may not include it")
    print("\n".join(faults) if faults else f"layers: {checked} includes, all downwards")
    return bool(faults) or checked == 0


if __name__ == "__main__":
    sys.exit(main())
