#include "cipher.h"

#include <openssl/evp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace sluice::bench {
namespace {

constexpr std::size_t kRecordBytes = 16 * 1024;
constexpr int kTagBytes = 16;

void must(bool is_right) {
  if (is_right) return;
  std::fprintf(stderr, "sluice-perf: AES-256-GCM does not work here\n");
  std::exit(1);
}

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};

}  // namespace

double raw_cipher_s(std::span<const std::byte> from) {
  const std::unique_ptr<EVP_CIPHER_CTX, FreeContext> context(EVP_CIPHER_CTX_new());
  const unsigned char key[32] = {1}, header[5] = {0x17, 3, 3};
  unsigned char nonce[12] = {};
  must(EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, key, nonce) == 1);
  std::vector<unsigned char> record(kRecordBytes + kTagBytes);
  const auto start = std::chrono::steady_clock::now();
  while (!from.empty()) {
    const std::size_t piece = std::min(from.size(), kRecordBytes);
    ++nonce[11];
    int bytes = 0;
    must(EVP_EncryptInit_ex(context.get(), nullptr, nullptr, nullptr, nonce) == 1 &&
         EVP_EncryptUpdate(context.get(), nullptr, &bytes, header, sizeof header) == 1 &&
         EVP_EncryptUpdate(context.get(), record.data(), &bytes,
                           reinterpret_cast<const unsigned char*>(from.data()),
                           static_cast<int>(piece)) == 1 &&
         EVP_EncryptFinal_ex(context.get(), record.data() + bytes, &bytes) == 1 &&
         EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes,
                             record.data() + piece) == 1);
    from = from.subspan(piece);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace sluice::bench
