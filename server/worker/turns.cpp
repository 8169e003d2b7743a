#include "server/worker/turns.h"

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

namespace sluice::server {
namespace {

/// A lease that has run out is renewed, or the broker hangs: there is nothing to sleep on.
constexpr std::uint64_t kExpiredNapNs = 1'000'000;

unsigned checked(unsigned device) {
  return device < turns::kDevicesMax ? device : turns::kDevicesMax - 1;
}
Turns& self_of(void* user) {
  return *static_cast<Turns*>(user);
}

}  // namespace

Turns::Turns(turns::Mapped<const turns::Grants> grants, turns::Mapped<turns::Uses> uses, Fd bell)
    : grants_(std::move(grants)), uses_(std::move(uses)), bell_(std::move(bell)) {
  hooks_.version = kTurnHooksVersion;
  hooks_.user = this;
  hooks_.add_work = [](void* user, unsigned device) { self_of(user).add_work(checked(device)); };
  hooks_.remove_work = [](void* user, unsigned device) {
    self_of(user).remove_work(checked(device));
  };
  hooks_.begin = [](void* user, unsigned device, unsigned patience_us) {
    return self_of(user).begin(checked(device), std::uint64_t{patience_us} * 1000);
  };
  hooks_.end = [](void* user, unsigned device) { self_of(user).end(checked(device)); };
  hooks_.open_word = [](void* user, unsigned device) {
    return reinterpret_cast<const std::uint32_t*>(&self_of(user).grant(checked(device)).is_open);
  };
  hooks_.open_until = [](void* user, unsigned device) {
    return reinterpret_cast<const std::uint64_t*>(
        &self_of(user).grant(checked(device)).open_until_ns);
  };
}

bool Turns::hold(const std::string& driver_path) {
  void* library = ::dlopen(driver_path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  const auto set = reinterpret_cast<SetTurnHooks>(::dlsym(library, kSetTurnHooksName));
  ::dlclose(library);  // the driver itself stays
  return set != nullptr && set(&hooks_);
}

bool Turns::may_compute(unsigned device) const {
  const turns::Grant& g = grant(device);
  return g.is_open.load() != 0 && turns::now_ns() < g.open_until_ns.load();
}

void Turns::ring() {
  const std::uint64_t one = 1;
  // It is full only if nobody has listened for ages.
  static_cast<void>(!::write(bell_.get(), &one, sizeof one));
}

void Turns::add_work(unsigned device) {
  Device& d = devices_[device];
  const std::lock_guard lock(d.mutex);
  if (d.work++ > 0) return;
  use(device).has_work = 1;
  if (!may_compute(device)) ring();
}

void Turns::remove_work(unsigned device) {
  Device& d = devices_[device];
  const std::lock_guard lock(d.mutex);
  if (--d.work > 0) return;
  use(device).has_work = 0;
  if (grant(device).is_contended.load() != 0 || grant(device).is_open.load() == 0) ring();
}

bool Turns::begin(unsigned device, std::uint64_t patience_ns) {
  Device& d = devices_[device];
  {
    const std::lock_guard lock(d.mutex);
    use(device).running = ++d.running;
    if (may_compute(device)) {
      if (use(device).busy_since_ns == 0) use(device).busy_since_ns = turns::now_ns();
      return true;
    }
    use(device).running = --d.running;
    if (d.running == 0) ring();  // who has just closed the turn may have seen this one
  }
  if (grant(device).is_open.load() == 0) {
    turns::sleep_while(grant(device).is_open, 0, patience_ns);
  } else {
    const timespec nap{0, kExpiredNapNs};
    ::nanosleep(&nap, nullptr);
  }
  return false;
}

void Turns::end(unsigned device) {
  Device& d = devices_[device];
  const std::lock_guard lock(d.mutex);
  if (--d.running == 0) {
    const std::uint64_t since = use(device).busy_since_ns.exchange(0);
    if (since != 0) use(device).busy_ns += turns::now_ns() - since;
  }
  use(device).running = d.running;
  if (d.running == 0 && grant(device).is_open.load() == 0) ring();
}

std::uint64_t Turns::busy_us() const {
  std::uint64_t sum_ns = 0;
  for (unsigned i = 0; i < turns::kDevicesMax; ++i) {
    const std::lock_guard lock(devices_[i].mutex);
    const turns::Use& one = uses_->devices[i];
    sum_ns += one.busy_ns;
    // Of a kernel that runs now, what it has had so far.
    if (const std::uint64_t since = one.busy_since_ns; since != 0) {
      const std::uint64_t now = turns::now_ns();
      sum_ns += now > since ? now - since : 0;
    }
  }
  return sum_ns / 1000;
}

}  // namespace sluice::server
