#include "tools/sluicectl/cert/authority.h"

#include "common/fd.h"
#include "common/format.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>

namespace sluice::cert {
namespace {

constexpr std::size_t kNameBytesMax = 64;  // of a CN (X.520)

Error openssl_failed(const std::string& doing) {
  const char* const why = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return {ErrorCode::kInternal, doing + ": " + (why != nullptr ? why : "OpenSSL failed")};
}

bool is_ip_address(const std::string& host) {
  ASN1_OCTET_STRING* const address = a2i_IPADDRESS(host.c_str());
  ASN1_OCTET_STRING_free(address);
  return address != nullptr;
}

bool is_host_name(const std::string& host) {
  return !host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '*';
  });
}

bool is_tenant_name(const std::string& name) {
  return !name.empty() && name.size() <= kNameBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("._-@").find(c) != std::string_view::npos;
         });
}

struct Extension {
  int nid;
  std::string value;
};

bool add_extensions(X509* certificate, X509* issuer, const std::vector<Extension>& extensions) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  return std::all_of(extensions.begin(), extensions.end(), [&](const Extension& one) {
    X509_EXTENSION* const made = X509V3_EXT_conf_nid(nullptr, &context, one.nid, one.value.c_str());
    const bool is_added = made != nullptr && X509_add_ext(certificate, made, -1) == 1;
    X509_EXTENSION_free(made);
    return is_added;
  });
}

bool set_serial(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) return false;
  bytes[0] &= 0x7f;  // positive
  BIGNUM* const number = BN_bin2bn(bytes.data(), bytes.size(), nullptr);
  const bool is_set = BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return is_set;
}

/// Signed by `authority`, or by itself if that is null.
Result<Pair> make(const std::string& name, const Pair* authority, Validity validity,
                  const std::vector<Extension>& extensions) {
  Pair out;
  out.key = {EVP_EC_gen("P-256"), EVP_PKEY_free};
  out.certificate = {X509_new(), X509_free};
  X509* const x = out.certificate.get();
  if (out.key == nullptr || x == nullptr) return fail(openssl_failed("making a key"));
  X509_NAME* const subject = X509_get_subject_name(x);
  X509* const issuer = authority != nullptr ? authority->certificate.get() : x;
  const auto* const text = reinterpret_cast<const unsigned char*>(name.c_str());
  const bool is_made =
      X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, text, -1, -1, 0) == 1 &&
      X509_set_issuer_name(x, X509_get_subject_name(issuer)) == 1 &&
      X509_gmtime_adj(X509_getm_notBefore(x), validity.from.count()) != nullptr &&
      X509_gmtime_adj(X509_getm_notAfter(x), validity.until.count()) != nullptr &&
      X509_set_pubkey(x, out.key.get()) == 1 && add_extensions(x, issuer, extensions) &&
      X509_sign(x, authority != nullptr ? authority->key.get() : out.key.get(), EVP_sha256()) > 0;
  if (!is_made) return fail(openssl_failed("making a certificate for " + name));
  return out;
}

std::vector<Extension> leaf_extensions(const char* use, const std::string& names) {
  return {{NID_basic_constraints, "critical,CA:FALSE"},
          {NID_key_usage, "critical,digitalSignature"},
          {NID_ext_key_usage, use},
          {NID_subject_key_identifier, "hash"},
          {NID_authority_key_identifier, "keyid:always"},
          {NID_subject_alt_name, names}};
}

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
};
using Bio = std::unique_ptr<BIO, FreeBio>;

/// Whole or not at all; `mode` from the first byte on.
Status write_pem(const std::string& path, mode_t mode, const std::function<int(BIO*)>& write) {
  const Bio memory(BIO_new(BIO_s_mem()));
  if (memory == nullptr || write(memory.get()) != 1) return fail(openssl_failed("writing " + path));
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(memory.get(), &data);
  const std::string fresh = path + ".new";
  ::unlink(fresh.c_str());
  const Fd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd.valid() || ::write(fd.get(), data, static_cast<std::size_t>(bytes)) != bytes ||
      ::rename(fresh.c_str(), path.c_str()) != 0)
    return fail(system_error("writing " + path, errno));
  return {};
}

}  // namespace

Result<Pair> make_authority(const std::string& name, Validity validity) {
  return make(name, nullptr, validity,
              {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
               {NID_key_usage, "critical,keyCertSign,cRLSign"},
               {NID_subject_key_identifier, "hash"}});
}

Result<Pair> issue_server(const Pair& authority, const std::vector<std::string>& hosts,
                          Validity validity) {
  std::string names;
  for (const std::string& host : hosts) {
    const bool is_ip = is_ip_address(host);
    if (!is_ip && !is_host_name(host))
      return fail(ErrorCode::kInvalidArgument,
                  format("\"{}\" is neither a host name nor an IP address (no port)", host));
    names += (names.empty() ? "" : ",") + std::string(is_ip ? "IP:" : "DNS:") + host;
  }
  if (hosts.empty()) return fail(ErrorCode::kInvalidArgument, "a server certificate needs a host");
  return make(hosts[0].substr(0, kNameBytesMax), &authority, validity,
              leaf_extensions("serverAuth", names));
}

Result<Pair> issue_client(const Pair& authority, const std::string& tenant, Validity validity) {
  if (!is_tenant_name(tenant))
    return fail(ErrorCode::kInvalidArgument,
                format("\"{}\" is no name for a tenant: use 1 to {} letters, digits and . _ - @",
                       tenant, kNameBytesMax));
  return make(tenant, &authority, validity,
              leaf_extensions("clientAuth", "URI:sluice:tenant/" + tenant));
}

Status save(const Pair& pair, const std::string& certificate_file, const std::string& key_file,
            bool may_replace) {
  for (const std::string& path : {certificate_file, key_file})
    if (!may_replace && ::access(path.c_str(), F_OK) == 0)
      return fail(ErrorCode::kExhausted, format("{} is there already; --force replaces it", path));
  SLUICE_CHECK(write_pem(key_file, 0600, [&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, pair.key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  }));
  return write_pem(certificate_file, 0644,
                   [&](BIO* bio) { return PEM_write_bio_X509(bio, pair.certificate.get()); });
}

Result<Pair> load(const std::string& certificate_file, const std::string& key_file) {
  Pair out;
  const Bio certificate(BIO_new_file(certificate_file.c_str(), "r"));
  if (certificate != nullptr)
    out.certificate = {PEM_read_bio_X509(certificate.get(), nullptr, nullptr, nullptr), X509_free};
  if (out.certificate == nullptr) return fail(openssl_failed("reading " + certificate_file));
  const Bio key(BIO_new_file(key_file.c_str(), "r"));
  if (key != nullptr)
    out.key = {PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr), EVP_PKEY_free};
  if (out.key == nullptr) return fail(openssl_failed("reading " + key_file));
  if (X509_check_private_key(out.certificate.get(), out.key.get()) != 1)
    return fail(ErrorCode::kInvalidArgument,
                format("{} does not belong to {}", key_file, certificate_file));
  return out;
}

std::string valid_until(const Pair& pair) {
  tm parts{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(pair.certificate.get()), &parts) != 1) return "?";
  return format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

}  // namespace sluice::cert
