#include "tools/sluice/doctor/transports.h"

#include "protocol/bootstrap.h"
#include "transport/ucx/library.h"

namespace sluice::tool {
namespace {

struct Case {
  const Settings& settings;
  const Reached& reached;
  const Measured& measured;
  const std::string& used;

  [[nodiscard]] bool is_unix() const { return reached.reach == transport::Reach::kUnix; }
};

/// What the client library noted when it gave the transport up.
std::string noted(const Case& c, const std::string& transport) {
  if (!c.measured.session.is_object()) return "";
  for (const auto& note : c.measured.session.value("not_used", nlohmann::json::array()))
    if (note.value("transport", "") == transport) return note.value("why", "");
  return "";
}

std::string why_no_ucx(const Case& c) {
  if (c.reached.is_encrypted) return "RDMA encrypts nothing, and this session is encrypted";
  if ((c.reached.feature_bits & wire::kFeatureUcx) == 0)
    return "the server does not offer it (it requires encryption, or is too old)";
  const Status host = transport::ucx::check_host();
  return host ? "the two hosts could not agree on it" : host.error().message;
}

std::string why_not(const Case& c, const std::string& transport) {
  if (const std::string note = noted(c, transport); !note.empty()) return note;
  const bool is_local = transport == "shm" || transport == "unix";
  if (is_local && c.reached.reach == transport::Reach::kNetwork)
    return "the server is on another host";
  if (is_local && !c.is_unix())
    return "the server is addressed by TCP; on its own host unix:PATH leads there";
  if (!is_local && c.is_unix()) return "the server's address is a UNIX socket of this host";
  if (!c.settings.emulate.empty() && (transport == "shm" || transport == "ucx"))
    return "the link is emulated, which takes a socket";
  if (!c.settings.transport.empty())
    return c.settings.transport + " was chosen (--transport, SLUICE_TRANSPORT)";
  if (transport == "unix" || transport == "tcp") return c.used + " is faster";
  return transport == "ucx" ? why_no_ucx(c) : "the server refused it";
}

std::string why_used(const Case& c) {
  if (!c.settings.transport.empty()) return "it was chosen (--transport, SLUICE_TRANSPORT)";
  if (c.used == "shm") return "the server is on this host";
  if (c.used == "ucx") return "both hosts have RDMA";
  if (!c.settings.emulate.empty()) return "the link is emulated, which takes a socket";
  return c.is_unix() ? "shared memory is not possible" : "it is always there";
}

}  // namespace

std::vector<Verdict> judge_transports(const Settings& settings, const Reached& reached,
                                      const Measured& measured, const std::string& used) {
  const Case c{settings, reached, measured, used};
  std::vector<Verdict> out;
  for (const char* transport : {"shm", "unix", "ucx", "tcp"}) {
    const bool is_used =
        used == transport || (used == "tcp+tls" && transport == std::string("tcp"));
    out.push_back({transport, is_used, is_used ? why_used(c) : why_not(c, transport)});
  }
  return out;
}

std::string why_encrypted(const Settings& settings, const Reached& reached) {
  const std::string& mode = settings.tls.mode;
  if (reached.is_encrypted) {
    if (mode == "on") return "yes, TLS 1.3: it was chosen (--tls on)";
    if (reached.reach == transport::Reach::kNetwork)
      return "yes, TLS 1.3: the server is beyond loopback";
    return "yes, TLS 1.3: a CA is named (--tls-ca)";
  }
  if (reached.reach == transport::Reach::kUnix)
    return "no: a UNIX socket does not leave this host, and other users cannot open it";
  if (mode == "off") return "no: it was switched off (--tls off)";
  return "no: the server is on loopback, and no CA is named (--tls-ca)";
}

}  // namespace sluice::tool
