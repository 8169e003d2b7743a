#include "transport/ucx/plugin/registered_memory.h"

#include "common/format.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>

namespace sluice::transport::ucx {
namespace {

std::string locked_memory_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : format("{} KiB", limit.rlim_cur / 1024);
}

}  // namespace

Result<std::unique_ptr<RegisteredMemory>> RegisteredMemory::make(ucp_context_h context,
                                                                 std::size_t bytes) {
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return fail(system_error("staging memory", errno));
  std::unique_ptr<RegisteredMemory> memory(
      new RegisteredMemory(context, {static_cast<std::byte*>(at), bytes}));
  ::madvise(at, bytes, MADV_HUGEPAGE);  // where it is allowed
  // A forked child must not share the pages: the adapter would go on with the one copy, and a
  // process with the other.
  ::madvise(at, bytes, MADV_DONTFORK);
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = at;
  params.length = bytes;
  const auto status = ucp_mem_map(context, &params, &memory->handle_);
  if (status == UCS_OK) return memory;
  memory->handle_ = nullptr;
  return fail(ErrorCode::kExhausted,
              format("UCX cannot register {} MiB of memory: {}; the limit of locked memory "
                     "(ulimit -l, LimitMEMLOCK) is {}",
                     bytes >> 20, ucs_status_string(status), locked_memory_limit()));
}

RegisteredMemory::~RegisteredMemory() {
  if (handle_ != nullptr) ucp_mem_unmap(context_, handle_);
  ::munmap(bytes_.data(), bytes_.size());
}

Result<std::string> RegisteredMemory::key() const {
  void* packed = nullptr;
  std::size_t packed_bytes = 0;
  if (const auto status = ucp_rkey_pack(context_, handle_, &packed, &packed_bytes);
      status != UCS_OK)
    return fail(ucx_error("packing a memory key", status));
  std::string key(static_cast<const char*>(packed), packed_bytes);
  ucp_rkey_buffer_release(packed);
  return key;
}

}  // namespace sluice::transport::ucx
