#include "transport/ucx/library.h"

#include "common/format.h"
#include "transport/ucx/devices.h"
#include "transport/ucx/quiet_environment.h"

#include <dlfcn.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>

namespace sluice::transport::ucx {
namespace {

constexpr const char* kUcp = "libucp.so.0";
constexpr const char* kPluginName = "libsluice_ucx.so";

/// Our own pieces fit into one fragment, so nothing needs a rendezvous (which crashes without a
/// registration cache) or registers memory of the application. (For put and get the library lifts
/// the zero-copy threshold where UCX uses memory that is registered already.)
Settings settings_for(Lane lane) {
  Settings settings = quiet_settings();
  const bool is_rdma = lane == Lane::kRdma;
  settings.insert(settings.end(), {{"UCX_TLS", is_rdma ? "rc_verbs,rc_mlx5" : "tcp"},
                                   {"UCX_SOCKADDR_TLS_PRIORITY", is_rdma ? "rdmacm" : "tcp"},
                                   {"UCX_RNDV_THRESH", "inf"},
                                   {"UCX_ZCOPY_THRESH", "inf"},
                                   {"UCX_MAX_EAGER_LANES", "1"}});
  return settings;
}

std::string why_not() {
  const char* text = ::dlerror();
  return text != nullptr ? text : "unknown";
}

Status check_version(void* ucp) {
  using GetVersion = void (*)(unsigned*, unsigned*, unsigned*);
  const auto get_version = reinterpret_cast<GetVersion>(::dlsym(ucp, "ucp_get_version"));
  if (get_version == nullptr) return fail(ErrorCode::kVersion, "libucp.so.0 tells no version");
  unsigned major = 0, minor = 0, release = 0;
  get_version(&major, &minor, &release);
  if (major == kMajor && minor >= kMinorMin) return {};
  return fail(ErrorCode::kVersion,
              format("UCX {}.{}.{} is installed; {}.{} or a later {}.x is needed", major, minor,
                     release, kMajor, kMinorMin, kMajor));
}

std::string folder_of(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, slash);
}

/// Beside the client library that this is part of, or where programs of ours find libraries (what
/// dladdr() says of a program is what it was called, not where it is).
std::string find_plugin() {
  Dl_info self{};
  std::string beside = kPluginName;
  if (::dladdr(reinterpret_cast<void*>(&find_plugin), &self) != 0)
    beside = folder_of(self.dli_fname) + "/" + kPluginName;
  if (::access(beside.c_str(), R_OK) == 0) return beside;
  char exe[4096];
  const ssize_t bytes = ::readlink("/proc/self/exe", exe, sizeof exe);
  if (bytes <= 0) return beside;
  return folder_of({exe, static_cast<std::size_t>(bytes)}) + "/../lib/sluice/" + kPluginName;
}

Result<Plugin*> start(const std::string& plugin_path) {
  SLUICE_TRY(const Lane lane, lane_from_environment());
  const Settings settings = settings_for(lane);
  const ScopedEnvironment quiet(settings);
  // Never unloaded: threads and thread-local data of UCX outlive whoever used it.
  constexpr int kHow = RTLD_LOCAL | RTLD_NODELETE;
  void* const ucp = ::dlopen(kUcp, RTLD_LAZY | kHow);
  if (ucp == nullptr) return fail(ErrorCode::kNotFound, "UCX is not installed: " + why_not());
  SLUICE_CHECK(check_version(ucp));
  void* const object = ::dlopen(plugin_path.c_str(), RTLD_NOW | kHow);
  if (object == nullptr) return fail(ErrorCode::kNotFound, why_not());
  const auto entry = reinterpret_cast<PluginEntry>(::dlsym(object, kPluginEntry));
  if (entry == nullptr)
    return fail(ErrorCode::kVersion, plugin_path + " is of another release; install Sluice again");
  const char* const software_put = std::getenv("SLUICE_UCX_SOFTWARE_PUT");
  const Setup setup{
      lane, lane == Lane::kTcp && software_put != nullptr && std::string(software_put) == "1"};
  Result<Plugin*> plugin = nullptr;
  entry(kPluginVersion, setup, &plugin);
  return plugin;
}

}  // namespace

Result<Token> random_token() {
  Token token;
  if (::getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size()))
    return fail(system_error("getrandom", errno));
  return token;
}

Result<Lane> parse_lane(const std::string& ucx_tls) {
  bool has_rdma = ucx_tls.empty(), has_tcp = false;
  for (std::size_t at = 0; at < ucx_tls.size();) {
    const std::size_t end = std::min(ucx_tls.find(',', at), ucx_tls.size());
    const std::string name = ucx_tls.substr(at, end - at);
    at = end + 1;
    if (name == "tcp") {
      has_tcp = true;
    } else if (name == "rc" || name == "rc_v" || name == "rc_x" || name == "rc_verbs" ||
               name == "rc_mlx5") {
      has_rdma = true;
    } else {
      return fail(ErrorCode::kUnsupported,
                  format("UCX_TLS={}: \"{}\" is not used over the network by Sluice (rc or tcp)",
                         ucx_tls, name));
    }
  }
  if (has_rdma && has_tcp)
    return fail(ErrorCode::kUnsupported, format("UCX_TLS={}: either rc or tcp", ucx_tls));
  return has_tcp ? Lane::kTcp : Lane::kRdma;
}

Result<Lane> lane_from_environment() {
  const char* text = std::getenv("UCX_TLS");
  return parse_lane(text != nullptr ? text : "");
}

Status check_host() {
  SLUICE_TRY(const Lane lane, lane_from_environment());
  if (lane == Lane::kTcp || has_active_device()) return {};
  return fail(ErrorCode::kNotFound, "this host has no RDMA device with an active port");
}

Result<Plugin*> load() {
  return load_from("");
}

Result<Plugin*> load_from(const std::string& plugin_path) {
  static std::mutex mutex;
  static std::optional<Result<Plugin*>> loaded;
  const std::lock_guard lock(mutex);
  if (!loaded) loaded = start(plugin_path.empty() ? find_plugin() : plugin_path);
  return *loaded;
}

Result<std::string> describe_host() {
  SLUICE_TRY(const Lane lane, lane_from_environment());
  std::string found;
  for (const Device& device : devices()) {
    if (!found.empty()) found += "; ";
    found += describe(device);
  }
  if (const Status checked = check_host(); !checked)
    return fail(found.empty() ? checked.error() : checked.error().with_context(found));
  SLUICE_TRY(Plugin * plugin, load());
  const auto knows_devices = plugin->knows_device_memory();
  const std::string direct =
      !knows_devices
          ? "it is not known whether this UCX has CUDA support: " + knows_devices.error().message
      : *knows_devices ? "this UCX has CUDA support, which is not used yet"
                       : "this UCX has no CUDA support";
  return (lane == Lane::kTcp ? std::string("over TCP (UCX_TLS=tcp)") : found) +
         "; GPUDirect: no, " + direct + ", so bulk data goes through staging memory";
}

}  // namespace sluice::transport::ucx
