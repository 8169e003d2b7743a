#!/usr/bin/env bash
# ffmpeg.sh BUILD_DIR TARGET: the demo's ffmpeg comparison on one conformance target.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$here/../../tools/demo/ffmpeg_overlay" "$out" "$here/../run_on.sh" "$1" "$2"
