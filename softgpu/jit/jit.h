// Compiles one kernel's LLVM module to machine code with ORC and finds its entry.
#pragma once

#include "common/result.h"
#include "softgpu/lower/lower.h"

#include <map>
#include <memory>
#include <string>

namespace sluice::softgpu {

/// The compiled kernels of one PTX module. Externally locked.
class CodeUnit {
 public:
  virtual ~CodeUnit() = default;
  /// Address that external symbols (module variables) resolve to; before the first compile().
  virtual Status define(const std::map<std::string, void*>& symbols) = 0;
  virtual Result<void*> compile(std::unique_ptr<llvm::Module> module,
                                std::unique_ptr<llvm::LLVMContext> context,
                                const std::string& entry) = 0;
};

Result<std::unique_ptr<CodeUnit>> make_code_unit();

}  // namespace sluice::softgpu
