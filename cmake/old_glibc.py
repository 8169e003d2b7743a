#!/usr/bin/env python3
"""Writes C libraries to link against that have no symbol newer than glibc 2.28 (architecture D13).

usage: old_glibc.py OUT CC

A library that is linked to today's glibc needs today's glibc: the linker takes every symbol's newest version. From the
machine's own libraries this makes stand-ins that hold, for each symbol, the newest version not above the limit, and
nothing behind it: they are for the linker alone. Symbols that glibc got later are absent, so using one is a link error;
shim/glibc has replacements for those that the compiler's libraries use. Functions that moved into libc.so.6 in 2.34
(dlopen, pthread_create) keep their old version there, and on older systems libdl.so.2 and libpthread.so.0, which every
client library NEEDs, have it.
"""
import pathlib
import re
import subprocess
import sys

LIMIT = (2, 28)
LIBRARIES = ["libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"]


def version_number(text):
    match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part or 0) for part in match.groups()) if match else None


def symbols(path):
    """name -> (version, text of the version, type, size), the newest not above the limit."""
    out = subprocess.run(["readelf", "-W", "--dyn-syms", path], capture_output=True, text=True, check=True).stdout
    best = {}
    for line in out.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[6] == "UND" or "@" not in fields[7]:
            continue
        name, text = re.fullmatch(r"([^@]+)@@?(.+)", fields[7]).groups()
        number = version_number(text)
        if number is None or number[:2] > LIMIT or fields[3] not in ("FUNC", "IFUNC", "OBJECT"):
            continue
        if name not in best or number > best[name][0]:
            best[name] = (number, text, fields[3], int(fields[2], 0))
    return best


def source(found):
    lines = ["  .text"]
    for name, (_, _, kind, _) in sorted(found.items()):
        if kind != "OBJECT":
            lines += [f"  .globl {name}", f"  .type {name}, @function", f"{name}:"]
    lines += ["  nop", "  .data"]
    for name, (_, _, kind, size) in sorted(found.items()):
        if kind == "OBJECT":
            lines += [f"  .globl {name}", f"  .type {name}, @object", f"{name}:", f"  .zero {max(size, 1)}",
                      f"  .size {name}, {size}"]
    return "\n".join(lines + ['  .section .note.GNU-stack, "", @progbits', ""])


def version_script(found):
    nodes = {}
    for name, (number, text, _, _) in found.items():
        nodes.setdefault((number, text), []).append(name)
    return "".join(f"{text} {{ global: {'; '.join(sorted(names))}; }};\n" for (_, text), names in sorted(nodes.items()))


def main():
    out, compiler = pathlib.Path(sys.argv[1]), sys.argv[2]
    out.mkdir(parents=True, exist_ok=True)
    for library in LIBRARIES:
        path = subprocess.run([compiler, f"-print-file-name={library}"], capture_output=True, text=True,
                              check=True).stdout.strip()
        found = symbols(path)
        if not found:
            sys.exit(f"old_glibc.py: {path} has no versioned symbols")
        (out / f"{library}.S").write_text(source(found))
        (out / f"{library}.map").write_text(version_script(found))
        subprocess.run([compiler, "-shared", "-nostdlib", "-o", out / library, out / f"{library}.S",
                        f"-Wl,-soname,{library}", f"-Wl,--version-script={out / library}.map"], check=True)


if __name__ == "__main__":
    main()
