// Who names a file that cannot be used learns which, why, and what to do.
#include "common/read_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sluice {
namespace {

class ReadFile : public ::testing::Test {
 protected:
  ReadFile() {
    char name[] = "/tmp/sluice-read.XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~ReadFile() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& text) {
    std::ofstream(folder_ + "/f", std::ios::binary) << text;
    return folder_ + "/f";
  }
  std::string folder_;
};

TEST_F(ReadFile, GivesAllOfIt) {
  EXPECT_EQ(std::string("a\n\0b", 4), read_file(file(std::string("a\n\0b", 4)), 4).value());
  EXPECT_EQ("", read_file(file(""), 0).value());
}

TEST_F(ReadFile, RefusesMoreThanIsExpected) {
  const auto read = read_file(file(std::string(10'000, 'x')), 9'999);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(ErrorCode::kInvalidArgument, read.error().code);
  EXPECT_NE(std::string::npos, read.error().message.find("right file"));
}

TEST_F(ReadFile, TellsAFolderFromAFileThatIsNotThere) {
  const auto folder = read_file(folder_, 100);
  ASSERT_FALSE(folder.has_value());
  EXPECT_EQ(folder_ + " is a folder; name a file", folder.error().message);
  const auto none = read_file(folder_ + "/none", 100);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(ErrorCode::kNotFound, none.error().code);
  EXPECT_EQ("there is no file " + folder_ + "/none", none.error().message);
}

TEST_F(ReadFile, SaysWhoIsNotAllowedTo) {
  const std::string path = file("secret");
  ::chmod(path.c_str(), 0);
  if (::access(path.c_str(), R_OK) == 0) GTEST_SKIP() << "this user may read everything";
  const auto read = read_file(path, 100);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(ErrorCode::kPermission, read.error().code);
  EXPECT_NE(std::string::npos,
            read.error().message.find("user " + std::to_string(::geteuid()) + ","));
}

TEST_F(ReadFile, FindsATokenAmongWhiteSpace) {
  EXPECT_EQ("to ken", read_token_file(file("\r\n  to ken \r\nmore\n")).value());
  EXPECT_FALSE(read_token_file(file(" \n")).has_value());
  EXPECT_FALSE(read_token_file(folder_).has_value());
  EXPECT_FALSE(read_token_file(file(std::string(kTokenBytesMax + 1, 'x'))).has_value());
}

}  // namespace
}  // namespace sluice
