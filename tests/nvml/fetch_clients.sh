#!/usr/bin/env bash
# Fetches other people's NVML programs and NVIDIA's header for the full test, from Debian's contrib and non-free, with what
# they need from main, into build/nvml-clients; nothing is installed, nothing of it is ever committed. Then compares our
# declarations with that header, and the names with it. Part of `tools/dev test --full`. usage: fetch_clients.sh BUILD
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/debs.sh"
build=$(cd "$1" && pwd)
work=$root/build/nvml-clients
packages=(python3-pynvml gpustat python3-psutil python3-blessed python3-six python3-wcwidth python3-pkg-resources nvtop
  libncursesw6 libtinfo6 nvidia-smi libnvidia-ml-dev)

fetch_debs "$work" bookworm "main contrib non-free" "${packages[@]}"

failed=0
c++ -std=c++20 -fsyntax-only -I"$root" -isystem "$work/root/usr/include" "$root/tests/nvml/layouts_check.cpp" || failed=1
/usr/bin/python3 "$root/tests/nvml/exports_test.py" "$build/lib/sluice/libnvidia-ml.so.1" "$root/shim/nvml/functions.def" \
  "$work/root/usr/include/nvml.h" || failed=1
[ $failed -eq 0 ] && echo "nvml: our declarations and names agree with Debian's nvml.h"
ctest --test-dir "$build" --output-on-failure -R '^nvml\.clients$' || failed=1
exit $failed
