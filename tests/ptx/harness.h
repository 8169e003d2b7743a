// Loads PTX into softgpu's compiler without the driver API on top: gives globals their memory,
// launches kernels.
#pragma once

#include "softgpu/exec/program.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sluice::softgpu::test {

/// The header that every small test needs.
inline const std::string kHeader = ".version 8.0\n.target sm_90\n.address_size 64\n";

class Loaded {
 public:
  /// Adds a test failure and stays empty if the text does not load.
  explicit Loaded(const std::string& ptx);

  [[nodiscard]] bool ok() const { return program_ != nullptr; }
  Program& program() { return *program_; }
  [[nodiscard]] int find(const std::string& kernel) const;
  std::byte* global(const std::string& name) { return globals_.at(name).data; }

  /// Err is kFailed with prepare's message.
  LaunchResult run(const std::string& kernel, LaunchConfig config);
  template <class... Args>
  LaunchResult run(const std::string& kernel, Dim3 grid, Dim3 block, Args... args) {
    LaunchConfig config;
    config.grid = grid;
    config.block = block;
    (push(&config.params, args), ...);
    return run(kernel, std::move(config));
  }

  template <class T>
  static void push(std::vector<std::byte>* params, T value) {
    params->resize((params->size() + alignof(T) - 1) / alignof(T) * alignof(T));
    const auto at = params->size();
    params->resize(at + sizeof value);
    std::memcpy(params->data() + at, &value, sizeof value);
  }

 private:
  struct Memory {
    std::vector<std::byte> bytes;
    std::byte* data = nullptr;
  };
  std::unique_ptr<Program> program_;
  std::map<std::string, Memory> globals_;
};

/// The log of a text that must not load.
LoadError load_error(const std::string& ptx);
/// prepare()'s message of the only kernel; empty if it can run.
std::string prepare_error(const std::string& ptx);

}  // namespace sluice::softgpu::test
