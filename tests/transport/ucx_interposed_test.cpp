// What libsluice_ucx.so asks of UCX, seen and changed from in between: the loader finds this
// program's functions before UCX's.
#include "transport/ucx/devices.h"
#include "ucx_pair.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <ucp/api/ucp.h>

#include <atomic>

namespace {

std::atomic<int> progress_count = 0;
std::atomic<bool> refuses_memory = false;

template <class Function>
Function* genuine(const char* name) {
  void* const ucp = ::dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(::dlsym(ucp, name));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) unsigned ucp_worker_progress(
    ucp_worker_h worker) {
  static auto* const next = genuine<decltype(ucp_worker_progress)>("ucp_worker_progress");
  ++progress_count;
  return next(worker);
}

extern "C" __attribute__((visibility("default"))) ucs_status_t ucp_mem_map(
    ucp_context_h context, const ucp_mem_map_params_t* params, ucp_mem_h* memory) {
  static auto* const next = genuine<decltype(ucp_mem_map)>("ucp_mem_map");
  return refuses_memory ? UCS_ERR_NO_MEMORY : next(context, params, memory);
}

namespace sluice::transport::testing {
namespace {

class UcxInterposed : public ::testing::Test {
 protected:
  ~UcxInterposed() override { refuses_memory = false; }
  const std::string kind_ = ucx::has_active_device() ? "ucx_rc" : "ucx_tcp";
};

TEST_F(UcxInterposed, CloseAsksForNoProgressAndSoWaitsForNothing) {
  // Broken: cuInit's caller, or exit(), waits for a worker that says nothing (it did, for 20 ms).
  const LoopPair ends = make_ucx_pair(kind_);
  // Nobody reads at the other end, so nothing but close() itself could make progress here.
  progress_count = 0;
  ends.client->close();
  EXPECT_EQ(progress_count, 0);
  const Result<bool> ended = ends.server->wait(Clock::now() + std::chrono::seconds(60));
  EXPECT_TRUE(ended.value_or(false));
  EXPECT_GT(progress_count, 0) << "this test would not see any";
}

TEST_F(UcxInterposed, MemoryThatTheWorkerCannotRegisterIsToldWithTheLimit) {
  // Broken: with the usual limit of locked memory there is no session, or nobody knows why copies
  // are slow.
  ucx::Plugin& plugin = ucx_plugin(kind_);
  const auto listener = plugin.listen(ucx_host(kind_), {});
  ASSERT_TRUE(listener);
  refuses_memory = true;
  const auto offer = (*listener)->offer_staging();
  ASSERT_FALSE(offer);
  EXPECT_EQ(offer.error().code, ErrorCode::kExhausted);
  EXPECT_NE(offer.error().message.find("ulimit -l"), std::string::npos) << offer.error().message;
}

TEST_F(UcxInterposed, MemoryThatTheClientCannotRegisterLeavesTheMessages) {
  // Broken: as above, at the client.
  std::string no_staging;
  const LoopPair ends = make_ucx_pair(
      kind_, [] { refuses_memory = true; }, &no_staging);
  EXPECT_NE(no_staging.find("ulimit -l"), std::string::npos) << no_staging;
  EXPECT_EQ(ends.client->remote_staging(), nullptr);
  EXPECT_TRUE(ends.client->staging().empty());
  ASSERT_EQ(ends.client->reserve(8).size(), 8U);
  ends.client->commit(8, FlushHint::kNow);
  EXPECT_TRUE(ends.server->wait(Clock::now() + std::chrono::seconds(60)).value_or(false));
}

}  // namespace
}  // namespace sluice::transport::testing
