#!/usr/bin/python3
"""Shim and softgpu export exactly what the toolkit's stub library does, and the graphics functions that it leaves out: a
missing name keeps a program from starting (libavutil asks for all of ASKED_BY_NAME before it takes a driver for one).
Each has a few names of its own besides (softgpu_*, sluice_*).

usage: exports_test.py STUB LIBRARY...
"""
import re
import subprocess
import sys

OWN = re.compile(r"(softgpu|sluice)_\w+|cu(GL|EGL|VDPAU|Graphics(GL|EGL|VDPAU))\w+|cuGraphicsResourceGetMappedEglFrame|cuEventCreateFromEGLSync")
ASKED_BY_NAME = {"cuGLGetDevices_v2", "cuGraphicsGLRegisterImage", "cuEGLStreamProducerConnect", "cuEGLStreamProducerDisconnect",
                 "cuEGLStreamConsumerDisconnect", "cuEGLStreamProducerPresentFrame", "cuEGLStreamProducerReturnFrame"}


def exported(path):
    out = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines() if re.search(r" [TWVi] ", line)}


def soname(path):
    out = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\(SONAME\).*\[(.*)\]", out)
    return found.group(1) if found else ""


def main():
    wanted = {name for name in exported(sys.argv[1]) if name.startswith("cu")} | ASKED_BY_NAME
    failed = False
    for path in sys.argv[2:]:
        have = exported(path)
        for what, names in (("lacks", wanted - have), ("exports in addition", {n for n in have - wanted if not OWN.fullmatch(n)})):
            if names:
                failed = True
                print(f"{path} {what}: {', '.join(sorted(names)[:20])} ({len(names)})")
        if soname(path) != "libcuda.so.1":
            failed = True
            print(f"{path}: SONAME is `{soname(path)}`, programs ask for libcuda.so.1")
    print(f"{len(wanted)} names, {len(sys.argv) - 2} libraries")
    return 1 if failed or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
