#include "transport/ucx/devices.h"

#include "common/fd.h"
#include "common/format.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace sluice::transport::ucx {
namespace {

constexpr const char* kSysfs = "/sys/class/infiniband";

/// Of a sysfs attribute; empty if it cannot be read (ports without an address answer so).
std::string first_line(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[256];
  const ssize_t got = ::read(file.get(), text, sizeof text);
  const std::string whole(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  return whole.substr(0, whole.find('\n'));
}

std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> out;
  struct Close {
    void operator()(DIR* open) const { ::closedir(open); }
  };
  const std::unique_ptr<DIR, Close> dir(::opendir(folder.c_str()));
  if (dir == nullptr) return out;
  while (const dirent* entry = ::readdir(dir.get()))
    if (entry->d_name[0] != '.') out.emplace_back(entry->d_name);
  std::sort(out.begin(), out.end());
  return out;
}

Port read_port(const std::string& folder, const std::string& number) {
  Port port;
  port.number = std::atoi(number.c_str());
  port.is_active = first_line(folder + "/state").find("ACTIVE") != std::string::npos;
  port.link_layer = first_line(folder + "/link_layer");
  const std::string networks = folder + "/gid_attrs/ndevs";
  for (const std::string& entry : entries(networks)) {
    const std::string network = first_line(format("{}/{}", networks, entry));
    if (network.empty() || std::count(port.networks.begin(), port.networks.end(), network) > 0)
      continue;
    port.networks.push_back(network);
  }
  return port;
}

/// What libibverbs lists; only handles travel, so none of its headers is needed.
struct Verbs {
  std::vector<std::string> names;
  std::string problem;
};
Verbs ask_verbs() {
  Verbs verbs;
  void* library = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return {{}, "libibverbs.so.1 is not installed"};
  using List = void** (*)(int*);
  using Free = void (*)(void**);
  using Name = const char* (*)(void*);
  const auto list = reinterpret_cast<List>(::dlsym(library, "ibv_get_device_list"));
  const auto release = reinterpret_cast<Free>(::dlsym(library, "ibv_free_device_list"));
  const auto name = reinterpret_cast<Name>(::dlsym(library, "ibv_get_device_name"));
  if (list == nullptr || release == nullptr || name == nullptr)
    return {{}, "libibverbs.so.1 lacks functions"};
  int count = 0;
  void** found = list(&count);
  if (found == nullptr) return {{}, "libibverbs finds no devices"};
  for (int i = 0; i < count; ++i) verbs.names.emplace_back(name(found[i]));
  release(found);
  return verbs;
}

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text,
                sizeof text);
  if (address->sa_family == AF_INET6) {
    const auto& v6 = *reinterpret_cast<const sockaddr_in6*>(address);
    // A link-local address means nothing without the peer's own interface.
    if (!IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr))
      ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  }
  return text;
}

}  // namespace

bool Device::is_usable() const {
  return problem.empty() &&
         std::any_of(ports.begin(), ports.end(), [](const Port& port) { return port.is_active; });
}

std::vector<Device> devices_in(const std::string& sysfs) {
  std::vector<Device> out;
  for (const std::string& name : entries(sysfs)) {
    Device device;
    device.name = name;
    const std::string ports = format("{}/{}/ports", sysfs, name);
    for (const std::string& number : entries(ports))
      device.ports.push_back(read_port(format("{}/{}", ports, number), number));
    out.push_back(std::move(device));
  }
  return out;
}

std::vector<Device> devices() {
  std::vector<Device> out = devices_in(kSysfs);
  if (out.empty()) return out;
  const Verbs verbs = ask_verbs();
  for (Device& device : out) {
    if (std::count(verbs.names.begin(), verbs.names.end(), device.name) > 0) continue;
    device.problem =
        verbs.problem.empty()
            ? "libibverbs does not list it (its provider or /dev/infiniband is missing)"
            : verbs.problem;
  }
  return out;
}

bool has_active_device() {
  const auto all = devices_in(kSysfs);
  return std::any_of(all.begin(), all.end(),
                     [](const Device& device) { return device.is_usable(); });
}

std::string describe(const Device& device) {
  std::string out;
  for (const Port& port : device.ports) {
    if (!out.empty()) out += "; ";
    out += format("{} port {} {} ({}", device.name, port.number,
                  port.is_active ? "active" : "not active", port.link_layer);
    for (const std::string& network : port.networks) out += ", " + network;
    out += ")";
  }
  if (out.empty()) out = device.name + " without ports";
  return device.problem.empty() ? out : out + ": " + device.problem;
}

std::string local_address(int socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return "";
  const std::string text = text_of(reinterpret_cast<const sockaddr*>(&address));
  const std::string mapped = "::ffff:";  // an IPv4 client on a socket for both
  return text.compare(0, mapped.size(), mapped) == 0 ? text.substr(mapped.size()) : text;
}

std::vector<std::string> addresses(const std::string& preferred) {
  std::vector<std::string> networks, out;
  for (const Device& device : devices_in(kSysfs))
    for (const Port& port : device.ports)
      if (port.is_active)
        networks.insert(networks.end(), port.networks.begin(), port.networks.end());
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return out;
  struct Free {
    void operator()(ifaddrs* list) const { ::freeifaddrs(list); }
  };
  const std::unique_ptr<ifaddrs, Free> owner(all);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr ||
        std::count(networks.begin(), networks.end(), std::string(one->ifa_name)) == 0)
      continue;
    std::string text = text_of(one->ifa_addr);
    if (!text.empty()) out.push_back(std::move(text));
  }
  const auto first = std::find(out.begin(), out.end(), preferred);
  if (first != out.end()) std::rotate(out.begin(), first, first + 1);
  return out;
}

}  // namespace sluice::transport::ucx
