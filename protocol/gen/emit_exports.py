"""What shim and softgpu export besides the functions themselves: aliases, weak fallbacks, the version script."""
import re
from dataclasses import dataclass

from emit_shim import signature
from emit_wire import BANNER
from model import SpecError


@dataclass
class Alias:
    """Another exported name of a function: the per-thread form, or an older name."""
    name: str
    target: object            # Function
    is_per_thread: bool
    without: str = ""


def aliases(entries, functions, exported, is_wanted):
    """[Alias] for all functions whose entry `is_wanted`; the others' names get a fallback."""
    by_name = {e.name: e for e in entries if not e.is_record}
    found = []
    for name in exported:
        base = re.sub(r"_pt[sd][sz]$", "", name)
        if base != name and base in by_name and is_wanted(by_name[base]):
            found.append(Alias(name, functions[base], True))
    for entry in by_name.values():
        for also in entry.also:
            if also.name in functions or also.name not in exported:
                raise SpecError(f"{entry.where}: {entry.name}: `also {also.name}` is no other exported name")
            if also.without and also.without != functions[entry.name].params[-1].name:
                raise SpecError(f"{entry.where}: {entry.name}: `without {also.without}` is not its last parameter")
            if is_wanted(entry):
                found.append(Alias(also.name, functions[entry.name], False, also.without))
    return sorted(found, key=lambda a: a.name)


def alias_source(alias):
    params = [p for p in alias.target.params if p.name != alias.without]
    names = [p.name for p in params] + (["nullptr"] if alias.without else [])
    scope = "  const PER_THREAD_SCOPE scope;\n" if alias.is_per_thread else ""
    undefine = "" if alias.is_per_thread else f"#undef {alias.name}\n"
    return (f"{undefine}{signature(alias.name, params, weak=True)} {{\n{scope}"
            f"  return {alias.target.name}({', '.join(names)});\n}}\n\n")


def aliases_source(found, scope_header, scope_class):
    return (BANNER + "// Weak: a hand-written function of the same name takes the place of its alias.\n"
            f"#include \"{scope_header}\"\n\n#include <cuda.h>\n\n#define PER_THREAD_SCOPE {scope_class}\n\n"
            + "".join(alias_source(a) for a in found))


def fallback_source(exported, found):
    """C linkage needs no signature: whatever the arguments are, they are ignored."""
    taken = {a.name for a in found}
    rows = "".join(f"SLUICE_FALLBACK({name})\n" for name in exported if name not in taken)
    return (BANNER + "// Weak: every hand-written or generated function takes the place of its fallback.\n\n"
            "namespace sluice {\n"
            "/// Whoever exports these names provides this: logs the name once, returns CUDA_ERROR_NOT_SUPPORTED.\n"
            "int unsupported_function(const char* name) noexcept;\n}\n\n"
            "#define SLUICE_FALLBACK(name)                                                        \\\n"
            "  extern \"C\" __attribute__((weak, visibility(\"default\"))) int name() {              \\\n"
            "    return sluice::unsupported_function(#name);                                       \\\n  }\n\n" + rows)


# What the shim exports besides the driver API, for `sluice doctor`: shim/session_report.cpp.
SHIM_OWN = ["sluice_session_report", "sluice_spare_bytes"]
# What softgpu exports besides the driver API, for the worker: softgpu/api/sinks.cpp.
SOFTGPU_OWN = ["softgpu_set_printf_sink", "softgpu_set_assert_sink", "softgpu_set_turn_hooks",
               "softgpu_process_bytes"]


def version_script(exported):
    names = "".join(f"    {name};\n" for name in exported)
    return "{\n  global:\n" + names + "  local: *;\n};\n"


EXTENT_HEADER = BANNER + """// Arrays and buffers in arguments of generated entries; one record carries at most wire::kPayloadBytesMax of them.
#pragma once

#include "protocol/wire.h"
#include "shim/call.h"

#include <cstddef>
#include <span>

namespace sluice::shim {

inline bool is_extent(const void* first, std::size_t count, std::size_t element_bytes) noexcept {
  return count <= wire::kPayloadBytesMax / element_bytes && (count == 0 || first != nullptr);
}
inline Bytes extent_bytes(const void* first, std::size_t count, std::size_t element_bytes) noexcept {
  return {static_cast<const std::byte*>(first), count * element_bytes};
}
inline std::span<std::byte> extent_space(void* first, std::size_t count, std::size_t element_bytes) noexcept {
  return {static_cast<std::byte*>(first), count * element_bytes};
}

}  // namespace sluice::shim
"""
