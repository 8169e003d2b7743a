#!/bin/bash
# run_on.sh BUILD_DIR TARGET PROGRAM ARGS...: runs a program on one conformance target:
#   driver (softgpu in the process) | driver+strict (the same, SOFTGPU_STRICT=1) | shim+loop (worker in the process) |
#   shim+shm | shim+unix | shim+tcp | shim+tls | shim+ucx (sluice run --local; UCX over its own TCP)
set -eu
build=$(realpath "$1"); target=$2; shift 2
export SLUICE_TEST_TARGET=$target
unset SLUICE_SERVER SLUICE_TRANSPORT SLUICE_TENANT SLUICE_TOKEN SLUICE_TOKEN_FILE SLUICE_TLS SLUICE_TLS_CA SLUICE_TLS_CERT SLUICE_TLS_KEY
# Tests run side by side: each has the memory of a software GPU to itself.
export SOFTGPU_ACCOUNT=test_$$
trap 'rm -f /dev/shm/softgpu-*-test_$$-*' EXIT
# In the sanitizer presets the preloaded library brings the runtime along; nothing was allocated before it. GCC 12's
# LeakSanitizer crashes over the thread-local memory of libraries that were loaded later if it follows it.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0:intercept_tls_get_addr=0
# The client library's service thread lives until the process ends, by intent (no teardown behind the program's back).
export TSAN_OPTIONS=${TSAN_OPTIONS:+$TSAN_OPTIONS:}report_thread_leaks=0
# A second runtime, in the audit object's own namespace, would have no room beside the first.
audit=
if readelf -d "$build/lib/sluice/libsluice-audit.so" 2>/dev/null | grep -qE 'lib[at]san'; then audit=--no-audit; fi
preload=$build/lib/sluice/libsluice.so
case $target in
  driver+strict) export SOFTGPU_STRICT=1 ;;&
  driver | driver+strict) LD_LIBRARY_PATH=$build/lib/softgpu:$build/lib/sluice LD_PRELOAD=$preload "$@" ;;
  shim+loop)
    SLUICE_LOOP_DRIVER=$build/lib/softgpu/libcuda.so.1 \
      LD_LIBRARY_PATH=$build/lib/loop:$build/lib/sluice LD_PRELOAD=$preload "$@" ;;
  shim+shm) "$build/bin/sluice" run --local --transport shm $audit -- "$@" ;;
  shim+unix) "$build/bin/sluice" run --local --transport unix $audit -- "$@" ;;
  shim+tcp) "$build/bin/sluice" run --local --transport tcp $audit -- "$@" ;;
  shim+tls) "$build/bin/sluice" run --local --transport tcp --tls on $audit -- "$@" ;;
  shim+ucx) UCX_TLS=tcp UCX_NET_DEVICES=lo SLUICE_UCX_SOFTWARE_PUT=1 "$build/bin/sluice" run --local --transport ucx $audit -- "$@" ;;
  *) echo "run_on.sh: unknown target $target (driver, driver+strict, shim+loop, shim+shm, shim+unix, shim+tcp, shim+tls, shim+ucx)" >&2
     exit 2 ;;
esac
