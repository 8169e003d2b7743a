// What `sluice doctor` reads about the session of a process.
#include "shim/session_report.h"

#include "common/release.h"
#include "tests/shim/fake_server.h"

namespace sluice::test {
namespace {

class SessionReport : public ::testing::Test {
 protected:
  void TearDown() override {
    shim::reset_for_test();
    shim::set_connector_for_test({});
  }
  static bool has(const std::string& report, const std::string& text) {
    return report.find(text) != std::string::npos;
  }
};

TEST_F(SessionReport, NamesTheErrorWhereThereIsNoSession) {
  shim::set_connector_for_test([]() -> Result<shim::Connection> {
    return fail(ErrorCode::kPermission, "the server \"refused\"");
  });
  EXPECT_NE(CUDA_SUCCESS, cuInit(0));
  const std::string report = shim::session_report(nullptr);
  EXPECT_TRUE(has(report, "\"error\":\"the server \\\"refused\\\"\"")) << report;
  EXPECT_FALSE(has(report, "\"transport\":\"loop\"")) << report;
}

TEST_F(SessionReport, TellsTransportVersionsAndWhatWasGivenUp) {
  FakeServer server;
  auto connection = std::make_shared<shim::Connection>(server.connection());
  connection->welcome.release = "9.9.9";
  shim::set_connector_for_test(
      [connection]() -> Result<shim::Connection> { return std::move(*connection); });
  ASSERT_EQ(CUDA_SUCCESS, cuInit(0));
  shim::note_not_used("ucx", "no device");
  const std::string report = shim::session_report(&shim::session());
  for (const std::string text :
       {"\"error\":null", "\"transport\":\"loop\"", "\"server_release\":\"9.9.9\"",
        "{\"transport\":\"ucx\",\"why\":\"no device\"}", "\"resumable\":false", "\"socket\":-1"})
    EXPECT_TRUE(has(report, text)) << text << "\n" << report;
  EXPECT_TRUE(has(report, std::string("\"release\":\"") + kRelease + "\"")) << report;
}

}  // namespace
}  // namespace sluice::test
