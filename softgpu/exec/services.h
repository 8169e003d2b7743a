// What a context gives the kernels that run in it: the printf FIFO and the device heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace sluice::softgpu {

/// Where text goes instead of the process's stdout and stderr.
using TextSink = void (*)(const char* text, std::size_t bytes, void* user);

class KernelServices {
 public:
  KernelServices() = default;
  ~KernelServices();
  KernelServices(const KernelServices&) = delete;
  KernelServices& operator=(const KernelServices&) = delete;

  /// One call of device printf. When the FIFO is full the oldest text is lost, as in CUDA.
  void print(std::string_view text);
  /// Writes what has been printed, in order, to the sink or to stdout.
  void flush();
  void set_fifo_bytes(std::size_t bytes);

  /// Device malloc: null beyond the heap's size. A kernel's free() of anything else is ignored.
  void* allocate(std::uint64_t bytes);
  void release(void* memory);
  void set_heap_bytes(std::size_t bytes);

 private:
  std::mutex fifo_mutex_;
  std::mutex flush_mutex_;  ///< keeps the order of two threads that flush
  std::deque<std::string> fifo_;
  std::size_t fifo_bytes_ = 0, fifo_bytes_max_ = std::size_t{1} << 20;
  std::mutex heap_mutex_;
  std::unordered_map<void*, std::size_t> heap_;
  std::size_t heap_bytes_ = 0, heap_bytes_max_ = std::size_t{8} << 20;
};

/// For the whole process; null restores stdout or stderr. With a printf sink the text of a launch
/// is handed over before the launch counts as finished.
void set_printf_sink(TextSink sink, void* user);
void set_assert_sink(TextSink sink, void* user);
[[nodiscard]] bool has_printf_sink();
/// The message of a failed device assertion, to the assert sink or to stderr.
void report_assertion(std::string_view message);

/// Device printf's formatting: `format` and `arguments` are the kernel's memory. Writes at most
/// `bytes_max` bytes to `out`; returns the number of arguments that the format took, or -1 without
/// a format.
int format_printf(const char* format, const std::byte* arguments, char* out, std::size_t bytes_max,
                  std::size_t* bytes);

}  // namespace sluice::softgpu
