#include "transport/shm/memory.h"

#include "common/format.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace sluice::transport::shm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr unsigned kNoExecSeal = 0x8;  // MFD_NOEXEC_SEAL, newer than our oldest headers
constexpr std::size_t kViewBytes = kMemoryBytes + 2 * kRingBytes;

struct Part {
  std::size_t view_offset, file_offset, bytes;
};
constexpr std::size_t kUpOffset = kHeaderBytes;
constexpr std::size_t kDownOffset = kUpOffset + kRingBytes;
constexpr std::size_t kStagingOffset = kDownOffset + kRingBytes;
constexpr Part kParts[] = {
    {0, 0, kHeaderBytes},
    {kHeaderBytes, kUpOffset, kRingBytes},
    {kHeaderBytes + kRingBytes, kUpOffset, kRingBytes},
    {kHeaderBytes + 2 * kRingBytes, kDownOffset, kRingBytes},
    {kHeaderBytes + 3 * kRingBytes, kDownOffset, kRingBytes},
    {kHeaderBytes + 4 * kRingBytes, kStagingOffset, kStagingBytes},
};

Result<Fd> make_memfd() {
  Fd fd(::memfd_create("sluice", MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal));
  if (!fd.valid() && errno == EINVAL)
    fd.reset(::memfd_create("sluice", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fail(system_error("creating shared memory (memfd_create)", errno));
  return fd;
}

Status check_memory(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return fail(ErrorCode::kProtocol, "shared memory: the descriptor is no memfd");
  if ((seals & kSeals) != kSeals)
    return fail(ErrorCode::kProtocol,
                format("shared memory: its size is not sealed (seals {:x})", seals));
  // Only now: without the seals the size could change behind the look.
  struct stat info {};
  if (::fstat(fd, &info) != 0) return fail(system_error("shared memory", errno));
  if (info.st_size != static_cast<off_t>(kMemoryBytes))
    return fail(ErrorCode::kProtocol,
                format("shared memory of {} bytes (expected: {})", info.st_size, kMemoryBytes));
  return {};
}

}  // namespace

Mapping::Mapping(std::byte* base) : base_(base), owner_pid_(::getpid()) {}

Mapping::Mapping(Mapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), owner_pid_(other.owner_pid_) {}

bool Mapping::is_here() const {
  return ::getpid() == owner_pid_;
}

Mapping::~Mapping() {
  // In a forked child something else may have taken the addresses.
  if (base_ != nullptr && is_here()) ::munmap(base_, kViewBytes);
}

Result<Mapping> Mapping::map(int fd) {
  void* const area =
      ::mmap(nullptr, kViewBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) return fail(system_error("mapping shared memory", errno));
  Mapping mapping(static_cast<std::byte*>(area));
  for (const Part& part : kParts) {
    void* const at = mapping.base_ + part.view_offset;
    if (::mmap(at, part.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
               static_cast<off_t>(part.file_offset)) == MAP_FAILED)
      return fail(system_error("mapping shared memory", errno));
  }
  // A child that could write here would speak for its parent.
  if (::madvise(area, kViewBytes, MADV_DONTFORK) != 0)
    return fail(system_error("keeping shared memory from children", errno));
  ::madvise(mapping.staging().data(), kStagingBytes, MADV_HUGEPAGE);  // where it is allowed
  return mapping;
}

Result<Made> make_memory() {
  // Beyond this limit the host kernel does not fail, it sends SIGXFSZ.
  rlimit size{};
  if (::getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur < kMemoryBytes)
    return fail(ErrorCode::kExhausted,
                format("shared memory of {} bytes is over the limit of {} (ulimit -f)",
                       kMemoryBytes, size.rlim_cur));
  SLUICE_TRY(Fd fd, make_memfd());
  if (::ftruncate(fd.get(), static_cast<off_t>(kMemoryBytes)) != 0)
    return fail(system_error("sizing shared memory", errno));
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return fail(system_error("sealing shared memory", errno));
  SLUICE_TRY(Mapping mapping, Mapping::map(fd.get()));
  return Made{std::move(fd), std::move(mapping)};
}

Result<Mapping> adopt_memory(int fd) {
  SLUICE_CHECK(check_memory(fd));
  return Mapping::map(fd);
}

}  // namespace sluice::transport::shm
