# The control plane of one server: what sluicectl asks of sluiced over its UNIX socket. The socket's
# mode decides who may ask. Fields and methods are only ever added, at the end.
#
# server/control/types.h says what the values mean; convert.cpp maps one to the other.
@0xf43ae67da788e9eb;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("sluice::capnp_control");

struct Problem {
  code @0 :Text;     # common/error.h's name of the code; empty: there is none
  message @1 :Text;
}

struct Device {
  name @0 :Text;
  totalBytes @1 :UInt64;
  usedBytes @2 :UInt64;
  overheadBytes @3 :UInt64;
}

struct Server {
  version @0 :Text;
  node @1 :Text;
  driver @2 :Text;
  addresses @3 :List(Text);
  configFile @4 :Text;
  stateFile @5 :Text;
  uptimeMs @6 :UInt64;
  sessions @7 :UInt32;
  maxSessions @8 :UInt32;
  devices @9 :List(Device);
}

struct Session {
  id @0 :UInt64;
  tenant @1 :Text;
  host @2 :Text;
  program @3 :Text;
  clientPid @4 :Int32;
  workerPid @5 :Int32;
  state @6 :Text;
  ageMs @7 :UInt64;
  idleMs @8 :UInt64;
  calls @9 :UInt64;
  waits @10 :UInt64;
  bytesIn @11 :UInt64;
  bytesOut @12 :UInt64;
  gpuUs @13 :UInt64;
  memoryBytes @14 :UInt64;
  memoryPeakBytes @15 :UInt64;
  memoryKinds @16 :List(UInt64);   # bytes by server::MemoryKind
}

struct Tenant {
  name @0 :Text;
  source @1 :Text;
  hasToken @2 :Bool;
  memoryLimitBytes @3 :UInt64;
  maxSessions @4 :UInt32;
  idleTimeoutMs @5 :UInt64;
  maxDurationMs @6 :UInt64;
  sessions @7 :UInt32;
  usedBytes @8 :UInt64;
  guarantee @9 :Float64;
  limit @10 :Float64 = 1;
  weight @11 :Float64 = 1;
  class @12 :Text;
  servedUs @13 :UInt64;
  heldUs @14 :List(UInt64);   # by scheduler::Reason
  memoryDenials @15 :UInt64;
  memoryKinds @16 :List(UInt64);   # bytes by server::MemoryKind
  chargesContext @17 :Bool;
}

struct TenantChange {
  # What is -1 stays as it is.
  name @0 :Text;
  memoryLimitBytes @1 :Int64 = -1;
  maxSessions @2 :Int64 = -1;
  idleTimeoutMs @3 :Int64 = -1;
  maxDurationMs @4 :Int64 = -1;
  guarantee @5 :Float64 = -1;
  limit @6 :Float64 = -1;
  weight @7 :Float64 = -1;
  class @8 :Text;             # empty: it stays
}

struct Changed {
  problem @0 :Problem;
  tenant @1 :Tenant;
  token @2 :Text;     # of a new token only
  warning @3 :Text;
}

enum Period { all @0; month @1; day @2; hour @3; }

struct UsageQuery {
  fromHour @0 :Int64;   # hours since 1970, UTC
  toHour @1 :Int64;     # not included
  tenant @2 :Text;      # empty: all
  byTenant @3 :Bool;
  byGpu @4 :Bool;
  period @5 :Period;
}

struct UsageGroup {
  # What was not asked for is empty.
  period @0 :Text;
  tenant @1 :Text;
  gpu @2 :Text;
  gpuS @3 :Float64;
  reservedGpuS @4 :Float64;
  memoryByteS @5 :Float64;
  reservedMemoryByteS @6 :Float64;
}

interface Control {
  server @0 () -> (server :Server);
  sessions @1 () -> (sessions :List(Session));
  tenants @2 () -> (tenants :List(Tenant));
  setTenant @3 (change :TenantChange) -> (changed :Changed);
  removeTenant @4 (name :Text, isForced :Bool) -> (changed :Changed);
  newToken @5 (tenant :Text) -> (changed :Changed);
  revokeToken @6 (tenant :Text) -> (changed :Changed);
  killSession @7 (id :UInt64) -> (problem :Problem, count :UInt32);
  killTenant @8 (tenant :Text) -> (problem :Problem, count :UInt32);
  reload @9 () -> (problem :Problem, summary :Text);
  usage @10 (query :UsageQuery) -> (problem :Problem, groups :List(UsageGroup));
}
