// Failures of posted commands: reported once by the next call that may, or for ever if they end the
// context.
#include "shim/error_text.h"
#include "tests/shim/fake_server.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace sluice::test {

/// Answers every launch with a failure.
FakeServer::Hook failing_with(CUresult result) {
  return [result](FakeServer& server, const Received& record) {
    if (record.header.opcode != static_cast<std::uint16_t>(wire::Opcode::launch)) return false;
    wire::failure failed{};
    failed.opcode = record.header.opcode;
    server.push(failed, {}, result, record.header.seq);
    if ((record.header.flags & wire::kFlagWantsReply) != 0)
      server.reply(record, std::uint64_t{0}, {}, result);
    return true;
  };
}

class Errors : public ShimTest {
 protected:
  void TearDown() override {
    ShimTest::TearDown();
    ::unsetenv("SLUICE_STRICT");
  }
};

TEST_F(Errors, ADeferredFailureIsReportedByTheNextWaitAndOnlyOnce) {
  start(failing_with(CUDA_ERROR_INVALID_VALUE));
  CUfunction f = function();
  ASSERT_EQ(CUDA_SUCCESS, launch(f));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuCtxSynchronize());
  EXPECT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
}

TEST_F(Errors, OfManyFailuresTheFirstIsReported) {
  std::atomic<int> number{0};
  start([&](FakeServer& server, const Received& record) {
    if (record.header.opcode != static_cast<std::uint16_t>(wire::Opcode::launch)) return false;
    wire::failure failed{};
    server.push(failed, {},
                number++ == 0 ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_ERROR_INVALID_VALUE,
                record.header.seq);
    return true;
  });
  CUfunction f = function();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(CUDA_SUCCESS, launch(f));
  EXPECT_EQ(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, cuCtxSynchronize());
  TearDown();  // the hook uses what lives here
}

TEST_F(Errors, AStickyFailureStaysInItsContextAndNotInANewOne) {
  start(failing_with(CUDA_ERROR_ILLEGAL_ADDRESS));
  CUfunction f = function();
  ASSERT_EQ(CUDA_SUCCESS, launch(f));
  cuCtxSynchronize();
  CUdeviceptr p = 0;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc_v2(&p, 16));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  EXPECT_EQ(CUDA_SUCCESS, cuCtxDestroy_v2(context_));
  ASSERT_EQ(CUDA_SUCCESS, cuCtxCreate_v4(&context_, nullptr, 0, 0));
  EXPECT_EQ(CUDA_SUCCESS, cuMemAlloc_v2(&p, 16));
}

TEST_F(Errors, InStrictModeTheCallItselfFails) {
  ::setenv("SLUICE_STRICT", "1", 1);
  start(failing_with(CUDA_ERROR_INVALID_VALUE));
  CUfunction f = function();
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, launch(f));
}

TEST_F(Errors, AFailedRecordEndsTheWaitForWhatItShouldHaveBrought) {
  // Once a kernel has faulted, the driver refuses the event record behind it: nothing would ever
  // complete it.
  start([](FakeServer& server, const Received& record) {
    const auto opcode = static_cast<wire::Opcode>(record.header.opcode);
    if (opcode == wire::Opcode::stream_query) {  // so that a marker is what tells
      server.reply(record, std::uint64_t{0}, {}, CUDA_ERROR_NOT_READY);
      return true;
    }
    if (opcode != wire::Opcode::event_record && opcode != wire::Opcode::stream_marker &&
        opcode != wire::Opcode::copy_d2h && opcode != wire::Opcode::host_func)
      return false;
    wire::failure failed{};
    failed.opcode = record.header.opcode;
    server.push(failed, {}, CUDA_ERROR_INVALID_HANDLE, record.header.seq);
    return true;
  });
  CUevent event = nullptr;
  CUstream stream = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuEventCreate(&event, 0));
  ASSERT_EQ(CUDA_SUCCESS, cuStreamCreate(&stream, 0));
  ASSERT_EQ(CUDA_SUCCESS, cuEventRecord(event, stream));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuEventSynchronize(event));
  const CUdeviceptr p = allocate(10 << 20);
  std::vector<std::byte> got(10 << 20);
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuMemcpyDtoH_v2(got.data(), p, got.size()));
  CUresult result = CUDA_ERROR_NOT_READY;
  while (result == CUDA_ERROR_NOT_READY) result = cuStreamQuery(stream);
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, result);
  void* pinned = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuMemAllocHost_v2(&pinned, 64));
  ASSERT_EQ(CUDA_SUCCESS, cuLaunchHostFunc(
                              stream, [](void*) { ADD_FAILURE() << "it must not run"; }, nullptr));
  // The write waits for the function, which will never run; its failure may be reported here
  // already.
  cuMemcpyHtoDAsync_v2(p, pinned, 64, stream);
}

