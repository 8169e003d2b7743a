// The one name that libsluice_tls.so exports.
#include "transport/tls/tls.h"

extern "C" __attribute__((visibility("default"))) const sluice::transport::tls::Library*
sluice_tls_library(unsigned version) {
  return version == sluice::transport::tls::kLibraryVersion
             ? &sluice::transport::tls::linked_library()
             : nullptr;
}
