// One PTX function being lowered. The members are grouped by the file that implements them.
#pragma once

#include "softgpu/exec/context.h"
#include "softgpu/lower/lower.h"
#include "softgpu/lower/reach.h"

#include <llvm/IR/IRBuilder.h>

#include <map>
#include <optional>
#include <vector>

namespace sluice::softgpu::lower {

/// State shared by the functions of one kernel's LLVM module.
struct ModuleState {
  const ptx::Module& ptx;
  llvm::Module& llvm;
  std::string kernel;
  std::map<std::string, llvm::Function*> functions;
  std::map<std::string, std::uint32_t>
      shared_offsets;  ///< static shared variables: function-unique name -> offset
  std::uint32_t shared_bytes = 0, local_bytes = 0;
  std::string error;              ///< first unsupported thing
  std::uint32_t sites = 0;        ///< places to suspend so far
  bool checks_alignment = false;  ///< SOFTGPU_STRICT
};

/// The ThreadRecord of the thread that runs `f`, one of the functions with (context, index).
llvm::Value* record_of_thread(llvm::IRBuilder<>& b, llvm::Function* f);

class FunctionLowering {
 public:
  FunctionLowering(ModuleState& state, const ptx::Function& function, const ptx::Body& body,
                   llvm::Function* out);
  void run();

 private:
  using Value = llvm::Value;
  using Instruction = ptx::Instruction;
  using Operand = ptx::Operand;
  using Type = ptx::Type;

  // function.cpp: set-up, registers, statements, jumps
  void declare_registers();
  void declare_variables();
  void statement(const ptx::Statement& s);
  void instruction(const Instruction& i);
  bool is_lowered(const Instruction& i);
  bool control(const Instruction& i);
  bool branch_by_index(const Instruction& i);
  llvm::BasicBlock* block(const std::string& label);
  void unsupported(const Instruction& i, const std::string& why = {});
  llvm::FunctionCallee helper(const std::string& name, llvm::Type* result,
                              const std::vector<llvm::Type*>& args);
  Value* call_helper(const std::string& name, llvm::Type* result, const std::vector<Value*>& args);

  // call.cpp
  void call(const Instruction& i);
  void call_through_pointer(Value* pointer, const std::vector<Value*>& values,
                            const Signature& signature);
  void call_builtin(const Instruction& i, const std::string& name, const Operand* results,
                    const Operand* args);
  bool builtin_arguments(const Operand* args, std::vector<unsigned> bits, std::vector<Value*>* out);
  Value* parameter_address(const Operand& o);

  // special.cpp: special registers
  Value* special(const Instruction& i, const std::string& name);
  Value* context_u32(std::size_t offset_bytes);
  Value* context_pointer(std::size_t offset_bytes);

  // operand.cpp
  Value* get(const Instruction& i, const Operand& o, Type type);
  Value* get_bits(const Instruction& i, const Operand& o, unsigned bits);
  Value* get_predicate(const Instruction& i, const Operand& o);
  void set(const Instruction& i, const Operand& o, Value* value, Type type);
  Value* symbol_address(const Instruction& i, const std::string& symbol);
  Value* functions_address();
  llvm::Type* llvm_type(Type type);
  std::optional<Type> last_type(const Instruction& i, std::size_t from_end = 0);

  // arithmetic.cpp
  bool arithmetic(const Instruction& i);
  bool integer_arithmetic(const Instruction& i, Type type);
  bool float_arithmetic(const Instruction& i, Type type);
  Value* rounded(const Instruction& i, const char* op, Type type, const std::vector<Value*>& args,
                 Value* nearest);
  Value* finish_float(const Instruction& i, Type type, Value* value);
  Value* float_operand(const Instruction& i, const Operand& o, Type type);
  void wide_multiply(const Instruction& i, Type type, bool is_mad);
  void carry(const Instruction& i, Type type);
  bool approximate(const Instruction& i);
  Value* extremum(const Instruction& i, Value* a, Value* b);
  Value* divide(Value* a, Value* b, Type type, bool is_remainder);
  Value* shift(const Instruction& i, Value* value, Value* amount, Type type);

  // bits.cpp: bfe, prmt, lop3, shf, popc, dp4a…
  bool bits(const Instruction& i);
  bool dot_product(const Instruction& i);

  // video.cpp: vadd2, vabsdiff4…
  bool video(const Instruction& i);
  Value* video_lane(const std::string& op, Value* a, Value* b);

  // half.cpp: f16, bf16 and their packed pairs
  bool half_arithmetic(const Instruction& i, Type type);
  Value* half_lane(const Instruction& i, const std::vector<Value*>& args, Type lane);
  Value* widen_half(const Instruction& i, Value* bits, Type lane);
  Value* narrow_half(const Instruction& i, Value* value, Type lane);
  std::vector<Value*> half_lanes(const Instruction& i, const Operand& o, Type type);

