// Device memory is asked of the ledger first, and comes back when its last user is done.
#include "tests/worker/client.h"

namespace sluice::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class WorkerMemory : public WorkerClient {
 protected:
  std::uint64_t pointer_of(const Received& reply) {
    EXPECT_EQ(CUDA_SUCCESS, reply.result());
    return reply.as<wire::cuMemAlloc_v2::Reply>().dptr;
  }
  std::uint64_t used() { return ledger_->query(0).used_bytes; }
  void destroy_context(std::uint64_t id, bool is_primary, bool is_reset) {
    wire::context_destroy args{};
    args.context = id;
    args.is_primary = is_primary;
    args.is_reset = is_reset;
    EXPECT_EQ(CUDA_SUCCESS, call(args).result());
  }
};

TEST_F(WorkerMemory, RefusesWhatPassesTheLimitAndNothingLess) {
  start(4 * kMiB);
  const std::uint64_t first = pointer_of(alloc(3 * kMiB));
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, alloc(kMiB + 1).result());
  EXPECT_EQ(1u, driver_.count("alloc"));
  pointer_of(alloc(kMiB));
  free_memory(first);
  pointer_of(alloc(3 * kMiB));
}

TEST_F(WorkerMemory, ShowsTheSliceAsTheDevice) {
  start(4 * kMiB);
  pointer_of(alloc(kMiB));
  const auto info = call(wire::cuMemGetInfo_v2{}).as<wire::cuMemGetInfo_v2::Reply>();
  EXPECT_EQ(4 * kMiB, info.total);
  EXPECT_EQ(3 * kMiB, info.free);
}

TEST_F(WorkerMemory, ShowsNoMoreThanTheDeviceHas) {
  start();
  const auto info = call(wire::cuMemGetInfo_v2{}).as<wire::cuMemGetInfo_v2::Reply>();
  EXPECT_EQ(FakeDriver::kDeviceBytes, info.total);
}

TEST_F(WorkerMemory, RefundsWhatTheDriverRefuses) {
  driver_.alloc_bytes_max = kMiB;
  start(8 * kMiB);
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, alloc(2 * kMiB).result());
  EXPECT_EQ(0u, used());
}

TEST_F(WorkerMemory, FreesWhenTheWorkBeforeHasFinished) {
  start(4 * kMiB);
  const std::uint64_t p = pointer_of(alloc(3 * kMiB));
  create_stream(2);
  settle();
  driver_.hold();
  memset(2);
  free_memory(p);
  wire::cuMemAlloc_v2 args{};
  args.bytesize = 3 * kMiB;
  const std::uint64_t next = ask(args);
  settle();
  EXPECT_FALSE(has_reply(next));
  EXPECT_EQ(0u, driver_.count("free"));
  driver_.finish_all();
  pointer_of(await([&](const Received& r) { return r.is_reply_to(next); }));
  EXPECT_EQ(1u, driver_.count("free"));
}

TEST_F(WorkerMemory, AFenceIsDoneWhenTheWorkBeforeItHasFinished) {
  start();
  const std::uint64_t early = post(wire::memory_fence{});
  EXPECT_EQ(early, receive(wire::Opcode::memory_fence_done).header.seq) << "of an idle device";
  create_stream(2);
  driver_.hold();
  memset(2);
  const std::uint64_t late = post(wire::memory_fence{});
  settle();
  EXPECT_TRUE(std::none_of(received_.begin(), received_.end(), [](const Received& r) {
    return r.is(wire::Opcode::memory_fence_done);
  }));
  driver_.finish_all();
  EXPECT_EQ(late, receive(wire::Opcode::memory_fence_done).header.seq);
}

TEST_F(WorkerMemory, AFenceNeedsNoContext) {
  start();
  context_ = 0;
  const std::uint64_t fence = post(wire::memory_fence{});
  EXPECT_EQ(fence, receive(wire::Opcode::memory_fence_done).header.seq);
}

TEST_F(WorkerMemory, TellsOfASecondFree) {
  start();
  const std::uint64_t p = pointer_of(alloc(kMiB));
  driver_.hold();
  memset(0);
  free_memory(p);
  const std::uint64_t second = free_memory(p);
  driver_.finish_all();
  const Received failure = receive(wire::Opcode::failure);
  EXPECT_EQ(second, failure.header.seq);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, failure.result());
  EXPECT_EQ(1u, driver_.count("free"));
  EXPECT_EQ(0u, used());
}

TEST_F(WorkerMemory, RefundsAContextWithItsMemory) {
  start(4 * kMiB);
  pointer_of(alloc(3 * kMiB));
  destroy_context(kContext, true, false);
  EXPECT_EQ(1u, driver_.count("context_destroy"));
  EXPECT_EQ(0u, used());
}

TEST_F(WorkerMemory, KeepsTheChargeWhileAnotherReferenceHoldsTheContext) {
  start(4 * kMiB);
  pointer_of(alloc(3 * kMiB));
  wire::context_create again{};
  again.context = 2;
  again.is_primary = 1;
  EXPECT_EQ(CUDA_SUCCESS, call(again).result());
  destroy_context(2, true, false);
  EXPECT_EQ(0u, driver_.count("context_destroy"));
  EXPECT_EQ(3 * kMiB, used());
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, alloc(2 * kMiB).result());
}

TEST_F(WorkerMemory, DoesNotBelieveWhatAContextIsSaidToBe) {
  start(4 * kMiB);
  pointer_of(alloc(3 * kMiB));
  wire::context_create again{};
  again.context = 2;
  again.is_primary = 1;
  EXPECT_EQ(CUDA_SUCCESS, call(again).result());
  destroy_context(2, /*is_primary=*/false, false);
  EXPECT_EQ(0u, driver_.count("context_destroy"));
  EXPECT_EQ(3 * kMiB, used());
}

TEST_F(WorkerMemory, WaitsForWorkBeforeItDestroysAContext) {
  start();
  driver_.hold();
  memset(0);
  wire::context_destroy args{};
  args.context = kContext;
  const std::uint64_t destroyed = ask(args);
  context_ = 0;
  settle();
  EXPECT_FALSE(has_reply(destroyed));
  EXPECT_EQ(0u, driver_.count("context_destroy"));
  driver_.finish_all();
  await([&](const Received& r) { return r.is_reply_to(destroyed); });
  EXPECT_EQ(1u, driver_.count("context_destroy"));
}

TEST_F(WorkerMemory, TakesAContextAwayUnderWorkThatNeverEnds) {
  start();
  driver_.hold();
  memset(0);
  const std::uint64_t waits = ask(wire::cuCtxSynchronize{});
  wire::context_destroy args{};
  args.context = kContext;
  const std::uint64_t destroyed = ask(args);
  context_ = 0;
  const auto answer = [this](std::uint64_t seq) {
    return await([&](const Received& r) { return r.is_reply_to(seq); }).result();
  };
  EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, answer(waits)) << "who waits for it is told";
  EXPECT_EQ(CUDA_SUCCESS, answer(destroyed));
  EXPECT_EQ(1u, driver_.count("context_destroy"));
}

}  // namespace
}  // namespace sluice::test
