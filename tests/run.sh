#!/usr/bin/env bash
# The whole test suite, as CI runs it, or the named steps of it:
#
#   tests/run.sh [lint] [unit] [asan] [tsan] [aarch64] [install] [oracle] [e2e] [fuzz]
#
# install, oracle and e2e use what unit builds, oracle also what aarch64 builds. Every step prints its name, its time
# and whether it passed; the last line counts them. KAIJU_FUZZ_SECONDS (20) is the time of each fuzz target.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
build=$root/build
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(lint unit asan tsan aarch64 install oracle e2e fuzz)
jobs=$(nproc)
python=$build/venv/bin/python
PATH=$build/venv/bin:$PATH # node and npm, which Debian has too old

prepare() {
  scripts/dependencies.sh test || return 1
  local stamp=$build/venv/.requirements
  cmp -s tests/requirements.txt "$stamp" && return 0
  python3 -m venv "$build/venv" && "$python" -m pip install -q --disable-pip-version-check -r tests/requirements.txt &&
    cp tests/requirements.txt "$stamp"
}

# The clients from npm that tests/e2e points at the server, in $build/clients. Their install scripts do not run, but for
# those that put a program in its place. (npm ci would refuse a lock file without the optional packages of all other
# platforms.)
install_clients() {
  local stamp=$build/clients/.lock log=$build/clients/install.log
  cmp -s tests/clients/package-lock.json "$stamp" && return 0
  rm -rf "$build/clients" && mkdir -p "$build/clients" && cp tests/clients/package*.json "$build/clients/" &&
    (cd "$build/clients" && npm install --ignore-scripts --no-audit --no-fund --no-update-notifier &&
      node node_modules/opencode-ai/postinstall.mjs &&
      node node_modules/@anthropic-ai/claude-code/install.cjs) >"$log" 2>&1 || {
    tail -n 20 "$log"
    return 1
  }
  cp tests/clients/package-lock.json "$stamp"
}

# configure DIRECTORY FLAGS…: without output unless it fails. All builds share what npm fetches for the page.
configure() {
  cmake -S . -B "$@" -G Ninja -DKAIJU_WERROR=ON -DKAIJU_PAGE_LIBRARIES="$build/page" >"$build/configure.log" 2>&1 || {
    cat "$build/configure.log"
    return 1
  }
}

compile() {
  cmake --build "$1" >"$1/compile.log" 2>&1 || {
    tail -n 60 "$1/compile.log"
    return 1
  }
}

lint() {
  git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror || return 1
  python3 tests/lint/layers.py || return 1
  CC=clang configure "$build/clang" || return 1
  compile "$build/clang" || return 1
  git ls-files 'src/*.c' | grep -v -e neon -e avx | xargs -P "$jobs" -n 6 clang-tidy -p "$build/clang" --quiet \
    --warnings-as-errors='*' 2>/dev/null
}

unit() {
  configure "$build" -DCMAKE_BUILD_TYPE=Release -DKAIJU_TESTS=ON && compile "$build" &&
    ctest --test-dir "$build" --output-on-failure -j "$jobs" --no-tests=error --timeout 180
}

asan() {
  CC=clang configure "$build/asan" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DKAIJU_SANITIZE=address,undefined &&
    compile "$build/asan" &&
    ctest --test-dir "$build/asan" --output-on-failure -j "$jobs" --no-tests=error --timeout 180
}

# What is threaded: pool, links, nodes, engine, HTTP server.
tsan() {
  CC=clang configure "$build/tsan" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DKAIJU_SANITIZE=thread &&
    compile "$build/tsan" &&
    ctest --test-dir "$build/tsan" --output-on-failure -j "$jobs" --no-tests=error --timeout 180 -R '^(base|link|stage|sched|http)/'
}

aarch64() {
  scripts/sysroot-aarch64.sh "$build/sysroot-aarch64" >"$build/sysroot.log" 2>&1 || {
    tail -n 20 "$build/sysroot.log"
    return 1
  }
  configure "$build/aarch64" --toolchain cmake/aarch64-linux-gnu.cmake && compile "$build/aarch64" &&
    ctest --test-dir "$build/aarch64" --output-on-failure -j "$jobs" --no-tests=error --timeout 180 -R '^(base|compute|model)/'
}

install() {
  local prefix=$build/prefix
  rm -rf "$prefix"
  cmake --install "$build" --prefix "$prefix" >/dev/null &&
    "$prefix/bin/kaiju" plan "$prefix/share/kaiju/models/kaiju-mini" >/dev/null &&
    "$prefix/bin/kaiju" run -p "Write a function to reverse a string." --temperature 0 --max-tokens 20
}

oracle() {
  KAIJU_BUILD=$build KAIJU_BUILD_AARCH64=$build/aarch64 "$python" -m pytest -q -p no:cacheprovider tests/oracle
}

# Files side by side: the tests wait more than they compute.
e2e() {
  install_clients && KAIJU_BUILD=$build "$python" -m pytest -q -p no:cacheprovider -n "$jobs" --dist loadfile tests/e2e
}

fuzz() {
  CC=clang configure "$build/fuzzing" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DKAIJU_TESTS=OFF -DKAIJU_FUZZ=ON \
    -DKAIJU_SANITIZE=address,undefined && compile "$build/fuzzing" || return 1
  mkdir -p "$build/fuzzing/artifacts"
  printf '%s\n' "$build"/fuzzing/fuzz/fuzz_* | xargs -P "$jobs" -I {} tests/fuzz/run.sh {} "${KAIJU_FUZZ_SECONDS:-20}"
}

mkdir -p "$build"
prepare || exit 1
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
