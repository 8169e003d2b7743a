// Module scope: directives, variables with initialisers, signatures.
#include "softgpu/ptx/parser.h"

#include "softgpu/ptx/parser_base.h"

#include <algorithm>
#include <cstdlib>

namespace sluice::softgpu::ptx {

std::string ParseError::text() const {
  return "line " + std::to_string(line) + ": " + message;
}

bool Instruction::has(const char* mod) const {
  return std::find(mods.begin(), mods.end(), mod) != mods.end();
}

std::string Instruction::text() const {
  std::string out = opcode;
  for (const std::string& mod : mods) out += "." + mod;
  return out;
}

bool parse_type(const std::string& word, Type* out) {
  static const std::map<std::string, Type> kTypes = {
      {"pred", {'p', 1}}, {"b8", {'b', 8}},     {"b16", {'b', 16}},      {"b32", {'b', 32}},
      {"b64", {'b', 64}}, {"b128", {'b', 128}}, {"u8", {'u', 8}},        {"u16", {'u', 16}},
      {"u32", {'u', 32}}, {"u64", {'u', 64}},   {"s8", {'s', 8}},        {"s16", {'s', 16}},
      {"s32", {'s', 32}}, {"s64", {'s', 64}},   {"f16", {'f', 16}},      {"f32", {'f', 32}},
      {"f64", {'f', 64}}, {"bf16", {'h', 16}},  {"f16x2", {'f', 32, 2}}, {"bf16x2", {'h', 32, 2}}};
  const auto found = kTypes.find(word);
  if (found == kTypes.end()) return false;
  *out = found->second;
  return true;
}

namespace {

class ModuleParser : private ParserBase {
 public:
  explicit ModuleParser(Module* module)
      : ParserBase(module->text, 0, module->text.size(), 1), module_(*module) {}

  std::optional<ParseError> run() {
    while (!failed() && lexer_.peek().kind != Token::Kind::kEnd) directive();
    if (!failed() && (module_.version == 0 || module_.target_sm == 0))
      error("this is no PTX: .version and .target are required");
    return error_;
  }

 private:
  void directive() {
    const Token token = lexer_.take();
    const std::string word(token.text);
    if (word == ".version") return version();
    if (word == ".target") return target();
    if (module_.version == 0) return error_at(token, "expected .version, found \"" + word + "\"");
    if (word == ".address_size") {
      if (take_integer() != 64) error("only .address_size 64 is supported");
    } else if (word == ".file" || word == ".loc" || word == ".alias") {
      skip_line(token.line);
    } else if (word == ".pragma") {
      skip_statement();
    } else if (word == ".section") {
      while (lexer_.peek().kind != Token::Kind::kEnd && !lexer_.is("{")) lexer_.take();
      skip_braces();
    } else if (word == ".visible" || word == ".extern" || word == ".weak" || word == ".common") {
      is_visible_ = is_visible_ || word != ".extern";
      is_extern_ = word == ".extern";
      return;  // belongs to what follows
    } else if (word == ".entry" || word == ".func") {
      function(word == ".entry", token.line);
    } else if (word == ".global" || word == ".const" || word == ".shared" || word == ".local") {
      variable(space_of(word));
    } else if (word != ";") {
      error_at(token, "unexpected \"" + word + "\" at module scope");
    }
    is_visible_ = is_extern_ = false;
  }

