#include "tools/sluice/doctor/path.h"

#include "common/format.h"
#include "tools/sluice/doctor/findings.h"
#include "transport/transport.h"
#include "transport/ucx/devices.h"

#include <ifaddrs.h>
#include <linux/tcp.h>  // newer than the C library's: segments, retransmissions
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fstream>

namespace sluice::tool {
namespace {

constexpr std::uint32_t kEthernetMtu = 1500;
/// From here on packets of 1500 bytes cost a core more than the bytes do.
constexpr std::uint32_t kJumboWorthMbit = 10'000;
constexpr double kRetransmittedTooMany = 0.01;
constexpr std::uint64_t kSegmentsToJudge = 200;

std::uint32_t number_in(const std::string& file) {
  long long value = 0;
  std::ifstream in(file);
  return in >> value && value > 0 ? static_cast<std::uint32_t>(value) : 0;
}

std::string interface_of(const std::string& address) {
  ifaddrs* all = nullptr;
  if (address.empty() || ::getifaddrs(&all) != 0) return "";
  std::string found;
  for (const ifaddrs* one = all; one != nullptr && found.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char text[NI_MAXHOST];
    const socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(one->ifa_addr, bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 &&
        address == text)
      found = one->ifa_name;
  }
  ::freeifaddrs(all);
  return found;
}

template <class T>
T option(int socket, int level, int name) {
  T value{};
  socklen_t bytes = sizeof value;
  if (::getsockopt(socket, level, name, &value, &bytes) != 0) return T{};
  return value;
}

}  // namespace

std::optional<Path> read_path(int socket) {
  const int domain = option<int>(socket, SOL_SOCKET, SO_DOMAIN);
  if (socket < 0 || (domain != AF_INET && domain != AF_INET6)) return std::nullopt;
  const auto info = option<tcp_info>(socket, IPPROTO_TCP, TCP_INFO);
  Path out;
  out.interface = interface_of(transport::ucx::local_address(socket));
  const int mtu = domain == AF_INET ? option<int>(socket, IPPROTO_IP, IP_MTU)
                                    : option<int>(socket, IPPROTO_IPV6, IPV6_MTU);
  out.mtu_bytes = mtu > 0 ? static_cast<std::uint32_t>(mtu) : info.tcpi_pmtu;
  out.interface_mtu_bytes = number_in("/sys/class/net/" + out.interface + "/mtu");
  out.interface_mbit_s = number_in("/sys/class/net/" + out.interface + "/speed");
  out.segment_bytes = info.tcpi_snd_mss;
  out.rtt_us = info.tcpi_rtt;
  out.rtt_variation_us = info.tcpi_rttvar;
  out.rtt_min_us = info.tcpi_min_rtt;
  out.congestion_window = info.tcpi_snd_cwnd;
  char name[16] = {};
  socklen_t bytes = sizeof name - 1;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) == 0)
    out.congestion_control = name;
  out.segments_sent = info.tcpi_segs_out;
  out.retransmitted = info.tcpi_total_retrans;
  out.is_loopback = transport::reach_of(socket) == transport::Reach::kLoopback;
  return out;
}

nlohmann::json to_json(const Path& path) {
  return {{"interface", path.interface},
          {"mtu_bytes", path.mtu_bytes},
          {"interface_mtu_bytes", path.interface_mtu_bytes},
          {"interface_mbit_s", path.interface_mbit_s},
          {"segment_bytes", path.segment_bytes},
          {"rtt_us", path.rtt_us},
          {"rtt_variation_us", path.rtt_variation_us},
          {"rtt_min_us", path.rtt_min_us},
          {"congestion_window", path.congestion_window},
          {"congestion_control", path.congestion_control},
          {"segments_sent", path.segments_sent},
          {"retransmitted", path.retransmitted},
          {"is_loopback", path.is_loopback}};
}

Path path_from_json(const nlohmann::json& json) {
  Path out;
  out.interface = json.at("interface");
  out.mtu_bytes = json.at("mtu_bytes");
  out.interface_mtu_bytes = json.at("interface_mtu_bytes");
  out.interface_mbit_s = json.at("interface_mbit_s");
  out.segment_bytes = json.at("segment_bytes");
  out.rtt_us = json.at("rtt_us");
  out.rtt_variation_us = json.at("rtt_variation_us");
  out.rtt_min_us = json.at("rtt_min_us");
  out.congestion_window = json.at("congestion_window");
  out.congestion_control = json.at("congestion_control");
  out.segments_sent = json.at("segments_sent");
  out.retransmitted = json.at("retransmitted");
  out.is_loopback = json.at("is_loopback");
  return out;
}

void judge_path(const Path& path, Findings& findings) {
  const std::string interface = path.interface.empty() ? "unknown interface" : path.interface;
  const std::string mtu = format("MTU {} on {}", path.mtu_bytes, interface);
  if (path.mtu_bytes != 0 && path.mtu_bytes < kEthernetMtu)
    findings.warn("mtu", mtu + ": packets are smaller than Ethernet's 1500 bytes",
                  "a tunnel or VPN on the way costs that much; a direct route to the server, or a "
                  "larger MTU of the tunnel, makes copies faster");
  else if (!path.is_loopback && path.interface_mbit_s >= kJumboWorthMbit &&
           path.mtu_bytes <= kEthernetMtu)
    findings.warn("mtu", format("{}, a link of {} Gbit/s", mtu, path.interface_mbit_s / 1000),
                  format("jumbo frames (ip link set {} mtu 9000, on both hosts and every switch "
                         "between them) make copies faster and cheaper",
                         interface));
  else
    findings.good("mtu", mtu);

  const double lost = path.segments_sent == 0 ? 0
                                              : static_cast<double>(path.retransmitted) /
                                                    static_cast<double>(path.segments_sent);
  const std::string text = format(
      "round trip {:.0f} us +- {:.0f} as the host kernel sees it; window {} packets of {} "
      "bytes ({}); {} of {} packets sent twice",
      path.rtt_us, path.rtt_variation_us, path.congestion_window, path.segment_bytes,
      path.congestion_control, path.retransmitted, path.segments_sent);
  if (path.segments_sent >= kSegmentsToJudge && lost > kRetransmittedTooMany)
    findings.warn("tcp", text,
                  "packets are lost on the way: look for errors on the interfaces (ip -s link), "
                  "full queues, or a bad cable; each loss costs at least a round trip");
  else
    findings.good("tcp", text);
}

}  // namespace sluice::tool
