#!/usr/bin/env bash
# The first table of docs/performance.md: prefill and decode speed of kaiju-mini and of the 30B shape with 8 layers, with
# one thread and two (or as many as are named), the weights in the page cache and in huge pages, next to the read
# bandwidth measured in the same run. Medians over interleaved repetitions; the spread is that of all rounds.
#
#   bench/table.sh PATH/TO/kaiju [REPETITIONS [THREADS...]]
set -euo pipefail
kaiju=${1:?usage: $0 PATH/TO/kaiju [REPETITIONS [THREADS...]]}
repetitions=${2:-3}
counts=("${@:3}")
[ ${#counts[@]} -gt 0 ] || counts=(1 2)
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(dirname "$kaiju")/bench
mkdir -p "$work"
[ -f "$work/30b-8/config.json" ] || "$kaiju" synth qwen3-coder-30b "$work/30b-8" --layers 8 >&2
rm -f "$work"/result-*.json

for repetition in $(seq "$repetitions"); do
  for threads in "${counts[@]}"; do
    for model in "$root/models/kaiju-mini" "$work/30b-8"; do
      for pages in mapped huge; do
        option=()
        [ "$pages" = mapped ] || option=(--huge-pages)
        "$kaiju" bench "$model" --threads "$threads" --prompt-tokens 512 --tokens 64 --rounds 3 --ctx 1024 --json \
          "${option[@]}" >"$work/result-$(basename "$model")-$threads-$pages-$repetition.json"
      done
    done
  done
done

echo "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1), $(nproc) CPUs, $("$kaiju" --version), $repetitions repetitions"
echo
echo "| model | threads | pages | prefill tokens/s | decode tokens/s | weights GB/s | read GB/s | share | spread of decode |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
for model in kaiju-mini 30b-8; do
  for threads in "${counts[@]}"; do
    for pages in mapped huge; do
      jq -rs --arg model "$model" --arg threads "$threads" --arg pages "$pages" '
        def median(f): map(f) | sort | .[length / 2 | floor];
        def round(digits): . * pow(10; digits) | floor / pow(10; digits);
        "| \($model) | \($threads) | \($pages) | \(median(.prefill[0].tokens_per_second) | round(0)) | \(median(.decode[0].tokens_per_second) | round(1)) | \(median(.decode[0].bytes_per_second) / 1e9 | round(1)) | \(median(.read_bytes_per_second) / 1e9 | round(1)) | \(median(.decode[0].share_of_read_speed) * 100 | round(0)) % | \(map(.decode[0].least) | min | round(1))…\(map(.decode[0].most) | max | round(1)) |"
      ' "$work"/result-"$model"-"$threads"-"$pages"-*.json
    done
  done
done
