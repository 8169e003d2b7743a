// Module scope: directives, variables with initialisers, signatures.
#include "softgpu/ptx/parser.h"

#include "softgpu/ptx/initialiser.h"

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

class ModuleParser : private InitialiserParser {
 public:
  explicit ModuleParser(Module* module)
      : InitialiserParser(module->text, 0, module->text.size(), 1), module_(*module) {}

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
    } else if (word == ".file" || word == ".loc") {
      skip_line(token.line);
    } else if (word == ".alias") {
      alias();
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
    } else if (word == ".tex") {  // of the time before .texref
      variable(Space::kGlobal);
      if (!failed()) module_.variables.back().unsupported = ".tex variables";
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
    if (module_.version <= 0) return error("malformed .version");
    if (module_.version > kPtxVersionMax && !failed())
      error_ =
          ParseError{ParseError::Kind::kVersion, lexer_.peek().line,
                     "PTX version " + number + " is newer than what this driver understands (9.2)"};
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

  void function(bool is_entry, int line) {
    Function f;
    f.is_entry = is_entry;
    f.line = line;
    if (!is_entry && lexer_.is("(")) f.returns = parameter_list();
    f.name = lexer_.take().text;
    if (lexer_.is("(")) f.params = parameter_list();
    for (const auto* list : {&f.returns, &f.params})
      for (const Variable& v : *list) needs(&f, line, v.unsupported);
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
    static constexpr std::string_view kHints[] = {
        ".minnctapersm", ".maxnctapersm", ".maxnreg",      ".maxclusterrank",
        ".noreturn",     ".attribute",    ".abi_preserve", ".abi_preserve_control"};
    const Token token = lexer_.take();
    if (token.kind == Token::Kind::kEnd) return error("unexpected end of the text");
    if (token.text == ".pragma") {
      lexer_.take();
      return expect(";");
    }
    if (!token.text.starts_with("."))
      return error_at(token, "unexpected \"" + std::string(token.text) + "\"");
    if (lexer_.is("(")) skip_parentheses();
    std::uint64_t product = 1;
    while (!failed() && lexer_.peek().kind == Token::Kind::kNumber) {
      product *= static_cast<std::uint64_t>(take_integer());
      accept(",");
    }
    if (token.text == ".maxntid" || token.text == ".reqntid")
      f->max_threads = static_cast<std::uint32_t>(std::min<std::uint64_t>(product, 1024));
    else if (token.text == ".reqnctapercluster")
      needs(f, token.line, product == 1 ? "" : "clusters of blocks");
    else if (token.text != ".explicitcluster" &&
             std::ranges::find(kHints, token.text) == std::end(kHints))
      needs(f, token.line, "the attribute " + std::string(token.text));
  }

  static void needs(Function* f, int line, const std::string& what) {
    if (f->unsupported.empty() && !what.empty())
      f->unsupported = "line " + std::to_string(line) + ": " + what;
  }

  /// .alias name, function;
  void alias() {
    const std::string name(lexer_.take().text);
    expect(",");
    const Token function = lexer_.take();
    const auto found = module_.function_index.find(std::string(function.text));
    if (found == module_.function_index.end())
      return error_at(function,
                      "alias of the unknown function \"" + std::string(function.text) + "\"");
    const std::size_t number = found->second;
    module_.function_index[name] = number;
    expect(";");
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

/// Functions that are not called but named: their address is taken.
void note_pointers(Module* module, const Body& body) {
  for (const Statement& s : body.statements) {
    if (s.is_label || s.instruction.opcode == "call") continue;
    for (const Operand& o : s.instruction.operands) {
      const auto found = module->function_index.find(o.symbol);
      if (o.kind == Operand::Kind::kSymbol && found != module->function_index.end())
        module->pointed_to.insert(found->second);
    }
  }
}

/// What a variable points to can be used by whoever can use the variable.
void spread_unsupported(Module* module) {
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (Variable& v : module->variables)
      for (const Variable::Relocation& r : v.relocations) {
        const auto found = module->variable_index.find(r.symbol);
        if (found == module->variable_index.end() || !v.unsupported.empty()) continue;
        v.unsupported = module->variables[found->second].unsupported;
        is_changed = is_changed || !v.unsupported.empty();
      }
  }
}

}  // namespace

std::optional<ParseError> parse_module(std::string text, Module* out) {
  out->text = std::move(text);
  if (auto error = ModuleParser(out).run()) return error;
  spread_unsupported(out);
  for (const Variable& v : out->variables)
    for (const Variable::Relocation& r : v.relocations)
      if (const auto found = out->function_index.find(r.symbol); found != out->function_index.end())
        out->pointed_to.insert(found->second);
  for (Function& f : out->functions) {
    if (!f.has_body) continue;
    Body body;
    const auto error = parse_body(*out, f, &body);
    if (error && error->kind != ParseError::Kind::kUnsupported) return error;
    if (error && f.unsupported.empty()) f.unsupported = error->text();
    note_pointers(out, body);
  }
  return std::nullopt;
}

}  // namespace sluice::softgpu::ptx
