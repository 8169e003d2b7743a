#include "tests/ptx/harness.h"

#include <gtest/gtest.h>

namespace sluice::softgpu::test {

Loaded::Loaded(const std::string& ptx) {
  auto loaded = Program::load(ptx);
  if (!loaded) {
    ADD_FAILURE() << loaded.error().log;
    return;
  }
  program_ = std::move(*loaded);
  for (const GlobalVariable& g : program_->globals()) {
    Memory& m = globals_[g.name];
    m.bytes.resize(g.size_bytes + g.align_bytes);
    void* at = m.bytes.data();
    std::size_t space = m.bytes.size();
    m.data = static_cast<std::byte*>(std::align(g.align_bytes, g.size_bytes, at, space));
    if (!g.init.empty()) std::memcpy(m.data, g.init.data(), g.init.size());
    program_->set_address(g.name, m.data);
  }
  for (const GlobalVariable& g : program_->globals())
    for (const auto& r : g.relocations) {
      const std::byte* target = global(r.symbol) + r.addend;
      std::memcpy(global(g.name) + r.offset_bytes, &target, sizeof target);
    }
}

int Loaded::find(const std::string& kernel) const {
  const auto& kernels = program_->kernels();
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (kernels[k].name == kernel) return static_cast<int>(k);
  return -1;
}

LaunchResult Loaded::run(const std::string& kernel, LaunchConfig config) {
  const int index = find(kernel);
  if (index < 0) return {LaunchOutcome::kFailed, "no kernel " + kernel};
  const auto at = static_cast<std::size_t>(index);
  if (const Status status = program_->prepare(at); !status)
    return {LaunchOutcome::kFailed, status.error().message};
  config.params.resize(program_->kernels()[at].param_bytes);
  return program_->run(at, config);
}

LoadError load_error(const std::string& ptx) {
  auto loaded = Program::load(ptx);
  if (loaded) {
    ADD_FAILURE() << "this was loaded:\n" << ptx;
    return {};
  }
  return loaded.error();
}

std::string prepare_error(const std::string& ptx) {
  Loaded loaded(ptx);
  if (!loaded.ok()) return "not loaded";
  const Status status = loaded.program().prepare(0);
  return status ? "" : status.error().message;
}

}  // namespace sluice::softgpu::test
