// A client that speaks records to a worker on a thread of its own, over a FakeDriver.
#pragma once

#include "protocol/all_rows.h"
#include "server/worker/worker.h"
#include "tests/worker/fake_driver.h"

#include <gtest/gtest.h>

#include <deque>
#include <initializer_list>

namespace sluice::test {

using Bytes = std::span<const std::byte>;

struct Received {
  wire::RecordHeader header{};
  std::vector<std::byte> body;
  [[nodiscard]] bool is(wire::Opcode opcode) const {
    return header.opcode == static_cast<std::uint16_t>(opcode);
  }
  [[nodiscard]] bool is_reply_to(std::uint64_t seq) const {
    return header.flags == wire::kFlagReply && header.seq == seq;
  }
  [[nodiscard]] CUresult result() const { return static_cast<CUresult>(header.result); }
  template <class Fixed>
  [[nodiscard]] Fixed as() const {
    Fixed fixed{};
    std::memcpy(&fixed, body.data(), std::min(sizeof fixed, body.size()));
    return fixed;
  }
};

/// Context 1 (primary) exists and is current.
class WorkerClient : public ::testing::Test, private wire::RecordHandler {
 protected:
  static constexpr std::uint32_t kContext = 1;

  virtual void before_start(server::Worker&) {}

  void start(std::uint64_t limit_bytes = 0,
             transport::LoopPair pair = transport::make_loop_pair()) {
    ledger_ = std::make_unique<server::LocalLedger>(limit_bytes);
    channel_ = std::move(pair.client);
    worker_ = std::make_unique<server::Worker>(driver_.table, std::move(pair.server), *ledger_);
    worker_->memory().measure_with([this](std::uint32_t) { return driver_.process_bytes(); });
    before_start(*worker_);
    thread_ = std::thread([this] {
      ended_ = worker_->run();
      worker_->stop();  // as the end of the worker's process would close the channel
    });
    wire::context_create args{};
    args.context = kContext;
    args.is_primary = 1;
    context_ = 0;
    EXPECT_EQ(CUDA_SUCCESS, call(args).result());
    context_ = kContext;
  }
  ~WorkerClient() override {
    if (channel_) channel_->close();
    if (thread_.joinable()) thread_.join();
    driver_.join();
  }

  template <class Args>
  std::uint64_t send(const Args& args, std::uint16_t flags, std::initializer_list<Bytes> blobs) {
    std::vector<std::byte> record(sizeof(wire::RecordHeader) + sizeof args);
    for (const Bytes blob : blobs) {
      record.insert(record.end(), blob.begin(), blob.end());
      record.resize(wire::padded(record.size()));
    }
    wire::RecordHeader header{};
    header.bytes = static_cast<std::uint32_t>(record.size());
    header.opcode = static_cast<std::uint16_t>(Args::kOpcode);
    header.flags = flags;
    header.seq = ++seq_;
    header.context = context_;
    std::memcpy(record.data(), &header, sizeof header);
    std::memcpy(record.data() + sizeof header, &args, sizeof args);
    EXPECT_TRUE(channel_->write_through(record).has_value());
    return seq_;
  }
  template <class Args>
  std::uint64_t post(const Args& args, std::initializer_list<Bytes> blobs = {}) {
    return send(args, 0, blobs);
  }
  /// Sends and does not wait.
  template <class Args>
  std::uint64_t ask(const Args& args, std::initializer_list<Bytes> blobs = {}) {
    return send(args, wire::kFlagWantsReply, blobs);
  }
  /// Sends and gives the reply; what comes before it is kept for receive().
  template <class Args>
  Received call(const Args& args, std::initializer_list<Bytes> blobs = {}) {
    const std::uint64_t seq = ask(args, blobs);
    return await([&](const Received& r) { return r.is_reply_to(seq); });
  }
  /// The next record that `wanted` accepts; the others stay.
  Received await(const std::function<bool(const Received&)>& wanted) {
    const auto deadline = transport::Clock::now() + std::chrono::seconds(20);
    for (std::size_t seen = 0;;) {
      for (; seen < received_.size(); ++seen)
        if (wanted(received_[seen])) {
          Received found = std::move(received_[seen]);
          received_.erase(received_.begin() + static_cast<std::ptrdiff_t>(seen));
          return found;
        }
      const auto got = channel_->poll(assembler_, 1 << 20);
      if (!got) break;
      if (*got == 0 && !channel_->wait(deadline).value_or(false)) break;
    }
    ADD_FAILURE() << "the worker did not send what was awaited";
    return {};
  }
  Received receive() {
    return await([](const Received&) { return true; });
  }
  Received receive(wire::Opcode opcode) {
    return await([&](const Received& r) { return r.is(opcode); });
  }
  /// The worker has executed everything sent so far, and has answered what it could. (An unknown
  /// event has no time: this request is always answered at once.)
  void settle() {
    wire::cuEventElapsedTime_v2 args{};
    args.hStart = 1u << 30;
    EXPECT_NE(CUDA_SUCCESS, call(args).result());
  }
  bool has_reply(std::uint64_t seq) {
    return std::any_of(received_.begin(), received_.end(),
                       [&](const Received& r) { return r.is_reply_to(seq); });
  }

  // ---- shorthand
  void create_stream(std::uint64_t id) {
    wire::stream_create args{};
    args.stream = id;
    post(args);
  }
  void create_event(std::uint64_t id) {
    wire::cuEventCreate args{};
    args.phEvent = id;
    post(args);
  }
  std::uint64_t memset(std::uint64_t stream) {
    wire::cuMemsetD8Async args{};
    args.hStream = stream;
    return post(args);
  }
  std::uint64_t read(std::uint64_t stream, std::uint64_t bytes, std::uint64_t transfer) {
    wire::copy_d2h args{};
    args.stream = stream;
    args.bytes = bytes;
    args.transfer = transfer;
    return post(args);
  }
  std::uint64_t record(std::uint64_t event, std::uint64_t stream, std::uint64_t version) {
    wire::event_record args{};
    args.event = event;
    args.stream = stream;
    args.version = version;
    return post(args);
  }
  Received alloc(std::uint64_t bytes) {
    wire::cuMemAlloc_v2 args{};
    args.bytesize = bytes;
    return call(args);
  }
  std::uint64_t free_memory(std::uint64_t pointer) {
    wire::cuMemFree_v2 args{};
    args.dptr = pointer;
    return post(args);
  }
  std::uint64_t ask_context_wait() { return ask(wire::cuCtxSynchronize{}); }
  std::uint64_t ask_stream_wait(std::uint64_t stream) {
    wire::cuStreamSynchronize args{};
    args.hStream = stream;
    return ask(args);
  }

  FakeDriver driver_;
  std::unique_ptr<server::LocalLedger> ledger_;
  std::unique_ptr<transport::Channel> channel_;
  std::unique_ptr<server::Worker> worker_;
  std::uint32_t context_ = 0;
  std::deque<Received> received_;

 private:
  Status on_record(const wire::RecordHeader& header, std::span<const std::byte> body) override {
    received_.push_back({header, {body.begin(), body.end()}});
    return {};
  }
  wire::RecordAssembler<transport::RecvSink> assembler_{*this};
  std::thread thread_;
  Status ended_;
  std::uint64_t seq_ = 0;
};

}  // namespace sluice::test
