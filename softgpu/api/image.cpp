#include "softgpu/api/image.h"

#include "common/fatbin.h"
#include "common/log.h"

#include <cstring>

namespace sluice::softgpu {
namespace {

constexpr std::uint32_t kElfMagic = 0x464c457f;
constexpr std::size_t kFatbinHeaderBytes = 16;

CUresult ptx_of_fatbin(const void* data, int arch_max, std::size_t bytes_max, std::string* ptx) {
  if (bytes_max < kFatbinHeaderBytes) return CUDA_ERROR_INVALID_IMAGE;
  const auto bytes = fatbin_bytes(data);
  if (!bytes || *bytes > bytes_max) return CUDA_ERROR_INVALID_IMAGE;
  const auto entries = fatbin_entries({static_cast<const std::byte*>(data), *bytes});
  if (!entries) {
    SLUICE_LOG_WARN("softgpu", "{}", entries.error().message);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  const FatbinEntry* best = nullptr;
  for (const FatbinEntry& entry : *entries) {
    if (entry.kind != FatbinEntry::Kind::kPtx || entry.arch > static_cast<std::uint32_t>(arch_max))
      continue;
    if (entry.is_specific() && entry.arch != static_cast<std::uint32_t>(arch_max)) continue;
    if (best == nullptr || entry.arch > best->arch) best = &entry;
  }
  if (best == nullptr) {
    SLUICE_LOG_WARN("softgpu",
                    "an image has no PTX that compute capability {}.{} can take (SASS is not run); "
                    "compile with -arch=compute_XX or -gencode code=compute_XX",
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

CUresult ptx_of_image(const void* image, int arch_max, std::string* ptx, std::size_t bytes_max) {
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::uint32_t magic = 0;
  // Text may be shorter than four bytes.
  const auto* bytes = static_cast<const unsigned char*>(image);
  for (unsigned k = 0; k < 4 && k < bytes_max && (k == 0 || bytes[k - 1] != 0); ++k)
    magic |= static_cast<std::uint32_t>(bytes[k]) << (8 * k);
  if (magic == kFatbinWrapperMagic) {
    if (bytes_max != SIZE_MAX)
      return CUDA_ERROR_INVALID_IMAGE;  // a pointer means nothing in a file
    FatbinWrapper wrapper;
    std::memcpy(&wrapper, image, sizeof wrapper);
    return wrapper.data != nullptr ? ptx_of_fatbin(wrapper.data, arch_max, SIZE_MAX, ptx)
                                   : CUDA_ERROR_INVALID_IMAGE;
  }
  if (magic == kFatbinMagic) return ptx_of_fatbin(image, arch_max, bytes_max, ptx);
  if (magic == kElfMagic) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  const unsigned char first = bytes_max > 0 ? bytes[0] : 0;
  const bool is_text = (first >= 0x20 && first < 0x7f) || (first >= '\t' && first <= '\r');
  if (!is_text) return CUDA_ERROR_INVALID_IMAGE;
  const auto* text = static_cast<const char*>(image);
  ptx->assign(text, bytes_max == SIZE_MAX ? std::strlen(text) : ::strnlen(text, bytes_max));
  return CUDA_SUCCESS;
}

}  // namespace sluice::softgpu
