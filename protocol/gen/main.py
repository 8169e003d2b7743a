#!/usr/bin/python3
"""The generator: cuda.h + protocol/cuda/*.api -> everything mechanical between an exported function and a driver call.

usage: main.py --include DIR [--stub libcuda.so] --out DIR        write all files
       main.py --include DIR --draft                              append entries for functions that no row has
       main.py --include DIR --show NAME                          print what is generated for one function or record
       main.py --include DIR --coverage-to FILE                   write docs/coverage.md
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import check
import draft
import emit_coverage
import emit_server
import emit_shim
import emit_tables
import emit_wire
import spec
from header import Header, exported_names
from model import SpecError
from wire_layout import function_struct, record_struct, travels

HERE = os.path.dirname(os.path.abspath(__file__))
SPEC_DIR = os.path.join(HERE, "..", "cuda")
LOCK = os.path.join(HERE, "..", "opcodes.lock")
SOFTGPU_API = os.path.join(HERE, "..", "..", "softgpu", "api")


class Model:
    def __init__(self, include, stub, spec_dir=SPEC_DIR, lock=LOCK):
        self.header = Header(include)
        self.functions = self.header.functions
        self.entries = spec.read_all(spec_dir)
        check.check(self.entries, self.functions)
        self.exported = exported_names(stub, self.header)
        self.structs = [record_struct(e) if e.is_record else function_struct(e, self.functions[e.name])
                        for e in self.entries if travels(e)]
        self.by_name = {s.entry.name: s for s in self.structs}
        self.opcodes = check.lock_opcodes(lock, [s.entry.name for s in self.structs])
        self.opcodes = {s.entry.name: self.opcodes[s.entry.name] for s in self.structs}
        self.fns = sorted((e for e in self.entries if not e.is_record), key=lambda e: e.name)
        self.rows = sorted({e.row for e in self.entries})

    def files(self):
        out = {
            "protocol/opcodes.h": emit_wire.opcodes_header(self.opcodes, self.structs),
            "protocol/functions.h": emit_wire.functions_header(self.fns),
            "protocol/names.cpp": emit_wire.names_source(self.opcodes, self.fns),
            "protocol/all_rows.h": emit_wire.all_rows_header(self.rows),
            "driver/driver_table.h": emit_tables.driver_table_header(self.functions),
            "driver/driver_table.cpp": emit_tables.driver_table_source(self.functions),
            "server/handlers.h": emit_server.handlers_header(self.structs),
            "server/dispatch.cpp": emit_server.dispatch_source(self.structs),
            "proc_table.h": emit_tables.PROC_TABLE_HEADER,
            "proc_table.cpp": emit_tables.proc_table_source(emit_tables.proc_rows(self.header.versions(), self.exported)),
            "fallback.cpp": emit_tables.fallback_source(self.exported),
            "shim/aliases.cpp": emit_tables.aliases_source(self.functions, self.exported, self.entries, "shim/call.h",
                                                           "sluice::shim::PerThreadDefaultStream"),
            "softgpu/aliases.cpp": emit_tables.aliases_source(self.functions, self.exported, self.entries_for_softgpu(),
                                                              "softgpu/api/per_thread.h", "sluice::softgpu::PerThreadDefaultStream"),
            "exports.map": emit_tables.version_script(self.exported),
        }
        for row in self.rows:
            out[f"protocol/{row}.h"] = emit_wire.row_header(row, [s for s in self.structs if s.entry.row == row])
            mine = [e for e in self.entries if e.row == row and not e.is_record and e.name in self.by_name]
            item = lambda e: (e, self.functions[e.name], self.by_name[e.name])
            out[f"shim/{row}.cpp"] = emit_shim.row_source(row, [item(e) for e in mine if emit_shim.generated_here(e)])
            out[f"server/{row}.cpp"] = emit_server.row_source([item(e) for e in mine if emit_server.generated_here(e)])
        return out

    def entries_for_softgpu(self):
        """softgpu may have functions that the shim does not carry yet; an alias of a missing one ends in its fallback."""
        return [type(e)(e.name, e.row, e.is_record, e.line, "called") for e in self.entries if not e.is_record]

    def show(self, name):
        struct = self.by_name.get(name)
        entry = next((e for e in self.entries if e.name == name), None)
        if entry is None:
            raise SpecError(f"no row has {name}")
        print(f"// row {entry.row}, class {entry.travel}, body {entry.body}. {entry.reason}")
        if entry.carried_by:
            print(f"// carried by {', '.join(entry.carried_by)}; hand-written in shim/cuda/{entry.row}.cpp")
        if struct is None:
            return
        print(f"// opcode {self.opcodes[name]}\n" + emit_wire.wire_struct(struct))
        if entry.is_record:
            print(f"// handled in server/cuda/{entry.row}.cpp" if entry.travel != "pushed" else "// sent by the worker")
            return
        item = (entry, self.functions[name], struct)
        print(emit_shim.entry_source(*item) if emit_shim.generated_here(entry) else f"// shim/cuda/{entry.row}.cpp\n")
        print(emit_server.handler_source(*item) if emit_server.generated_here(entry) else f"// server/cuda/{entry.row}.cpp")

    def coverage(self):
        return emit_coverage.coverage(self.entries, self.functions, emit_coverage.softgpu_functions(SOFTGPU_API, self.functions))


def write_if_changed(path, text):
    if os.path.exists(path) and open(path, encoding="utf-8").read() == text:
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
    parser.add_argument("--show")
    parser.add_argument("--coverage-to")
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
        if options.show:
            model.show(options.show)
        elif options.coverage_to:
            write_if_changed(options.coverage_to, model.coverage())
        elif options.out:
            for name, text in model.files().items():
                write_if_changed(os.path.join(options.out, name), text)
        else:
            parser.error("nothing to do: --out, --show, --draft or --coverage-to")
    except SpecError as error:
        print(f"protocol/gen: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
