// What the parser makes of PTX: module-scope variables, function signatures, and bodies as lists of
// instructions over densely numbered registers. Nothing here knows LLVM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace sluice::softgpu::ptx {

enum class Space : std::uint8_t { kNone, kGlobal, kConst, kShared, kLocal, kParam };

/// A PTX fundamental type: kind letter (b u s f p=pred h=bf16) and width; f16x2/bf16x2 have
/// lanes 2.
struct Type {
  char kind = 0;
  std::uint16_t bits = 0;
  std::uint8_t lanes = 1;
  [[nodiscard]] bool is_float() const { return kind == 'f' || kind == 'h'; }
  [[nodiscard]] bool is_signed() const { return kind == 's'; }
  [[nodiscard]] std::uint32_t bytes() const { return bits <= 8 ? 1 : bits / 8u; }
  bool operator==(const Type&) const = default;
};
/// ".f32" without the dot; false if it is no type name.
bool parse_type(const std::string& word, Type* out);

struct Variable {
  std::string name;
  Space space = Space::kNone;
  Type type;
  std::size_t size_bytes = 0;
  std::size_t align_bytes = 1;
  bool is_extern = false, is_visible = false;
  bool is_register = false;  ///< parameter declared as .reg
  std::vector<std::byte> init;
  struct Relocation {
    std::size_t offset_bytes = 0;
    std::string symbol;
    std::int64_t addend = 0;
  };
  std::vector<Relocation> relocations;
  std::string unsupported;  ///< why kernels that use it cannot run: ".texref variables"
};

struct Operand {
  enum class Kind : std::uint8_t {
    kRegister,  ///< reg; negated for predicates
    kInteger,   ///< integer (also the bits of float literals, with float_bits)
    kFloat,     ///< integer holds the bits of a double (float_bits 64) or float (32)
    kSymbol,    ///< symbol + offset: a variable, function or label
    kAddress,   ///< [reg + offset] or [symbol + offset] or [offset]
    kVector,    ///< {a, b, ...} in parts
    kSpecial,   ///< symbol, e.g. "%tid.x"
    kList,      ///< (a, b) of a call in parts
    kPair,      ///< p|q in parts
    kSink,      ///< _
  };
  Kind kind = Kind::kSink;
  int reg = -1;
  bool is_negated = false;
  std::int64_t integer = 0;  ///< immediate, or offset of kAddress/kSymbol
  int float_bits = 0;
  std::string symbol;
  std::vector<Operand> parts;
};

struct Instruction {
  std::string opcode;             ///< "ld"
  std::vector<std::string> mods;  ///< "global", "v2", "f32"
  int guard = -1;
  bool is_guard_negated = false;
  std::vector<Operand> operands;
  int line = 0;
  [[nodiscard]] bool has(const char* mod) const;
  [[nodiscard]] std::string text() const;  ///< "ld.global.v2.f32"
};

struct Statement {
  bool is_label = false;
  std::string label;
  std::vector<std::string> targets;  ///< of "label: .branchtargets ...;"
  Instruction instruction;
};

struct Function {
  std::string name;
  bool is_entry = false, has_body = false;
  std::vector<Variable> params, returns;
  std::uint32_t max_threads = 1024;
  int line = 0;
  std::size_t body_begin = 0, body_end = 0;  ///< bytes of the text between the braces
  std::string unsupported;  ///< why kernels that reach it cannot run: "line 7: cluster launches"
};

/// A pointer to the function of this number (Module::functions) holds the address of the module's
/// functions, which the program chooses, and this.
constexpr std::uint64_t function_offset(std::size_t number) {
  return 16 * (number + 1);
}

struct Body {
  std::vector<std::uint16_t> register_bits;  ///< width by register number; 1 = predicate
  std::vector<Variable>
      variables;  ///< .local/.shared/.param of the body, names unique within the function
  std::vector<Statement> statements;
};

struct Module {
  std::string text;
  int version = 0;  ///< 90 = 9.0
  int target_sm = 0;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::map<std::string, std::size_t> function_index, variable_index;
  std::set<std::size_t> pointed_to;  ///< functions whose address code or a variable takes
};

}  // namespace sluice::softgpu::ptx
