"""driver/driver_table.{h,cpp}: every driver function by name."""
from emit_wire import BANNER


def driver_table_header(functions):
    rows = "".join(f"  decltype(&::{name}) {name} = nullptr;\n" for name in sorted(functions))
    return (BANNER + "#pragma once\n\n#include \"common/result.h\"\n\n#include <cuda.h>\n#include <cudaProfiler.h>\n\nnamespace sluice {\n\n"
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
