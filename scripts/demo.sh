#!/usr/bin/env bash
# A pipeline of two processes on this machine, each with its own layers of the shipped model: asks it a question over
# HTTP, prints the answer, and serves until Ctrl-C (or ends after the answer where the output is no terminal).
#
#   scripts/demo.sh PATH/TO/kaiju [PROMPT]
set -euo pipefail

kaiju=${1:?usage: $0 PATH/TO/kaiju [PROMPT]}
prompt=${2:-Write a function that checks whether a number is prime.}
work=$(mktemp -d)
pids=()

finish() {
  [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 0' INT TERM

# Waits until the file has a line with the text, as long as the process lives; prints what follows the text.
wait_for() {
  local file=$1 text=$2 pid=$3
  until grep -q "$text" "$file" 2>/dev/null; do
    if ! kill -0 "$pid" 2>/dev/null; then
      cat "$file" >&2
      exit 1
    fi
    sleep 0.05
  done
  sed -n "s/.*$text//p" "$file" | head -n 1
}

echo "node 1: kaiju node --listen 127.0.0.1:0"
"$kaiju" node --listen 127.0.0.1:0 2>"$work/node.log" &
pids+=($!)
node=$(wait_for "$work/node.log" "listens at " "${pids[0]}")

port=8080
if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then port=0; fi
echo "lead:   kaiju serve --port $port --nodes $node --split 8,4"
"$kaiju" serve --port "$port" --nodes "$node" --split 8,4 2>"$work/lead.log" &
pids+=($!)
url=$(wait_for "$work/lead.log" "serving at " "${pids[1]}")
grep -h -E "loading layers|layers warm|ready after|peak memory .* planned" "$work/node.log" "$work/lead.log" | sed 's/^[0-9:]* info /        /'

echo
echo "> $prompt"
request=$(jq -n --arg prompt "$prompt" \
  '{messages: [{role: "user", content: $prompt}], temperature: 0, max_tokens: 300, stream: true}')
curl --silent --show-error --no-buffer --fail-with-body "$url/v1/chat/completions" \
  -H 'Content-Type: application/json' -d "$request" |
  sed --unbuffered -n 's/^data: \({.*\)/\1/p' |
  jq --unbuffered --raw-output --join-output '.choices[0].delta.content // empty'
echo
echo
echo "Chat with it, and watch the pipeline work: $url/"
echo "It serves the OpenAI API at $url/v1 (model kaiju-mini), its state at $url/health and $url/metrics."
if [ -t 1 ]; then
  echo "Ctrl-C ends it."
  wait "${pids[1]}"
fi
