// A peer that has the session key and means harm, or is broken: the worker refuses what it cannot
// take, answers what it can, and never crashes or hangs.
#include "tests/hostile/peer.h"

#include <unistd.h>

#include <fstream>
#include <random>

namespace sluice::test {
namespace {

using wire::body_of;
using wire::set_lengths;

constexpr std::uint32_t kContext = 1;

template <class Args>
void fill(Args* args, std::mt19937_64& random, std::uint64_t part_bytes) {
  // What a field may look like: small numbers (ids in use, enums), and anything.
  for (std::size_t at = 0; at + 4 <= sizeof(Args); at += 4) {
    const std::uint32_t word =
        static_cast<std::uint32_t>(random() % 3 == 0 ? random() : random() % 4);
    std::memcpy(reinterpret_cast<std::byte*>(args) + at, &word, sizeof word);
  }
  set_lengths(args, part_bytes);
}

/// Ends the session, or takes the context away: not what this test is about.
template <class Args>
constexpr bool ends_the_session() {
  return Args::kOpcode == wire::Opcode::goodbye || Args::kOpcode == wire::Opcode::context_destroy;
}

template <class Args>
void is_answered_whatever_the_arguments(const char* name) {
  if (ends_the_session<Args>()) return;
  std::mt19937_64 random(11);
  auto peer = std::make_unique<Peer>();
  ASSERT_EQ(peer->create_context(kContext), CUDA_SUCCESS);
  for (int round = 0; round < 12; ++round) {
    Args args{};
    const std::size_t part_bytes = round % 4 * 8;
    fill(&args, random, part_bytes);
    std::vector<std::byte> body = body_of(args, part_bytes);
    for (std::size_t at = sizeof args; at < body.size(); ++at)
      body[at] = static_cast<std::byte>(random());
    if (peer->call(static_cast<std::uint16_t>(Args::kOpcode), body)) continue;
    const Status ended = peer->await_end();
    ASSERT_FALSE(ended) << name << ": the session ended without a reason";
    EXPECT_EQ(ended.error().code, ErrorCode::kProtocol) << name << ": " << ended.error().message;
    peer = std::make_unique<Peer>();
    ASSERT_EQ(peer->create_context(kContext), CUDA_SUCCESS);
  }
  EXPECT_TRUE(peer->is_alive()) << "after " << name;
}

template <class Args>
void ends_the_session_if_cut(const char* name) {
  Args args{};
  set_lengths(&args, 16);
  const std::vector<std::byte> whole = body_of(args, 16);
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 8) {
    Peer peer;
    peer.send(peer.header(static_cast<std::uint16_t>(Args::kOpcode), bytes),
              std::span(whole).first(bytes));
    const Status ended = peer.await_end();
    ASSERT_FALSE(ended) << name << " cut to " << bytes;
    EXPECT_EQ(ended.error().code, ErrorCode::kProtocol);
  }
}

#define ANSWERED(name) is_answered_whatever_the_arguments<wire::name>(#name);
#define CUT(name) ends_the_session_if_cut<wire::name>(#name);

TEST(HostilePeer, EveryRecordWithAnyArgumentsIsAnswered){
    SLUICE_WIRE_REQUESTS(ANSWERED)} TEST(HostilePeer, EveryRecordThatIsCutEndsTheSession){
    SLUICE_WIRE_REQUESTS(CUT)}

TEST(HostilePeer, AnOpcodeThatIsNoRequestEndsTheSession) {
  std::vector<std::uint16_t> opcodes = {0, static_cast<std::uint16_t>(wire::kOpcodeMax + 1),
                                        0xffff};
#define PUSH(name) opcodes.push_back(static_cast<std::uint16_t>(wire::Opcode::name));
  SLUICE_WIRE_PUSHES(PUSH)
#undef PUSH
  for (const std::uint16_t opcode : opcodes) {
    Peer peer;
    const std::vector<std::byte> body(64);
    peer.send(peer.header(opcode, body.size()), body);
    const Status ended = peer.await_end();
    ASSERT_FALSE(ended) << "opcode " << opcode;
    EXPECT_EQ(ended.error().code, ErrorCode::kProtocol);
  }
}

TEST(HostilePeer, AHeaderThatCannotBeEndsTheSession) {
  const std::vector<std::byte> body(8);
  const auto ends_with = [&](const auto& damage) {
    Peer peer;
    wire::RecordHeader header =
        peer.header(static_cast<std::uint16_t>(wire::Opcode::cuCtxSynchronize), 8);
    damage(header);
    peer.send(header, body);
    const Status ended = peer.await_end();
    return !ended && ended.error().code == ErrorCode::kProtocol;
  };
  for (const std::uint32_t bytes : {0u, 8u, 23u, 25u, 33u, 0x80000000u, 0xfffffff8u,
                                    static_cast<std::uint32_t>(wire::kRecordBytesMax) + 8})
    EXPECT_TRUE(ends_with([&](wire::RecordHeader& h) { h.bytes = bytes; })) << bytes;
  for (const std::uint64_t seq : {std::uint64_t{0}, std::uint64_t{2}, ~std::uint64_t{0}})
    EXPECT_TRUE(ends_with([&](wire::RecordHeader& h) { h.seq = seq; })) << seq;
  for (const unsigned flags : {1u, 3u, 4u, 8u, 0x8000u})
    EXPECT_TRUE(ends_with([&](wire::RecordHeader& h) {
      h.flags = static_cast<std::uint16_t>(flags);
    })) << flags;
}

TEST(HostilePeer, AContextThatIsNotTheSessionsIsAnError) {
  Peer peer;
  for (const std::uint32_t id : {1u, 2u, 0xffffffffu}) {
    peer.context = id;
    const auto reply = peer.call(wire::cuCtxSynchronize{});
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->result, CUDA_ERROR_INVALID_CONTEXT);
  }
}

