#include "softgpu/memory/physical.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

namespace sluice::softgpu {
namespace {

constexpr std::uint64_t kMagic = 0x31626d6570676673;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::size_t kHeaderRoom = 4096;

/// Behind the block's bytes, so that whoever imports the descriptor knows what it is.
struct Header {
  std::uint64_t magic = kMagic;
  std::uint64_t bytes = 0;
  std::int32_t ordinal = 0;
  std::uint32_t is_rdma_capable = 0;
};

Result<Fd> make_file(const PhysicalBlock::Properties& p) {
  Fd fd(::memfd_create("softgpu-block", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fail(system_error("creating a memory block", errno));
  const Header header{kMagic, p.bytes, p.ordinal, p.is_rdma_capable ? 1u : 0u};
  if (::ftruncate(fd.get(), static_cast<off_t>(p.bytes + kHeaderRoom)) != 0 ||
      ::pwrite(fd.get(), &header, sizeof header, static_cast<off_t>(p.bytes)) !=
          static_cast<ssize_t>(sizeof header) ||
      ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return fail(system_error("sizing a memory block", errno));
  return fd;
}

}  // namespace

Result<std::shared_ptr<PhysicalBlock>> PhysicalBlock::create(const Properties& properties,
                                                             Account& account) {
  if (!account.charge(properties.bytes))
    return fail(ErrorCode::kExhausted, "the device's memory is used up");
  auto fd = make_file(properties);
  if (!fd) {
    account.refund(properties.bytes);
    return fail(fd.error());
  }
  return std::shared_ptr<PhysicalBlock>(new PhysicalBlock(properties, std::move(*fd), &account));
}

Result<std::shared_ptr<PhysicalBlock>> PhysicalBlock::import(int from) {
  const auto refused = [] {
    return fail(ErrorCode::kInvalidArgument, "the descriptor is no exported memory block");
  };
  struct stat info {};
  const int seals = ::fcntl(from, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(from, &info) != 0 ||
      info.st_size <= static_cast<off_t>(kHeaderRoom))
    return refused();
  const std::size_t bytes = static_cast<std::size_t>(info.st_size) - kHeaderRoom;
  Header header;
  if (::pread(from, &header, sizeof header, static_cast<off_t>(bytes)) !=
          static_cast<ssize_t>(sizeof header) ||
      header.magic != kMagic || header.bytes != bytes || header.ordinal < 0)
    return refused();
  Fd fd(::fcntl(from, F_DUPFD_CLOEXEC, 0));
  if (!fd.valid()) return fail(system_error("importing a memory block", errno));
  const Properties properties{header.ordinal, bytes, true, header.is_rdma_capable != 0};
  return std::shared_ptr<PhysicalBlock>(new PhysicalBlock(properties, std::move(fd), nullptr));
}

PhysicalBlock::~PhysicalBlock() {
  if (account_ != nullptr) account_->refund(properties_.bytes);
}

Result<Fd> PhysicalBlock::export_fd() const {
  Fd fd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!fd.valid()) return fail(system_error("exporting a memory block", errno));
  return fd;
}

bool PhysicalBlock::map_at(std::uint64_t address, std::size_t bytes) const {
  return ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
                fd_.get(), 0) != MAP_FAILED;
}

}  // namespace sluice::softgpu
