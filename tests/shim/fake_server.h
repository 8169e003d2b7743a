// A worker that speaks records and has no driver: answers the calls of the shim in the plainest
// way, remembers what it received, and lets a test take over any record.
#pragma once

#include "protocol/all_rows.h"
#include "protocol/record_assembler.h"
#include "shim/connect.h"
#include "shim/process.h"
#include "transport/stream/stream_io.h"
#include "transport/transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice::test {

using shim::Bytes;

struct Received {
  wire::RecordHeader header{};
  std::vector<std::byte> body;
  /// The fixed part.
  template <class Record>
  Record as() const {
    Record record{};
    std::memcpy(&record, body.data(), std::min(sizeof record, body.size()));
    return record;
  }
  template <class Record>
  Bytes blob() const {
    return Bytes(body).subspan(sizeof(Record));
  }
};

inline wire::RecordHeader head(std::uint16_t opcode, unsigned flags, std::uint64_t seq,
                               CUresult result = CUDA_SUCCESS) {
  wire::RecordHeader header{};
  header.opcode = opcode;
  header.flags = static_cast<std::uint16_t>(flags);
  header.seq = seq;
  header.result = result;
  return header;
}

class FakeServer final : private wire::RecordHandler {
 public:
  /// Gets every record first; true = it is dealt with. Runs on the server's thread.
  using Hook = std::function<bool(FakeServer&, const Received&)>;

