// What the module parser and the body parser share: error state, punctuation, literals,
// declarations.
#pragma once

#include "softgpu/ptx/lexer.h"
#include "softgpu/ptx/parser.h"

#include <cstdlib>
#include <cstring>

namespace sluice::softgpu::ptx {

class ParserBase {
 protected:
  ParserBase(std::string_view text, std::size_t begin, std::size_t end, int line)
      : lexer_(text, begin, end, line) {}

  /// One level of what may lie in itself: our stack must not depend on the text.
  class Level {
   public:
    explicit Level(ParserBase& parser) : parser_(parser) {
      if (++parser_.levels_ > kLevelsMax) parser_.error("nested too deeply");
    }
    ~Level() { --parser_.levels_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    static constexpr int kLevelsMax = 32;  // compilers write three
    ParserBase& parser_;
  };

  [[nodiscard]] bool failed() const { return error_.has_value(); }
  void error_at(const Token& token, std::string message) {
    if (!error_) error_ = ParseError{ParseError::Kind::kSyntax, token.line, std::move(message)};
  }
  void error(std::string message) { error_at(lexer_.peek(), std::move(message)); }

  /// The text is right, but nothing here can run it.
  void unsupported_at(const Token& token, std::string message) {
    if (!error_)
      error_ = ParseError{ParseError::Kind::kUnsupported, token.line, std::move(message)};
  }

  bool accept(std::string_view text) {
    if (!lexer_.is(text)) return false;
    last_closing_ = lexer_.peek().offset;
    lexer_.take();
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text))
      error("expected \"" + std::string(text) + "\", found \"" + std::string(lexer_.peek().text) +
            "\"");
  }

  void skip_line(int line) {
    while (lexer_.peek().kind != Token::Kind::kEnd && lexer_.peek().line == line && !lexer_.is("}"))
      lexer_.take();
  }

  /// To the next ";", wherever it is.
  void skip_statement() {
    while (!failed() && !accept(";")) {
      if (lexer_.peek().kind == Token::Kind::kEnd) return error("\";\" is missing");
      lexer_.take();
    }
  }

  /// From "{" to its "}".
  void skip_braces() {
    int depth = 0;
    do {
      if (lexer_.is("{")) ++depth;
      if (lexer_.is("}")) --depth;
      if (lexer_.peek().kind == Token::Kind::kEnd) return error("\"}\" is missing");
      last_closing_ = lexer_.peek().offset;
      lexer_.take();
    } while (depth > 0);
  }

  std::int64_t take_integer() {
    const Operand value = literal();
    if (value.kind != Operand::Kind::kInteger) error("expected an integer");
    return value.integer;
  }

  /// 12, -3, 0x1F, 0b101, 077, 12U, 0f3F800000, 0d3FF0000000000000, 1.5
  Operand literal() {
    Operand out;
    const bool is_negative = accept("-");
    const Token token = lexer_.take();
    std::string text(token.text);
    out.kind = Operand::Kind::kInteger;
    if (token.kind != Token::Kind::kNumber) {
      error_at(token, "expected a number, found \"" + text + "\"");
      return out;
    }
    if (text.size() == 10 && (text.starts_with("0f") || text.starts_with("0F"))) {
      out.kind = Operand::Kind::kFloat;
      out.float_bits = 32;
      out.integer = static_cast<std::int64_t>(std::strtoull(text.c_str() + 2, nullptr, 16));
      if (is_negative) out.integer ^= 0x80000000ll;
    } else if (text.size() == 18 && (text.starts_with("0d") || text.starts_with("0D"))) {
      out.kind = Operand::Kind::kFloat;
      out.float_bits = 64;
      out.integer = static_cast<std::int64_t>(std::strtoull(text.c_str() + 2, nullptr, 16));
      if (is_negative) out.integer ^= static_cast<std::int64_t>(1ull << 63);
    } else if (text.find('.') != std::string::npos) {
      out.kind = Operand::Kind::kFloat;
      out.float_bits = 64;
      const double value = std::strtod(text.c_str(), nullptr) * (is_negative ? -1 : 1);
      std::memcpy(&out.integer, &value, 8);
    } else {
      if (text.back() == 'U') text.pop_back();
      char* end = nullptr;
      const bool is_binary = text.starts_with("0b") || text.starts_with("0B");
      const std::uint64_t value = is_binary ? std::strtoull(text.c_str() + 2, &end, 2)
                                            : std::strtoull(text.c_str(), &end, 0);
      if (*end != '\0') error_at(token, "malformed number \"" + std::string(token.text) + "\"");
      out.integer = static_cast<std::int64_t>(is_negative ? 0 - value : value);
    }
    return out;
  }

  static Space space_of(std::string_view word) {
    if (word == ".global") return Space::kGlobal;
    if (word == ".const") return Space::kConst;
    if (word == ".shared") return Space::kShared;
    if (word == ".local") return Space::kLocal;
    if (word == ".param") return Space::kParam;
    return Space::kNone;
  }

  /// [.align N] [.v2] .type [.ptr .space .align N] name[dims]
  Variable declare(Space space) {
    Variable v;
    v.space = space;
    std::size_t align = 0;
    std::size_t vector = 1;
    for (;;) {
      const Token token = lexer_.take();
      const std::string word(token.text);
      if (word == ".align")
        align = static_cast<std::size_t>(take_integer());
      else if (word == ".v2")
        vector = 2;
      else if (word == ".v4")
        vector = 4;
      else if (word.starts_with(".") && parse_type(word.substr(1), &v.type))
        break;
      else if (word == ".texref" || word == ".surfref" || word == ".samplerref") {
        v.type = {'b', 64};
        v.unsupported = word + " variables";
        break;
      } else if (word.starts_with(".attribute"))
        skip_parentheses();
      else if (word.starts_with("."))
        error_at(token, "unknown type \"" + word + "\"");
      else
        error_at(token, "expected a type, found \"" + word + "\"");
      if (failed()) return v;
    }
    if (accept(".ptr")) {
      while (lexer_.is(".global") || lexer_.is(".const") || lexer_.is(".shared") ||
             lexer_.is(".local") || lexer_.is(".align"))
        if (lexer_.take().text == ".align") take_integer();
    }
    const Token name = lexer_.take();
    if (name.kind != Token::Kind::kWord)
      error_at(name, "expected a name, found \"" + std::string(name.text) + "\"");
    v.name = name.text;
    std::size_t count = vector;
    while (!failed() && accept("[")) {
      count *= lexer_.is("]") ? 0 : static_cast<std::size_t>(take_integer());
      expect("]");
    }
    v.size_bytes = count * v.type.bytes();
    v.align_bytes = align != 0 ? align : v.type.bytes() * vector;
    if (v.align_bytes == 0 || (v.align_bytes & (v.align_bytes - 1)) != 0 || v.align_bytes > 4096 ||
        v.size_bytes > (1ull << 31))
      error("impossible size or alignment of " + v.name);
    return v;
  }

  void skip_parentheses() {
    expect("(");
    while (!failed() && !accept(")")) {
      if (lexer_.peek().kind == Token::Kind::kEnd) return error("\")\" is missing");
      lexer_.take();
    }
  }

  Lexer lexer_;
  std::optional<ParseError> error_;
  std::size_t last_closing_ = 0;
  int levels_ = 0;
};

}  // namespace sluice::softgpu::ptx
