// The client's TLS is an object of its own, libsluice_tls.so beside this one, opened when a
// connection is encrypted and never before: a program that does not need it pays nothing.
#pragma once

#include "common/result.h"
#include "transport/tls/tls.h"

namespace sluice::shim {

/// Err(kNotFound): not there; Err(kVersion): of another build.
Result<const transport::tls::Library*> tls_library();

/// From now on this one.
void set_tls_library_for_test(const transport::tls::Library& library);

}  // namespace sluice::shim