  explicit FakeServer(Hook hook = {}, transport::LoopPair pair = transport::make_loop_pair())
      : hook_(std::move(hook)), assembler_(*this) {
    channel_ = std::move(pair.server);
    client_end_ = std::move(pair.client);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeServer() override {
    channel_->close();
    if (thread_.joinable()) thread_.join();
  }

  /// What cuInit connects to.
  shim::Connection connection(Fd life_line = Fd()) {
    shim::Connection made;
    made.channel = std::move(client_end_);
    if (life_line.valid()) made.life_line = transport::make_socket_stream(std::move(life_line));
    made.server = "test";
    made.welcome.driver_version = 13000;
    wire::DeviceRecord device;
    device.name = "Fake";
    device.uuid[0] = 0xAB;
    device.total_bytes = 1 << 30;
    device.attributes = {{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
                         {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
                         {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 65535}};
    made.welcome.devices = {device};
    return made;
  }

  void die() { channel_->close(); }
  /// The memory that the client sees as well, if the channel has some.
  std::span<std::byte> staging() { return channel_->staging(); }

  auto lanes() { return channel_->lanes(); }

  template <class Record>
  void push(const Record& record, Bytes blob = {}, CUresult result = CUDA_SUCCESS,
            std::uint64_t seq = 0) {
    send(head(static_cast<std::uint16_t>(Record::kOpcode), wire::kFlagPush, seq, result),
         {reinterpret_cast<const std::byte*>(&record), sizeof record}, blob);
  }
  template <class Reply>
  void reply(const Received& to, const Reply& reply, Bytes blob = {},
             CUresult result = CUDA_SUCCESS) {
    send(head(to.header.opcode, wire::kFlagReply, to.header.seq, result),
         {reinterpret_cast<const std::byte*>(&reply), sizeof reply}, blob);
  }
  void send(wire::RecordHeader header, Bytes fixed, Bytes blob) {
    std::vector<std::byte> bytes(sizeof header + fixed.size() + wire::padded(blob.size()));
    header.bytes = static_cast<std::uint32_t>(bytes.size());
    std::memcpy(bytes.data(), &header, sizeof header);
    if (!fixed.empty()) std::memcpy(bytes.data() + sizeof header, fixed.data(), fixed.size());
    if (!blob.empty())
      std::memcpy(bytes.data() + sizeof header + fixed.size(), blob.data(), blob.size());
    std::lock_guard lock(send_mutex_);
    (void)channel_->write_through(bytes);
  }

  /// Blocks until `count` records of that opcode came and the hook has seen them, or a generous
  /// deadline.
  bool wait_for(wire::Opcode opcode, std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return seen_by_hook_[opcode] >= count; });
  }
  std::size_t count(wire::Opcode opcode) {
    std::lock_guard lock(mutex_);
    return counts_[opcode];
  }
  std::vector<Received> received(wire::Opcode opcode) {
    std::lock_guard lock(mutex_);
    std::vector<Received> found;
    for (const Received& record : records_)
      if (record.header.opcode == static_cast<std::uint16_t>(opcode)) found.push_back(record);
    return found;
  }
  [[nodiscard]] bool is_order_broken() const { return is_order_broken_; }

  /// Device memory of this worker: one allocation after the other from here.
  static constexpr CUdeviceptr kFirstAddress = 0x7'0000'0000;

 private:
  void serve() {
    for (;;) {
      const auto got = channel_->poll(assembler_, 1 << 20);
      if (!got) return;
      if (*got == 0 && !channel_->wait(transport::Clock::now() + std::chrono::milliseconds(100)))
        return;
    }
  }

  Status on_record(const wire::RecordHeader& header, Bytes body) override {
    Received record{header, {body.begin(), body.end()}};
    if (header.seq != last_seq_ + 1) is_order_broken_ = true;
    last_seq_ = header.seq;
    {
      std::lock_guard lock(mutex_);
      ++counts_[static_cast<wire::Opcode>(header.opcode)];
      records_.push_back(record);
      if (record.body.size() > 4096) records_.back().body.resize(4096);
    }
    const bool is_taken = hook_ && hook_(*this, record);
    {
      std::lock_guard lock(mutex_);
      ++seen_by_hook_[static_cast<wire::Opcode>(header.opcode)];
      changed_.notify_all();
    }
    if (!is_taken) answer(record);
    return {};
  }

  std::uint64_t take_address(std::uint64_t bytes) {
    const std::uint64_t address = next_address_;
    next_address_ += (bytes + 4095) / 4096 * 4096;
    return address;
  }

  void answer(const Received& record) {
    switch (static_cast<wire::Opcode>(record.header.opcode)) {
      case wire::Opcode::cuMemAlloc_v2:
        return reply(record, wire::cuMemAlloc_v2::Reply{
                                 take_address(record.as<wire::cuMemAlloc_v2>().bytesize)});
      case wire::Opcode::memory_block:
        return reply(
            record, wire::memory_block::Reply{take_address(record.as<wire::memory_block>().bytes)});
      case wire::Opcode::copy_h2d: {
        wire::copy_credit credit{};
        credit.h2d_bytes = record.as<wire::copy_h2d>().data_bytes;
        push(credit, {}, CUDA_SUCCESS, record.header.seq);
        break;
      }
      case wire::Opcode::event_record: {
        const auto args = record.as<wire::event_record>();
        wire::event_done done{};
        done.event = args.event;
        done.version = args.version;
        push(done, {}, CUDA_SUCCESS, record.header.seq);
        break;
      }
      case wire::Opcode::stream_marker: {
        wire::marker_done done{};
        done.marker = record.as<wire::stream_marker>().marker;
        push(done, {}, CUDA_SUCCESS, record.header.seq);
        break;
      }
      case wire::Opcode::memory_fence:
        push(wire::memory_fence_done{}, {}, CUDA_SUCCESS, record.header.seq);
        break;
      case wire::Opcode::module_load:
        return reply(record, wire::module_load::Reply{});
      case wire::Opcode::module_get_function:
        return answer_function(record);
      default:
        break;
    }
    if ((record.header.flags & wire::kFlagWantsReply) != 0) reply(record, std::uint64_t{0});
  }

  /// Every function has the parameters (u64, u32) and no attributes.
  void answer_function(const Received& record) {
    const std::uint32_t layout[] = {0, 8, 8, 4};
    wire::module_get_function::Reply made{};
    made.layout_bytes = sizeof layout;
    reply(record, made, std::as_bytes(std::span(layout)));
  }

  Hook hook_;
  wire::RecordAssembler<transport::RecvSink> assembler_;
  std::unique_ptr<transport::Channel> channel_, client_end_;
  std::thread thread_;
  std::mutex send_mutex_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<wire::Opcode, std::size_t> counts_;
  std::map<wire::Opcode, std::size_t> seen_by_hook_;  ///< what the hook keeps is there for the test
  std::vector<Received> records_;
  std::uint64_t last_seq_ = 0;
  std::atomic<bool> is_order_broken_{false};
  CUdeviceptr next_address_ = kFirstAddress;
};

/// A process of its own for each test: connected to a fake server, with a context current.
class ShimTest : public ::testing::Test {
 protected:
  void start(FakeServer::Hook hook = {}, Fd life_line = Fd()) {
    start_on(transport::make_loop_pair(), std::move(hook), std::move(life_line));
  }
  void start_on(transport::LoopPair pair, FakeServer::Hook hook = {}, Fd life_line = Fd()) {
    server_ = std::make_unique<FakeServer>(std::move(hook), std::move(pair));
    auto shared = std::make_shared<Fd>(std::move(life_line));
    shim::set_connector_for_test([this, shared]() -> Result<shim::Connection> {
      return server_->connection(std::move(*shared));
    });
    ASSERT_EQ(CUDA_SUCCESS, cuInit(0));
    ASSERT_EQ(CUDA_SUCCESS, cuCtxCreate_v4(&context_, nullptr, 0, 0));
  }
  void TearDown() override {
    shim::reset_for_test();
    server_.reset();
    shim::set_connector_for_test({});
  }
  CUdeviceptr allocate(std::size_t bytes) {
    CUdeviceptr p = 0;
    EXPECT_EQ(CUDA_SUCCESS, cuMemAlloc_v2(&p, bytes));
    return p;
  }
  CUfunction function() {
    CUmodule module = nullptr;
    CUfunction made = nullptr;
    EXPECT_EQ(CUDA_SUCCESS, cuModuleLoadData(&module, ".version 7.0"));
    EXPECT_EQ(CUDA_SUCCESS, cuModuleGetFunction(&made, module, "kernel"));
    return made;
  }
  static CUresult launch(CUfunction f, std::uint64_t a = 0, std::uint32_t b = 0,
                         CUstream stream = nullptr) {
    void* params[] = {&a, &b};
    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr);
  }

  std::unique_ptr<FakeServer> server_;
  CUcontext context_ = nullptr;
};

}  // namespace sluice::test
