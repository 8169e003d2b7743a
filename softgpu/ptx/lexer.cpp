#include "softgpu/ptx/lexer.h"

#include <cctype>

namespace sluice::softgpu::ptx {
namespace {
bool is_word_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' ||
         c == '.';
}
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '.';
}
}  // namespace

Lexer::Lexer(std::string_view text, std::size_t begin, std::size_t end, int line)
    : text_(text), at_(begin), end_(end), line_(line) {
  advance();
}

Token Lexer::take() {
  const Token out = token_;
  advance();
  return out;
}

void Lexer::skip_blank() {
  while (at_ < end_) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++at_;
    } else if (c == '/' && at_ + 1 < end_ && text_[at_ + 1] == '/') {
      while (at_ < end_ && text_[at_] != '\n') ++at_;
    } else if (c == '/' && at_ + 1 < end_ && text_[at_ + 1] == '*') {
      at_ += 2;
      while (at_ + 1 < end_ && !(text_[at_] == '*' && text_[at_ + 1] == '/')) {
        if (text_[at_] == '\n') ++line_;
        ++at_;
      }
      at_ = at_ + 2 < end_ ? at_ + 2 : end_;
    } else {
      return;
    }
  }
}

void Lexer::advance() {
  skip_blank();
  token_ = Token{Token::Kind::kEnd, {}, line_, at_};
  if (at_ >= end_) return;
  const std::size_t begin = at_;
  const char c = text_[at_];
  if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
    while (at_ < end_ && (is_word(text_[at_]) ||
                          ((text_[at_] == '+' || text_[at_] == '-') &&
                           (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E') &&
                           text_.substr(begin, at_ - begin).find('.') != std::string_view::npos)))
      ++at_;
    token_.kind = Token::Kind::kNumber;
  } else if (is_word_start(c)) {
    ++at_;
    const bool is_directive = c == '.';  // ".reg.b16" is two words, "add.u32" one
    while (at_ < end_ && ((is_word(text_[at_]) && !(is_directive && text_[at_] == '.')) ||
                          (text_[at_] == ':' && at_ + 1 < end_ && text_[at_ + 1] == ':')))
      at_ += text_[at_] == ':' ? 2 : 1;
    token_.kind = Token::Kind::kWord;
  } else if (c == '"') {
    ++at_;
    while (at_ < end_ && text_[at_] != '"') ++at_;
    token_.kind = Token::Kind::kString;
    token_.text = text_.substr(begin + 1, at_ - begin - 1);
    if (at_ < end_) ++at_;
    return;
  } else {
    ++at_;
    token_.kind = Token::Kind::kPunctuation;
  }
  token_.text = text_.substr(begin, at_ - begin);
}

}  // namespace sluice::softgpu::ptx
