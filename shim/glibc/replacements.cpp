// Functions that glibc got after 2.28, for our own code and for the static libraries of the
// compiler in client libraries, which must load on 2.28. Hidden: nobody else sees them.
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>

#define SLUICE_REPLACEMENT extern "C" __attribute__((visibility("hidden"), used))

// 2.32. Read by shared_ptr to save atomic operations while there is one thread. We are threads.
extern "C" {
__attribute__((visibility("hidden"))) extern char __libc_single_threaded;
char __libc_single_threaded = 0;
}

// 2.33; before, they were inline functions over __xstat. The kernel's struct is glibc's on x86-64.
SLUICE_REPLACEMENT int fstatat(int folder, const char* path, struct stat* result,
                               int flags) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, folder, path, result, flags));
}
SLUICE_REPLACEMENT int stat(const char* path, struct stat* result) noexcept {
  return fstatat(AT_FDCWD, path, result, 0);
}
SLUICE_REPLACEMENT int lstat(const char* path, struct stat* result) noexcept {
  return fstatat(AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW);
}
SLUICE_REPLACEMENT int fstat(int file, struct stat* result) noexcept {
  return static_cast<int>(::syscall(SYS_fstat, file, result));
}
SLUICE_REPLACEMENT int stat64(const char* path, struct stat64* result) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, result, 0));
}
SLUICE_REPLACEMENT int lstat64(const char* path, struct stat64* result) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW));
}
SLUICE_REPLACEMENT int fstat64(int file, struct stat64* result) noexcept {
  return static_cast<int>(::syscall(SYS_fstat, file, result));
}

// 2.30.
SLUICE_REPLACEMENT pid_t gettid() noexcept {
  return static_cast<pid_t>(::syscall(SYS_gettid));
}

// 2.30. The older function counts on the clock that may be set, so the rest of the time is carried
// over; if the clock is set meanwhile, callers wake early or late and look at their condition.
SLUICE_REPLACEMENT int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                              clockid_t clock, const timespec* until) {
  if (clock == CLOCK_REALTIME) return ::pthread_cond_timedwait(condition, mutex, until);
  constexpr std::int64_t kSecond_ns = 1'000'000'000;
  timespec now{};
  timespec wall{};
  ::clock_gettime(clock, &now);
  ::clock_gettime(CLOCK_REALTIME, &wall);
  std::int64_t seconds = wall.tv_sec + (until->tv_sec - now.tv_sec);
  std::int64_t ns = wall.tv_nsec + (until->tv_nsec - now.tv_nsec);
  seconds += ns / kSecond_ns;
  ns %= kSecond_ns;
  if (ns < 0) {
    ns += kSecond_ns;
    --seconds;
  }
  const timespec deadline{static_cast<time_t>(seconds), static_cast<long>(ns)};
  return ::pthread_cond_timedwait(condition, mutex, &deadline);
}

// 2.36, for std::random_device. As in glibc there is no way to fail but to end.
SLUICE_REPLACEMENT std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  while (::syscall(SYS_getrandom, &value, sizeof value, 0) != sizeof value)
    if (errno != EINTR) std::abort();
  return value;
}
