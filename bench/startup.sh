#!/usr/bin/env bash
# How fast `kaiju serve` gets ready when the checkpoint is in the page cache: seconds from the start of the process, and
# bytes of weights a second next to the read bandwidth of the same threads. Writes a checkpoint of two layers of the
# 480B shape (10 GB; needs as much free memory) unless it is there, or takes the one that KAIJU_BENCH_MODEL names.
#
#   bench/startup.sh PATH/TO/kaiju [ROUNDS [option of kaiju serve and bench]...]
set -euo pipefail
kaiju=$(realpath "${1:?usage: $0 PATH/TO/kaiju [ROUNDS [option of kaiju serve and bench]...]}")
rounds=${2:-5}
options=("${@:3}")
[[ $rounds =~ ^[1-9][0-9]*$ ]] || { echo "$0: ROUNDS is a whole number, not \"$rounds\"" >&2 && exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
model=${KAIJU_BENCH_MODEL:-$(dirname "$kaiju")/bench/480b-2}
mkdir -p "$(dirname "$model")"
[ -f "$model/config.json" ] ||
  "$kaiju" synth qwen3-coder-480b "$model" --layers 2 --tokenizer "$root/models/kaiju-mini" >&2
bytes=$(stat -c %s "$model"/*.safetensors | jq -s add)
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# Microseconds until the log says the words; the process is then ended.
until_log_says() {
  local words=$1 begin end line log="" found=""
  shift
  begin=${EPOCHREALTIME/[.,]/}
  exec 3< <(exec "$@" 2>&1)
  local process=$!
  while [ -z "$found" ] && read -r line <&3; do
    log+=$line$'\n'
    [[ $line != *"$words"* ]] || found=yes
  done
  end=${EPOCHREALTIME/[.,]/}
  kill "$process" 2>/dev/null || true # it may have ended by itself
  wait "$process" 2>/dev/null || true
  exec 3<&-
  [ "$found" ] || { echo "$0: $1 ended without \"$words\": $log" >&2 && exit 1; }
  echo $((end - begin))
}

median() { sort -n | sed -n "$(((rounds + 1) / 2))p"; }

cat "$model"/*.safetensors >/dev/null
cat "$model"/*.safetensors >/dev/null # a second time, so that the kernel takes the pages for worth keeping
for _ in $(seq "$rounds"); do
  until_log_says "serving at" "$kaiju" serve "$model" --port 0 --ctx 1024 "${options[@]}"
done | median >"$results/ready"
for _ in $(seq "$rounds"); do
  begin=${EPOCHREALTIME/[.,]/}
  "$kaiju" --version >/dev/null
  echo $((${EPOCHREALTIME/[.,]/} - begin))
done | median >"$results/load"
for _ in $(seq 3); do
  "$kaiju" bench "$model" --prompt-tokens 1 --tokens 1 --rounds 1 --json "${options[@]}"
done | jq -s 'map(.read_bytes_per_second) | sort | .[1]' >"$results/read"

jq -nr --argjson bytes "$bytes" --slurpfile ready "$results/ready" --slurpfile load "$results/load" \
  --slurpfile read "$results/read" '
  def line(what; microseconds): ($bytes / microseconds * 1e6) as $rate |
    "\(what): \(microseconds / 1e6 * 1000 | round / 1000) s, \($rate / 1e8 | round / 10) GB/s, " +
    "\($rate / $read[0] * 100 | round) % of the read bandwidth of \($read[0] / 1e8 | round / 10) GB/s";
  "\($bytes / 1e8 | round / 10) GB of weights",
  line("from the start of the process to ready"; $ready[0]),
  line("the same without loading the program and its libraries (kaiju --version)"; $ready[0] - $load[0])'
