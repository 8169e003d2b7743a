#include "softgpu/exec/warp.h"

#include "softgpu/exec/matrix.h"

#include <bit>

namespace sluice::softgpu {
namespace {

/// Calls visit(lane, record) for every member, lowest lane first.
template <class Visit>
void for_each(ThreadRecord* lanes, std::uint32_t members, Visit visit) {
  for (; members != 0; members &= members - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(members));
    visit(lane, lanes[lane]);
  }
}

/// Source lane of shfl as the PTX ISA writes it; false if it lies outside the segment.
bool source_of(WarpOperation operation, unsigned lane, std::uint32_t b, std::uint32_t c,
               unsigned* out) {
  const unsigned segment = c >> 8 & 0x1F;
  const unsigned clamp = c & 0x1F;
  const unsigned highest = (lane & segment) | (clamp & ~segment);
  const unsigned delta = b & 0x1F;
  int source = 0;
  bool is_inside = false;
  switch (operation) {
    case WarpOperation::kShuffleUp:
      source = static_cast<int>(lane) - static_cast<int>(delta);
      is_inside = source >= static_cast<int>(highest);
      break;
    case WarpOperation::kShuffleDown:
      source = static_cast<int>(lane + delta);
      is_inside = source <= static_cast<int>(highest);
      break;
    case WarpOperation::kShuffleXor:
      source = static_cast<int>(lane ^ delta);
      is_inside = source <= static_cast<int>(highest);
      break;
    default:
      source = static_cast<int>((lane & segment) | (delta & ~segment));
      is_inside = source <= static_cast<int>(highest);
  }
  *out = is_inside ? static_cast<unsigned>(source) & 0x1F : lane;
  return is_inside;
}

void shuffle(ThreadRecord* lanes, std::uint32_t members) {
  for_each(lanes, members, [&](unsigned lane, ThreadRecord& r) {
    unsigned source = 0;
    r.predicate = source_of(static_cast<WarpOperation>(r.operation), lane, r.b, r.count, &source);
    // A lane that takes no part has no value to give: unspecified, so the reader keeps its own.
    r.result = (members >> source & 1) != 0 ? lanes[source].a : r.a;
  });
}

void match(ThreadRecord* lanes, std::uint32_t members, bool wants_all) {
  for_each(lanes, members, [&](unsigned, ThreadRecord& r) {
    std::uint32_t same = 0;
    for_each(lanes, members, [&](unsigned other, const ThreadRecord& o) {
      if (o.a == r.a) same |= 1u << other;
    });
    r.predicate = same == members;
    r.result = wants_all && same != members ? 0 : same;
  });
}

std::uint32_t combine(WarpOperation operation, std::uint32_t x, std::uint32_t y) {
  const auto sx = static_cast<std::int32_t>(x);
  const auto sy = static_cast<std::int32_t>(y);
  switch (operation) {
    case WarpOperation::kReduceAdd:
      return x + y;
    case WarpOperation::kReduceMin:
      return x < y ? x : y;
    case WarpOperation::kReduceMax:
      return x > y ? x : y;
    case WarpOperation::kReduceMinSigned:
      return sx < sy ? x : y;
    case WarpOperation::kReduceMaxSigned:
      return sx > sy ? x : y;
    case WarpOperation::kReduceAnd:
      return x & y;
    case WarpOperation::kReduceOr:
      return x | y;
    default:
      return x ^ y;
  }
}

void reduce(ThreadRecord* lanes, std::uint32_t members, WarpOperation operation) {
  const auto first = static_cast<unsigned>(std::countr_zero(members));
  auto sum = static_cast<std::uint32_t>(lanes[first].a);
  for_each(lanes, members & (members - 1), [&](unsigned, const ThreadRecord& r) {
    sum = combine(operation, sum, static_cast<std::uint32_t>(r.a));
  });
  for_each(lanes, members, [&](unsigned, ThreadRecord& r) { r.result = sum; });
}

void vote(ThreadRecord* lanes, std::uint32_t members, WarpOperation operation) {
  std::uint32_t ballot = 0;
  for_each(lanes, members, [&](unsigned lane, const ThreadRecord& r) {
    if (r.b != 0) ballot |= 1u << lane;
  });
  bool holds = false;
  if (operation == WarpOperation::kVoteAll) holds = ballot == members;
  if (operation == WarpOperation::kVoteAny) holds = ballot != 0;
  if (operation == WarpOperation::kVoteUniform) holds = ballot == members || ballot == 0;
  for_each(lanes, members, [&](unsigned, ThreadRecord& r) {
    r.result = ballot;
    r.predicate = holds;
  });
}

void elect(ThreadRecord* lanes, std::uint32_t members) {
  const auto leader = static_cast<unsigned>(std::countr_zero(members));
  for_each(lanes, members, [&](unsigned lane, ThreadRecord& r) {
    r.result = leader;
    r.predicate = lane == leader;
  });
}

}  // namespace

void run_collective(ThreadRecord* lanes, std::uint32_t members) {
  const auto operation = static_cast<WarpOperation>(lanes[std::countr_zero(members)].operation);
  switch (operation) {
    case WarpOperation::kSync:
      return;
    case WarpOperation::kShuffleUp:
    case WarpOperation::kShuffleDown:
    case WarpOperation::kShuffleXor:
    case WarpOperation::kShuffleIndex:
      return shuffle(lanes, members);
    case WarpOperation::kVoteAll:
    case WarpOperation::kVoteAny:
    case WarpOperation::kVoteUniform:
    case WarpOperation::kBallot:
      return vote(lanes, members, operation);
    case WarpOperation::kMatchAny:
    case WarpOperation::kMatchAll:
      return match(lanes, members, operation == WarpOperation::kMatchAll);
    case WarpOperation::kElect:
      return elect(lanes, members);
    case WarpOperation::kActiveMask:
      return for_each(lanes, members, [&](unsigned, ThreadRecord& r) { r.result = members; });
    case WarpOperation::kMatrixMultiply:
      return multiply_matrices(lanes);
    case WarpOperation::kMatrixLoad:
      return exchange_matrices(lanes);
    default:
      return reduce(lanes, members, operation);
  }
}

}  // namespace sluice::softgpu
