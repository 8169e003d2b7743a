// Uploaded images and JIT options, shared by modules and libraries; what is told about kernels.
#pragma once

#include "server/handlers.h"
#include "server/worker/worker.h"

#include <string>
#include <utility>
#include <vector>

namespace sluice::server {

/// A complete upload, NUL-terminated (PTX text needs it), in memory that stays where it is; Err =
/// the CUresult of the load.
struct Image {
  std::vector<std::byte> bytes;
  [[nodiscard]] bool is_fatbin() const;
};
CUresult take_image(Worker& worker, std::uint64_t upload, Image* out);

/// A name that came as a variable part.
inline std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The client's options with log buffers of ours in place of its own.
class JitOptions {
 public:
  JitOptions(Bytes options, std::uint32_t info_bytes_max, std::uint32_t error_bytes_max);
  [[nodiscard]] unsigned count() const { return static_cast<unsigned>(options_.size()); }
  CUjit_option* options() { return options_.data(); }
  void** values() { return values_.data(); }
  /// The logs as reply parts, cut at their NUL.
  void give_logs(Call& call, std::uint64_t* info_bytes, std::uint64_t* error_bytes) const {
    for (const auto& [log, bytes] : {std::pair{&info_, info_bytes}, {&error_, error_bytes}}) {
      std::vector<std::byte> text = text_of(*log);
      *bytes = text.size();
      call.reply_blob(std::move(text));
    }
  }

 private:
  static std::vector<std::byte> text_of(const std::vector<char>& log);
  std::vector<CUjit_option> options_;
  std::vector<void*> values_;
  std::vector<char> info_, error_;
};

/// Fills the reply parts `layout` and `attributes` and keeps the layout for launches under `id`.
void describe_function(Call& call, std::uint64_t id, CUfunction function,
                       std::uint64_t* layout_bytes, std::uint64_t* attributes_bytes);
void describe_kernel(Call& call, std::uint64_t id, CUkernel kernel, std::uint64_t* layout_bytes,
                     std::uint64_t* attributes_bytes);

}  // namespace sluice::server
