// The broker's side of a session's turns, in the hands of a test.
#pragma once

#include "server/worker/turns.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>

namespace sluice::test {

class TurnPages {
 public:
  /// The worker's side. Null: the test has failed.
  std::unique_ptr<server::Turns> make_turns() {
    auto grants = server::turns::make_grants();
    auto uses = server::turns::make_uses();
    EXPECT_TRUE(grants && uses);
    if (!grants || !uses) return nullptr;
    grants_ = std::move(*grants);
    uses_ = std::move(*uses);
    auto given = server::turns::map_grants(Fd(::dup(grants_.fd())));
    auto written = server::turns::map_uses(Fd(::dup(uses_.fd())));
    EXPECT_TRUE(given && written);
    if (!given || !written) return nullptr;
    return std::make_unique<server::Turns>(std::move(*given), std::move(*written),
                                           Fd(::eventfd(0, EFD_NONBLOCK)));
  }
  server::turns::Grant& grant() { return grants_->devices[0]; }
  server::turns::Use& use() { return uses_->devices[0]; }
  /// For good.
  void open() {
    grant().open_until_ns = ~std::uint64_t{0};
    grant().is_open = 1;
    server::turns::wake_all(grant().is_open);
  }
  void close() { grant().is_open = 0; }

 private:
  server::turns::Mapped<server::turns::Grants> grants_;
  server::turns::Mapped<server::turns::Uses> uses_;
};

}  // namespace sluice::test
