// A CUDA program that uses the system's OpenSSL before, between and after its CUDA calls, with a
// configuration that the client library's own OpenSSL could not live with. Prints "both work".
#include <cuda.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void check(bool is_right, const char* what) {
  if (is_right) return;
  std::printf("failed: %s\n", what);
  std::exit(1);
}

std::string digest(const char* text) {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  check(EVP_Digest(text, std::strlen(text), out, &size, EVP_sha256(), nullptr) == 1, "digest");
  return {reinterpret_cast<char*>(out), size};
}

/// What the configuration (OPENSSL_CONF) sets for every TLS context of this program.
long max_version() {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  check(context != nullptr, "a context of its own");
  const long version = SSL_CTX_get_max_proto_version(context);
  SSL_CTX_free(context);
  return version;
}

}  // namespace

int main() {
  const std::string before = digest("text");
  check(max_version() == TLS1_2_VERSION, "the program's own configuration is in force");
  ERR_put_error(ERR_LIB_USER, 0, 77, __FILE__, __LINE__);  // an error that it will look at later

  check(cuInit(0) == CUDA_SUCCESS, "cuInit");
  CUcontext context = nullptr;
  check(cuCtxCreate_v4(&context, nullptr, 0, 0) == CUDA_SUCCESS, "cuCtxCreate");
  CUdeviceptr device = 0;
  check(cuMemAlloc(&device, 1 << 20) == CUDA_SUCCESS, "cuMemAlloc");
  std::string bytes(1 << 20, 'x'), back(1 << 20, '\0');
  check(cuMemcpyHtoD(device, bytes.data(), bytes.size()) == CUDA_SUCCESS, "to the device");
  check(cuMemcpyDtoH(back.data(), device, back.size()) == CUDA_SUCCESS, "to the host");
  check(bytes == back, "the copy");

  check(ERR_GET_REASON(ERR_peek_error()) == 77, "its error queue is as it was");
  check(ERR_get_error() != 0 && ERR_get_error() == 0, "its error queue has one entry");
  check(digest("text") == before, "digests");
  check(max_version() == TLS1_2_VERSION, "its configuration stays in force");
  std::printf("both work\n");
  return 0;
}
