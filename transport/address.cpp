#include "common/format.h"
#include "transport/transport.h"

#include <charconv>

namespace sluice::transport {
namespace {

Result<std::uint16_t> parse_port(const std::string& whole, std::string_view digits) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value > 65535)
    return fail(ErrorCode::kInvalidArgument,
                format("server address \"{}\": \"{}\" is no port (0 to 65535)", whole, digits));
  return static_cast<std::uint16_t>(value);
}

}  // namespace

std::string Address::text() const {
  if (kind == Kind::kUnix) return "unix:" + path;
  const bool is_v6 = host.find(':') != std::string::npos;
  return format("{}{}{}:{}", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
}

Result<Address> parse_address(const std::string& text) {
  Address address;
  std::string_view rest = text;
  if (rest.starts_with("unix:")) {
    address.kind = Address::Kind::kUnix;
    address.path = rest.substr(5);
    if (address.path.empty() || address.path.size() > 107)
      return fail(ErrorCode::kInvalidArgument,
                  format("server address \"{}\": a UNIX socket path has 1 to 107 characters", text));
    return address;
  }
  if (rest.starts_with("tcp:")) rest.remove_prefix(4);
  if (rest.starts_with("//")) rest.remove_prefix(2);
  address.port = kDefaultPort;
  std::string_view port;
  if (rest.starts_with("[")) {
    const auto close = rest.find(']');
    if (close == std::string_view::npos)
      return fail(ErrorCode::kInvalidArgument, format("server address \"{}\": \"]\" is missing", text));
    address.host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
    if (!rest.empty() && !rest.starts_with(":"))
      return fail(ErrorCode::kInvalidArgument, format("server address \"{}\": expected [HOST]:PORT", text));
    if (!rest.empty()) port = rest.substr(1);
  } else {
    const auto colon = rest.find(':');
    if (colon != std::string_view::npos && rest.find(':', colon + 1) != std::string_view::npos)
      return fail(ErrorCode::kInvalidArgument,
                  format("server address \"{}\": write an IPv6 address as [ADDRESS]:PORT", text));
    address.host = rest.substr(0, colon);
    if (colon != std::string_view::npos) port = rest.substr(colon + 1);
    if (colon != std::string_view::npos && port.empty())
      return fail(ErrorCode::kInvalidArgument, format("server address \"{}\": the port is missing", text));
  }
  if (address.host.empty())
    return fail(ErrorCode::kInvalidArgument,
                format("server address \"{}\": expected unix:PATH or HOST[:PORT]", text));
  if (!port.empty()) {
    SLUICE_TRY(address.port, parse_port(text, port));
  }
  return address;
}

}  // namespace sluice::transport
