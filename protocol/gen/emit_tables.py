"""driver/driver_table.{h,cpp}, proc_table.{h,cpp}, the weak fallback stubs, aliases and the version scripts."""
import re

from emit_shim import alias_source
from emit_wire import BANNER


def driver_table_header(functions):
    rows = "".join(f"  decltype(&::{name}) {name} = nullptr;\n" for name in sorted(functions))
    return (BANNER + "#pragma once\n\n#include \"common/result.h\"\n\n#include <cuda.h>\n\nnamespace sluice {\n\n"
            "/// Every function of a libcuda.so.1 by name; null where that driver lacks it.\n"
            "#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored \"-Wdeprecated-declarations\"\n"
            f"struct DriverTable {{\n{rows}}};\n#pragma GCC diagnostic pop\n\n"
            "/// Looks every name up in an open library. Err(kNotFound) if it is no CUDA driver (cuInit or cuDeviceGet is missing).\n"
            "Status load_driver_table(void* library, DriverTable* table);\n\n}  // namespace sluice\n")


def driver_table_source(functions):
    rows = "".join(f"  find(library, \"{name}\", &table->{name});\n" for name in sorted(functions))
    return (BANNER + "#include \"driver/driver_table.h\"\n\n#include <dlfcn.h>\n\nnamespace sluice {\nnamespace {\n\n"
            "template <class Function>\nvoid find(void* library, const char* name, Function* out) {\n"
            "  *out = reinterpret_cast<Function>(dlsym(library, name));\n}\n\n}  // namespace\n\n"
            "Status load_driver_table(void* library, DriverTable* table) {\n" + rows +
            "  if (table->cuInit == nullptr || table->cuDeviceGet == nullptr)\n"
            "    return fail(ErrorCode::kNotFound, \"this library is no CUDA driver: it has no cuInit or cuDeviceGet\");\n"
            "  return {};\n}\n\n}  // namespace sluice\n")


def proc_rows(versions, exported):
    """[(base, version, symbol, per-thread symbol or None, its version)]: newest version gets the newest existing suffix."""
    names = set(exported)
    rows = []
    for base, pairs in sorted(versions.items()):
        plain = [v for v, per_thread in pairs if not per_thread]
        symbols = [base] + [f"{base}_v{i}" for i in range(2, 9)]
        symbols = [s for s in symbols if s in names]
        for version, symbol in zip(reversed(plain), reversed(symbols)):
            rows.append((base, version, symbol, 0))
        threaded = [v for v, per_thread in pairs if per_thread]
        per = [s + end for s in symbols for end in ("_ptds", "_ptsz") if s + end in names]
        for version, symbol in zip(reversed(threaded), reversed(per)):
            rows.append((base, version, symbol, 1))
    return sorted(rows)


def proc_table_source(rows):
    declared = "".join(f"void {symbol}();\n" for symbol in sorted({row[2] for row in rows}))
    table = "".join(f"    {{\"{b}\", {v}, {'true' if t else 'false'}, &{s}}},\n" for b, v, s, t in rows)
    return (BANNER + "#include \"proc_table.h\"\n\n#include <cstring>\n\nextern \"C\" {\n" + declared + "}\n\nnamespace sluice {\nnamespace {\n\n"
            "struct Row {\n  const char* name;\n  int version;\n  bool is_per_thread;\n  void (*address)();\n};\n"
            f"constexpr Row kRows[] = {{\n{table}}};\n\n}}  // namespace\n\n"
            "void* find_proc(const char* name, int version, bool per_thread, ProcStatus* status) noexcept {\n"
            "  const Row* best = nullptr;\n  bool is_known = false;\n"
            "  for (const Row& row : kRows) {\n    if (std::strcmp(row.name, name) != 0) continue;\n    is_known = true;\n"
            "    if (row.version > version || (row.is_per_thread && !per_thread)) continue;\n"
            "    const bool is_better = best == nullptr || (row.is_per_thread && !best->is_per_thread) ||\n"
            "                           (row.is_per_thread == best->is_per_thread && row.version > best->version);\n"
            "    if (is_better) best = &row;\n  }\n"
            "  *status = best != nullptr ? ProcStatus::kFound : is_known ? ProcStatus::kVersionNotSufficient : ProcStatus::kNotFound;\n"
            "  return best != nullptr ? reinterpret_cast<void*>(best->address) : nullptr;\n}\n\n}  // namespace sluice\n")


PROC_TABLE_HEADER = BANNER + """#pragma once

namespace sluice {

enum class ProcStatus { kFound, kNotFound, kVersionNotSufficient };

/// The entry point of this library for a name without suffix: the newest that is not newer than `version` (11030 = CUDA
/// 11.3), in its per-thread default stream form if asked for and there is one (cuGetProcAddress).
void* find_proc(const char* name, int version, bool per_thread, ProcStatus* status) noexcept;

}  // namespace sluice
"""


def fallback_source(exported):
    """Weak, so that every hand-written or generated function takes its place; C linkage needs no signature."""
    rows = "".join(f"SLUICE_FALLBACK({name})\n" for name in exported)
    return (BANNER + "// Whoever exports these names provides this: logs the name once, returns CUDA_ERROR_NOT_SUPPORTED.\n"
            "namespace sluice {\nint unsupported_function(const char* name) noexcept;\n}\n\n"
            "#define SLUICE_FALLBACK(name)                                                        \\\n"
            "  extern \"C\" __attribute__((weak, visibility(\"default\"))) int name() {              \\\n"
            "    return sluice::unsupported_function(#name);                                       \\\n  }\n\n" + rows)


def aliases_source(functions, exported, entries, scope_header, scope_class):
    """Per-thread forms and old names with the ABI of the new one."""
    text = BANNER + f"#include \"{scope_header}\"\n\n#include <cuda.h>\n\n#define PER_THREAD_SCOPE {scope_class}\n\n"
    supported = {e.name for e in entries if not e.is_record and e.travel != "unsupported"}
    for name in exported:
        base = re.sub(r"_pt[sd][sz]$", "", name)
        if base != name and base in functions and base in supported:
            text += alias_source(functions[base], name, True)
        elif name not in functions and name + "_v2" in functions and name in SAME_ABI and name + "_v2" in supported:
            text += "#undef " + name + "\n" + alias_source(functions[name + "_v2"], name, False)
    return text


# Old exported names whose arguments are those of the _v2 form (cuda.h changed their meaning, not their ABI).
SAME_ABI = {"cuCtxDestroy", "cuCtxPopCurrent", "cuCtxPushCurrent", "cuStreamDestroy", "cuEventDestroy", "cuDevicePrimaryCtxRelease",
            "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxSetFlags", "cuMemHostRegister"}


def version_script(exported):
    names = "".join(f"    {name};\n" for name in exported)
    return "{\n  global:\n" + names + "  local: *;\n};\n"
