// Start-up, versions, error names, entry points.
#include "common/log.h"
#include "proc_table.h"
#include "softgpu/api/state.h"
#include "softgpu/api/strict.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>

namespace sluice::softgpu {
namespace {

constexpr int kDriverVersion = 13000;
constexpr std::size_t kDefaultMemoryBytes = std::size_t{8} << 30;
constexpr long kDevicesMax = 16;

std::atomic<bool> g_is_initialised{false};
std::atomic<bool> g_is_forked_child{false};

/// "8GiB", "512MiB", "1073741824"; the default for anything else.
std::size_t memory_from_environment() {
  const char* text = std::getenv("SOFTGPU_MEMORY");
  if (text == nullptr) return kDefaultMemoryBytes;
  char* unit = nullptr;
  const unsigned long long value = std::strtoull(text, &unit, 10);
  const std::string suffix = unit;
  const int shift = suffix.empty()    ? 0
                    : suffix == "KiB" ? 10
                    : suffix == "MiB" ? 20
                    : suffix == "GiB" ? 30
                                      : -1;
  if (shift < 0 || value == 0) {
    SLUICE_LOG_WARN("softgpu",
                    "SOFTGPU_MEMORY=\"{}\" is no size (write 512MiB or 8GiB); using 8GiB", text);
    return kDefaultMemoryBytes;
  }
  return static_cast<std::size_t>(value) << shift;
}

/// FNV-1a.
std::uint64_t hash_of(const std::string& text, std::uint64_t start) {
  std::uint64_t hash = start;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// Processes that share a device's memory see one UUID; other hosts, users and accounts another.
CUuuid uuid_of(int ordinal) {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  const std::string who = std::string("softgpu/") + host + '/' + account_id(ordinal);
  const std::uint64_t halves[2] = {hash_of(who, 0xcbf29ce484222325),
                                   hash_of(who, 0x84222325cbf29ce4)};
  CUuuid uuid{};
  std::memcpy(uuid.bytes, halves, sizeof uuid.bytes);
  // A UUID of the free form (version 8), so that nobody takes it for a random one.
  uuid.bytes[6] = static_cast<char>((uuid.bytes[6] & 0x0f) | 0x80);
  uuid.bytes[8] = static_cast<char>((uuid.bytes[8] & 0x3f) | 0x80);
  return uuid;
}

std::string uuid_text(const CUuuid& uuid) {
  std::string out = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    out += hex;
    if (i == 3 || i == 5 || i == 7 || i == 9) out += '-';
  }
  return out;
}

/// CUDA_VISIBLE_DEVICES: the physical ordinals that stay visible, in its order, up to the first
/// invalid entry.
std::vector<int> visible_devices(int count) {
  std::vector<int> out;
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (int i = 0; i < count; ++i) out.push_back(i);
    return out;
  }
  std::istringstream list(text);
  std::string entry;
  while (std::getline(list, entry, ',')) {
    int match = -1;
    if (entry.starts_with("GPU-")) {
      for (int i = 0; i < count; ++i)
        if (uuid_text(uuid_of(i)).starts_with(entry)) match = match == -1 ? i : -2;
    } else {
      char* end = nullptr;
      const long value = std::strtol(entry.c_str(), &end, 10);
      if (end != entry.c_str() && *end == '\0' && value >= 0 && value < count)
        match = static_cast<int>(value);
    }
    if (match < 0 || std::find(out.begin(), out.end(), match) != out.end()) break;
    out.push_back(match);
  }
  return out;
}

CUresult start() {
  log_open_from_environment("softgpu", LogLevel::kWarn);
  const char* text = std::getenv("SOFTGPU_DEVICES");
  const long count =
      text != nullptr ? std::min(std::max(std::strtol(text, nullptr, 10), 0l), kDevicesMax) : 1;
  for (const int ordinal : visible_devices(static_cast<int>(count))) {
    auto account = open_account(ordinal, memory_from_environment());
    if (!account) {
      SLUICE_LOG_ERROR("softgpu", "{}", account.error().message);
      return CUDA_ERROR_OPERATING_SYSTEM;
    }
    auto arena = Arena::create(ordinal, std::move(*account),
                               is_strict() ? kHugePageBytes : kArenaGranularityBytes);
    if (!arena) {
      SLUICE_LOG_ERROR("softgpu", "{}", arena.error().message);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    auto device = std::make_unique<Device>();
    device->ordinal = ordinal;
    device->uuid = uuid_of(ordinal);
    device->arena = std::move(*arena);
    state().devices.push_back(std::move(device));
  }
  if (state().devices.empty()) return CUDA_ERROR_NO_DEVICE;
  pthread_atfork(nullptr, nullptr, [] { g_is_forked_child = true; });
  g_is_initialised = true;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult initialised() {
  if (is_strict() && InsideHostFunction::is_active()) return CUDA_ERROR_NOT_PERMITTED;
  return g_is_initialised && !g_is_forked_child ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

struct ErrorText {
  CUresult code;
  const char* name;
  const char* text;
};
#define E(code, text) \
  { code, #code, text }
constexpr ErrorText kErrors[] = {
    E(CUDA_SUCCESS, "no error"),
    E(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    E(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    E(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    E(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    E(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    E(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    E(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    E(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    E(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
    E(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    E(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    E(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
      "the provided PTX was compiled with an unsupported toolchain."),
    E(CUDA_ERROR_INVALID_SOURCE, "device kernel image is invalid"),
    E(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    E(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "shared object symbol not found"),
    E(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    E(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    E(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    E(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    E(CUDA_ERROR_NOT_READY, "device not ready"),
    E(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    E(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    E(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    E(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    E(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    E(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"),
    E(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    E(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    E(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
      "part or all of the requested memory range is already mapped"),
    E(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
      "pointer does not correspond to a registered memory region"),
    E(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    E(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    E(CUDA_ERROR_INVALID_PC, "invalid program counter"),
    E(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    E(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    E(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    E(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    E(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    E(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
    E(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    E(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
      "operation failed due to a previous error during capture"),
    E(CUDA_ERROR_STREAM_CAPTURE_MERGE,
      "operation would result in a merge of separate capture sequences"),
    E(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    E(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    E(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
      "dependency created on uncaptured work in another stream"),
    E(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
      "operation would make the legacy stream depend on a capturing blocking stream"),
    E(CUDA_ERROR_CAPTURED_EVENT,
      "operation not permitted on an event last recorded in a capturing stream"),
    E(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
      "attempt to terminate a thread-local capture sequence from another thread"),
    E(CUDA_ERROR_TIMEOUT, "wait operation timed out"),
    E(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph update was not performed"),
    E(CUDA_ERROR_UNKNOWN, "unknown error")};
#undef E

const ErrorText* error_text(CUresult code) {
  for (const ErrorText& e : kErrors)
    if (e.code == code) return &e;
  return nullptr;
}

}  // namespace sluice::softgpu

using namespace sluice::softgpu;

SOFTGPU_API cuInit(unsigned int flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (g_is_forked_child && g_is_initialised) return CUDA_ERROR_NOT_INITIALIZED;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static const CUresult result = start();
  return result;
}

SOFTGPU_API cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

SOFTGPU_API cuGetErrorName(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* known = error_text(error);
  *text = known != nullptr ? known->name : nullptr;
  return known != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTGPU_API cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* known = error_text(error);
  *text = known != nullptr ? known->text : nullptr;
  return known != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTGPU_API cuGetProcAddress_v2(const char* name, void** address, int version, cuuint64_t flags,
                                CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t kKnown =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (name == nullptr || address == nullptr || (flags & ~kKnown) != 0 || version > kDriverVersion)
    return CUDA_ERROR_INVALID_VALUE;
  sluice::ProcStatus found{};
  *address = sluice::find_proc(
      name, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0, &found);
  if (status != nullptr)
    *status = found == sluice::ProcStatus::kFound      ? CU_GET_PROC_ADDRESS_SUCCESS
              : found == sluice::ProcStatus::kNotFound ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
                                                       : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  return *address != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#undef cuGetProcAddress
SOFTGPU_API cuGetProcAddress(const char* name, void** address, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, address, version, flags, nullptr);
}

// NVIDIA's private tables are never provided (docs/licensing.md).
SOFTGPU_API cuGetExportTable(const void** table, const CUuuid*) {
  if (table == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  return CUDA_ERROR_NOT_SUPPORTED;
}
