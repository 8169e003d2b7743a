// Function bodies: register and variable declarations with nested scopes, labels, instructions.
#include "softgpu/ptx/opcodes.h"
#include "softgpu/ptx/parser_base.h"

namespace sluice::softgpu::ptx {
namespace {

bool is_builtin_function(const std::string& name) {
  return name == "vprintf" || name == "malloc" || name == "free" || name == "__assertfail";
}

class BodyParser : private ParserBase {
 public:
  BodyParser(const Module& module, const Function& function, Body* body)
      : ParserBase(module.text, function.body_begin, function.body_end, function.line),
        module_(module),
        body_(*body) {}

  std::optional<ParseError> run() {
    open_scope();
    while (!failed() && lexer_.peek().kind != Token::Kind::kEnd) statement();
    return error_;
  }

 private:
  struct Scope {
    std::map<std::string, int, std::less<>> registers;
    struct Range {
      std::string prefix;
      int first, count;
    };
    std::vector<Range> ranges;
    std::map<std::string, std::string, std::less<>>
        variables;  ///< name in the source -> unique name
    std::map<std::string, std::string, std::less<>>
        labels;  ///< likewise; for scopes within the body's
    std::size_t first_statement = 0;
  };

  void statement() {
    const Token token = lexer_.peek();
    if (accept("{")) {
      open_scope();
    } else if (accept("}")) {
      if (scopes_.size() > 1) close_scope();
    } else if (token.text == ".reg") {
      lexer_.take();
      registers();
    } else if (token.text == ".local" || token.text == ".shared" || token.text == ".param") {
      lexer_.take();
      variables(space_of(token.text));
    } else if (token.text == ".loc" || token.text == ".file") {
      skip_line(token.line);
    } else if (token.text == ".pragma") {
      skip_statement();
    } else if (!accept(";")) {
      label_or_instruction();
    }
  }

  void open_scope() {
    scopes_.emplace_back();
    scopes_.back().first_statement = body_.statements.size();
  }

  /// Labels of an inner scope are its own (the same inline assembly may occur twice): they get
  /// unique names here, where every jump to them has been read.
  void close_scope() {
    const Scope& scope = scopes_.back();
    for (std::size_t at = scope.first_statement;
         at < body_.statements.size() && !scope.labels.empty(); ++at) {
      Statement& s = body_.statements[at];
      const auto rename = [&](std::string* name) {
        if (const auto found = scope.labels.find(*name); found != scope.labels.end())
          *name = found->second;
      };
      if (s.is_label) rename(&s.label);
      for (std::string& target : s.targets) rename(&target);
      if (s.instruction.opcode != "bra" && s.instruction.opcode != "brx") continue;
      for (Operand& o : s.instruction.operands)
        if (o.kind == Operand::Kind::kSymbol) rename(&o.symbol);
    }
    scopes_.pop_back();
  }

  void registers() {
    Type type;
    const Token word = lexer_.take();
    if (word.text == ".v2" || word.text == ".v4") return unsupported_at(word, "vector registers");
    if (!word.text.starts_with(".") || !parse_type(std::string(word.text.substr(1)), &type))
      return error_at(word, "expected a register type, found \"" + std::string(word.text) + "\"");
    do {
      const std::string name(lexer_.take().text);
      if (accept("<")) {
        const auto count = static_cast<int>(take_integer());
        expect(">");
        if (count < 0 || count > 1000000) return error("impossible number of registers");
        scopes_.back().ranges.push_back(
            {name, static_cast<int>(body_.register_bits.size()), count});
        body_.register_bits.insert(body_.register_bits.end(), static_cast<std::size_t>(count),
                                   type.bits);
      } else {
        scopes_.back().registers[name] = static_cast<int>(body_.register_bits.size());
        body_.register_bits.push_back(type.bits);
      }
    } while (!failed() && accept(","));
    expect(";");
  }

  void variables(Space space) {
    do {
      const Token first = lexer_.peek();
      Variable v = declare(space);
      if (failed()) return;
      if (!v.unsupported.empty()) return unsupported_at(first, v.unsupported);
      const std::string unique = v.name + "#" + std::to_string(body_.variables.size());
      scopes_.back().variables[v.name] = unique;
      v.name = unique;
      body_.variables.push_back(std::move(v));
    } while (!failed() && accept(","));
    expect(";");
  }

  [[nodiscard]] int find_register(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->registers.find(name); found != scope->registers.end())
        return found->second;
      for (const Scope::Range& range : scope->ranges) {
        if (!name.starts_with(range.prefix) || name.size() == range.prefix.size() ||
            name.size() > range.prefix.size() + 8)
          continue;
        const std::string_view digits = name.substr(range.prefix.size());
        int number = 0;
        bool is_number = true;
        for (char c : digits) {
          is_number = is_number && c >= '0' && c <= '9';
          number = number * 10 + (c - '0');
        }
        if (is_number && number < range.count) return range.first + number;
      }
    }
    return -1;
  }

