#!/usr/bin/env bash
# Runs one fuzz target on a copy of its seeds: tests/fuzz/run.sh BUILD/fuzz/fuzz_INPUT SECONDS
# Prints one line, and on a fault the report and where the input that shows it lies.
set -uo pipefail
target=$1
seconds=$2
name=$(basename "$target")
here=$(cd "$(dirname "$0")" && pwd)
work=$(dirname "$target")/../artifacts/$name
mkdir -p "$work/corpus"
seeds=$here/corpus/${name#fuzz_}
[ -d "$seeds" ] || { echo "$name: no seeds in $seeds"; exit 1; }
if "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
  -artifact_prefix="$work/" "$work/corpus" "$seeds" >"$work/log" 2>&1; then
  echo "$name: clean, $(sed -n 's/stat::number_of_executed_units: *//p' "$work/log") inputs in $seconds s"
else
  tail -n 40 "$work/log"
  echo "$name: FAILED, see $work"
  exit 1
fi
