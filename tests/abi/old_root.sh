#!/usr/bin/env bash
# Runs a CUDA plugin with our client libraries on an older glibc than the build machine's: Debian 11's (2.31), fetched by
# apt into build/old-root and never installed. The program and the plugin are linked as the client libraries are, the
# server is today's. Part of `tools/dev test --full`. usage: old_root.sh BUILD
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
work=$root/build/old-root
libraries=$work/root/lib/x86_64-linux-gnu
. "$root/tests/debs.sh"
fetch_debs "$work" bullseye main libc6
mkdir -p "$work/programs"

# As cmake/SluiceOldGlibc.cmake links.
old=$build/old_glibc
group=("$build"/shim/glibc/CMakeFiles/sluice_old_glibc_objects.dir/*.o -Wl,-z,defs -Wl,--allow-shlib-undefined -Wl,--as-needed -Wl,--start-group -l:libstdc++.a -lgcc -lgcc_eh -l:libc_nonshared.a "$old/libc.so.6" "$old/libm.so.6"
  "$old/ld-linux-x86-64.so.2" -Wl,--end-group)
moved=(-Wl,--no-as-needed "$(cc -print-file-name=libdl.so.2)" "$(cc -print-file-name=libpthread.so.0)" "$(cc -print-file-name=librt.so.1)")
c++ -std=c++20 -O1 -nodefaultlibs "$root/tests/cudart/opener.cpp" -o "$work/programs/opener" "${group[@]}" "${moved[@]}"
for runtime in static shared; do
  nvcc -O1 -c -Xcompiler -fPIC "$root/tests/cudart/plugin.cu" -o "$work/programs/plugin.o"
  cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")/lib64
  case $runtime in
    static) cudart=("$cuda/libcudart_static.a") ;;
    shared) cudart=("$build/lib/sluice/libcudart.so.13") ;;
  esac
  c++ -shared -nodefaultlibs "$work/programs/plugin.o" -Wl,--no-as-needed "${cudart[@]}" -o "$work/programs/plugin_$runtime.so" \
    "${group[@]}" "${moved[@]}"
done

# Not in a namespace of its own: this glibc crashes in dlmopen with any audit object, also an empty one.
failed=0
for runtime in static shared; do
  # env is today's and replaces itself by the old loader, which gets the environment of sluice run.
  out=$("$build/bin/sluice" run --local -- env "$libraries"/ld-2.31.so --library-path "$libraries" \
    "$work/programs/opener" plugin "$work/programs/plugin_$runtime.so" 2>&1) || true
  if [ "$out" = "plugin 0" ]; then echo "old_root: glibc 2.31, plugin with a $runtime runtime: its kernels computed"
  else echo "old_root: glibc 2.31, plugin with a $runtime runtime: $out"; failed=1; fi
done
exit $failed
