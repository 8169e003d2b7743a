// The worker's side of the ways of data, with pages that the test writes as the broker does.
#include "server/worker/copy_gate.h"

#include "server/turns/turn_server.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;
using server::CopyGate;
using server::Turns;
using server::turns::copy_queue;
using server::turns::kCopyQuantumBytes;
using server::turns::Way;

constexpr std::uint64_t kPiece = 256 * 1024;

/// A worker's end and the broker's, in one process.
struct Ends {
  server::turns::Mapped<server::turns::Grants> grants;
  server::turns::Mapped<server::turns::Uses> uses;
  std::unique_ptr<Turns> turns;

  Ends() {
    grants = std::move(*server::turns::make_grants());
    uses = std::move(*server::turns::make_uses());
    turns = std::make_unique<Turns>(std::move(*server::turns::map_grants(Fd(::dup(grants.fd())))),
                                    std::move(*server::turns::map_uses(Fd(::dup(uses.fd())))),
                                    Fd(::eventfd(0, EFD_NONBLOCK)));
  }
  void allow(Way way, std::uint64_t bytes) {
    grants->copies[copy_queue(way, 0)].allowance_bytes = bytes;
    ++grants->copy_changes;
    server::turns::wake_all(grants->copy_changes);
  }
  [[nodiscard]] std::uint64_t wanted(Way way) const {
    return uses->copies[copy_queue(way, 0)].wanted_bytes;
  }
  [[nodiscard]] std::uint64_t moved(Way way) const {
    return uses->copies[copy_queue(way, 0)].moved_bytes;
  }
};

template <class Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 20'000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
  return condition();
}

void copy(CopyGate& gate, Way way) {
  gate.before_copy(way, 0, kPiece, [] {});
  gate.after_copy(way, 0, kPiece);
}

TEST(CopyGate, WaitsForAnAllowanceAndSaysThatItWaits) {
  Ends ends;
  CopyGate gate(*ends.turns);
  std::atomic<bool> has_begun{false}, has_flushed{false};
  std::thread worker([&] {
    gate.before_copy(Way::kUpload, 0, kPiece, [&] { has_flushed = true; });
    has_begun = true;
    gate.after_copy(Way::kUpload, 0, kPiece);
  });
  EXPECT_TRUE(comes_true([&] { return ends.wanted(Way::kUpload) >= kPiece; }));
  EXPECT_TRUE(has_flushed) << "the client may wait for what was answered before";
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(has_begun) << "it ran uncapped";
  ends.allow(Way::kDownload, kCopyQuantumBytes);
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(has_begun) << "that was another way's";
  ends.allow(Way::kUpload, kCopyQuantumBytes);
  worker.join();
  EXPECT_EQ(ends.moved(Way::kUpload), kPiece);
}

TEST(CopyGate, BeginsNoMoreThanItIsAllowed) {
  Ends ends;
  CopyGate gate(*ends.turns);
  ends.allow(Way::kUpload, kCopyQuantumBytes);
  for (std::uint64_t i = 0; i < kCopyQuantumBytes / kPiece; ++i) copy(gate, Way::kUpload);
  EXPECT_EQ(ends.moved(Way::kUpload), kCopyQuantumBytes);
  EXPECT_GT(ends.wanted(Way::kUpload), kCopyQuantumBytes) << "more is asked for in time";
  std::atomic<bool> has_begun{false};
  std::thread worker([&] {
    copy(gate, Way::kUpload);
    has_begun = true;
  });
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(has_begun);
  gate.stop();
  worker.join();
}

TEST(CopyGate, AsksNobodyWhileTheWayIsFree) {
  Ends ends;
  CopyGate gate(*ends.turns);
  ends.grants->copies[copy_queue(Way::kDownload, 0)].free_until_ns =
      server::turns::now_ns() + 60'000'000'000;
  for (int i = 0; i < 1000; ++i) copy(gate, Way::kDownload);
  EXPECT_EQ(ends.moved(Way::kDownload), 1000 * kPiece);
  EXPECT_EQ(ends.wanted(Way::kDownload), 0u);
}

TEST(CopyGate, LetsACopyThroughWhenItsOthersWaitForSomethingElse) {
  // Broken: a host function that waits for another thread's copy never returns (D6).
  Ends ends;
  CopyGate gate(*ends.turns);
  ends.allow(Way::kUpload, kPiece);
  gate.before_copy(Way::kUpload, 0, kPiece, [] {});  // and does not end
  gate.before_copy(Way::kUpload, 0, kPiece, [] {});
  gate.after_copy(Way::kUpload, 0, kPiece);
  gate.after_copy(Way::kUpload, 0, kPiece);
  EXPECT_EQ(ends.moved(Way::kUpload), 2 * kPiece);
}

TEST(CopyGate, EndsItsWaitWithTheSession) {
  Ends ends;
  CopyGate gate(*ends.turns);
  std::thread worker([&] { copy(gate, Way::kUpload); });
  EXPECT_TRUE(comes_true([&] { return ends.wanted(Way::kUpload) > 0; }));
  gate.stop();
  worker.join();
}

TEST(CopyGate, SharesAWayWithOthersThroughTheServer) {
  // Both ends and the thread between them: whatever the machine does, nothing is lost or hangs.
  const auto server = server::turns::TurnServer::start("fair-share", {}, {});
  ASSERT_TRUE(server);
  std::vector<std::unique_ptr<Turns>> turns;
  std::vector<std::unique_ptr<CopyGate>> gates;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const auto seat = (*server)->attach(i, "tenant" + std::to_string(i), {});
    ASSERT_TRUE(seat);
    turns.push_back(std::make_unique<Turns>(
        std::move(*server::turns::map_grants(Fd(::dup(seat->grants)))),
        std::move(*server::turns::map_uses(Fd(::dup(seat->uses)))), Fd(::dup(seat->bell))));
    gates.push_back(std::make_unique<CopyGate>(*turns.back()));
    (*server)->set_device_count(i, 1);
  }
  std::vector<std::thread> workers;
  for (auto& gate : gates)
    workers.emplace_back([&gate] {
      for (int i = 0; i < 2000; ++i) copy(*gate, i % 2 == 0 ? Way::kUpload : Way::kDownload);
    });
  for (std::thread& worker : workers) worker.join();
  for (auto& each : turns)
    EXPECT_EQ(each->copy_use(copy_queue(Way::kUpload, 0)).moved_bytes, 1000 * kPiece);
}

}  // namespace
}  // namespace sluice::test
