// What turns and copies ask of a session, and tell it, on its pages (pages.h).
#pragma once

#include "server/turns/copy_queue.h"
#include "server/turns/device_turns.h"
#include "server/turns/pages.h"

namespace sluice::server::turns {

class PagePort final : public Port {
 public:
  PagePort(Grant& grant, const Use& use) : grant_(grant), use_(use) {}

  void open(Time until) override {
    grant_.open_until_ns = static_cast<std::uint64_t>(until.count());
    if (grant_.is_open.exchange(1) == 0) wake_all(grant_.is_open);
  }
  void close() override { grant_.is_open = 0; }
  void set_contended(bool is_contended) override {
    if ((grant_.is_contended != 0) != is_contended) grant_.is_contended = is_contended ? 1 : 0;
  }
  void set_window(Duration window) override {
    grant_.window_ns = static_cast<std::uint64_t>(window.count());
  }
  [[nodiscard]] bool is_running() const override { return use_.running != 0; }
  [[nodiscard]] bool has_work() const override { return use_.has_work != 0; }
  /// A worker may write anything here: whoever uses it bounds it.
  [[nodiscard]] Duration busy(Time at) const override {
    const std::uint64_t since = use_.busy_since_ns;
    const auto at_ns = static_cast<std::uint64_t>(at.count());
    return Duration(use_.busy_ns + (since != 0 && since < at_ns ? at_ns - since : 0));
  }

 private:
  Grant& grant_;
  const Use& use_;
};

class PageCopyPort final : public CopyPort {
 public:
  PageCopyPort(Grants& grants, const Uses& uses, unsigned index)
      : grants_(grants), grant_(grants.copies[index]), use_(uses.copies[index]), index_(index) {}

  [[nodiscard]] unsigned index() const { return index_; }
  void set_free(Time until) override {
    const auto ns = static_cast<std::uint64_t>(until.count());
    const bool was_free = grant_.free_until_ns.exchange(ns) != 0;
    if (!was_free && ns != 0) tell();
  }
  void set_allowance(std::uint64_t bytes) override {
    grant_.allowance_bytes = bytes;
    tell();
  }
  [[nodiscard]] std::uint64_t moved_bytes() const override { return use_.moved_bytes; }
  [[nodiscard]] std::uint64_t wanted_bytes() const override { return use_.wanted_bytes; }

 private:
  void tell() {
    ++grants_.copy_changes;
    wake_all(grants_.copy_changes);
  }

  Grants& grants_;
  CopyGrant& grant_;
  const CopyUse& use_;
  const unsigned index_;
};

}  // namespace sluice::server::turns
