#!/usr/bin/env bash
# Compares shim/cudart/older (struct layouts, exported names) with the headers and runtimes of CUDA 11 and 12, which the
# build does not need: they are fetched as NVIDIA's own Python packages (a few MB each; Debian's nvidia-cuda-dev carries
# the same headers in 0.8 GB) into build/cuda-older and never committed. Part of `tools/dev test --full`.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
failed=0
check() {
  local major=$1 version=$2 package=$3 folder=$root/build/cuda-older/$2
  if [ ! -e "$folder/nvidia/cuda_runtime/include/cuda_runtime_api.h" ]; then
    /usr/bin/python3 -m pip install --quiet --no-deps --no-warn-script-location --root-user-action=ignore \
      --target "$folder" "$package==$version"
  fi
  local home=$folder/nvidia/cuda_runtime
  if ! c++ -std=c++20 -fsyntax-only -I"$root" -isystem "$home/include" "$root/tests/cudart/layouts_check.cpp"; then
    echo "layouts_full: layouts differ from CUDA $version's"; failed=1
  fi
  local library
  library=$(ls "$home"/lib/libcudart.so.1*)
  # What was exported in some release of a version must be in our list for it.
  local missing
  missing=$(nm -D --defined-only "$library" | awk '$2 ~ /[TWi]/ {sub(/@.*/, "", $3); print $3}' | LC_ALL=C sort -u |
    LC_ALL=C comm -23 - <(LC_ALL=C sort "$root/shim/cudart/older/names_$major.txt"))
  if [ -n "$missing" ]; then
    echo "layouts_full: CUDA $version exports names that names_$major.txt lacks:" $missing; failed=1
  fi
  echo "layouts_full: CUDA $version checked"
}
check 11 11.8.89 nvidia-cuda-runtime-cu11
c++ -std=c++20 -fsyntax-only -I"$root" -isystem "${CUDA_HOME:-/usr/local/cuda}/include" "$root/tests/cudart/layouts_check.cpp" || failed=1
for version in 12.0.146 12.4.127 12.9.79; do check 12 "$version" nvidia-cuda-runtime-cu12; done
exit $failed
