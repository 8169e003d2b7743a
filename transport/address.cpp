// Server addresses as users write them, e.g. in SLUICE_SERVER and sluiced.toml.
#include "common/format.h"
#include "transport/transport.h"

#include <charconv>
#include <string_view>

namespace sluice::transport {
namespace {

constexpr std::size_t kUnixPathBytesMax = 107;  // sockaddr_un::sun_path without its terminator

tl::unexpected<Error> bad_address(const std::string& whole, const std::string& why) {
  return fail(ErrorCode::kInvalidArgument, format("server address \"{}\": {}", whole, why));
}

Result<std::uint16_t> parse_port(const std::string& whole, std::string_view digits) {
  if (digits.empty()) return bad_address(whole, "the port after \":\" is missing");
  unsigned value = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end || value > 65535)
    return bad_address(whole, format("\"{}\" is no port (0 to 65535)", digits));
  return static_cast<std::uint16_t>(value);
}

Result<Address> parse_unix(const std::string& whole, std::string_view path) {
  if (path.empty()) return bad_address(whole, "expected a path after \"unix:\"");
  if (path.size() > kUnixPathBytesMax)
    return bad_address(whole,
                       format("the path of a UNIX socket has at most {} characters, this one {}",
                              kUnixPathBytesMax, path.size()));
  if (path.find('\0') != std::string_view::npos)
    return bad_address(whole, "the path contains a NUL");
  Address address;
  address.kind = Address::Kind::kUnix;
  address.path = path;
  return address;
}

/// Splits "HOST", "HOST:PORT", "[V6]" and "[V6]:PORT"; `port` keeps its colon.
Status split_host(const std::string& whole, std::string_view rest, std::string_view* host,
                  std::string_view* port) {
  if (rest.starts_with("[")) {
    const auto end = rest.find(']');
    if (end == std::string_view::npos) return bad_address(whole, "\"]\" is missing");
    *host = rest.substr(1, end - 1);
    *port = rest.substr(end + 1);
    if (!port->empty() && !port->starts_with(":"))
      return bad_address(whole, "expected [ADDRESS]:PORT");
    return {};
  }
  const auto colon = rest.find(':');
  if (colon != std::string_view::npos && rest.find(':', colon + 1) != std::string_view::npos)
    return bad_address(whole, "write an IPv6 address as [ADDRESS]:PORT");
  *host = rest.substr(0, colon);
  *port = colon == std::string_view::npos ? std::string_view{} : rest.substr(colon);
  return {};
}

}  // namespace

std::string Address::text() const {
  if (kind == Kind::kUnix) return "unix:" + path;
  const bool is_v6 = host.find(':') != std::string::npos;
  return format("{}{}{}:{}", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
}

bool is_loopback(const Address& address) {
  return address.kind == Address::Kind::kUnix || address.host == "localhost" ||
         address.host == "::1" || address.host.starts_with("127.");
}

Result<Address> parse_address(const std::string& text) {
  std::string_view rest = text;
  if (rest.starts_with("unix:")) return parse_unix(text, rest.substr(5));
  if (rest.starts_with("tcp:")) rest.remove_prefix(4);
  if (rest.starts_with("/"))
    return bad_address(text, "write the path of a UNIX socket as unix:PATH");
  std::string_view host, port;
  SLUICE_CHECK(split_host(text, rest, &host, &port));
  if (host.empty()) return bad_address(text, "expected unix:PATH or HOST[:PORT]");
  if (host.find_first_of(std::string_view("/ \t\r\n\0", 6)) != std::string_view::npos)
    return bad_address(text, format("\"{}\" is no host name", host));
  Address address;
  address.host = host;
  address.port = kDefaultPort;
  if (!port.empty()) {
    SLUICE_TRY(address.port, parse_port(text, port.substr(1)));
  }
  return address;
}

}  // namespace sluice::transport
