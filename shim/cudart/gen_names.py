#!/usr/bin/env python3
"""Writes what our CUDA runtimes export, for every CUDA version that we stand in for.

Every name that a program may have been linked against must exist. Which names those are comes from
the toolkit's headers (13) and from older/names_NN.txt; which function answers a name in which
version, where that differs, from forms.txt. Output:
  * stubs.cpp: a weak function for every name: cudaErrorNotSupported, its name logged once. A
    hand-written definition replaces it at link time;
  * thunks.cpp: the per-thread-default-stream forms: NAME_ptsz passes cudaStreamPerThread where the
    caller passed stream 0; NAME_ptds runs NAME's Async form on cudaStreamPerThread (and waits for
    it if NAME waits);
  * names_NN.cpp: the names of version NN that stand for a function of another name;
  * exports_NN.map, names_NN.txt: what libcudart.so.NN exports (sluice_runtime is libsluice.so's);
  * entries.cpp: all names with their functions of every version, for shim/bind.
"""
import argparse
import pathlib
import re
import subprocess
import sys

# Newest first, as the columns of forms.txt. The node is also the SONAME.
NODES = {13: "libcudart.so.13", 12: "libcudart.so.12", 11: "libcudart.so.11.0"}
API_HEADERS = ["cuda_runtime_api.h", "cuda_profiler_api.h"]
# Their own includes (GL, EGL, VDPAU) are usually not installed, so only their text is read.
INTEROP_HEADERS = ["cuda_gl_interop.h", "cuda_egl_interop.h", "cuda_vdpau_interop.h"]
COMPILER_HEADERS = ["crt/host_runtime.h", "crt/device_functions.h"]
# In no public header and without public meaning, but linked into programs.
HELPERS = ["__cudaGetProcAddress", "__cudaRegisterHostVar", "__cudaRegisterUnifiedTable"]
# Macros and static functions of the headers that look like declarations of ours.
NOT_EXPORTED = {"__cudaRegisterBinary", "__cudaUnregisterBinaryUtil", "__cudaLaunchKernel_helper",
                "__cudaRegisterTexture", "__cudaRegisterSurface", "cudaWGLGetDevice"}
STREAM = re.compile(r"^cudaStream_t\s+(\w+)$")


def preprocess(include, compiler):
    source = "".join(f'#include "{name}"\n' for name in API_HEADERS)
    done = subprocess.run([compiler, "-E", "-P", "-xc", "-I", include, "-"], input=source, text=True,
                          capture_output=True, check=True)
    return re.sub(r"\s+", " ", done.stdout)


def split_parameters(text):
    text = text.strip()
    if text in ("", "void"):
        return []
    return [re.sub(r"\s+", " ", part).strip() for part in text.split(",")]


def declarations(text):
    """name -> parameters, of every cudaError_t function."""
    found = {}
    for match in re.finditer(r"\bcudaError_t (cuda[A-Z]\w*)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s*;", text):
        found[match[1]] = split_parameters(match[2])
    return found


def other_functions(text):
    """Functions that do not return cudaError_t."""
    return set(re.findall(r"(?:char\s*\*|cudaChannelFormatDesc) (cuda[A-Z]\w*)\s*\([^;{]*\)\s*;", text))


def named_in(path):
    text = re.sub(r"/\*.*?\*/", "", path.read_text(errors="replace"), flags=re.S)
    return set(re.findall(r"CUDARTAPI\s+((?:__)?cuda[A-Z]\w*)\s*\(", text))


def per_thread_names(path):
    return set(re.findall(r"__CUDART_API_(PTDS|PTSZ)\((cuda\w+)\)", path.read_text(errors="replace")))


def parameter_name(parameter):
    return re.search(r"(\w+)\s*(?:\[[^\]]*\])?$", parameter)[1]


def forward(name, parameters, body):
    signature = ", ".join(parameters) or "void"
    return f'SLUICE_STUB cudaError_t {name}({signature}) {{ {body} }}\n'


def per_thread_thunk(kind, name, declared, function_of):
    """The text of NAME_ptsz or NAME_ptds in its newest form, None if there is no rule for it."""
    parameters = declared.get(name)
    if parameters is None:
        return None
    arguments = [parameter_name(parameter) for parameter in parameters]
    if kind == "PTSZ":
        streams = [m[1] for m in map(STREAM.match, parameters) if m]
        if len(streams) != 1:
            return None
        arguments = [f"per_thread({a})" if a == streams[0] else a for a in arguments]
        target = function_of(name)
        # A function that has another name in CUDA 12 is in no header of CUDA 13.
        declaration = f"extern \"C\" cudaError_t {target}({', '.join(parameters)});\n" if target != name else ""
        return declaration + forward(function_of(f"{name}_ptsz"), parameters,
                                     f"return {target}({', '.join(arguments)});")
    if f"{name}Async" not in declared:
        return None
    call = f"{name}Async({', '.join(arguments + ['cudaStreamPerThread'])})"
    if name.startswith("cudaMemset"):
        return forward(f"{name}_ptds", parameters, f"return {call};")
    return forward(f"{name}_ptds", parameters, f"return finish({call});")


