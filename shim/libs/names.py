#!/usr/bin/python3
"""Prints the names that a stand-in must export, as <library>.def has them.

usage: names.py [--include DIR] [--old FILE.def] LIBRARY.so... >FILE.def

The names come from genuine libraries of all versions given (by nm) and from an older FILE.def; what a function returns, where
it is no status, from the headers in DIR. Nothing but names is taken from either."""
import argparse
import glob
import os
import re
import subprocess
import sys

KINDS = {"const char*": "TEXT", "size_t": "SIZE", "void": "NOTHING", "float": "NUMBER", "double": "NUMBER", "cuComplex": "NUMBER",
         "cuDoubleComplex": "NUMBER"}
PROTOTYPE = re.compile(r"(const\s+char\s*\*|\b\w+\s)\s*(?:\w+API\s+)?(\w+)\s*\(")


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {words[2].split("@")[0] for words in map(str.split, out.splitlines()) if len(words) == 3 and words[1] in "TWi"}


def returned(include):
    """{name: kind} of the functions that return no status."""
    kinds = {}
    for path in glob.glob(os.path.join(include, "*.h")):
        with open(path, encoding="utf-8", errors="replace") as source:
            text = re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", " ", source.read(), flags=re.S))
        for kind, name in PROTOTYPE.findall(text):
            kind = KINDS.get(re.sub(r"\s*\*", "*", kind.strip()))
            if kind:
                kinds[name] = kind
    return kinds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--include", default="/usr/local/cuda/include")
    parser.add_argument("--old")
    parser.add_argument("libraries", nargs="+")
    options = parser.parse_args()
    names = set().union(*map(exported, options.libraries))
    kinds = returned(options.include)
    if options.old:
        with open(options.old, encoding="utf-8") as source:
            for kind, name in re.findall(r"^SLUICE_(\w+)\((\w+)\)", source.read(), re.M):
                names.add(name)
                kinds.setdefault(name, kind)
    for name in sorted(names):
        print(f"SLUICE_{kinds.get(name, 'STATUS')}({name})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
