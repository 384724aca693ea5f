#!/bin/sh
# Fills DIR with the arm64 libraries that Kaiju is built against and run with, for cmake/aarch64-linux-gnu.cmake.
#
#   scripts/sysroot-aarch64.sh DIR
#
# The packages come from the apt sources of this machine. apt gets its own state, cache and architecture inside DIR, so
# that the machine's own package lists and dpkg architectures stay as they are, and root is not needed. A finished DIR is
# left alone; remove it to fetch newer packages. What else the cross build needs: gcc-aarch64-linux-gnu, pkg-config
# and, to run the result, qemu-user.
set -eu

packages="libc6-dev libfabric-dev libevent-dev libjansson-dev libpcre2-dev libutf8proc-dev libsodium-dev libssl-dev libcmocka-dev"

if [ $# -ne 1 ]; then
  echo "usage: $0 DIR" >&2
  exit 2
fi
mkdir -p "$1"
dir=$(cd "$1" && pwd)
stamp=$dir/.complete
if [ "$(cat "$stamp" 2>/dev/null)" = "$packages" ]; then
  echo "$dir is complete"
  exit 0
fi

apt=$dir/.apt
rm -f "$stamp"
mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
# An empty list of installed packages makes apt resolve every dependency, down to libc.
: >"$apt/state/status"

apt_get() {
  apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root \
    -o Dir::State="$apt/state" -o Dir::State::status="$apt/state/status" -o Dir::Cache="$apt/cache" \
    -o Acquire::Languages=none -o Acquire::Retries=3 "$@"
}

# A source without arm64 packages makes this fail although the others suffice: what is missing shows in the next step.
apt_get update || echo "some of this machine's apt sources could not be read for arm64" >&2
# shellcheck disable=SC2086
apt_get install --download-only --no-install-recommends --yes $packages

for package in "$apt"/cache/archives/*.deb; do
  dpkg-deb -x "$package" "$dir"
done

# An absolute link would lead out of DIR, into this machine.
find "$dir" -path "$apt" -prune -o -type l -lname '/*' -print | while IFS= read -r link; do
  target=$(readlink "$link")
  ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$dir$target")" "$link"
done

rm -rf "$apt"
printf '%s' "$packages" >"$stamp"
echo "$dir is complete: $(du -sh "$dir" | cut -f1)"
