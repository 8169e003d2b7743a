#include "transport/tls/client_choice.h"

#include "common/format.h"

#include <cstdlib>

namespace sluice::transport::tls {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

ClientChoice choice_from_environment() {
  return {environment("SLUICE_TLS"), environment("SLUICE_TLS_CA"), environment("SLUICE_TLS_CERT"),
          environment("SLUICE_TLS_KEY")};
}

Status check(const ClientChoice& choice) {
  if (!choice.mode.empty() && choice.mode != "on" && choice.mode != "off" && choice.mode != "auto")
    return fail(ErrorCode::kInvalidArgument,
                format("SLUICE_TLS (--tls): \"{}\": expected on, off or auto", choice.mode));
  if (choice.certificate_file.empty() != choice.key_file.empty())
    return fail(ErrorCode::kInvalidArgument,
                "SLUICE_TLS_CERT and SLUICE_TLS_KEY (--tls-cert, --tls-key) go together: a client "
                "certificate and its private key");
  return {};
}

Result<bool> wants_tls(const ClientChoice& choice, int socket) {
  SLUICE_CHECK(check(choice));
  const Reach reach = reach_of(socket);
  if (reach == Reach::kUnix || choice.mode == "off") return false;
  return choice.mode == "on" || reach == Reach::kNetwork || !choice.ca_file.empty();
}

std::string tenant_to_say(const std::string& given, const ClientChoice& choice, bool is_encrypted) {
  const bool is_certified = is_encrypted && !choice.certificate_file.empty();
  return given.empty() && !is_certified ? "local" : given;
}

Result<std::unique_ptr<ByteStream>> open_control(Fd socket, const Address& address,
                                                 const ClientChoice& choice, bool has_token,
                                                 Result<const Library*> (*find_library)(),
                                                 Deadline deadline) {
  SLUICE_TRY(const bool is_encrypted, wants_tls(choice, socket.get()));
  if (is_encrypted) {
    SLUICE_TRY(const Library* library, find_library());
    return library->connect(
        std::move(socket), {choice.ca_file, choice.certificate_file, choice.key_file, address.host},
        deadline);
  }
  if (has_token && reach_of(socket.get()) == Reach::kNetwork)
    return fail(ErrorCode::kPermission,
                "SLUICE_TLS=off would send the token over the network in the clear; leave it out, "
                "and name the server's CA with SLUICE_TLS_CA (--tls-ca)");
  return make_socket_stream(std::move(socket));
}

}  // namespace sluice::transport::tls
