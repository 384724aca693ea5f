#!/usr/bin/env bash
# Installs the Debian packages that are missing, as root or through sudo.
#
#   scripts/dependencies.sh build    to build and run Kaiju, and for the demo
#   scripts/dependencies.sh test     for everything that `make test` does
#   scripts/dependencies.sh peers    for `make bench-peers`
set -euo pipefail

base=(build-essential cmake ninja-build pkg-config libfabric-dev libevent-dev libjansson-dev libpcre2-dev
  libutf8proc-dev libsodium-dev libssl-dev curl jq)
# npm fetches the page's libraries. Without one, Python brings a copy for the moment: Debian's has hundreds of packages.
build=("${base[@]}")
command -v npm >/dev/null || build+=(python3 python3-venv)
test=("${base[@]}" libcmocka-dev clang clang-format clang-tidy libclang-rt-14-dev gcc-aarch64-linux-gnu
  libc6-dev-arm64-cross qemu-user python3 python3-venv iproute2 procps openssl chromium git
  fonts-dejavu-core mandoc zsh fish)
peers=("${build[@]}" python3 python3-venv)

case "${1:-}" in
  build) wanted=("${build[@]}") ;;
  test) wanted=("${test[@]}") ;;
  peers) wanted=("${peers[@]}") ;;
  *) echo "usage: $0 build|test|peers" >&2; exit 2 ;;
esac

missing=()
for package in "${wanted[@]}"; do
  # Python may come from elsewhere than Debian: a command that is there is enough.
  [ "$package" = python3 ] && command -v python3 >/dev/null && continue
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "installing: ${missing[*]}"
sudo=()
[ "$(id -u)" -eq 0 ] || sudo=(sudo)
"${sudo[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
