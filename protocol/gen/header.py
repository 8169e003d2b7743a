"""Reads cuda.h of the installed toolkit: functions, parameter types, and which names each version has."""
import os
import re
import subprocess
import tempfile

from pycparser import c_ast, c_parser

from model import CType, Function, Param

SCALAR_WIDTHS = {"char": 1, "short": 2, "": 4, "long": 8, "long long": 8, "float": 4, "double": 8, "size_t": 8, "_Bool": 1}
PARSED = ("cuda.h", "cudaProfiler.h")
INTEROP = ("cudaGL.h", "cudaEGL.h", "cudaVDPAU.h")   # need the windowing systems' headers: only their names are read
NEUTRALISE = ["-D__attribute__(x)=", "-D__extension__=", "-D__inline__=", "-D__inline=", "-D__restrict=", "-D__asm__(x)=",
              "-D__builtin_va_list=int"]


def preprocess(include_dir, headers, defines=()):
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "all.c")
        with open(source, "w", encoding="utf-8") as out:
            out.writelines(f"#include <{header}>\n" for header in headers)
        run = subprocess.run(["gcc", "-E", "-P", "-std=c99", f"-I{include_dir}", *NEUTRALISE, *defines, source],
                             capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise SystemExit(f"preprocessing {headers} failed:\n{run.stderr}")
    text = "\n".join(line for line in run.stdout.split("\n") if not line.startswith("#"))
    return re.sub(r"_Alignas\s*\([^)]*\)", "", text)


def scalar_width(names):
    """Bytes of a builtin arithmetic type however its words are ordered, 0 for anything else."""
    words = [w for w in names if w not in ("unsigned", "signed", "int")]
    return SCALAR_WIDTHS.get(" ".join(words), 0)


def defined_macros(include_dir):
    """{cuMemAlloc: cuMemAlloc_v2, ...}: which exported name a name in source code stands for."""
    run = subprocess.run(["gcc", "-E", "-dM", "-x", "c", f"-I{include_dir}", "-include", "cuda.h", os.devnull],
                         capture_output=True, text=True, check=True)
    return dict(re.findall(r"^#define (cu[A-Z]\w*) (cu[A-Z]\w*)$", run.stdout, re.M))


class Header:
    def __init__(self, include_dir):
        self.include_dir = include_dir
        tree = c_parser.CParser().parse(preprocess(include_dir, PARSED))
        self.typedefs = {}
        self.structs = {}
        self.functions = {}
        for node in tree.ext:
            self._remember_structs(node)
            if isinstance(node, c_ast.Typedef):
                self.typedefs[node.name] = node.type
        for node in tree.ext:
            if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl) and node.name.startswith("cu"):
                self.functions[node.name] = self._function(node)

    def _remember_structs(self, node):
        for child in self._walk(node):
            if isinstance(child, (c_ast.Struct, c_ast.Union)) and child.decls and child.name:
                self.structs[child.name] = child

    def _walk(self, node):
        yield node
        for _, child in node.children():
            yield from self._walk(child)

    def _function(self, node):
        params = []
        for i, p in enumerate(node.type.args.params if node.type.args else []):
            if isinstance(p, c_ast.Typename) and self._spell(p.type) == "void":
                continue
            params.append(Param(p.name or f"arg{i}", self.classify(p.type)))
        return Function(node.name, params)

    def _spell(self, node):
        if isinstance(node, c_ast.TypeDecl):
            return self._spell(node.type)
        if isinstance(node, c_ast.IdentifierType):
            return " ".join(node.names)
        if isinstance(node, (c_ast.Struct, c_ast.Union, c_ast.Enum)):
            word = {c_ast.Struct: "struct", c_ast.Union: "union", c_ast.Enum: "enum"}[type(node)]
            return f"{word} {node.name}"
        return "?"

    def classify(self, node):
        depth = 0
        while isinstance(node, (c_ast.PtrDecl, c_ast.ArrayDecl)):
            depth += 1
            node = node.type
        if isinstance(node, c_ast.FuncDecl):
            return CType("callback", "callback", depth, False, "opaque")
        is_const = "const" in (getattr(node, "quals", None) or [])
        base = self._spell(node)
        kind, width = self._kind(node)
        text = ("const " if is_const else "") + base + (" " + "*" * depth if depth else "")
        return CType(text, base, depth, is_const, kind, width)

    def _kind(self, node, seen=()):
        """(kind, scalar width) of a non-pointer type node."""
        if isinstance(node, c_ast.TypeDecl):
            return self._kind(node.type, seen)
        if isinstance(node, c_ast.Enum):
            return "scalar", 4
        if isinstance(node, (c_ast.Struct, c_ast.Union)):
            definition = node if node.decls else self.structs.get(node.name)
            if definition is None or any(self._has_pointer(d.type, seen) for d in definition.decls):
                return "opaque", 0
            return "struct", 0
        if isinstance(node, c_ast.IdentifierType):
            name = " ".join(node.names)
            if name in ("void",):
                return "opaque", 0
            width = scalar_width(node.names)
            if width:
                return "scalar", width
            target = self.typedefs.get(name)
            if target is None:
                return "opaque", 0
            if isinstance(target, c_ast.PtrDecl):
                inner = target.type
                if isinstance(inner, c_ast.TypeDecl) and isinstance(inner.type, c_ast.Struct) and name.startswith("CU"):
                    return "handle", 8
                return "opaque", 0
            return self._kind(target, seen)
        return "opaque", 0

    def _has_pointer(self, node, seen):
        if isinstance(node, c_ast.ArrayDecl):
            return self._has_pointer(node.type, seen)
        if isinstance(node, (c_ast.PtrDecl, c_ast.FuncDecl)):
            return True
        return self._kind(node, seen)[0] in ("opaque", "handle")

    def versions(self):
        """{base name: [(version, is_per_thread)]} from cudaTypedefs.h and its companions."""
        found = {}
        for name in sorted(os.listdir(self.include_dir)):
            if not re.fullmatch(r"cuda(GL|EGL|VDPAU|Profiler)?Typedefs\.h", name):
                continue
            with open(os.path.join(self.include_dir, name), encoding="utf-8", errors="replace") as source:
                text = source.read()
            for base, version, suffix in re.findall(r"\*PFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\)", text):
                found.setdefault(base, set()).add((int(version), bool(suffix)))
        return {base: sorted(pairs) for base, pairs in found.items()}


