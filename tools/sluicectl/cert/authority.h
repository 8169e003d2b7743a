// A small certificate authority: enough for one site's servers and tenants, so that nobody needs
// the openssl tool. ECDSA P-256 throughout; keys are written with mode 0600 and never replaced
// unless that was asked for.
#pragma once

#include "common/result.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

struct evp_pkey_st;
struct x509_st;

namespace sluice::cert {

using Days = std::chrono::duration<long, std::ratio<86400>>;

/// Seconds from now; a test makes certificates that have expired.
struct Validity {
  std::chrono::seconds from{-300};  ///< clocks differ
  std::chrono::seconds until{0};
};

/// A certificate with its private key.
struct Pair {
  std::shared_ptr<x509_st> certificate;
  std::shared_ptr<evp_pkey_st> key;
};

Result<Pair> make_authority(const std::string& name, Validity validity);
/// For a server: `hosts` are names and IP addresses. Err(kInvalidArgument): one that is neither.
Result<Pair> issue_server(const Pair& authority, const std::vector<std::string>& hosts,
                          Validity validity);
/// For a tenant's clients: "sluice:tenant/NAME" as URI, and the name as CN.
Result<Pair> issue_client(const Pair& authority, const std::string& tenant, Validity validity);

/// PEM files. Err(kExhausted): one of them is there and `may_replace` is false; nothing is written
/// then.
Status save(const Pair& pair, const std::string& certificate_file, const std::string& key_file,
            bool may_replace);
Result<Pair> load(const std::string& certificate_file, const std::string& key_file);
/// "2028-03-01"
std::string valid_until(const Pair& pair);

}  // namespace sluice::cert
