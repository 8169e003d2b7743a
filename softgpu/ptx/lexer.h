// Cuts PTX text into tokens without copying it.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::softgpu::ptx {

struct Token {
  enum class Kind { kEnd, kWord, kNumber, kString, kPunctuation } kind = Kind::kEnd;
  std::string_view text;  ///< words keep '%', '$', '_' and interior '.'; numbers as written;
                          ///< strings without quotes
  int line = 1;
  std::size_t offset = 0;  ///< of the first character in the whole text
};

class Lexer {
 public:
  Lexer(std::string_view text, std::size_t begin, std::size_t end, int line);
  [[nodiscard]] const Token& peek() const { return token_; }
  Token take();
  [[nodiscard]] bool is(std::string_view punctuation_or_word) const {
    return token_.text == punctuation_or_word && token_.kind != Token::Kind::kEnd;
  }

 private:
  void advance();
  void skip_blank();
  std::string_view text_;
  std::size_t at_, end_;
  int line_;
  Token token_;
};

}  // namespace sluice::softgpu::ptx
