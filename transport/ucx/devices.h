// The RDMA devices of this host, for the choice of a transport and for people who wonder about it.
// Reads what the host kernel says (sysfs) and, to know whether a program could use a device, asks
// libibverbs, which is loaded for that and only if there is a device.
#pragma once

#include <string>
#include <vector>

namespace sluice::transport::ucx {

struct Port {
  int number = 0;
  bool is_active = false;
  std::string link_layer;             ///< "InfiniBand" or "Ethernet"
  std::vector<std::string> networks;  ///< network devices that its addresses belong to
};
struct Device {
  std::string name;
  std::vector<Port> ports;
  std::string problem;  ///< why a program here cannot use it; empty: it can
  [[nodiscard]] bool is_usable() const;
};

/// `sysfs` is /sys/class/infiniband but in tests. Does not load anything.
std::vector<Device> devices_in(const std::string& sysfs);
/// The same for this host, with `problem` as libibverbs sees it.
std::vector<Device> devices();
/// Whether there is a device with an active port, as sysfs sees it: cheap, loads nothing.
bool has_active_device();

/// "mlx5_0 port 1 active (InfiniBand, ib0)" for each port, and what is wrong with the device.
std::string describe(const Device& device);

/// The local IP address of a connected socket; empty for a UNIX socket.
std::string local_address(int socket);

/// IP addresses of this host that a peer can reach by RDMA, `preferred` first if it is among them.
std::vector<std::string> addresses(const std::string& preferred);

}  // namespace sluice::transport::ucx
