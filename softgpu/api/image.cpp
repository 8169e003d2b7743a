#include "softgpu/api/image.h"

#include "common/fatbin.h"
#include "common/log.h"

#include <cstring>

namespace sluice::softgpu {
namespace {

CUresult ptx_of_fatbin(const void* data, int arch_max, std::string* ptx) {
  const auto bytes = fatbin_bytes(data);
  if (!bytes) return CUDA_ERROR_INVALID_IMAGE;
  const auto entries = fatbin_entries({static_cast<const std::byte*>(data), *bytes});
  if (!entries) {
    SLUICE_LOG_WARN("softgpu", "{}", entries.error().message);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  const FatbinEntry* best = nullptr;
  for (const FatbinEntry& entry : *entries) {
    if (entry.kind != FatbinEntry::Kind::kPtx || entry.arch > static_cast<std::uint32_t>(arch_max)) continue;
    if (best == nullptr || entry.arch > best->arch) best = &entry;
  }
  if (best == nullptr) {
    SLUICE_LOG_WARN("softgpu", "an image has no PTX that compute capability {}.{} can take (SASS is not run); compile with -arch=compute_XX or -gencode code=compute_XX",
                    arch_max / 10, arch_max % 10);
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  auto text = fatbin_text(*best);
  if (!text) {
    SLUICE_LOG_WARN("softgpu", "{}", text.error().message);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *ptx = std::move(*text);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult ptx_of_image(const void* image, int arch_max, std::string* ptx) {
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::uint32_t magic = 0;
  // Text may be shorter than four bytes.
  const auto* bytes = static_cast<const unsigned char*>(image);
  for (unsigned k = 0; k < 4 && (k == 0 || bytes[k - 1] != 0); ++k) magic |= static_cast<std::uint32_t>(bytes[k]) << (8 * k);
  if (magic == kFatbinWrapperMagic) {
    FatbinWrapper wrapper;
    std::memcpy(&wrapper, image, sizeof wrapper);
    return wrapper.data != nullptr ? ptx_of_fatbin(wrapper.data, arch_max, ptx) : CUDA_ERROR_INVALID_IMAGE;
  }
  if (magic == kFatbinMagic) return ptx_of_fatbin(image, arch_max, ptx);
  if (std::memcmp(image, "\x7f" "ELF", magic == 0x464c457f ? 4 : 1) == 0) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  *ptx = static_cast<const char*>(image);
  return CUDA_SUCCESS;
}

}  // namespace sluice::softgpu
