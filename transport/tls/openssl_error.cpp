#include "transport/tls/openssl_error.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <cstring>

namespace sluice::transport::tls {

Error openssl_error(const std::string& doing) {
  const unsigned long first = ERR_peek_error();
  const unsigned long last = ERR_peek_last_error();
  ERR_clear_error();
  std::string reason = "unknown reason";
  if (ERR_SYSTEM_ERROR(first))
    reason = std::strerror(ERR_GET_REASON(first));
  else if (ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE)
    reason = "there is nothing of that kind in the file (PEM is expected)";
  else if (ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_BAD_PASSWORD_READ)
    reason = "it is encrypted with a password; an unencrypted file of mode 0600 is needed";
  else if (const char* text = ERR_reason_error_string(last); text != nullptr)
    reason = text;
  return {ErrorCode::kInvalidArgument, doing + ": " + reason};
}

}  // namespace sluice::transport::tls