def interop_names(include_dir):
    """The graphics functions: the stub library lacks them, but programs that look a driver over ask for them by dlsym."""
    names = set()
    for name in INTEROP:
        path = os.path.join(include_dir, name)
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8", errors="replace") as source:
            text = source.read()
        names.update(re.findall(r"\bCUresult\s+CUDAAPI\s+(cu\w+)\s*\(", text))
        names.update(re.findall(r"^\s*#\s*define\s+cu\w+\s+(?:__CUDA_API_PT[DS][SZ]\()?(cu\w+)", text, re.M))
    return {name for name in names if not name.startswith("cuWGL")}


def exported_names(stub, header):
    """Names to export: the toolkit's stub library, or, without one, what the headers declare in any version; and interop."""
    names = interop_names(header.include_dir)
    if stub and os.path.exists(stub):
        out = subprocess.run(["nm", "-D", "--defined-only", stub], capture_output=True, text=True, check=True).stdout
        names.update(line.split()[-1] for line in out.splitlines() if re.search(r" [TW] cu\w+$", line))
        return sorted(names)
    names.update(header.functions)
    old = preprocess(header.include_dir, PARSED, ["-D__CUDA_API_VERSION_INTERNAL"])
    names.update(re.findall(r"\bCUresult\s+(cu\w+)\s*\(", old))
    return sorted(names)
