#!/usr/bin/env bash
# Debian's Prometheus scrapes a server and is asked what a program used. Fetched into build/prometheus, not installed. Part
# of `tools/dev test --full`. usage: prometheus_full.sh BUILD
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
. "$root/tests/debs.sh"
fetch_debs "$root/build/prometheus" bookworm main prometheus
SLUICE_BUILD=$build SLUICE_HOLD=$build/tests/faults/fault_hold SLUICE_PROGRAM=$build/demo/driver_vector_add \
  SLUICE_PROMETHEUS=$root/build/prometheus/root/usr/bin /usr/bin/python3 "$root/tests/tools/prometheus_full.py"
