# What runs in the machine (busybox sh); run.sh puts the build folder in. Lines "guest counts: ..." are what run.sh reports.
build=@BUILD@
cd /tmp
at() { echo "-- $(cut -d' ' -f1 /proc/uptime) s: $*"; }
fail() { echo "FAILED: $*"; exit 1; }

at "sluiced --list-transports"
"$build/bin/sluiced" --list-transports | tee /tmp/transports
grep -q '^ucx   clients with RDMA: rxe0 port 1 active' /tmp/transports || fail "rxe0 is not seen"

at "transport conformance over ucx_rc"
"$build/tests/transport/transport_test" --gtest_filter='*ucx_rc*' >/tmp/conformance 2>&1
status=$?
grep -E '^\[ +(OK|FAILED|SKIPPED) |Failure|FAILED' /tmp/conformance
[ $status -eq 0 ] || { tail -40 /tmp/conformance; fail "conformance"; }
echo "guest counts: $(grep -c '^\[       OK' /tmp/conformance) conformance tests over rc"

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

# cuda CHOICE PROGRAM: runs it and wants UCX to have carried it.
programs=0
cuda() {
  at "$2 (transport: ${1:-automatic})"
  rm -f /tmp/stats.json
  SLUICE_STATS=/tmp/stats.json "$build/bin/sluice" run --server 10.9.0.1:7627 --tenant vm --tls off \
    ${1:+--transport "$1"} -- "$build/demo/$2" >/tmp/out 2>&1
  status=$?
  cat /tmp/out
  [ $status -eq 0 ] || { cat /tmp/sluiced.log; fail "$2: status $status"; }
  grep -q "\"transport\":\"ucx\"" /tmp/stats.json || { cat /tmp/stats.json; fail "$2 did not travel by UCX"; }
  programs=$((programs + 1))
}
cuda ucx vector_add
cuda "" vector_add
echo "guest counts: $programs CUDA programs by rc"
at end
exit 0