  /// Versions and targets: whatever the text says, nothing that overflows later.
  static int small_number(const char* digits) {
    return static_cast<int>(std::clamp(std::strtol(digits, nullptr, 10), 0L, 99'999L));
  }

  void version() {
    const std::string number(lexer_.take().text);
    const auto dot = number.find('.');
    module_.version = 10 * small_number(number.c_str()) +
                      (dot == std::string::npos ? 0 : small_number(number.c_str() + dot + 1));
    if (module_.version <= 0) error("malformed .version");
    if (module_.version > kPtxVersionMax) {
      error("PTX version " + number + " is newer than what this driver understands (9.2)");
      error_->kind = ParseError::Kind::kVersion;
    }
  }

  void target() {
    const std::string name(lexer_.take().text);
    if (!name.starts_with("sm_") && !name.starts_with("compute_"))
      return error("malformed .target \"" + name + "\"");
    module_.target_sm = small_number(name.c_str() + name.find('_') + 1);
    while (accept(",")) lexer_.take();
  }

  void variable(Space space) {
    do {
      Variable v = declare(space);
      if (failed()) return;
      v.is_visible = is_visible_;
      v.is_extern = is_extern_;
      if (accept("=")) initialiser(&v);
      module_.variable_index[v.name] = module_.variables.size();
      module_.variables.push_back(std::move(v));
    } while (!failed() && accept(","));
    expect(";");
  }

  void initialiser(Variable* v) {
    v->init.assign(v->size_bytes, std::byte{0});
    std::size_t at = 0;
    init_value(v, &at);
  }

  void init_value(Variable* v, std::size_t* at) {
    if (accept("{")) {
      while (!failed() && !accept("}")) {
        init_value(v, at);
        accept(",");
      }
      return;
    }
    const std::size_t width = v->type.bytes();
    if (*at + width > v->init.size()) return error("too many initialisers for " + v->name);
    const Token token = lexer_.peek();
    if (token.kind == Token::Kind::kWord) {
      init_address(v, *at);
    } else {
      const Operand value = literal();
      std::int64_t bits = value.integer;
      if (value.kind == Operand::Kind::kFloat && value.float_bits == 64 && width == 4) {
        double d;
        std::memcpy(&d, &bits, 8);
        const float f = static_cast<float>(d);
        bits = 0;
        std::memcpy(&bits, &f, 4);
      }
      std::memcpy(v->init.data() + *at, &bits, std::min<std::size_t>(width, 8));
    }
    *at += width;
  }

  /// name, name+4, generic(name), generic(name)+8, mask(…) is not supported
  void init_address(Variable* v, std::size_t at) {
    std::string name(lexer_.take().text);
    if (name == "generic") {
      expect("(");
      name = lexer_.take().text;
      expect(")");
    }
    Variable::Relocation relocation{at, name, 0};
    if (accept("+")) relocation.addend = take_integer();
    if (v->type.bytes() != 8) return error("an address needs a 64-bit variable");
    v->relocations.push_back(relocation);
  }

  void function(bool is_entry, int line) {
    Function f;
    f.is_entry = is_entry;
    f.line = line;
    if (!is_entry && lexer_.is("(")) f.returns = parameter_list();
    f.name = lexer_.take().text;
    if (lexer_.is("(")) f.params = parameter_list();
    while (!failed() && !lexer_.is("{") && !lexer_.is(";")) function_directive(&f);
    if (failed()) return;
    if (accept(";")) {
      f.has_body = false;
    } else {
      f.has_body = true;
      f.line = lexer_.peek().line;
      f.body_begin = lexer_.peek().offset + 1;
      skip_braces();
      f.body_end = last_closing_;
    }
    const auto known = module_.function_index.find(f.name);
    if (known == module_.function_index.end()) {
      module_.function_index[f.name] = module_.functions.size();
      module_.functions.push_back(std::move(f));
    } else if (f.has_body) {
      module_.functions[known->second] = std::move(f);
    }
  }

  void function_directive(Function* f) {
    const Token token = lexer_.take();
    if (token.text == ".maxntid" || token.text == ".reqntid") {
      std::uint64_t threads = static_cast<std::uint64_t>(take_integer());
      while (accept(",")) threads *= static_cast<std::uint64_t>(take_integer());
      f->max_threads = static_cast<std::uint32_t>(std::min<std::uint64_t>(threads, 1024));
    } else if (token.text == ".pragma") {
      lexer_.take();
      expect(";");
    } else if (token.kind == Token::Kind::kEnd) {
      error("unexpected end of the text");
    }  // .minnctapersm 1, .maxnreg 32, .noreturn …: hints
  }

  std::vector<Variable> parameter_list() {
    std::vector<Variable> out;
    expect("(");
    while (!failed() && !accept(")")) {
      const std::string word(lexer_.take().text);
      if (word != ".param" && word != ".reg") {
        error("expected .param, found \"" + word + "\"");
        break;
      }
      out.push_back(declare(Space::kParam));
      out.back().is_register = word == ".reg";
      accept(",");
    }
    return out;
  }

  Module& module_;
  bool is_visible_ = false, is_extern_ = false;
};

}  // namespace

std::optional<ParseError> parse_module(std::string text, Module* out) {
  out->text = std::move(text);
  if (auto error = ModuleParser(out).run()) return error;
  for (const Function& f : out->functions) {
    if (!f.has_body) continue;
    Body body;
    if (auto error = parse_body(*out, f, &body)) return error;
  }
  return std::nullopt;
}

}  // namespace sluice::softgpu::ptx
