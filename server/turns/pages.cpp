#include "server/turns/pages.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <new>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace sluice::server::turns {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

template <class T>
Result<Mapped<T>> make(const char* name, int extra_seals) {
  Fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fail(system_error("making a page for turns", errno));
  if (::ftruncate(fd.get(), sizeof(T)) != 0)
    return fail(system_error("sizing a page for turns", errno));
  void* memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return fail(system_error("mapping a page for turns", errno));
  Mapped<T> page(std::move(fd), new (memory) T{});
  // After the mapping: it alone stays writable.
  if (::fcntl(page.fd(), F_ADD_SEALS, kSeals | extra_seals | F_SEAL_SEAL) != 0)
    return fail(system_error("sealing a page for turns", errno));
  return page;
}

template <class T>
Result<Mapped<T>> map(Fd fd, int protection) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || status.st_size != static_cast<off_t>(sizeof(T)))
    return fail(ErrorCode::kProtocol, "a page for turns has the wrong size");
  void* memory = ::mmap(nullptr, sizeof(T), protection, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return fail(system_error("mapping a page for turns", errno));
  return Mapped<T>(std::move(fd), static_cast<T*>(memory));
}

}  // namespace

template <class T>
Mapped<T>::~Mapped() {
  if (page_ != nullptr) ::munmap(const_cast<std::remove_const_t<T>*>(page_), sizeof(T));
}
template class Mapped<Grants>;
template class Mapped<const Grants>;
template class Mapped<Uses>;

Result<Mapped<Grants>> make_grants() {
  return make<Grants>("sluice-grants", F_SEAL_FUTURE_WRITE);
}
Result<Mapped<Uses>> make_uses() {
  return make<Uses>("sluice-uses", 0);
}
Result<Mapped<const Grants>> map_grants(Fd fd) {
  return map<const Grants>(std::move(fd), PROT_READ);
}
Result<Mapped<Uses>> map_uses(Fd fd) {
  return map<Uses>(std::move(fd), PROT_READ | PROT_WRITE);
}

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                 std::uint64_t patience_ns) {
  const timespec patience{static_cast<time_t>(patience_ns / 1'000'000'000),
                          static_cast<long>(patience_ns % 1'000'000'000)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &patience, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace sluice::server::turns
