#include "scheduler/pool/model/request.h"

#include "common/format.h"

namespace sluice::pool {
namespace {

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace

Resources Request::need(std::int64_t device_memory_bytes) const {
  if (!memory_part) return size;
  // In this order nothing overflows: a device has less than 2^53 bytes.
  return {.compute_permille = size.compute_permille,
          .memory_bytes = device_memory_bytes / 1000 * *memory_part};
}

Resources Request::charge(std::int64_t largest_memory_bytes) const {
  Resources each = need(largest_memory_bytes);
  if (isolation == Isolation::kExclusive) each.compute_permille = kDevicePermille;
  return each.times(gpus);
}

Status check(const Request& request) {
  constexpr std::int64_t kMemoryBytesMax = std::int64_t{1} << 50;
  if (request.tenant.empty()) return wrong("the request names no tenant: give one with --tenant");
  if (request.queue.empty()) return wrong("the request names no queue: give one with --queue");
  if (request.gpus == 0 || request.gpus > kGpusMax)
    return wrong(format("{} GPUs: ask for 1 to {}", request.gpus, kGpusMax));
  const std::int64_t compute = request.size.compute_permille;
  if (compute < 0 || compute > kDevicePermille)
    return wrong(
        format("a compute share of {} thousandths: ask for 0% to 100% of a device and "
               "for more GPUs if that is too little",
               compute));
  if (request.size.memory_bytes < 0 || request.size.memory_bytes > kMemoryBytesMax)
    return wrong(
        format("{} bytes of memory per GPU: ask for 0 to 1024 TiB", request.size.memory_bytes));
  if (request.memory_part && (*request.memory_part < 1 || *request.memory_part > 1000))
    return wrong(format("a memory part of {} thousandths: ask for 0.1% to 100% of a device",
                        *request.memory_part));
  if (request.memory_part && request.size.memory_bytes != 0)
    return wrong("memory both as a size and as a part of the device: give one of them");
  return {};
}

}  // namespace sluice::pool
