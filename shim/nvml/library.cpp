#include "shim/nvml/library.h"

#include "common/log.h"
#include "protocol/session_report.h"
#include "protocol/slice_client.h"
#include "shim/hello.h"
#include "shim/tls_library.h"
#include "transport/tls/client_choice.h"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

namespace sluice::nvml {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kConnectTime{3'000}, kTlsTime{5'000}, kAnswerTime{5'000};
/// The server may have to load the driver before it knows its devices.
constexpr milliseconds kFirstAnswerTime{30'000};
/// A server that is gone is looked for no more often.
constexpr milliseconds kRetryInterval{1'000};

std::atomic<Library*> g_library{nullptr};
/// One for each device that there can be; a handle is the address of one. They hold nothing.
char g_slots[wire::kDeviceCountMax];

/// Why the first connection failed, for a caller that knows only numbers.
Return return_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kPermission:
      return kNoPermission;
    case ErrorCode::kVersion:
      return kLibRmVersionMismatch;
    default:
      return kDriverNotLoaded;
  }
}

/// The CUDA session of this process, if it has one, knows better than the server what it keeps
/// without using it: so NVML says what cuMemGetInfo says at any moment.
Snapshot with_own_spare(wire::SliceStatus status) {
  void* const cuda = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  const auto spare_bytes =
      cuda != nullptr
          ? reinterpret_cast<wire::SpareBytesFunction>(::dlsym(cuda, wire::kSpareBytesSymbol))
          : nullptr;
  for (wire::SliceSession& session : status.sessions) {
    for (wire::SliceUse& use : session.uses) {
      if (spare_bytes == nullptr || use.device >= status.devices.size()) continue;
      std::uint64_t own_session = 0;
      const std::uint64_t spare = spare_bytes(use.device, &own_session);
      if (own_session == 0 || own_session != session.session_id) continue;
      const std::uint64_t held = use.memory_bytes + use.spare_bytes;
      status.devices[use.device].used_bytes -= use.memory_bytes;
      use.spare_bytes = std::min(spare, held);
      use.memory_bytes = held - use.spare_bytes;
      status.devices[use.device].used_bytes += use.memory_bytes;
    }
  }
  if (cuda != nullptr) ::dlclose(cuda);
  return std::make_shared<const wire::SliceStatus>(std::move(status));
}

bool are_same_devices(const wire::SliceStatus& a, const wire::SliceStatus& b) {
  if (a.devices.size() != b.devices.size()) return false;
  for (std::size_t i = 0; i < a.devices.size(); ++i)
    if (a.devices[i].uuid != b.devices[i].uuid) return false;
  return true;
}

}  // namespace

Library& Library::of_process() noexcept {
  // Never freed: threads may be inside when the process ends.
  static Library* const first = [] {
    log_open_from_environment("nvml", LogLevel::kWarn);
    ::pthread_atfork(nullptr, nullptr, &Library::make_one_for_child);
    auto* library = new Library(0);
    g_library = library;
    return library;
  }();
  static_cast<void>(first);
  return *g_library;
}

/// The parent's connection is the parent's, and its lock may be held by a thread that the child
/// does not have.
void Library::make_one_for_child() noexcept {
  Library* const parents = g_library;
  if (parents->stream_ != nullptr) parents->stream_->abandon_in_child();
  g_library = new (std::nothrow) Library(parents->starts_);
  if (g_library == nullptr) g_library = parents;
}

Device Library::handle_of(std::size_t index) noexcept {
  return reinterpret_cast<Device>(&g_slots[index]);
}

std::optional<std::size_t> Library::index_of(Device device) noexcept {
  const auto* const slot = reinterpret_cast<const char*>(device);
  const std::less<const char*> before;
  if (before(slot, g_slots) || !before(slot, g_slots + sizeof g_slots)) return std::nullopt;
  return static_cast<std::size_t>(slot - g_slots);
}

Return Library::start() {
  const std::lock_guard lock(mutex_);
  if (starts_ > 0) {
    ++starts_;
    return kSuccess;
  }
  const auto connected = connect();
  if (!connected) {
    if (connected.error().message != last_failure_)
      SLUICE_LOG_ERROR("nvml", "{}", connected.error().message);
    last_failure_ = connected.error().message;
    stream_.reset();
    return return_of(connected.error().code);
  }
  identity_ = *connected;
  last_failure_.clear();
  is_lost_ = false;
  starts_ = 1;
  return kSuccess;
}

Return Library::stop() {
  const std::lock_guard lock(mutex_);
  if (starts_ == 0) return kUninitialized;
  if (--starts_ > 0) return kSuccess;
  stream_.reset();
  identity_.reset();
  return kSuccess;
}

bool Library::is_started() {
  const std::lock_guard lock(mutex_);
  return starts_ > 0;
}

Return Library::identity(Snapshot* out) {
  const std::lock_guard lock(mutex_);
  if (starts_ == 0) return kUninitialized;
  if (identity_ == nullptr)
    if (const Return failed = ensure()) return failed;
  *out = identity_;
  return kSuccess;
}

Return Library::figures(Snapshot* out) {
  const std::lock_guard lock(mutex_);
  if (starts_ == 0) return kUninitialized;
  if (const Return failed = ensure()) return failed;
  auto answer = ask(false, kAnswerTime);
  if (!answer) return lose(answer.error());
  // A driver with other devices is in service there: no handle stands for any of them.
  if ((*answer)->devices.size() != identity_->devices.size())
    return lose({ErrorCode::kNotFound, "the server has other devices now"});
  *out = with_own_spare(**answer);
  return kSuccess;
}

/// There is a connection, and it leads to the devices that were there at first.
Return Library::ensure() {
  if (stream_ != nullptr) return kSuccess;
  if (Clock::now() < retry_at_) return kGpuIsLost;
  const auto connected = connect();
  if (!connected) return lose(connected.error());
  if (identity_ != nullptr && !are_same_devices(*identity_, **connected))
    return lose({ErrorCode::kNotFound, "the server has other devices now"});
  if (is_lost_) SLUICE_LOG_WARN("nvml", "the server is back");
  is_lost_ = false;
  identity_ = *connected;
  return kSuccess;
}

Return Library::lose(const Error& error) {
  if (!is_lost_) SLUICE_LOG_ERROR("nvml", "the server is lost: {}", error.message);
  is_lost_ = true;
  stream_.reset();
  retry_at_ = Clock::now() + kRetryInterval;
  return kGpuIsLost;
}

Result<Snapshot> Library::connect() {
  const std::string server = shim::environment("SLUICE_SERVER");
  if (server.empty()) return fail(shim::no_server_named());
  const auto doing = [&](const Error& error) {
    return fail(error.with_context("server " + server));
  };
  const auto address = transport::parse_address(server);
  if (!address) return doing(address.error());
  auto hello = shim::hello_from_environment();
  if (!hello) return doing(hello.error());
  auto socket = transport::connect_socket(*address, kConnectTime);
  if (!socket) return doing(socket.error());
  const auto tls = transport::tls::choice_from_environment();
  auto stream =
      transport::tls::open_control(std::move(*socket), *address, tls, !hello->token.empty(),
                                   shim::tls_library, Clock::now() + kTlsTime);
  if (!stream) return doing(stream.error());
  hello->tenant = transport::tls::tenant_to_say(hello->tenant, tls, (*stream)->kind().encrypted);
  const auto begun = wire::begin_looking(**stream, std::move(*hello), Clock::now() + kAnswerTime);
  if (!begun) return doing(begun.error());
  stream_ = std::move(*stream);
  auto first = ask(true, kFirstAnswerTime);
  if (first && !(*first)->problem.empty())
    first = fail(ErrorCode::kNotFound, "the server has no devices: " + (*first)->problem);
  if (first) return first;
  stream_.reset();
  return doing(first.error());
}

Result<Snapshot> Library::ask(bool wants_identity, milliseconds time) {
  SLUICE_TRY(wire::SliceStatus status,
             wire::ask_slice(*stream_, wants_identity, Clock::now() + time));
  return std::make_shared<const wire::SliceStatus>(std::move(status));
}

}  // namespace sluice::nvml