  [[nodiscard]] std::string unique_name(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->variables.find(name); found != scope->variables.end())
        return found->second;
    return std::string(name);
  }

  void label_or_instruction() {
    Statement s;
    s.instruction.line = lexer_.peek().line;
    if (accept("@")) {
      s.instruction.is_guard_negated = accept("!");
      const Token name = lexer_.take();
      s.instruction.guard = find_register(name.text);
      if (s.instruction.guard < 0)
        return error_at(name, "unknown predicate \"" + std::string(name.text) + "\"");
    }
    const Token word = lexer_.take();
    if (word.kind != Token::Kind::kWord)
      return error_at(word, "unexpected \"" + std::string(word.text) + "\"");
    if (s.instruction.guard < 0 && accept(":")) {
      s.is_label = true;
      s.label = word.text;
      if (scopes_.size() > 1)
        scopes_.back().labels[s.label] = s.label + "#" + std::to_string(body_.statements.size());
      if (accept(".branchtargets")) {
        do s.targets.emplace_back(lexer_.take().text);
        while (!failed() && accept(","));
        expect(";");
      } else if (lexer_.is(".callprototype") || lexer_.is(".calltargets")) {
        skip_statement();  // an instruction that uses it is unsupported where it stands
      }
      body_.statements.push_back(std::move(s));
      return;
    }
    split_opcode(word, &s.instruction);
    while (!failed() && !lexer_.is(";")) {
      s.instruction.operands.push_back(operand());
      if (!accept(",")) break;
    }
    expect(";");
    if (!failed() && s.instruction.opcode == "call") check_call(s.instruction);
    body_.statements.push_back(std::move(s));
  }

  void split_opcode(const Token& word, Instruction* out) {
    std::string_view rest = word.text;
    bool is_first = true;
    while (true) {
      const auto dot = rest.find('.');
      const std::string part(rest.substr(0, dot));
      if (is_first)
        out->opcode = part;
      else
        out->mods.push_back(part);
      is_first = false;
      if (dot == std::string_view::npos) break;
      rest.remove_prefix(dot + 1);
    }
    if (find_opcode(out->opcode) == nullptr)
      error_at(word, "unknown instruction \"" + std::string(word.text) + "\"");
  }

  void check_call(const Instruction& call) {
    for (const Operand& o : call.operands) {
      if (o.kind == Operand::Kind::kList) continue;
      if (o.kind != Operand::Kind::kSymbol) return;  // through a register: lower/ decides
      const auto found = module_.function_index.find(o.symbol);
      const bool is_defined =
          found != module_.function_index.end() && module_.functions[found->second].has_body;
      if (is_defined || is_builtin_function(o.symbol)) return;
      error_ = ParseError{ParseError::Kind::kUnresolved, call.line,
                          "call of the undefined function \"" + o.symbol + "\""};
      return;
    }
  }

  Operand operand() {
    const Level level(*this);
    Operand out;
    if (failed()) return out;
    const Token token = lexer_.peek();
    if (token.text == "[") return address();
    if (token.text == "{") return group(Operand::Kind::kVector, "{", "}");
    if (token.text == "(") return group(Operand::Kind::kList, "(", ")");
    if (accept("!")) {
      out = operand();
      out.is_negated = true;
      return out;
    }
    if (token.kind == Token::Kind::kNumber || token.text == "-") return literal();
    if (token.kind != Token::Kind::kWord) {
      error_at(token, "unexpected \"" + std::string(token.text) + "\"");
      return out;
    }
    lexer_.take();
    out = word_operand(token);
    if (accept("|")) {
      Operand pair;
      pair.kind = Operand::Kind::kPair;
      pair.parts = {out, operand()};
      return pair;
    }
    return out;
  }

  Operand word_operand(const Token& token) {
    Operand out;
    if (token.text == "_") return out;
    if (token.text == "WARP_SZ") {
      out.kind = Operand::Kind::kInteger;
      out.integer = 32;
      return out;
    }
    out.reg = find_register(token.text);
    if (out.reg >= 0) {
      out.kind = Operand::Kind::kRegister;
      return out;
    }
    if (token.text.starts_with("%")) {
      out.kind = Operand::Kind::kSpecial;
      out.symbol = token.text;
      return out;
    }
    out.kind = Operand::Kind::kSymbol;
    out.symbol = unique_name(token.text);
    if (accept("+")) out.integer = take_integer();
    return out;
  }

  Operand address() {
    Operand out;
    expect("[");
    if (lexer_.peek().kind == Token::Kind::kNumber || lexer_.is("-")) {
      out.integer = take_integer();
    } else {
      const Operand base = word_operand(lexer_.take());
      out.reg = base.reg;
      out.symbol = base.symbol;
      out.integer = base.integer;
      if (base.kind != Operand::Kind::kRegister && base.kind != Operand::Kind::kSymbol)
        error("malformed address");
      if (accept("+"))
        out.integer += take_integer();
      else if (lexer_.is("-"))
        out.integer += take_integer();
    }
    while (!failed() && accept(","))
      out.parts.push_back(operand());  // coordinates of texture instructions
    expect("]");
    out.kind = Operand::Kind::kAddress;
    return out;
  }

  Operand group(Operand::Kind kind, std::string_view open, std::string_view close) {
    Operand out;
    out.kind = kind;
    expect(open);
    while (!failed() && !accept(close)) {
      out.parts.push_back(operand());
      accept(",");
    }
    return out;
  }

  const Module& module_;
  Body& body_;
  std::vector<Scope> scopes_;
};

}  // namespace

std::optional<ParseError> parse_body(const Module& module, const Function& function, Body* out) {
  return BodyParser(module, function, out).run();
}

}  // namespace sluice::softgpu::ptx
