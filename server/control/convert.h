// Between the plain values of types.h and the messages of control.capnp.
#pragma once

#include "protocol/capnp/control.capnp.h"
#include "server/control/types.h"

namespace sluice::server::control {

void write(const ServerInfo& from, capnp_control::Server::Builder to);
void write(const SessionInfo& from, capnp_control::Session::Builder to);
void write(const TenantInfo& from, capnp_control::Tenant::Builder to);
void write(const Changed& from, capnp_control::Changed::Builder to);
void write(const Error& from, capnp_control::Problem::Builder to);
/// Only what an administrator can set: no token, no removal.
void write(const std::string& name, const config::TenantOverride& from,
           capnp_control::TenantChange::Builder to);

void write(const store::UsageQuery& from, capnp_control::UsageQuery::Builder to);
void write(const store::UsageGroup& from, capnp_control::UsageGroup::Builder to);

ServerInfo read(capnp_control::Server::Reader from);
SessionInfo read(capnp_control::Session::Reader from);
TenantInfo read(capnp_control::Tenant::Reader from);
Changed read(capnp_control::Changed::Reader from);
config::TenantOverride read(capnp_control::TenantChange::Reader from);
store::UsageQuery read(capnp_control::UsageQuery::Reader from);
store::UsageGroup read(capnp_control::UsageGroup::Reader from);
/// Err if there is a problem.
Status read(capnp_control::Problem::Reader from);

inline std::string text(capnp::Text::Reader from) {
  return {from.cStr(), from.size()};
}

}  // namespace sluice::server::control
