// A worker whose driver cannot be held between blocks takes a turn for everything that computes.
#include "client.h"
#include "turn_pages.h"

#include <thread>

namespace sluice::test {
namespace {

using server::Turns;

class WorkerTurns : public WorkerClient {
 protected:
  void before_start(server::Worker& worker) override {
    // Outlives the worker, as in a worker's process.
    static std::vector<std::unique_ptr<Turns>> kept;
    kept.push_back(pages_.make_turns());
    ASSERT_NE(nullptr, kept.back());
    worker.use_turns(*kept.back(), server::Worker::HeldBy::kWorker);
  }
  /// The record is not executed before the turn comes.
  template <class Args>
  void expect_turn(const Args& args, const std::string& what,
                   std::initializer_list<Bytes> blobs = {}) {
    pages_.close();
    const std::size_t before = driver_.count(what);
    post(args, blobs);
    while (pages_.use().has_work == 0) std::this_thread::yield();
    EXPECT_EQ(before, driver_.count(what)) << what << " computes without a turn";
    pages_.open();
    settle();
    EXPECT_EQ(before + 1, driver_.count(what));
    while (pages_.use().has_work != 0) std::this_thread::yield();
  }

  TurnPages pages_;
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
