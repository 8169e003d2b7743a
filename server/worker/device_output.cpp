#include "server/worker/device_output.h"

#include "common/format.h"
#include "protocol/session.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace sluice::server {

DeviceOutput::~DeviceOutput() {
  if (set_sink_ != nullptr) set_sink_(nullptr, nullptr);
}

bool DeviceOutput::take_from_sink(const std::string& driver_path) {
  void* library = ::dlopen(driver_path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  set_sink_ = reinterpret_cast<SetSink>(::dlsym(library, "softgpu_set_printf_sink"));
  ::dlclose(library);  // the driver itself stays
  if (set_sink_ == nullptr) return false;
  set_sink_([](const char* text, std::size_t bytes,
               void* self) { static_cast<DeviceOutput*>(self)->add(text, bytes); },
            this);
  return true;
}

Status DeviceOutput::take_stdout() {
  // A file, not a pipe: the driver's write must never wait for the thread that would read.
  file_ = Fd(::memfd_create("device-output", MFD_CLOEXEC));
  if (!file_.valid() || ::fcntl(file_.get(), F_SETFL, O_APPEND) != 0 ||
      ::dup2(file_.get(), STDOUT_FILENO) < 0)
    return fail(ErrorCode::kSystem, format("stdout cannot be taken: {}", std::strerror(errno)));
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  return {};
}

void DeviceOutput::add(const char* text, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  text_.append(text, bytes);
}

void DeviceOutput::read_file() {
  constexpr off_t kPageBytes = 4096;
  char piece[4096];
  const off_t before = read_bytes_;
  for (;;) {
    const ssize_t n = ::pread(file_.get(), piece, sizeof piece, read_bytes_);
    if (n <= 0) break;
    text_.append(piece, static_cast<std::size_t>(n));
    read_bytes_ += n;
  }
  // What has been read takes no memory any more.
  const off_t from = before / kPageBytes * kPageBytes;
  const off_t to = read_bytes_ / kPageBytes * kPageBytes;
  if (to > from)
    static_cast<void>(
        ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, to - from));
}

void DeviceOutput::send() {
  const std::lock_guard lock(mutex_);
  if (file_.valid()) read_file();
  for (std::size_t at = 0; at < text_.size();) {
    const std::size_t bytes = std::min(text_.size() - at, wire::kPayloadBytesMax);
    wire::device_output push{};
    push.text_bytes = bytes;
    outbox_.push(push, wire::RecordHeader{}, CUDA_SUCCESS,
                 {std::as_bytes(std::span(text_.data() + at, bytes))});
    at += bytes;
  }
  text_.clear();
}

}  // namespace sluice::server
