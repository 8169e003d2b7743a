#include "softgpu/memory/account.h"

#include "common/fd.h"
#include "common/format.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sluice::softgpu {
namespace {

constexpr std::uint32_t kMagic = 0x534c4733;
constexpr std::size_t kEntriesMax = 1024;

struct Entry {
  std::int32_t pid;
  std::uint64_t start_time;  ///< of the process, so that a reused pid is not taken for it
  std::uint64_t bytes;
};

struct Shared {
  std::uint32_t magic;
  pthread_mutex_t mutex;
  Entry entries[kEntriesMax];
};

/// Field 22 of /proc/PID/stat; 0 if there is no such process.
std::uint64_t start_time_of(int pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t got = fd.valid() ? ::read(fd.get(), text, sizeof text - 1) : -1;
  if (got <= 0) return 0;
  text[got] = '\0';
  const char* p = std::strrchr(text, ')');
  unsigned long long value = 0;
  if (p != nullptr && (p[2] == 'Z' || p[2] == 'X')) return 0;
  if (p == nullptr ||
      std::sscanf(
          p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
          &value) != 1)
    return 0;
  return value;
}

class SharedAccount final : public Account {
 public:
  SharedAccount(Shared* shared, std::size_t capacity)
      : shared_(shared), capacity_(capacity), pid_(::getpid()), start_time_(start_time_of(pid_)) {}
  ~SharedAccount() override { ::munmap(shared_, sizeof(Shared)); }
  SharedAccount(const SharedAccount&) = delete;
  SharedAccount& operator=(const SharedAccount&) = delete;

  bool charge(std::size_t bytes) override {
    const Lock lock(shared_);
    if (bytes > capacity_) return false;
    if (sum() + bytes > capacity_) {
      reap();
      if (sum() + bytes > capacity_) return false;
    }
    Entry* mine = find();
    if (mine == nullptr) {
      reap();
      mine = find();
    }
    if (mine == nullptr) return false;
    mine->bytes += bytes;
    return true;
  }

  void refund(std::size_t bytes) override {
    const Lock lock(shared_);
    Entry* mine = find();
    if (mine == nullptr) return;
    mine->bytes -= bytes < mine->bytes ? bytes : mine->bytes;
    if (mine->bytes == 0) *mine = Entry{};
  }

  std::size_t used_bytes() override {
    const Lock lock(shared_);
    reap();
    return sum();
  }

  std::size_t used_bytes_of(int pid) override {
    const Lock lock(shared_);
    if (pid != pid_) reap();
    std::size_t total = 0;
    for (const Entry& e : shared_->entries)
      if (e.pid == pid) total += e.bytes;
    return total;
  }

  [[nodiscard]] std::size_t capacity_bytes() const override { return capacity_; }

 private:
  /// Robust: a process that died inside leaves the entries readable as they are.
  class Lock {
   public:
    explicit Lock(Shared* shared) : shared_(shared) {
      if (::pthread_mutex_lock(&shared_->mutex) == EOWNERDEAD)
        ::pthread_mutex_consistent(&shared_->mutex);
    }
    ~Lock() { ::pthread_mutex_unlock(&shared_->mutex); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    Shared* shared_;
  };

  [[nodiscard]] std::uint64_t sum() const {
    std::uint64_t total = 0;
    for (const Entry& e : shared_->entries) total += e.bytes;
    return total;
  }
  void reap() {
    for (Entry& e : shared_->entries)
      if (e.pid != 0 && e.pid != pid_ && start_time_of(e.pid) != e.start_time) e = Entry{};
  }
  Entry* find() {
    Entry* empty = nullptr;
    for (Entry& e : shared_->entries) {
      if (e.pid == pid_ && e.start_time == start_time_) return &e;
      if (e.pid == 0 && empty == nullptr) empty = &e;
    }
    if (empty != nullptr) *empty = Entry{pid_, start_time_, 0};
    return empty;
  }

  Shared* shared_;
  std::size_t capacity_;
  std::int32_t pid_;
  std::uint64_t start_time_;
};

void initialise(Shared* shared) {
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&shared->mutex, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
  shared->magic = kMagic;
}

/// SOFTGPU_ACCOUNT: processes with the same name share a device's memory; others have a device of
/// their own, so to speak.
std::string account_name() {
  constexpr std::size_t kCharactersMax = 64;
  const char* text = std::getenv("SOFTGPU_ACCOUNT");
  std::string name = text != nullptr && *text != '\0' ? text : "default";
  name.resize(std::min(name.size(), kCharactersMax));
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') c = '_';
  return name;
}

}  // namespace

std::string account_id(int ordinal) {
  return format("{}-{}-{}", ::getuid(), account_name(), ordinal);
}

Result<std::unique_ptr<Account>> open_account(int ordinal, std::size_t capacity_bytes) {
  const std::string name =
      format("/dev/shm/softgpu-{}-{}", account_id(ordinal), capacity_bytes >> 20);
  const Fd fd(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return fail(system_error("opening the memory account " + name, errno));
  ::flock(fd.get(), LOCK_EX);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || info.st_uid != ::getuid())
    return fail(ErrorCode::kPermission, name + " belongs to somebody else");
  if (info.st_size < static_cast<off_t>(sizeof(Shared)) &&
      ::ftruncate(fd.get(), sizeof(Shared)) != 0)
    return fail(system_error("sizing the memory account " + name, errno));
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return fail(system_error("mapping the memory account " + name, errno));
  auto* shared = static_cast<Shared*>(memory);
  if (shared->magic != kMagic) initialise(shared);
  ::flock(fd.get(), LOCK_UN);
  return std::unique_ptr<Account>(std::make_unique<SharedAccount>(shared, capacity_bytes));
}

}  // namespace sluice::softgpu
