#!/usr/bin/python3
"""libnvidia-ml.so.1 exports what functions.def lists and nothing else; in `tools/dev test --full` also all that a real header
declares. usage: exports_test.py LIBRARY FUNCTIONS [HEADER...]"""
import re
import subprocess
import sys


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main():
    library, functions, *headers = sys.argv[1:]
    listed = re.findall(r"^SLUICE_NVML_(?:ANSWERED|REFUSED)\((\w+)\)", open(functions, encoding="utf-8").read(), re.M)
    symbols = [line.split() for line in run("nm", "-D", "--defined-only", library).splitlines()]
    have = {fields[-1] for fields in symbols if len(fields) == 3 and fields[1] in "TWVDBR"}
    failed = False
    for what, names in (("lists twice", {n for n in listed if listed.count(n) > 1}), ("lacks", set(listed) - have),
                        ("exports in addition", have - set(listed))):
        if names:
            failed = True
            print(f"{what}: {', '.join(sorted(names)[:20])} ({len(names)})")
    for path in headers:
        declared = set(re.findall(r"\bDECLDIR\s+(?:char\s*\*\s*)?(nvml\w+)\s*\(", open(path, encoding="utf-8").read()))
        declared |= {"nvmlErrorString"}
        if len(declared) < 200 or declared - have:
            failed = True
            print(f"{path}: of {len(declared)} functions these are missing: {', '.join(sorted(declared - have))}")
    if "[libnvidia-ml.so.1]" not in run("readelf", "-d", library):
        failed = True
        print("the SONAME is not libnvidia-ml.so.1")
    print(f"nvml exports: {len(have)} names, {len(headers)} headers")
    return 1 if failed or len(have) < 400 else 0


if __name__ == "__main__":
    sys.exit(main())
