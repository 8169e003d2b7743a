// How `sluice run` ends when the program itself did not (docs/configuration.md).
#pragma once

namespace sluice::tool {

inline constexpr int kExitUsage = 2;   ///< wrong options, or no server named
inline constexpr int kExitServer = 3;  ///< unreachable, or it refused: tenant, token, version
inline constexpr int kExitUnsuitable =
    4;  ///< the program cannot be carried (static, stripped, setuid, other machine)
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

}  // namespace sluice::tool
