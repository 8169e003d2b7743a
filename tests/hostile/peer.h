// A peer that sends records byte by byte as it likes, to a worker on a thread of this process.
#pragma once

#include "protocol/all_rows.h"
#include "protocol/record_assembler.h"
#include "server/worker/driver_start.h"
#include "server/worker/worker.h"
#include "tests/abi/bodies.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace sluice::test {

/// softgpu, loaded once for all sessions of the process.
inline const DriverTable& softgpu_driver() {
  static const DriverTable* const table = [] {
    ::setenv("SOFTGPU_ACCOUNT", ("hostile_" + std::to_string(::getpid())).c_str(), 1);
    auto* loaded = new DriverTable;
    const auto ready = server::start_driver(SOFTGPU_LIBRARY, loaded);
    if (!ready) ADD_FAILURE() << ready.error().message;
    return loaded;
  }();
  return *table;
}

class Peer : private wire::RecordHandler {
 public:
  struct Reply {
    CUresult result;
    std::vector<std::byte> body;
  };

  Peer() : ledger_(kLimitBytes) {
    transport::LoopPair pair = transport::make_loop_pair();
    channel_ = std::move(pair.client);
    worker_ = std::make_unique<server::Worker>(softgpu_driver(), std::move(pair.server), ledger_);
    thread_ = std::thread([this] {
      ended_ = worker_->run();
      worker_->stop();  // as the end of the worker's process would close the channel
    });
  }
  ~Peer() override { end(); }

  /// How the session ended: for a peer that broke the protocol, with what.
  Status end() {
    channel_->close();
    if (thread_.joinable()) thread_.join();
    return ended_;
  }
  /// Waits for the worker to end the session by itself.
  Status await_end() {
    thread_.join();
    return ended_;
  }

  wire::RecordHeader header(std::uint16_t opcode, std::size_t body_bytes) {
    wire::RecordHeader h{};
    h.bytes = static_cast<std::uint32_t>(sizeof h + body_bytes);
    h.opcode = opcode;
    h.flags = wire::kFlagWantsReply;
    h.seq = ++seq_;
    h.context = context;
    return h;
  }
  void send(const wire::RecordHeader& header, std::span<const std::byte> body) {
    std::vector<std::byte> record(sizeof header + body.size());
    std::memcpy(record.data(), &header, sizeof header);
    if (!body.empty()) std::memcpy(record.data() + sizeof header, body.data(), body.size());
    static_cast<void>(channel_->write_through(record));  // fails when the worker has had enough
  }
  /// Null if the session ended instead.
  std::optional<Reply> call(std::uint16_t opcode, std::span<const std::byte> body) {
    const wire::RecordHeader request = header(opcode, body.size());
    send(request, body);
    const auto deadline = transport::Clock::now() + std::chrono::seconds(60);
    while (transport::Clock::now() < deadline) {
      if (reply_ && reply_seq_ == request.seq) return std::exchange(reply_, std::nullopt);
      const auto got = channel_->poll(assembler_, 1 << 20);
      if (!got) return std::nullopt;
      if (*got == 0) static_cast<void>(channel_->wait(deadline));
    }
    ADD_FAILURE() << "no answer to " << wire::opcode_name(static_cast<wire::Opcode>(opcode));
    return std::nullopt;
  }
  template <class Args>
  std::optional<Reply> call(const Args& args) {
    return call(static_cast<std::uint16_t>(Args::kOpcode), wire::body_of(args, 0));
  }
  CUresult create_context(std::uint32_t id) {
    wire::context_create args{};
    args.context = id;
    args.is_primary = 1;
    const auto reply = call(args);
    context = id;
    return reply ? reply->result : CUDA_ERROR_UNKNOWN;
  }
  /// The session still answers what a shim would ask.
  bool is_alive() {
    const auto reply = call(wire::cuCtxSynchronize{});
    return reply.has_value();
  }

  std::uint32_t context = 0;

 private:
  static constexpr std::uint64_t kLimitBytes = 256 << 20;
  Status on_record(const wire::RecordHeader& header, std::span<const std::byte> body) override {
    if (header.flags != wire::kFlagReply) return {};
    reply_ = Reply{static_cast<CUresult>(header.result), {body.begin(), body.end()}};
    reply_seq_ = header.seq;
    return {};
  }

  server::LocalLedger ledger_;
  std::unique_ptr<transport::Channel> channel_;
  std::unique_ptr<server::Worker> worker_;
  std::thread thread_;
  Status ended_;
  wire::RecordAssembler<transport::RecvSink> assembler_{*this};
  std::optional<Reply> reply_;
  std::uint64_t reply_seq_ = 0;
  std::uint64_t seq_ = 0;
};

}  // namespace sluice::test
