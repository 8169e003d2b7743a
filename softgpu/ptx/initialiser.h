// Values of module variables: "= {1, f, generic(table)+8, 0xFF00(f)}".
#pragma once

#include "softgpu/ptx/parser_base.h"

#include <algorithm>

namespace sluice::softgpu::ptx {

class InitialiserParser : protected ParserBase {
 protected:
  using ParserBase::ParserBase;

  void initialiser(Variable* v) {
    v->init.assign(v->size_bytes, std::byte{0});
    bytes_of_address_ = 8;
    std::size_t at = 0;
    value(v, &at);
    if (bytes_of_address_ != 8) v->unsupported = kPartOfAddress;
  }

 private:
  static constexpr const char* kPartOfAddress = "a part of an address as initial value";

  void value(Variable* v, std::size_t* at) {
    const Level level(*this);
    if (failed()) return;
    if (accept("{")) {
      while (!failed() && !accept("}")) {
        value(v, at);
        accept(",");
      }
      return;
    }
    const std::size_t width = v->type.bytes();
    if (*at + width > v->init.size()) return error("too many initialisers for " + v->name);
    if (lexer_.peek().kind == Token::Kind::kWord) {
      const Variable::Relocation address = address_at(*at);
      if (width == 8)
        v->relocations.push_back(address);
      else
        v->unsupported = kPartOfAddress;
    } else {
      number(v, *at);
    }
    *at += width;
  }

  void number(Variable* v, std::size_t at) {
    const Operand value = literal();
    const std::size_t width = v->type.bytes();
    std::int64_t bits = value.integer;
    if (accept("(")) {
      const Variable::Relocation address = address_at(at);
      expect(")");
      return masked(v, static_cast<std::uint64_t>(bits), address);
    }
    if (value.kind == Operand::Kind::kFloat && value.float_bits == 64 && width == 4) {
      double d;
      std::memcpy(&d, &bits, 8);
      const float f = static_cast<float>(d);
      bits = 0;
      std::memcpy(&bits, &f, 4);
    }
    std::memcpy(v->init.data() + at, &bits, std::min<std::size_t>(width, 8));
  }

  /// One byte of an address: packed structures have all eight, one behind the other.
  void masked(Variable* v, std::uint64_t mask, const Variable::Relocation& address) {
    if (bytes_of_address_ == 8) {
      v->relocations.push_back(address);
      bytes_of_address_ = 0;
    }
    const Variable::Relocation& whole = v->relocations.back();
    const std::size_t byte = bytes_of_address_++;
    if (v->type.bytes() != 1 || mask != 0xFFull << (8 * byte) || whole.symbol != address.symbol ||
        whole.addend != address.addend || whole.offset_bytes + byte != address.offset_bytes) {
      v->unsupported = kPartOfAddress;
      bytes_of_address_ = 8;
    }
  }

  /// name, name+4, generic(name), generic(name)+8
  Variable::Relocation address_at(std::size_t at) {
    Token name = lexer_.take();
    if (name.text == "generic") {
      expect("(");
      name = lexer_.take();
      expect(")");
    }
    if (name.kind != Token::Kind::kWord)
      error_at(name, "expected a name, found \"" + std::string(name.text) + "\"");
    Variable::Relocation out{at, std::string(name.text), 0};
    if (accept("+") || lexer_.is("-")) out.addend = take_integer();
    return out;
  }

  std::size_t bytes_of_address_ = 8;  ///< of the one that masks are spelling out; 8 = none
};

}  // namespace sluice::softgpu::ptx
