// Who holds how much memory of which device. The one place that decides; pure, so that it can be
// tested without processes. Confined to the broker's thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace sluice::server {

class Ledger {
 public:
  /// Charges if the tenant's use of the device stays within `limit_bytes`; false leaves everything
  /// unchanged.
  bool charge(std::uint64_t session, const std::string& tenant, std::uint32_t device,
              std::uint64_t bytes, std::uint64_t limit_bytes);
  /// At most what the session holds there.
  void refund(std::uint64_t session, const std::string& tenant, std::uint32_t device,
              std::uint64_t bytes);
  /// So much of what it holds the session keeps without using it, it says. It stays charged.
  void note_spare(std::uint64_t session, const std::string& tenant, std::uint32_t device,
                  std::uint64_t bytes);
  /// Everything of a session that is gone.
  void drop(std::uint64_t session, const std::string& tenant);
  [[nodiscard]] std::uint64_t used_bytes(const std::string& tenant, std::uint32_t device) const;
  /// By all tenants.
  [[nodiscard]] std::uint64_t used_bytes(std::uint32_t device) const;
  /// By one session.
  [[nodiscard]] std::uint64_t held_bytes(std::uint64_t session, std::uint32_t device) const;
  /// Of a session's, or of all the tenant's sessions, at most what they hold.
  [[nodiscard]] std::uint64_t spare_bytes(std::uint64_t session, std::uint32_t device) const;
  [[nodiscard]] std::uint64_t spare_bytes(const std::string& tenant, std::uint32_t device) const;
  /// By one session, on all devices.
  [[nodiscard]] std::uint64_t held_bytes(std::uint64_t session) const;

 private:
  std::map<std::pair<std::string, std::uint32_t>, std::uint64_t> by_tenant_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint64_t> by_session_;
  struct Spare {
    std::string tenant;
    std::uint64_t bytes = 0;
  };
  std::map<std::pair<std::uint64_t, std::uint32_t>, Spare> spare_;
};

}  // namespace sluice::server
