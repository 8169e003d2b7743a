// What the tests of both halves of the agreement on UCX start from: two connected sockets and the
// library, over its own TCP on loopback.
#pragma once

#include "common/fd.h"
#include "transport/transport.h"
#include "transport/ucx/library.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdlib>

namespace sluice::transport::testing {

class UcxAgreement : public ::testing::Test {
 protected:
  UcxAgreement() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    client_.reset(ends[0]);
    server_.reset(ends[1]);
    ::setenv("UCX_TLS", "tcp", 1);
    ::setenv("UCX_NET_DEVICES", "lo", 1);  // other tests remove theirs
    ::setenv("SLUICE_UCX_SOFTWARE_PUT", "1", 1);
    auto plugin = ucx::load_from(SLUICE_UCX_PLUGIN);
    EXPECT_TRUE(plugin) << plugin.error().message;
    if (plugin) plugin_ = *plugin;
  }
  static Deadline far() { return Clock::now() + std::chrono::seconds(60); }

  Fd client_, server_;
  ucx::Plugin* plugin_ = nullptr;
};

}  // namespace sluice::transport::testing
