#!/usr/bin/env bash
# run.sh BUILD_DIR: RDMA for real, without hardware. Boots Debian's kernel in QEMU (TCG) with a soft-RoCE device (rxe) and
# runs guest.sh in it: the transport conformance suite over UCX rc and CUDA programs through shim, UCX rc, sluiced, softgpu.
# Prints one line "vm: ..." with counts; exit status 0 only if everything passed.
#
# Needs (tools/dev test --full installs them): qemu-system-x86 busybox-static kmod cpio iproute2 ibverbs-providers.
# The kernel package is fetched once, into SLUICE_VM_DIR (default: build/vm). SLUICE_VM_SECONDS: time limit.
set -euo pipefail
build=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
work=${SLUICE_VM_DIR:-$(cd "$here/../.." && pwd)/build/vm}
root=$work/root
mkdir -p "$work"
rm -rf "$root"

fetch_kernel() {
  [ -e "$work/kernel/boot" ] && return 0
  # The generic kernel: the cloud one has no rxe.
  local package
  package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/{print $2; exit}')
  rm -rf "$work/fetch" && mkdir -p "$work/fetch"
  (cd "$work/fetch" && apt-get download -qq "$package" && dpkg-deb -x "$package"_*.deb unpacked)
  depmod -b "$work/fetch/unpacked" "$(ls "$work/fetch/unpacked/lib/modules")"
  mv "$work/fetch/unpacked" "$work/kernel"
  rm -rf "$work/fetch"
}

# one FILE: copies it to the same place; put FILE...: with the libraries that it needs.
one() { [ -e "$root$1" ] || { mkdir -p "$root$(dirname "$1")"; cp -L "$1" "$root$1"; }; }
put() {
  local file library
  for file; do
    one "$file"
    # "NAME => not found" is libcuda.so.1, which comes through LD_LIBRARY_PATH.
    # The loader itself needs none.
    { ldd "$file" 2>/dev/null || true; } | { grep -o '/[^ ]*' || true; } | while read -r library; do one "$library"; done
  done
}

make_root() {
  mkdir -p "$root"/{bin,proc,sys,dev,tmp,run,etc/libibverbs.d,lib/modules}
  cp /bin/busybox "$root/bin/busybox"
  ln -s busybox "$root/bin/sh"
  local libraries=/usr/lib/x86_64-linux-gnu
  # The loader also at the second place: an audit library needs it by name.
  put "$(command -v ip)" "$(command -v rdma)" "$libraries"/{libgcc_s.so.1,ld-linux-x86-64.so.2} "$libraries"/libibverbs/librxe-rdmav*.so \
    "$libraries/ucx/libuct_ib.so.0" "$libraries/ucx/libuct_rdmacm.so.0"
  # The other providers would each print a warning.
  cp /etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d/"
  cp -r /etc/ld.so.conf* "$root/etc/"
  put "$build"/tests/transport/{transport_test,ucx_guest,ucx_interposed_test,ucx_copies_test} \
    "$build"/bin/{sluice,sluiced,sluice-worker,sluice-perf} "$build/lib/bench/libsluice_raw_ucx.so" "$build/tests/cuda/cuda_conformance" \
    "$build"/lib/sluice/{libsluice.so,libcuda.so.1,libsluice_ucx.so,libsluice-audit.so} "$build/lib/softgpu/libcuda.so.1" \
    "$build/demo/vector_add"
  sed "s|@BUILD@|$build|g" "$here/guest.sh" >"$root/guest.sh"
  # crc32_generic: without it, rxe says "failed to add dummy0".
  for module in crc32_generic rdma_rxe ib_uverbs rdma_ucm dummy; do
    modprobe -d "$work/kernel" -S "$kernel" --show-depends "$module" | awk '/^insmod/{print $2}'
  done | awk '!seen[$0]++' | while read -r file; do
    cp "$file" "$root/lib/modules/"
    echo "/lib/modules/$(basename "$file")" >>"$root/etc/modules"
  done
  cp "$here/init" "$root/init"
  chmod +x "$root/init"
  ldconfig -r "$root"
  # Not compressed: emulated processors unpack slowly.
  (cd "$root" && find . | cpio -o -H newc --quiet) >"$work/root.cpio"
}

started=$SECONDS
fetch_kernel
kernel=$(ls "$work/kernel/lib/modules")
make_root
# no_timer_check: on a loaded machine, an emulated timer is too late for the kernel's test of it, and it stops.
boot() {
  timeout "${SLUICE_VM_SECONDS:-300}" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 2560 -nodefaults -no-reboot \
    -display none -serial stdio -kernel "$work/kernel/boot/vmlinuz-$kernel" -initrd "$work/root.cpio" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check" </dev/null | tr -d '\r' | tee "$work/log" || true
}
boot
status=$(sed -n 's/^guest status: \([0-9]*\)$/\1/p' "$work/log" | tail -1)
counts=$(sed -n 's/^guest counts: //p' "$work/log" | paste -sd ',' - | sed 's/,/, /g')
if [ "${status:-99}" -ne 0 ]; then
  echo "vm: FAILED (status ${status:-none: time limit or no boot}); $counts; the guest's output is $work/log"
  exit 1
fi
echo "vm: $counts, $((SECONDS - started)) s"
