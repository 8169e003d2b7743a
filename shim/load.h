// What modules and libraries have in common: sending an image, the JIT options and their logs, and
// functions with the parameter layout and attributes that later calls are answered from.
#pragma once

#include "shim/api.h"
#include "shim/image.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sluice::shim {

/// The options of one load, taken apart: buffers stay here, plain values travel.
class JitOptions {
 public:
  /// INVALID_VALUE for null arrays; NOT_SUPPORTED for options that pass pointers we cannot carry.
  CUresult read(unsigned count, const CUjit_option* options, void** values);

  [[nodiscard]] Bytes wire_bytes() const { return std::as_bytes(std::span(entries_)); }
  [[nodiscard]] std::uint32_t info_bytes_max() const { return bytes_max(info_); }
  [[nodiscard]] std::uint32_t error_bytes_max() const { return bytes_max(error_); }
  OutBytes info_out() { return {info_.text, &info_.sent_bytes}; }
  OutBytes error_out() { return {error_.text, &error_.sent_bytes}; }
  /// Fills the application's buffers and the values that the options return.
  void write_back();

 private:
  /// As the worker reads it: one option of a load.
  struct WireOption {
    std::uint32_t option = 0;
    std::uint32_t zero = 0;
    std::uint64_t value = 0;
  };
  struct Log {
    char* buffer = nullptr;
    std::size_t buffer_bytes = 0;
    void** size_value = nullptr;  ///< where the used length goes
    std::vector<std::byte> text;
    std::size_t sent_bytes = 0;
  };
  static std::uint32_t bytes_max(const Log& log) {
    return static_cast<std::uint32_t>(log.text.size());
  }
  static void write_back(Log& log);

  std::vector<WireOption> entries_;
  Log info_, error_;
  void** wall_time_ = nullptr;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Posts the image in pieces; the load that follows names `*upload`.
CUresult send_image(std::span<const std::byte> image, std::uint64_t* upload);
/// Runs `load`; where that is refused for want of memory, once more when everything that was freed
/// or unloaded before, and what is kept of it, has gone back.
CUresult load_with_spare(const std::function<CUresult()>& load);
/// What a damaged image is to CUDA.
CUresult image_error(const Error& error);

/// Buffers for the reply to module_get_function and library_get_kernel.
class CallableReply {
 public:
  CallableReply() : layout_(kParamsMax), attributes_(kAttributesMax) {}
  OutBytes layout_out() { return {std::as_writable_bytes(std::span(layout_)), &layout_bytes_}; }
  OutBytes attributes_out() {
    return {std::as_writable_bytes(std::span(attributes_)), &attributes_bytes_};
  }
  /// Puts them into the callable. False if the layout makes no sense.
  bool fill(Callable& callable);

 private:
  static constexpr std::size_t kParamsMax = 4096;
  static constexpr std::size_t kAttributesMax = 256;
  std::vector<ParamInfo> layout_;
  std::vector<int> attributes_;
  std::size_t layout_bytes_ = 0;
  std::size_t attributes_bytes_ = 0;
};

/// The function or kernel that `f` is: cuLaunchKernel takes both (CUDA 12). Null if neither.
Callable* callable_of(CUfunction f) noexcept;

/// The kernel's function in the current context, fetched once.
CUresult function_of_kernel(Callable& kernel, CUfunction* function);
/// Wire id of the callable as a function: of a kernel, its function in the current context.
CUresult function_id(Callable& callable, std::uint64_t* id);
/// What the server has just accepted.
void set_attribute(Callable& callable, int attribute, int value);
/// Adds a variable of the image to the address map.
void remember_variable(Image& image, CUdeviceptr address, std::size_t bytes);
/// Takes the variables of an unloaded image out of the address map and drops its functions.
void forget_contents(Image& image);

}  // namespace sluice::shim
