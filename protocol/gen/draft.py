"""Drafts an entry for every function of cuda.h that no .api file has: breadth from day one, corrected row by row."""
import os
import re

import spec
from model import Entry
from wire_layout import why_not_carried

ROW_RULES = [
    ("graphics", r"^cu(GL|EGL|VDPAU|Graphics|WGL)"), ("green_context", r"GreenCtx|DevResource|DevSm|cuCtxFromGreen|cuCtxGetDevResource"),
    ("capture", r"Capture"), ("graph", r"^cuGraph|^cuUserObject"), ("memory_pool", r"MemPool|AllocAsync|FreeAsync|AllocFromPool"),
    ("managed", r"Managed|MemPrefetch|MemAdvise|MemRangeGet|StreamAttachMem|Discard"),
    ("virtual_memory", r"^cuMem(Address|Create|Release|Map|Unmap|SetAccess|GetAccess|Export|Import|GetAllocation|GetHandle|Retain)"),
    ("ipc", r"^cuIpc"), ("multicast", r"Multicast"), ("external", r"External"), ("linker", r"^cuLink"),
    ("tensor", r"^cuTensor"), ("texture", r"^cuTex|TexRef|Texture"), ("surface", r"^cuSurf|SurfRef"),
    ("array", r"Array"), ("peer", r"Peer|P2P"), ("occupancy", r"^cuOccupancy"), ("checkpoint", r"^cuCheckpoint"),
    ("profiler", r"^cuProfiler"), ("logs", r"^cuLogs"), ("coredump", r"^cuCoredump"),
    ("launch", r"^cuLaunch|^cuParam|^cuFuncSet(BlockShape|SharedSize)"), ("event", r"^cuEvent|^cuCtx(Record|Wait)Event"),
    ("stream", r"^cuStream"), ("memset", r"^cuMemset"), ("copy", r"^cuMemcpy|BatchAsync"), ("library", r"^cuLibrary|^cuKernel"),
    ("module", r"^cuModule|^cuFunc"), ("context", r"^cuCtx|^cuDevicePrimary"),
    ("init", r"^cuInit|^cuDriverGet|^cuGetProc|^cuGetError|^cuGetExport"), ("device", r"^cuDevice|^cuFlush"),
    ("memory", r"^cuMem|^cuPointer"),
]


def row_of(name):
    for row, pattern in ROW_RULES:
        if re.search(pattern, name):
            return row
    return "device"


def cannot_carry(function):
    """Why a drafted entry must be unsupported, or "". Errs on that side: a wrong stub is worse than a missing one."""
    entry = Entry(function.name, row_of(function.name), False, 0)
    counted = any(re.fullmatch(r"(num|count)\w*|\w*(Count|Size|size)|len", p.name) for p in function.params)
    for p in function.params:
        reason = why_not_carried(entry, p)
        if not reason and counted and p.type.depth == 1 and p.name.endswith("s"):
            reason = f"`{p.name}` may be an array: needs its length"
        if reason:
            return reason
    return ""


def draft(header, folder):
    """Appends the missing entries; returns how many were written."""
    have = {entry.name for entry in spec.read_all(folder)}
    added = 0
    for name in sorted(header.functions):
        if name in have:
            continue
        row = row_of(name)
        path = os.path.join(folder, row + ".api")
        reason = cannot_carry(header.functions[name])
        with open(path, "a", encoding="utf-8") as out:
            if out.tell() == 0:
                out.write(f"row {row}\n")
            out.write(f"\nfn {name}\n")
            if reason:
                out.write(f"  class unsupported\n  # {reason}\n")
            else:
                out.write("  class called\n")
        added += 1
    return added