TEST_F(Errors, CallsBeforeInitAreRefused) {
  shim::reset_for_test();
  CUdeviceptr p = 0;
  EXPECT_EQ(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc_v2(&p, 16));
  CUcontext current = nullptr;
  EXPECT_EQ(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&current));
}

TEST_F(Errors, AServerThatCannotBeReachedIsNotReady) {
  shim::set_connector_for_test([]() -> Result<shim::Connection> {
    return fail(ErrorCode::kPeerClosed, "server test: nobody listens");
  });
  EXPECT_EQ(CUDA_ERROR_SYSTEM_NOT_READY, cuInit(0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuInit(1));
}

TEST_F(Errors, WithoutAnyServerNamedThereIsNoDevice) {
  ::unsetenv("SLUICE_SERVER");
  shim::set_connector_for_test({});
  EXPECT_EQ(CUDA_ERROR_NO_DEVICE, cuInit(0));
}

TEST_F(Errors, AForkedChildGetsNotInitializedAndTheParentGoesOn) {
  start();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    CUdeviceptr p = 0;
    int count = 0;
    const bool is_right = cuMemAlloc_v2(&p, 16) == CUDA_ERROR_NOT_INITIALIZED &&
                          cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                          cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED;
    ::_exit(is_right ? 42 : 43);
  }
  int status = 0;
  ASSERT_EQ(child, ::waitpid(child, &status, 0));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42);
  EXPECT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
}

TEST_F(Errors, CallsAfterTeardownAreDeinitialized) {
  start();
  shim::tear_down();
  CUdeviceptr p = 0;
  EXPECT_EQ(CUDA_ERROR_DEINITIALIZED, cuMemAlloc_v2(&p, 16));
  EXPECT_TRUE(server_->wait_for(wire::Opcode::goodbye, 1));
}

TEST_F(Errors, TeardownDoesNotWaitForAServerThatIsStuck) {
  // A program's exit must not hang on the network.
  // Shared with the server's thread, which outlives this function.
  auto blocked = std::make_shared<std::mutex>();
  std::unique_lock hold(*blocked);
  start([blocked](FakeServer&, const Received& record) {
    if (record.header.opcode == static_cast<std::uint16_t>(wire::Opcode::launch)) {
      std::lock_guard wait(*blocked);
    }
    return false;
  });
  CUfunction f = function();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(CUDA_SUCCESS, launch(f));
  shim::tear_down();
  hold.unlock();
}

TEST_F(Errors, HandlesThatAreNoneAreRefused) {
  start();
  int local = 0;
  auto* invented = reinterpret_cast<CUstream>(&local);
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(invented));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(reinterpret_cast<CUevent>(&local), nullptr));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, launch(reinterpret_cast<CUfunction>(&local)));
  EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(reinterpret_cast<CUcontext>(&local)));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(0x1234));
  CUstream stream = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuStreamCreate(&stream, 0));
  EXPECT_EQ(CUDA_SUCCESS, cuStreamDestroy_v2(stream));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(stream)) << "destroyed twice";
}

TEST(ErrorText, both_apis_say_the_same_about_one_failure) {
  const shim::ErrorText* entry = shim::find_error_text(2);
  ASSERT_NE(entry, nullptr);
  EXPECT_STREQ(entry->driver, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_STREQ(entry->runtime, "cudaErrorMemoryAllocation");
  const char* text = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(text, entry->text);
}

TEST(ErrorText, errors_of_the_other_api_are_none_of_the_drivers) {
  constexpr int kMissingConfiguration = 52;  // of a kernel call, the runtime's alone
  ASSERT_NE(shim::find_error_text(kMissingConfiguration), nullptr);
  const char* text = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuGetErrorString(static_cast<CUresult>(kMissingConfiguration), &text));
  EXPECT_EQ(text, nullptr);
  EXPECT_EQ(shim::find_error_text(12345), nullptr);
}

}  // namespace sluice::test
