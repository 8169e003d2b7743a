// What the stand-ins of the CUDA-X libraries say when a program calls what is not carried.
#pragma once

#include <atomic>

namespace sluice::libs {

/// The first refusal of a library is one warning in the log, with what to expect; of each other
/// function the first is a line for whoever asks for it (SLUICE_LOG=info). Thread-safe.
void refuse(const char* name, std::atomic<bool>& is_said) noexcept;

/// For functions that give a text.
inline constexpr const char* kText = "not carried to the server by Sluice";

}  // namespace sluice::libs
