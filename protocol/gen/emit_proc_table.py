"""proc_table.{h,cpp}: what cuGetProcAddress looks up."""
from dataclasses import dataclass

from emit_wire import BANNER


@dataclass
class ProcRow:
    name: str
    version: int             # first CUDA version with this signature, e.g. 11030
    symbol: str
    per_thread: str = ""     # its _ptds/_ptsz form


def proc_rows(versions, exported):
    """Headers list versions, libraries list symbols: the newest version of a name has the newest suffix, and so on down."""
    names = set(exported)
    rows = []
    for base, pairs in sorted(versions.items()):
        plain = [version for version, is_per_thread in pairs if not is_per_thread]
        symbols = [s for s in [base] + [f"{base}_v{i}" for i in range(2, 9)] if s in names]
        for version, symbol in zip(reversed(plain), reversed(symbols)):
            threaded = [symbol + end for end in ("_ptds", "_ptsz") if symbol + end in names]
            rows.append(ProcRow(base, version, symbol, threaded[0] if threaded else ""))
    return sorted(rows, key=lambda r: (r.name, r.version))


SOURCE_TAIL = """
}  // namespace

void* find_proc(const char* name, int version, bool per_thread, ProcStatus* status) noexcept {
  const auto is_before = [](const Row& row, const char* wanted) { return std::strcmp(row.name, wanted) < 0; };
  const Row* row = std::lower_bound(std::begin(kRows), std::end(kRows), name, is_before);
  const Row* best = nullptr;
  *status = ProcStatus::kNotFound;
  for (; row != std::end(kRows) && std::strcmp(row->name, name) == 0; ++row) {
    *status = ProcStatus::kVersionNotSufficient;
    if (row->version <= version) best = row;
  }
  if (best == nullptr) return nullptr;
  *status = ProcStatus::kFound;
  return reinterpret_cast<void*>(per_thread && best->per_thread != nullptr ? best->per_thread : best->address);
}

}  // namespace sluice
"""


def proc_table_source(rows):
    symbols = sorted({r.symbol for r in rows} | {r.per_thread for r in rows if r.per_thread})
    declared = "".join(f"void {symbol}();\n" for symbol in symbols)
    table = "".join(f"    {{\"{r.name}\", {r.version}, &{r.symbol}, {'&' + r.per_thread if r.per_thread else 'nullptr'}}},\n" for r in rows)
    return (BANNER + "#include \"proc_table.h\"\n\n#include <algorithm>\n#include <cstring>\n#include <iterator>\n\n"
            "extern \"C\" {\n" + declared + "}\n\nnamespace sluice {\nnamespace {\n\n"
            "struct Row {\n  const char* name;\n  int version;\n  void (*address)();\n  void (*per_thread)();\n};\n\n"
            f"/// By name, then version.\nconstexpr Row kRows[] = {{\n{table}}};\n" + SOURCE_TAIL)


PROC_TABLE_HEADER = BANNER + """#pragma once

namespace sluice {

enum class ProcStatus { kFound, kNotFound, kVersionNotSufficient };

/// The entry point of this library for a name without suffix: the newest that is not newer than `version` (11030 = CUDA
/// 11.3), in its per-thread default stream form if asked for and there is one (cuGetProcAddress).
void* find_proc(const char* name, int version, bool per_thread, ProcStatus* status) noexcept;

}  // namespace sluice
"""
