// Every instruction of the tables computes what the PTX ISA says.
#include "tests/ptx/harness.h"
#include "tests/ptx/op_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace sluice::softgpu::test {
namespace {

std::vector<std::string> tables() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(OP_TABLES))
    if (entry.path().extension() == ".txt") out.push_back(entry.path().stem());
  std::sort(out.begin(), out.end());
  return out;
}

std::string path_of(const std::string& table) {
  return std::string(OP_TABLES) + "/" + table + ".txt";
}

class Operations : public testing::TestWithParam<std::string> {};

TEST_P(Operations, ComputeWhatThePtxIsaSays) {
  const std::vector<Operation> operations = read_table(path_of(GetParam()));
  ASSERT_FALSE(operations.empty());
  Loaded module(to_ptx(operations));
  ASSERT_TRUE(module.ok());
  for (std::size_t k = 0; k < operations.size(); ++k) {
    const Operation& op = operations[k];
    std::vector<std::uint64_t> in;
    for (const auto& row : op.rows) in.insert(in.end(), row.inputs.begin(), row.inputs.end());
    std::vector<std::uint64_t> out(op.rows.size(), 0x5A5A5A5A5A5A5A5A);
    const LaunchResult result =
        module.run("op" + std::to_string(k), {}, {static_cast<std::uint32_t>(op.rows.size()), 1, 1},
                   in.data(), out.data());
    if (result.outcome != LaunchOutcome::kOk) {
      ADD_FAILURE() << GetParam() << ".txt:" << op.line << ": " << op.code << ": " << result.detail;
      continue;
    }
    for (std::size_t r = 0; r < op.rows.size(); ++r)
      EXPECT_TRUE(matches(op, op.rows[r], out[r]))
          << GetParam() << ".txt:" << op.rows[r].line << ": " << op.code << " gave "
          << show(op.result, out[r]) << ", expected "
          << (op.rows[r].is_nan ? "nan" : show(op.result, op.rows[r].expected));
  }
}

TEST_P(Operations, AreAcceptedByPtxas) {
#ifdef PTXAS
  const std::string file =
      testing::TempDir() + "softgpu_ops_" + std::to_string(::getpid()) + "_" + GetParam() + ".ptx";
  std::ofstream(file) << to_ptx(read_table(path_of(GetParam())));
  const std::string command = std::string(PTXAS) + " -arch=sm_90 -O0 -o /dev/null " + file;
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  std::filesystem::remove(file);
#else
  GTEST_SKIP() << "no ptxas here";
#endif
}

INSTANTIATE_TEST_SUITE_P(Table, Operations, testing::ValuesIn(tables()),
                         [](const auto& table) { return table.param; });

}  // namespace
}  // namespace sluice::softgpu::test
