// A worker whose driver cannot be held between blocks takes a turn for everything that computes.
#include "client.h"

#include <sys/eventfd.h>

#include <thread>

namespace sluice::test {
namespace {

using server::Turns;

class WorkerTurns : public WorkerClient {
 protected:
  void before_start(server::Worker& worker) override {
    auto grants = server::turns::make_grants();
    auto uses = server::turns::make_uses();
    ASSERT_TRUE(grants && uses);
    grants_ = std::move(*grants);
    uses_ = std::move(*uses);
    auto given = server::turns::map_grants(Fd(::dup(grants_.fd())));
    auto written = server::turns::map_uses(Fd(::dup(uses_.fd())));
    ASSERT_TRUE(given && written);
    // Outlives the worker, as in a worker's process.
    static std::vector<std::unique_ptr<Turns>> kept;
    kept.push_back(std::make_unique<Turns>(std::move(*given), std::move(*written),
                                           Fd(::eventfd(0, EFD_NONBLOCK))));
    worker.use_turns(*kept.back(), server::Worker::HeldBy::kWorker);
  }
  void open() {
    grants_->devices[0].open_until_ns = ~std::uint64_t{0};
    grants_->devices[0].is_open = 1;
    server::turns::wake_all(grants_->devices[0].is_open);
  }
  /// The record is not executed before the turn comes.
  template <class Args>
  void expect_turn(const Args& args, const std::string& what,
                   std::initializer_list<Bytes> blobs = {}) {
    grants_->devices[0].is_open = 0;
    const std::size_t before = driver_.count(what);
    post(args, blobs);
    while (uses_->devices[0].has_work == 0) std::this_thread::yield();
    EXPECT_EQ(before, driver_.count(what)) << what << " computes without a turn";
    open();
    settle();
    EXPECT_EQ(before + 1, driver_.count(what));
    while (uses_->devices[0].has_work != 0) std::this_thread::yield();
  }

  server::turns::Mapped<server::turns::Grants> grants_;
  server::turns::Mapped<server::turns::Uses> uses_;
};

TEST_F(WorkerTurns, AMemsetTakesItsTurnLikeAKernel) {
  // Broken: a program of memsets is never charged and never waits.
  start();
  wire::cuMemsetD8Async args{};
  args.N = 64;
  expect_turn(args, "memset");
}

TEST_F(WorkerTurns, ACopyWithinTheDeviceTakesItsTurn) {
  start();
  wire::copy_d2d args{};
  args.bytes = 64;
  expect_turn(args, "copy_d2d");
}

}  // namespace
}  // namespace sluice::test
