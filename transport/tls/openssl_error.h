// OpenSSL's error queue in words.
#pragma once

#include "common/error.h"

#include <string>

namespace sluice::transport::tls {

/// The newest entry of this thread's queue, which is emptied: "doing: reason". kInvalidArgument,
/// since what fails outside a handshake is a file that somebody named.
Error openssl_error(const std::string& doing);

}  // namespace sluice::transport::tls
