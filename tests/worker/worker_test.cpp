// What a client sends must never hurt its worker: a broken stream ends the session with an error, a
// wrong handle is an answer.
#include "server/worker/worker.h"

#include "protocol/record_assembler.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace sluice::server {
namespace {

class NoMemory final : public LedgerLink {
 public:
  Usage charge(std::uint32_t, MemoryKind, std::uint64_t) override { return {}; }
  void refund(std::uint32_t, MemoryKind, std::uint64_t) override {}
  Usage query(std::uint32_t) override { return {true, 0, 1}; }
};

/// A worker on a thread of its own over a driver without functions but the ones that tests set.
class WorkerTest : public ::testing::Test, private wire::RecordHandler {
 protected:
  WorkerTest() : pair_(transport::make_loop_pair()) {
    driver_.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
    worker_ = std::make_unique<Worker>(driver_, std::move(pair_.server), ledger_);
    thread_ = std::thread([this] { ended_ = worker_->run(); });
  }
  ~WorkerTest() override {
    pair_.client->close();
    if (thread_.joinable()) thread_.join();
  }

  void send_raw(const void* data, std::size_t bytes) {
    ASSERT_TRUE(
        pair_.client->write_through({static_cast<const std::byte*>(data), bytes}).has_value());
  }
  template <class Args>
  void send(const Args& args, std::uint16_t flags = wire::kFlagWantsReply) {
    wire::RecordHeader header{};
    header.bytes = sizeof header + sizeof args;
    header.opcode = static_cast<std::uint16_t>(Args::kOpcode);
    header.flags = flags;
    header.seq = ++seq_;
    send_raw(&header, sizeof header);
    send_raw(&args, sizeof args);
  }
  /// The next record from the worker.
  wire::RecordHeader receive() {
    while (received_.empty() && pair_.client->poll(assembler_, 1 << 20)) {
      if (!received_.empty()) break;
      EXPECT_TRUE(
          pair_.client->wait(transport::Clock::now() + std::chrono::seconds(10)).value_or(false));
    }
    if (received_.empty()) return {};
    const wire::RecordHeader header = received_.front();
    received_.erase(received_.begin());
    return header;
  }
  Status end() {
    thread_.join();
    return ended_;
  }
  Status on_record(const wire::RecordHeader& header, std::span<const std::byte>) override {
    received_.push_back(header);
    return {};
  }

  DriverTable driver_;
  NoMemory ledger_;
  transport::LoopPair pair_;
  std::unique_ptr<Worker> worker_;
  std::thread thread_;
  Status ended_;
  wire::RecordAssembler<transport::RecvSink> assembler_{*this};
  std::uint64_t seq_ = 0;
  std::vector<wire::RecordHeader> received_;
};

TEST_F(WorkerTest, EndsTheSessionAtARecordThatCannotBe) {
  wire::RecordHeader header{};
  header.bytes = 12;
  send_raw(&header, sizeof header);
  EXPECT_EQ(ErrorCode::kProtocol, end().error().code);
}

TEST_F(WorkerTest, EndsTheSessionAtAnUnknownOpcode) {
  wire::RecordHeader header{};
  header.bytes = sizeof header;
  header.opcode = 0xFFFF;
  header.seq = 1;
  send_raw(&header, sizeof header);
  EXPECT_EQ(ErrorCode::kProtocol, end().error().code);
}

TEST_F(WorkerTest, EndsTheSessionWhenARecordIsMissing) {
  seq_ = 1;
  send(wire::cuCtxSynchronize{});
  EXPECT_EQ(ErrorCode::kProtocol, end().error().code);
}

TEST_F(WorkerTest, EndsTheSessionAtARecordThatOnlyAWorkerSends) {
  send(wire::event_done{}, 0);
  EXPECT_EQ(ErrorCode::kProtocol, end().error().code);
}

TEST_F(WorkerTest, AnswersAnUnknownHandleWithAnError) {
  wire::cuStreamSynchronize args{};
  args.hStream = 4711;
  send(args);
  const wire::RecordHeader reply = receive();
  EXPECT_EQ(wire::kFlagReply, reply.flags);
  EXPECT_EQ(1u, reply.seq);
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, reply.result);
}

TEST_F(WorkerTest, AllocatesNothingWithoutTheLedger) {
  driver_.cuMemAlloc_v2 = [](CUdeviceptr*, std::size_t) { return CUDA_SUCCESS; };
  wire::cuMemAlloc_v2 args{};
  args.bytesize = 16;
  send(args);
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, receive().result);
}

TEST_F(WorkerTest, TellsTheFailureOfAPostedRecord) {
  wire::copy_d2d args{};
  args.stream = 99;
  send(args, 0);
  const wire::RecordHeader push = receive();
  EXPECT_EQ(static_cast<std::uint16_t>(wire::Opcode::failure), push.opcode);
  EXPECT_EQ(wire::kFlagPush, push.flags);
  EXPECT_EQ(1u, push.seq);
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, push.result);
}

TEST_F(WorkerTest, EndsQuietlyAtAGoodbye) {
  send(wire::goodbye{}, 0);
  EXPECT_TRUE(end().has_value());
}

}  // namespace
}  // namespace sluice::server
