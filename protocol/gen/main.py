#!/usr/bin/python3
"""The generator: cuda.h + protocol/cuda/*.api -> everything mechanical between an exported function and a driver call.

usage: main.py --include DIR [--stub libcuda.so] --out DIR        write all files
       main.py --include DIR --draft                              append entries for functions that no row has
       main.py --include DIR --lock                               give new functions and records a number in opcodes.lock
       main.py --include DIR --show NAME                          print what is generated for one function or record
       main.py --include DIR --coverage-to FILE                   write docs/coverage.md
       main.py --include DIR --golden                             write golden/: what review sees of a change to the generator
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import check
import draft
import emit_coverage
import emit_driver_table
import emit_exports
import emit_proc_table
import emit_server
import emit_shim
import emit_wire
import spec
from header import Header, defined_macros, exported_names
from model import SpecError
from wire_layout import function_struct, record_struct, travels

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC_DIR = os.path.join(HERE, "..", "cuda")
LOCK = os.path.join(HERE, "..", "opcodes.lock")
GOLDEN_DIR = os.path.join(HERE, "golden")
# One function or record of each shape.
GOLDEN = ("cuCtxGetLimit", "cuCtxGetStreamPriorityRange", "cuEventCreate", "cuEventDestroy_v2", "cuGraphInstantiateWithFlags",
          "cuMemsetD2D16_v2", "cuMemsetD8Async", "cuModuleGetGlobal_v2", "cuLaunchKernel", "cuStreamBeginCapture_v2",
          "cuMemPoolCreate", "copy_h2d", "host_data", "module_load")
ROOT = os.path.join(HERE, "..", "..")


class Model:
    """Specification and headers, read and checked."""

    def __init__(self, include, stub="", spec_dir=SPEC_DIR, header=None):
        self.header = header or Header(include)
        self.functions = self.header.functions
        self.entries = spec.read_all(spec_dir)
        check.check(self.entries, self.functions)
        self.exported = exported_names(stub, self.header)
        self.structs = [record_struct(e) if e.is_record else function_struct(e, self.functions[e.name])
                        for e in self.entries if travels(e)]
        self.by_name = {s.entry.name: s for s in self.structs}
        self.fns = sorted((e for e in self.entries if not e.is_record), key=lambda e: e.name)
        self.rows = sorted({e.row for e in self.entries})

    def travelling(self):
        return [s.entry.name for s in self.structs]

    def opcodes(self, lock=LOCK):
        missing = check.without_number(lock, self.travelling())
        if missing:
            raise SpecError(f"opcodes.lock has no number for {', '.join(missing)}: run protocol/gen/main.py --lock and commit it")
        numbers = check.read_lock(lock)
        return {name: numbers[name] for name in self.travelling()}

    def item(self, entry):
        borrowed = entry.carried_by[0] if entry.carried_by else entry.name
        return entry, self.functions[entry.name], self.by_name[borrowed]

    def files(self):
        out = self._protocol_files()
        out.update(self._export_files())
        for row in self.rows:
            mine = [e for e in self.entries if e.row == row]
            out[f"shim/{row}.cpp"] = emit_shim.row_source(row, [self.item(e) for e in mine if emit_shim.generated_here(e)])
            out[f"server/{row}.cpp"] = emit_server.row_source([self.item(e) for e in mine if emit_server.generated_here(e)])
        return out

    def _protocol_files(self):
        opcodes = self.opcodes()
        out = {
            "protocol/opcodes.h": emit_wire.opcodes_header(opcodes, self.structs),
            "protocol/functions.h": emit_wire.functions_header(self.fns),
            "protocol/names.cpp": emit_wire.names_source(opcodes, self.fns),
            "protocol/all_rows.h": emit_wire.all_rows_header(self.rows, self.structs),
            "driver/driver_table.h": emit_driver_table.driver_table_header(self.functions),
            "driver/driver_table.cpp": emit_driver_table.driver_table_source(self.functions),
            "server/handlers.h": emit_server.handlers_header(self.structs),
            "server/dispatch.cpp": emit_server.dispatch_source(self.structs),
        }
        for row in self.rows:
            out[f"protocol/{row}.h"] = emit_wire.row_header(row, [s for s in self.structs if s.entry.row == row])
        return out

    def _export_files(self):
        rows = emit_proc_table.proc_rows(self.header.versions(), self.exported)
        arguments = (self.entries, self.functions, self.exported)
        carried = emit_exports.aliases(*arguments, lambda entry: entry.travel != "unsupported")
        # softgpu may have functions that the shim does not carry; an alias of a missing one ends in that one's fallback.
        every = emit_exports.aliases(*arguments, lambda entry: True)
        return {
            "proc_table.h": emit_proc_table.PROC_TABLE_HEADER,
            "proc_table.cpp": emit_proc_table.proc_table_source(rows),
            "exports.map": emit_exports.version_script(list(self.exported) + emit_exports.SHIM_OWN),
            "softgpu/exports.map": emit_exports.version_script(list(self.exported) + emit_exports.SOFTGPU_OWN),
            "shim/extent.h": emit_exports.EXTENT_HEADER,
            "shim/aliases.cpp": emit_exports.aliases_source(carried, "shim/call.h", "sluice::shim::PerThreadDefaultStream"),
            "shim/fallback.cpp": emit_exports.fallback_source(self.exported, carried),
            "softgpu/aliases.cpp": emit_exports.aliases_source(every, "softgpu/api/per_thread.h",
                                                               "sluice::softgpu::PerThreadDefaultStream"),
            "softgpu/fallback.cpp": emit_exports.fallback_source(self.exported, every),
        }

    def show(self, name):
        """All that is generated for one function or record."""
        entry = next((e for e in self.entries if e.name == name), None)
        if entry is None:
            raise SpecError(f"no row has {name}")
        text = f"// row {entry.row}, class {entry.travel}, body {entry.body}. {entry.reason}\n"
        if entry.carried_by:
            text += f"// carried by {', '.join(entry.carried_by)}\n"
        if not entry.is_record and entry.has_own_shim:
            text += f"// hand-written: shim/cuda/{entry.row}.cpp\n"
        if not entry.is_record and entry.has_own_worker:
            text += f"// hand-written: server/cuda/{entry.row}.cpp\n"
        if emit_shim.generated_here(entry) and entry.carried_by:
            return text + f"\n// shim/{entry.row}.cpp\n" + emit_shim.entry_source(*self.item(entry))
        if name not in self.by_name:
            return text
        text += f"\n// protocol/{entry.row}.h, opcode {self.opcodes()[name]}\n" + emit_wire.wire_struct(self.by_name[name])
        if entry.is_record:
            return text + ("// pushed by the worker\n" if entry.travel == "pushed" else f"// hand-written: server/cuda/{entry.row}.cpp\n")
        if emit_shim.generated_here(entry):
            text += f"// shim/{entry.row}.cpp\n" + emit_shim.entry_source(*self.item(entry))
        if emit_server.generated_here(entry):
            return text + f"// server/{entry.row}.cpp\n" + emit_server.handler_source(*self.item(entry))
        return text + f"// hand-written: server/cuda/{entry.row}.cpp\n"

    def coverage(self):
        macros = defined_macros(self.header.include_dir)
        shim = emit_coverage.defined_functions(os.path.join(ROOT, "shim", "cuda"), macros)
        softgpu = emit_coverage.defined_functions(os.path.join(ROOT, "softgpu", "api"), macros)
        return emit_coverage.coverage(self.entries, shim, emit_coverage.handled(os.path.join(ROOT, "server", "cuda")), softgpu)


def write_if_changed(path, text):
    if os.path.exists(path):
        with open(path, encoding="utf-8") as old:
            if old.read() == text:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--include", default="/usr/local/cuda/include", help="folder of cuda.h")
    parser.add_argument("--stub", default="", help="the toolkit's stub libcuda.so, the list of names to export")
    parser.add_argument("--out")
    parser.add_argument("--draft", action="store_true")
    parser.add_argument("--lock", action="store_true")
    parser.add_argument("--show", metavar="NAME")
    parser.add_argument("--coverage-to", metavar="FILE")
    parser.add_argument("--golden", action="store_true")
    parser.add_argument("--list-rows", action="store_true", help="print the rows (for CMake)")
    options = parser.parse_args()
    try:
        if options.list_rows:
            print(";".join(sorted(n[:-4] for n in os.listdir(SPEC_DIR) if n.endswith(".api"))))
            return 0
        if options.draft:
            print(f"{draft.draft(Header(options.include), SPEC_DIR)} entries drafted")
            return 0
        model = Model(options.include, options.stub)
        if options.lock:
            print(f"{check.extend_lock(LOCK, model.travelling())} numbers added")
        elif options.show:
            print(model.show(options.show), end="")
        elif options.golden:
            for name in GOLDEN:
                write_if_changed(os.path.join(GOLDEN_DIR, name + ".txt"), model.show(name))
        elif options.coverage_to:
            write_if_changed(options.coverage_to, model.coverage())
        elif options.out:
            for name, text in model.files().items():
                write_if_changed(os.path.join(options.out, name), text)
        else:
            parser.error("nothing to do: --out, --show, --draft, --lock or --coverage-to")
    except SpecError as error:
        print(f"protocol/gen: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
