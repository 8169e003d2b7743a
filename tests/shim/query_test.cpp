// Queries of a stream behind a wait that implies its end: the server is asked then, for the program
// knows that it is done.
#include "tests/shim/fake_server.h"

#include <atomic>

namespace sluice::test {

/// Streams and their markers are done when the test says so.
class QueryBehindWait : public ShimTest {
 protected:
  void SetUp() override {
    start([this](FakeServer& server, const Received& record) {
      const auto opcode = static_cast<wire::Opcode>(record.header.opcode);
      if (opcode == wire::Opcode::stream_query)
        server.reply(record, std::uint64_t{0}, {}, is_done_ ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
      if (opcode == wire::Opcode::stream_marker)
        last_marker_ = record.as<wire::stream_marker>().marker;
      return opcode == wire::Opcode::stream_query || opcode == wire::Opcode::stream_marker;
    });
    for (CUstream* stream : {&first_, &second_}) {
      ASSERT_EQ(CUDA_SUCCESS, cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
      ASSERT_EQ(CUDA_SUCCESS, cuEventCreate(&event_, 0));
      ASSERT_EQ(CUDA_SUCCESS, cuEventRecord(event_, *stream));
    }
    // Its answer comes behind the completion of the events, which are thus known to be done.
    allocate(10 << 20);
    ASSERT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(first_));
    ASSERT_EQ(1u, server_->count(wire::Opcode::stream_query));
  }

  CUstream first_ = nullptr, second_ = nullptr;
  CUevent event_ = nullptr;
  std::atomic<bool> is_done_{false};
  std::atomic<std::uint64_t> last_marker_{0};
};

TEST_F(QueryBehindWait, AsksAlthoughTheEventWasDoneBeforeTheWait) {
  // Broken: a query says "not ready" of work that a wait has just shown to be done, if the news of
  // it had come before the program waited.
  is_done_ = true;
  EXPECT_EQ(CUDA_SUCCESS, cuEventSynchronize(event_));
  EXPECT_EQ(CUDA_SUCCESS, cuStreamQuery(first_));
}

TEST_F(QueryBehindWait, AsksAfterAMarkerHasToldOfAnotherStream) {
  // Broken: the other stream is done, and what it waited for is said not to be.
  ASSERT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(second_));
  ASSERT_TRUE(server_->wait_for(wire::Opcode::stream_marker, 2));
  wire::marker_done done{};
  done.marker = last_marker_;
  server_->push(done);
  // Its answer comes behind that, but tells the program nothing of the second stream.
  ASSERT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(first_));
  is_done_ = true;
  ASSERT_EQ(CUDA_SUCCESS, cuStreamQuery(second_));
  EXPECT_EQ(CUDA_SUCCESS, cuStreamQuery(first_));
}

TEST_F(QueryBehindWait, AsksNobodyWhileTheProgramWaitsForNothing) {
  const std::size_t asked = server_->count(wire::Opcode::stream_query);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(first_));
  EXPECT_EQ(asked, server_->count(wire::Opcode::stream_query));
}

}  // namespace sluice::test
