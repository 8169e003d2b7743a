// Breaks a ledger, to see what then happens.
#pragma once

#include "server/broker/broker.h"

#include <string>

namespace sluice::server {

/// What no caller can do: makes a sum differ from what it is the sum of.
class LedgerFault {
 public:
  static void grow_tenant(Ledger& ledger, const std::string& tenant, std::uint64_t bytes) {
    ledger.tenants_[{tenant, 0}].slice_bytes += bytes;
  }
  static void grow_device(Ledger& ledger, std::uint64_t bytes) {
    ledger.devices_[0].slice_bytes += bytes;
  }
  static void grow_session(Ledger& ledger, std::uint64_t session, std::uint64_t bytes) {
    ledger.entries_[{session, 0}].sums.slice_bytes += bytes;
  }
  static void shrink_device(Ledger& ledger, std::uint64_t bytes) {
    ledger.devices_[0].slice_bytes -= bytes;
  }
  static Ledger& ledger_of(Broker& broker) { return broker.ledger_; }
};

}  // namespace sluice::server