  // compare.cpp: setp, set, selp, slct
  bool compare(const Instruction& i);
  bool set_predicate(const Instruction& i, Type type);
  bool set_half(const Instruction& i, const std::vector<Value*>& lanes, Type from, Type to);
  bool predicate_logic(const Instruction& i);
  Value* comparison(const Instruction& i, const std::string& op, Value* a, Value* b, Type type);

  // convert.cpp: cvt
  bool convert(const Instruction& i);
  bool convert_to_half(const Instruction& i, Type from, Type to);
  bool pack(const Instruction& i);
  Value* float_to_integer(const Instruction& i, Value* v, Type from, Type to);
  Value* integer_to_float(const Instruction& i, Value* v, Type from, Type to);
  Value* float_to_float(const Instruction& i, Value* v, Type from, Type to);
  Value* integer_to_integer(Value* v, Type from, Type to, bool is_saturating);

  // narrow.cpp: cvt to and from tf32 and 8-bit floats
  bool convert_narrow(const Instruction& i);
  bool convert_to_tf32(const Instruction& i);
  bool convert_to_float8(const Instruction& i, Type from);
  bool convert_from_float8(const Instruction& i, Type to);
  Value* to_float8(const Instruction& i, Value* v, bool is_e4m3);

  // memory.cpp: ld, st, cvta, isspacep, fences
  bool memory(const Instruction& i);
  Value* address(const Instruction& i, const Operand& o, ptx::Space space, std::uint32_t bytes);
  void check_alignment(Value* at, std::uint32_t bytes);
  ptx::Space space_of(const Instruction& i);
  void load(const Instruction& i);
  void store(const Instruction& i);
  bool convert_address(const Instruction& i);

  // async.cpp: cp.async, mbarrier
  bool copy_async(const Instruction& i);
  bool memory_barrier_object(const Instruction& i);
  Value* barrier_address(const Instruction& i, const Operand& o);
  Value* barrier_word(Value* at);
  Value* arrive(Value* at, Value* count, bool is_leaving);

  // atomic.cpp: atom, red
  bool atomic(const Instruction& i);
  Value* read_modify_write(const Instruction& i, Type type, Value* at, const Operand& source);
  bool is_read(int reg);
  void note_reads(const Operand& o, bool is_target);

  // collective.cpp: barriers and warp collectives
  bool collective(const Instruction& i);
  bool warp_barrier(const Instruction& i);
  bool barrier(const Instruction& i);
  bool shuffle(const Instruction& i);
  bool vote(const Instruction& i);
  bool match(const Instruction& i);
  bool reduce(const Instruction& i);

  // matrix.cpp: mma, wmma, ldmatrix
  bool matrix(const Instruction& i);
  bool mma(const Instruction& i);
  bool wmma_transfer(const Instruction& i);
  bool wmma_multiply(const Instruction& i);
  bool load_matrix(const Instruction& i);
  Value* matrix_operands();
  Value* matrix_field(std::size_t offset_bytes);
  void put_registers(const Instruction& i, const Operand& o, std::size_t offset_bytes);
  void take_registers(const Instruction& i, const Operand& o, std::size_t offset_bytes);
  void multiply(const Instruction& i, std::uint32_t shape);
  std::size_t register_bytes(const Operand& o);

  /// Null operands are not written.
  void suspend(const Instruction& i, Wait wait, std::uint32_t operation, Value* mask, Value* count,
               Value* b, Value* a);
  void suspend_lanes(const Instruction& i, WarpOperation operation, Value* mask, Value* c, Value* b,
                     Value* a);
  void set_result(const Instruction& i, const Operand& o, unsigned bits);
  void set_predicate_result(const Instruction& i, const Operand& o);
  Value* record_field(std::size_t offset_bytes);
  Value* record_u32(std::size_t offset_bytes);

  ModuleState& state_;
  const ptx::Function& function_;
  const ptx::Body& body_;
  llvm::Function* out_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  std::vector<llvm::AllocaInst*> registers_;
  llvm::AllocaInst* carry_ = nullptr;
  std::map<std::string, Value*>
      local_addresses_;  ///< .local and .param variables of the body, parameters of the function
  std::map<std::string, llvm::BasicBlock*> blocks_;
  std::map<std::string, std::vector<std::string>> branch_targets_;
  Value* block_context_ = nullptr;
  Value* record_ = nullptr;
  std::vector<bool> read_registers_;  ///< filled when first asked
  Value* thread_[3] = {};
  llvm::AllocaInst* matrix_operands_ = nullptr;  ///< MatrixOperands, made when first used
};

}  // namespace sluice::softgpu::lower
