#!/usr/bin/env bash
# Makes the pictures of the page in docs/images anew, from a pipeline of four processes with the shipped model.
#
#   scripts/screenshots.sh [BUILD]     BUILD (build) has kaiju, and in venv what tests/requirements.txt names
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
KAIJU_BUILD=$build PYTHONPATH=tests/e2e exec "$build/venv/bin/python" scripts/screenshots.py docs/images
