// Who holds how much memory of which device, and for what. The one place that decides; pure, so
// that it can be tested without processes. Confined to the broker's thread.
//
// Every sum is kept and also follows from the entries: session = its kinds, tenant = its sessions,
// device = its tenants. Where these differ the ledger is broken, whatever the cause, and grants
// nothing from then on: a wrong ledger must not give one tenant what is another's.
#pragma once

#include "server/memory_kind.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace sluice::server {

class Ledger {
 public:
  /// Whose memory of which device.
  struct Holder {
    std::uint64_t session = 0;
    std::string tenant;
    std::uint32_t device = 0;
  };
  struct Limits {
    std::uint64_t slice_bytes = 0;   ///< of the tenant, on that device
    std::uint64_t device_bytes = 0;  ///< of all tenants together, overhead included
  };
  enum class Verdict { kGranted, kSliceFull, kDeviceFull, kBroken };

  /// These tenants' overhead counts against their slices; that of all others does not.
  void charge_overhead_of(std::set<std::string> tenants) { charged_ = std::move(tenants); }

  /// Everything but kGranted leaves everything unchanged.
  Verdict charge(const Holder& who, MemoryKind kind, std::uint64_t bytes, const Limits& limits);
  /// False: it does not hold so much of that kind; nothing is changed.
  [[nodiscard]] bool refund(const Holder& who, MemoryKind kind, std::uint64_t bytes);
  /// So much it has now of a kind that nobody can refuse, because it was there before it was seen.
  void measure(const Holder& who, MemoryKind kind, std::uint64_t bytes);
  /// So much of what it holds the session keeps without using it, it says. It stays charged.
  void note_spare(const Holder& who, std::uint64_t bytes);
  /// Everything of a session that is gone.
  void drop(std::uint64_t session);

  /// Charged to the tenant's slice, with its overhead if it is charged for that.
  [[nodiscard]] std::uint64_t used_bytes(const std::string& tenant, std::uint32_t device) const;
  /// The same of one session, on a device or on all.
  [[nodiscard]] std::uint64_t held_bytes(std::uint64_t session, std::uint32_t device) const;
  [[nodiscard]] std::uint64_t held_bytes(std::uint64_t session) const;
  /// Of a session's, or of all the tenant's sessions, at most what they hold.
  [[nodiscard]] std::uint64_t spare_bytes(std::uint64_t session, std::uint32_t device) const;
  [[nodiscard]] std::uint64_t spare_bytes(const std::string& tenant, std::uint32_t device) const;
  /// By kind: of a session, on a device or on all; of a tenant on all.
  [[nodiscard]] MemoryByKind kinds_of(std::uint64_t session, std::uint32_t device) const;
  [[nodiscard]] MemoryByKind kinds_of(std::uint64_t session) const;
  [[nodiscard]] MemoryByKind kinds_of(const std::string& tenant) const;
  /// Of a device, by all tenants.
  struct Sums {
    std::uint64_t slice_bytes = 0, overhead_bytes = 0;
    bool operator==(const Sums&) const = default;
  };
  [[nodiscard]] Sums sums_of(std::uint32_t device) const;

  /// Adds everything up anew. What is_broken() and violation() say is true from then on; what was
  /// broken once stays so.
  void audit();
  [[nodiscard]] bool is_broken() const { return !violation_.empty(); }
  /// The first thing that was wrong, with the numbers; empty: nothing was.
  [[nodiscard]] const std::string& violation() const { return violation_; }

 private:
  friend class LedgerFault;  ///< tests break a sum with it

  struct Entry {
    std::string tenant;
    MemoryByKind kinds{};
    Sums sums;  ///< of the kinds
    std::uint64_t spare_bytes = 0;
  };
  using SessionKey = std::pair<std::uint64_t, std::uint32_t>;
  using TenantKey = std::pair<std::string, std::uint32_t>;

  [[nodiscard]] std::uint64_t counted(const std::string& tenant, const Sums& sums) const;
  void add(const Holder& who, MemoryKind kind, std::uint64_t bytes);
  void subtract(Entry& entry, const Holder& who, MemoryKind kind, std::uint64_t bytes);
  void take_from(Sums& sums, MemoryClass of, std::uint64_t bytes, const std::string& whose);
  void check(const SessionKey& key, const Entry& entry);
  void break_off(const std::string& why);

  std::set<std::string> charged_;
  std::map<SessionKey, Entry> entries_;
  std::map<TenantKey, Sums> tenants_;
  std::map<std::uint32_t, Sums> devices_;
  std::string violation_;
};

}  // namespace sluice::server
