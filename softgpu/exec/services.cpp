#include "softgpu/exec/services.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace sluice::softgpu {
namespace {

struct Sink {
  TextSink write = nullptr;
  void* user = nullptr;
};
struct Sinks {
  std::mutex mutex;
  Sink printf, assertion;
};
Sinks& sinks() {
  static auto* instance = new Sinks;
  return *instance;
}

void set(Sink Sinks::*member, TextSink write, void* user) {
  Sinks& s = sinks();
  const std::lock_guard lock(s.mutex);
  s.*member = {write, user};
}

void write_to(Sink Sinks::*member, std::FILE* otherwise, std::string_view text) {
  Sinks& s = sinks();
  std::unique_lock lock(s.mutex);
  const Sink sink = s.*member;
  lock.unlock();
  if (sink.write != nullptr) return sink.write(text.data(), text.size(), sink.user);
  std::fwrite(text.data(), 1, text.size(), otherwise);
}

}  // namespace

KernelServices::~KernelServices() {
  for (const auto& [memory, bytes] : heap_) std::free(memory);
}

void KernelServices::print(std::string_view text) {
  const std::lock_guard lock(fifo_mutex_);
  fifo_.emplace_back(text);
  fifo_bytes_ += text.size();
  while (fifo_bytes_ > fifo_bytes_max_ && fifo_.size() > 1) {
    fifo_bytes_ -= fifo_.front().size();
    fifo_.pop_front();
  }
}

void KernelServices::flush() {
  const std::lock_guard order(flush_mutex_);
  std::deque<std::string> texts;
  {
    const std::lock_guard lock(fifo_mutex_);
    texts.swap(fifo_);
    fifo_bytes_ = 0;
  }
  if (texts.empty()) return;
  std::string all;
  for (const std::string& text : texts) all += text;
  write_to(&Sinks::printf, stdout, all);
}

void KernelServices::set_fifo_bytes(std::size_t bytes) {
  const std::lock_guard lock(fifo_mutex_);
  fifo_bytes_max_ = bytes;
}

void* KernelServices::allocate(std::uint64_t bytes) {
  const std::lock_guard lock(heap_mutex_);
  if (bytes == 0 || bytes > heap_bytes_max_ || heap_bytes_ + bytes > heap_bytes_max_)
    return nullptr;
  void* memory = std::aligned_alloc(16, (bytes + 15) / 16 * 16);
  if (memory == nullptr) return nullptr;
  heap_[memory] = bytes;
  heap_bytes_ += bytes;
  return memory;
}

void KernelServices::release(void* memory) {
  const std::lock_guard lock(heap_mutex_);
  const auto found = heap_.find(memory);
  if (found == heap_.end()) return;
  heap_bytes_ -= found->second;
  heap_.erase(found);
  std::free(memory);
}

void KernelServices::set_heap_bytes(std::size_t bytes) {
  const std::lock_guard lock(heap_mutex_);
  heap_bytes_max_ = bytes;
}

void set_printf_sink(TextSink sink, void* user) {
  set(&Sinks::printf, sink, user);
}
void set_assert_sink(TextSink sink, void* user) {
  set(&Sinks::assertion, sink, user);
}

bool has_printf_sink() {
  Sinks& s = sinks();
  const std::lock_guard lock(s.mutex);
  return s.printf.write != nullptr;
}

void report_assertion(std::string_view message) {
  write_to(&Sinks::assertion, stderr, message);
}

}  // namespace sluice::softgpu
