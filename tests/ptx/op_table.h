// The tables in ops/: one entry is an instruction (or a few) with %0 for the result and %1... for
// the inputs, the types, and rows of inputs and expected result. Every entry becomes a kernel whose
// thread N computes row N.
//
//     op add.sat.s32 %0, %1, %2 : s32 = s32 s32
//       2147483647 1 -> 2147483647
//
// "~2" behind the types allows 2 units in the last place; "nan" expects any NaN; "*" anything (the
// program must live).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::softgpu::test {

struct Operation {
  struct Row {
    std::vector<std::uint64_t> inputs;
    std::uint64_t expected = 0;
    bool is_any = false, is_nan = false;
    int line = 0;
  };
  std::string code, result;           ///< result: type name, e.g. "f32"
  std::vector<std::string> operands;  ///< type names
  unsigned ulps = 0;
  std::vector<Row> rows;
  int line = 0;
};

/// Malformed lines are test failures.
std::vector<Operation> read_table(const std::string& path);
/// A module with kernels op0, op1, ...; parameters: inputs, results (8 bytes per value).
std::string to_ptx(const std::vector<Operation>& operations);
/// Does a result satisfy a row?
bool matches(const Operation& operation, const Operation::Row& row, std::uint64_t actual);
/// For failure messages: the bits, and the value if it is a float.
std::string show(const std::string& type, std::uint64_t bits);
unsigned bits_of(const std::string& type);

}  // namespace sluice::softgpu::test
