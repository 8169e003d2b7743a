# What runs in the machine (busybox sh); run.sh puts the build folder in. Lines "guest counts: ..." are what run.sh reports.
build=@BUILD@
cd /tmp
at() { echo "-- $(cut -d' ' -f1 /proc/uptime) s: $*"; }
fail() { echo "FAILED: $*"; exit 1; }

at "sluiced --list-transports"
"$build/bin/sluiced" --list-transports | tee /tmp/transports
grep -q '^ucx   clients with RDMA: rxe0 port 1 active' /tmp/transports || fail "rxe0 is not seen"

# tests WHAT PROGRAM ARGS...
tests() {
  what=$1
  shift
  at "$what"
  "$build/tests/transport/$@" >/tmp/tests 2>&1
  status=$?
  grep -E '^\[ +(OK|FAILED|SKIPPED) |Failure|FAILED' /tmp/tests
  [ $status -eq 0 ] || { tail -40 /tmp/tests; fail "$what: status $status"; }
  echo "guest counts: $(grep -c '^\[       OK' /tmp/tests) $what"
}
tests "conformance tests over rc" transport_test --gtest_filter='*ucx_rc*'
tests "tests from in between" ucx_interposed_test
tests "tests of copies by put and get" ucx_copies_test

at "sluice-perf"
"$build/bin/sluice-perf" -o json channels --kind ucx --rounds 200 --bulk-mib 8 --repeats 3 || fail "sluice-perf"

at "sluiced on softgpu"
# Plain, as RDMA is; and no client sends a token in the clear beyond loopback.
nothing=$(printf '' | sha256sum | cut -d' ' -f1)
cat >/tmp/sluiced.toml <<T
[server]
driver = "$build/lib/softgpu/libcuda.so.1"
listen = ["10.9.0.1:7627"]
allow_plaintext_network = true
prestart_workers = 0

[[tenant]]
name = "vm"
memory_limit = "256MiB"
token_sha256 = "$nothing"
T
export SOFTGPU_MEMORY=512MiB
"$build/bin/sluiced" --config /tmp/sluiced.toml >/tmp/sluiced.log 2>&1 &
i=0
until grep -q serving /tmp/sluiced.log; do
  i=$((i + 1))
  [ $i -gt 300 ] && { cat /tmp/sluiced.log; fail "sluiced did not start"; }
  sleep 0.1
done

# cuda CHOICE PROGRAM ARGS...: runs it and wants UCX to have carried it.
programs=0
cuda() {
  choice=$1
  program=$2
  shift 2
  at "$program (transport: ${choice:-automatic})"
  rm -f /tmp/stats.json
  SLUICE_STATS=/tmp/stats.json "$build/bin/sluice" run --server 10.9.0.1:7627 --tenant vm --tls off \
    ${choice:+--transport "$choice"} -- "$build/$program" "$@" >/tmp/out 2>&1
  status=$?
  cat /tmp/out
  [ $status -eq 0 ] || { cat /tmp/sluiced.log; fail "$program: status $status"; }
  grep -q "\"transport\":\"ucx\"" /tmp/stats.json || { cat /tmp/stats.json; fail "$program did not travel by UCX"; }
  programs=$((programs + 1))
}
cuda ucx demo/vector_add
cuda "" demo/vector_add
cuda ucx tests/cuda/cuda_conformance --gtest_filter='CopyTest.*'
grep -qE '"bytes_staged":[0-9]{8}' /tmp/stats.json || { cat /tmp/stats.json; fail "bulk data did not travel by put and get"; }
echo "guest counts: $programs CUDA programs by rc"
at end
exit 0
