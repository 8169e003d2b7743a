// What kernels print reaches the client before the news of the work that printed it.
#include "tests/worker/client.h"

#include <unistd.h>

#include <cstdio>

namespace sluice::test {
namespace {

class DeviceOutput : public WorkerClient {
 protected:
  std::string text_of(const Received& received) {
    const auto fixed = received.as<wire::device_output>();
    return {reinterpret_cast<const char*>(received.body.data()) + sizeof fixed, fixed.text_bytes};
  }
};

TEST_F(DeviceOutput, ComesBeforeTheAnswerThatFollowsIt) {
  start();
  driver_.hold();
  memset(0);
  const std::uint64_t wait = ask_context_wait();
  settle();
  EXPECT_FALSE(has_reply(wait));
  worker_->device_output().add("hello\n", 6);
  driver_.finish_all();
  EXPECT_EQ("hello\n", text_of(receive()));
  EXPECT_TRUE(receive().is_reply_to(wait));
}

TEST_F(DeviceOutput, OfAWholeProcessIsTakenFromItsStdout) {
  const int saved = ::dup(STDOUT_FILENO);
  std::fflush(stdout);
  start();
  const bool is_taken = worker_->device_output().take_stdout().has_value();
  std::printf("one ");
  ASSERT_EQ(4, ::write(STDOUT_FILENO, "two\n", 4));
  memset(0);
  const std::uint64_t wait = ask_context_wait();
  const Received output = receive();
  ::dup2(saved, STDOUT_FILENO);
  ::close(saved);
  ASSERT_TRUE(is_taken);
  EXPECT_EQ("one two\n", text_of(output));
  await([&](const Received& r) { return r.is_reply_to(wait); });
}

}  // namespace
}  // namespace sluice::test
