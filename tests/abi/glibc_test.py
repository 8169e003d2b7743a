#!/usr/bin/python3
"""Client libraries are good guests (architecture D13): they run on glibc 2.28 wherever they were built, depend on nothing that
an application may have of its own, and cost its threads little.

usage: glibc_test.py FOLDER LIBRARY...
"""
import pathlib
import re
import subprocess
import sys

LIMIT = (2, 28)
THREAD_BYTES_MAX = 256
# libdl and libpthread hold dlopen and pthread_create before 2.34. Nobody's libstdc++, OpenSSL or fmt.
NEEDED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}
# libsluice.so brings the driver along; libsluice_ucx.so is loaded only where UCX is.
OF_ITS_OWN = {"libsluice.so": {"libcuda.so.1"}, "libsluice_ucx.so": {"libucp.so.0", "libucs.so.0"}}
MOVED = {"libdl.so.2", "libpthread.so.0"}


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], capture_output=True, text=True, check=True).stdout


def check(path):
    """Yields what is wrong."""
    # "Name: GLIBC_2.2.5  Flags: none  Version: 7" in the section of versions that the library needs.
    needs = readelf("-V", path).partition("Version needs section")[2]
    versions = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", needs)
    if not versions:
        yield "needs no version of glibc: is it the right file?"
    for major, minor in sorted(set(versions)):
        if (int(major), int(minor)) > LIMIT:
            yield f"needs GLIBC_{major}.{minor}"
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", path)))
    allowed = NEEDED | OF_ITS_OWN.get(path.name, set())
    for name in sorted(needed - allowed):
        yield f"NEEDs {name}"
    dynamic = readelf("-d", path)
    for flag, why in (("STATIC_TLS", "cannot always be opened at run time"), ("TEXTREL", "writes its own code")):
        if flag in dynamic:
            yield f"has {flag}: it {why}"
    segments = readelf("-l", path)
    thread_bytes = re.search(r"^\s*TLS(?:\s+0x\w+){4}\s+(0x\w+)", segments, re.M)
    if thread_bytes and int(thread_bytes.group(1), 16) > THREAD_BYTES_MAX:
        yield f"has {int(thread_bytes.group(1), 16)} bytes for each thread"
    if re.search(r"GNU_STACK.*RWE", segments):
        yield "makes every stack executable"
    for name in sorted(MOVED - needed):
        yield f"does not NEED {name}: dlopen or pthread_create will be missing before glibc 2.34"


def main():
    folder = pathlib.Path(sys.argv[1])
    failed = False
    for name in sys.argv[2:]:
        for complaint in check(folder / name):
            failed = True
            print(f"{name} {complaint}")
    # A client library that nobody named here must not escape.
    there = {p.name for p in folder.glob("*.so*") if not p.is_symlink()}
    for name in sorted(there - set(sys.argv[2:])):
        failed = True
        print(f"{name} is in the folder and is not checked")
    print(f"{len(sys.argv) - 2} libraries")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