TEST(HostilePeer, HandlesOfAnotherSessionMeanNothing) {
  Peer owner;
  Peer thief;
  ASSERT_EQ(owner.create_context(kContext), CUDA_SUCCESS);
  ASSERT_EQ(thief.create_context(kContext), CUDA_SUCCESS);
  wire::stream_create create{};
  create.stream = 77;
  ASSERT_EQ(owner.call(create)->result, CUDA_SUCCESS);
  wire::cuStreamSynchronize wait{};
  wait.hStream = 77;
  EXPECT_EQ(owner.call(wait)->result, CUDA_SUCCESS);
  EXPECT_EQ(thief.call(wait)->result, CUDA_ERROR_INVALID_HANDLE);
}

TEST(HostilePeer, MemoryOfAnotherSessionCannotBeFreed) {
  Peer owner;
  Peer thief;
  ASSERT_EQ(owner.create_context(kContext), CUDA_SUCCESS);
  ASSERT_EQ(thief.create_context(kContext), CUDA_SUCCESS);
  wire::cuMemAlloc_v2 alloc{};
  alloc.bytesize = 4096;
  const auto allocated = owner.call(alloc);
  ASSERT_EQ(allocated->result, CUDA_SUCCESS);
  wire::cuMemAlloc_v2::Reply reply{};
  std::memcpy(&reply, allocated->body.data(), sizeof reply);
  wire::cuMemFree_v2 release{};
  release.dptr = reply.dptr;
  EXPECT_NE(thief.call(release)->result, CUDA_SUCCESS);
  EXPECT_EQ(owner.call(release)->result, CUDA_SUCCESS);
}

std::uint64_t resident_bytes() {
  std::uint64_t whole = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

TEST(HostilePeer, ALargeSharedRangeTakesNoMemoryBeforeItIsUsed) {
  Peer peer;
  ASSERT_EQ(peer.create_context(kContext), CUDA_SUCCESS);
  const std::uint64_t before = resident_bytes();
  wire::shadow_create create{};
  create.range = 5;
  create.address = 0x4800'0000'0000;
  create.bytes = std::uint64_t{8} << 30;
  const auto reply = peer.call(create);
  ASSERT_TRUE(reply);
#ifndef __SANITIZE_THREAD__  // which has a use of its own for that address
  EXPECT_EQ(reply->result, CUDA_SUCCESS);
#endif
  EXPECT_LT(resident_bytes(), before + (std::uint64_t{1} << 30));
}

TEST(HostilePeer, APayloadAtTheLimitIsTakenAndOneBeyondEndsTheSession) {
  const auto write = [](Peer& peer, std::size_t bytes) {
    wire::cuMemAlloc_v2 alloc{};
    alloc.bytesize = 1 << 20;
    const auto allocated = peer.call(alloc);
    wire::cuMemAlloc_v2::Reply at{};
    std::memcpy(&at, allocated->body.data(), sizeof at);
    wire::copy_h2d args{};
    args.dst = at.dptr;
    args.data_bytes = bytes;
    std::vector<std::byte> body(sizeof args + wire::padded(bytes));
    std::memcpy(body.data(), &args, sizeof args);
    return peer.call(static_cast<std::uint16_t>(wire::copy_h2d::kOpcode), body);
  };
  Peer peer;
  ASSERT_EQ(peer.create_context(kContext), CUDA_SUCCESS);
  EXPECT_EQ(write(peer, wire::kPayloadBytesMax)->result, CUDA_SUCCESS);
  EXPECT_EQ(write(peer, wire::kPayloadBytesMax + 1)->result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_FALSE(write(peer, wire::kRecordBytesMax));
  const Status ended = peer.await_end();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::kProtocol);
}

}  // namespace
}  // namespace sluice::test
