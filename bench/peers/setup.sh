#!/usr/bin/env bash
# Makes what run.py needs in the folder DIR: a Python environment with mlx-lm, and llama.cpp built for this machine.
#
#   bench/peers/setup.sh DIR
#
# llama.cpp comes from the source package of its Python binding on PyPI, which holds all of llama.cpp. It is built as its
# own CMake project, so that its llama-bench is built, too, and the binding then uses that build. Needs cmake,
# ninja, g++ and python3 with venv. Does nothing where all is there.
set -euo pipefail
directory=$(mkdir -p "${1:?usage: $0 DIR}" && cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
binding=llama-cpp-python==0.3.36
python=$directory/venv/bin/python
stamp=$directory/.ready
wanted=$(cat "$here/setup.sh" "$here/requirements.txt" | sha256sum)
[ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && exit 0

[ -x "$python" ] || python3 -m venv "$directory/venv"
"$python" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt"

source=$directory/source
rm -rf "$source" && mkdir -p "$source"
"$python" -m pip download -q --disable-pip-version-check --no-deps --no-binary llama-cpp-python --no-build-isolation \
  -d "$source" "$binding"
tar -xzf "$source"/*.tar.gz -C "$source" --strip-components 1
rm "$source"/*.tar.gz

# Everything that makes its CPU code fast is on: this machine's instructions, weights repacked at load, llamafile's
# matrix products, OpenMP. Left out is only what is not measured.
cmake -S "$source/vendor/llama.cpp" -B "$directory/llama" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
  -DGGML_NATIVE=ON -DGGML_CPU_REPACK=ON -DGGML_LLAMAFILE=ON -DGGML_OPENMP=ON -DGGML_CCACHE=OFF \
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF \
  -DLLAMA_OPENSSL=OFF >"$directory/llama-configure.log"
cmake --build "$directory/llama" --target llama-bench
# A library with a C++ library inside it crashes in a Python process that has another one, numpy's.
if ! readelf -d "$directory/llama/bin/libllama.so" | grep -Eq 'NEEDED.*lib(std)?c\+\+'; then
  echo "$0: this compiler links the C++ library statically; set CXX to one that does not" >&2
  exit 1
fi
CMAKE_ARGS="-DLLAMA_BUILD=OFF -DLLAVA_BUILD=OFF" \
  "$python" -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation "$source"
echo "$wanted" >"$stamp"