def read_forms(path):
    """{name: {version: function}} of the names that are not one function everywhere."""
    forms = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            name, *functions = line.split()
            forms[name] = dict(zip(NODES, functions, strict=True))
    return forms


def header_names(include, compiler, declared, text):
    names = set(declared) | other_functions(text) | set(HELPERS) | {"__cudaLaunchKernel_ptsz"}
    for header in INTEROP_HEADERS + COMPILER_HEADERS:
        names |= named_in(include / header)
    names |= {f"{name}_{kind.lower()}" for kind, name in per_thread_names(include / API_HEADERS[0])}
    return names - NOT_EXPORTED


def entries_source(functions):
    """The table of shim/bind: names sorted as strcmp does."""
    used = sorted({f for row in functions.values() for f in row.values()})
    rows = []
    for name in sorted(functions):
        row = functions[name]
        cells = ", ".join(f"&{row[v]}" if v in row else "nullptr" for v in NODES)
        rows.append(f'    {{"{name}", {{{cells}}}}},\n')
    return (ENTRIES_PROLOGUE + "extern \"C\" {\n" + "".join(f"void {f}();\n" for f in used) + "}\n\n"
            + "namespace sluice::cudart {\nconst Entry kEntries[] = {\n" + "".join(rows) + "};\n"
            + f"const std::size_t kEntryCount = {len(rows)};\n}}  // namespace sluice::cudart\n")


def write_version(out, version, names, functions):
    """What one libcudart exports."""
    jumps = "".join(f"SLUICE_NAME({n}, {functions[n][version]})\n" for n in names if functions[n][version] != n)
    (out / f"names_{version}.cpp").write_text(JUMPS_PROLOGUE + jumps)
    exports = "".join(f"    {n};\n" for n in names)
    (out / f"exports_{version}.map").write_text(
        f"{NODES[version]} {{\n  global:\n{exports}    sluice_cudart_abi;\n    sluice_runtime;\n  local:\n    *;\n}};\n")
    (out / f"names_{version}.txt").write_text("".join(f"{n}\n" for n in names))


PROLOGUE = """// Generated by shim/cudart/gen_names.py from the toolkit's headers; do not edit.
#include "shim/cudart/runtime.h"

#include <cuda_profiler_api.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define SLUICE_STUB extern "C" __attribute__((visibility("default"), weak))

namespace {
cudaStream_t per_thread(cudaStream_t stream) { return stream ? stream : cudaStreamPerThread; }
cudaError_t finish(cudaError_t error) {
  return error == cudaSuccess ? cudaStreamSynchronize(cudaStreamPerThread) : error;
}
}  // namespace

"""
# Stubs have no prototypes: only their names matter, and the headers' would be in the way.
STUB_PROLOGUE = """// Generated by shim/cudart/gen_names.py from the toolkit's headers; do not edit.
namespace sluice::cudart {
int unsupported_call(const char* function) noexcept;
}
#define SLUICE_STUB(name)                                                  \\
  extern "C" __attribute__((visibility("default"), weak)) int name() {    \\
    return sluice::cudart::unsupported_call(#name);                        \\
  }

"""


ENTRIES_PROLOGUE = """// Generated by shim/cudart/gen_names.py; do not edit.
#include "shim/cudart/entries.h"

"""
JUMPS_PROLOGUE = """// Generated by shim/cudart/gen_names.py; do not edit.
#define SLUICE_NAME(exported, function)                                         \\
  __asm__(".text\\n.globl " #exported "\\n.type " #exported ", @function\\n.p2align 4\\n" \\
          #exported ":\\njmp " #function "\\n.size " #exported ", . - " #exported "\\n");
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", required=True)
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--out", required=True, help="folder for the generated files")
    options = parser.parse_args()
    here = pathlib.Path(__file__).parent
    include = pathlib.Path(options.include)
    text = preprocess(options.include, options.compiler)
    declared = declarations(text)
    newest = next(iter(NODES))
    names = {v: (here / f"older/names_{v}.txt").read_text().split() for v in NODES if v != newest}
    names[newest] = sorted(header_names(include, options.compiler, declared, text))
    forms = read_forms(here / "forms.txt")
    functions = {}
    for version, its_names in names.items():
        for name in its_names:
            functions.setdefault(name, {})[version] = forms.get(name, {}).get(version, name)
    thunks = {}
    for kind, name in sorted(per_thread_names(include / API_HEADERS[0])):
        full = f"{name}_{kind.lower()}"
        thunk = per_thread_thunk(kind, name, declared, lambda n: forms.get(n, {}).get(newest, n))
        if thunk and not functions[full][newest].startswith("sluice_"):
            thunks[functions[full][newest]] = thunk
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "thunks.cpp").write_text(PROLOGUE + "\n".join(thunks[n] for n in sorted(thunks)))
    # What forms.txt names sluice_* is written by hand or the link fails.
    stubs = {f for row in functions.values() for f in row.values() if not f.startswith("sluice_")} - set(thunks)
    (out / "stubs.cpp").write_text(STUB_PROLOGUE + "".join(f"SLUICE_STUB({n})\n" for n in sorted(stubs)))
    (out / "entries.cpp").write_text(entries_source(functions))
    for version in NODES:
        write_version(out, version, names[version], functions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
