#include "tests/ptx/op_table.h"

#include "tests/ptx/harness.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

namespace sluice::softgpu::test {
namespace {

std::uint64_t mask_of(const std::string& type) {
  const unsigned bits = bits_of(type);
  return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

/// 12, -3, 0x10, 1.5, inf, nan, 0f3F800000, 0d..., for f16 only 0x....
std::uint64_t to_bits(const std::string& type, const std::string& text) {
  const bool is_literal = text.starts_with("0f") || text.starts_with("0d");
  if (is_literal) return std::stoull(text.substr(2), nullptr, 16);
  if (type == "f32" && !text.starts_with("0x"))
    return std::bit_cast<std::uint32_t>(std::stof(text));
  if (type == "f64" && !text.starts_with("0x"))
    return std::bit_cast<std::uint64_t>(std::stod(text));
  const bool is_negative = text.starts_with("-");
  const std::uint64_t value = std::stoull(is_negative ? text.substr(1) : text, nullptr, 0);
  return (is_negative ? 0 - value : value) & mask_of(type);
}

double to_double(const std::string& type, std::uint64_t bits) {
  if (type == "f64") return std::bit_cast<double>(bits);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

bool is_nan(const std::string& type, std::uint64_t bits) {
  if (type == "f16") return (bits & 0x7FFF) > 0x7C00;
  if (type == "bf16") return (bits & 0x7FFF) > 0x7F80;
  return std::isnan(to_double(type, bits));
}

Operation parse_operation(const std::string& text, int line) {
  Operation out;
  out.line = line;
  const auto colon = text.rfind(" : ");
  EXPECT_NE(colon, std::string::npos) << "line " << line;
  if (colon == std::string::npos) return out;
  out.code = text.substr(0, colon);
  std::istringstream types(text.substr(colon + 3));
  std::string word;
  types >> out.result >> word;
  EXPECT_EQ(word, "=") << "line " << line;
  while (types >> word) {
    if (word[0] == '~')
      out.ulps = static_cast<unsigned>(std::stoul(word.substr(1)));
    else
      out.operands.push_back(word);
  }
  return out;
}

Operation::Row parse_row(const Operation& operation, const std::string& text, int line) {
  Operation::Row row;
  row.line = line;
  std::istringstream words(text);
  std::string word;
  for (const std::string& type : operation.operands) {
    words >> word;
    row.inputs.push_back(to_bits(type, word));
  }
  words >> word;
  EXPECT_EQ(word, "->") << "line " << line;
  words >> word;
  row.is_any = word == "*";
  row.is_nan = word == "nan";
  if (!row.is_any && !row.is_nan) row.expected = to_bits(operation.result, word);
  return row;
}

std::string replace_operands(std::string code) {
  for (std::size_t at = 0; at + 1 < code.size(); ++at)
    if (code[at] == '%' && std::isdigit(static_cast<unsigned char>(code[at + 1])) != 0)
      code.insert(at + 1, "v");
  return code;
}

}  // namespace

unsigned bits_of(const std::string& type) {
  const auto digit = type.find_first_of("0123456789");
  unsigned bits = static_cast<unsigned>(std::stoul(type.substr(digit)));
  if (type.ends_with("x2")) bits *= 2;
  return bits;
}

std::vector<Operation> read_table(const std::string& path) {
  std::vector<Operation> out;
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    const auto begin = text.find_first_not_of(' ');
    if (begin == std::string::npos || text[begin] == '#') continue;
    text.erase(0, begin);
    if (text.starts_with("op "))
      out.push_back(parse_operation(text.substr(3), line));
    else if (!out.empty())
      out.back().rows.push_back(parse_row(out.back(), text, line));
  }
  return out;
}

std::string to_ptx(const std::vector<Operation>& operations) {
  std::ostringstream out;
  out << kHeader;
  for (std::size_t k = 0; k < operations.size(); ++k) {
    const Operation& op = operations[k];
    out << ".visible .entry op" << k << "(.param .u64 in, .param .u64 out) {\n"
        << "  .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %t<8>; .reg .b64 %u<8>;\n"
        << "  .reg .b32 %index; .reg .b64 %in, %out, %row;\n"
        << "  .reg .b" << std::max(16u, bits_of(op.result)) << " %v0;\n";
    for (std::size_t a = 0; a < op.operands.size(); ++a)
      out << "  .reg .b" << std::max(16u, bits_of(op.operands[a])) << " %v" << a + 1 << ";\n";
    out << "  ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %index, %tid.x;\n"
        << "  mul.wide.u32 %row, %index, " << 8 * op.operands.size()
        << "; add.s64 %in, %in, %row;\n"
        << "  mul.wide.u32 %row, %index, 8; add.s64 %out, %out, %row;\n";
    for (std::size_t a = 0; a < op.operands.size(); ++a)
      out << "  ld.global.b" << bits_of(op.operands[a]) << " %v" << a + 1 << ", [%in+" << 8 * a
          << "];\n";
    out << "  " << replace_operands(op.code) << ";\n  st.global.b" << bits_of(op.result)
        << " [%out], %v0;\n  ret;\n}\n";
  }
  return out.str();
}

bool matches(const Operation& operation, const Operation::Row& row, std::uint64_t actual) {
  if (row.is_any) return true;
  if (row.is_nan) return is_nan(operation.result, actual);
  actual &= mask_of(operation.result);
  if (actual == row.expected) return true;
  const auto distance = static_cast<std::int64_t>(actual - row.expected);
  return operation.ulps != 0 && std::abs(distance) <= static_cast<std::int64_t>(operation.ulps);
}

std::string show(const std::string& type, std::uint64_t bits) {
  std::ostringstream out;
  out << "0x" << std::hex << (bits & mask_of(type)) << std::dec;
  if (type == "f32" || type == "f64") out << " (" << to_double(type, bits) << ")";
  return out.str();
}

}  // namespace sluice::softgpu::test
