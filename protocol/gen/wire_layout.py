"""From a function's or record's spec to the fields of its wire structs."""
import re

from model import Field, SpecError, Way, WireField, WireStruct

SCALARS = {"u8": ("std::uint8_t", 1), "u16": ("std::uint16_t", 2), "u32": ("std::uint32_t", 4), "i32": ("std::int32_t", 4),
           "u64": ("std::uint64_t", 8), "f32": ("float", 4), "f64": ("double", 8)}
HANDLE_KINDS = {"context": "CUcontext", "stream": "CUstream", "event": "CUevent", "module": "CUmodule", "library": "CUlibrary",
                "kernel": "CUkernel", "function": "CUfunction", "graph": "CUgraph", "graph_exec": "CUgraphExec",
                "graph_node": "CUgraphNode"}
CREATING = re.compile(r"Create|Load|Instantiate|Clone")
DIRECTIONS = ("in", "out", "inout", "create", "destroy", "string", "server", "ignored")


def way_of(entry, param):
    """How a parameter travels: what the entry says, else the default for its type; what = "?" if neither does."""
    for line in entry.fields:
        if line.name == param.name:
            return _stated(entry, line)
    t = param.type
    if t.depth == 0:
        return Way("in" if t.kind != "opaque" else "?")
    if t.depth == 1 and t.base == "char":
        return Way("string" if t.is_const else "?")
    if t.depth == 1 and t.kind in ("scalar", "struct"):
        return Way("in" if t.is_const else "out")
    if t.depth == 1 and t.kind == "handle" and not t.is_const and CREATING.search(entry.name):
        return Way("create")
    return Way("?")


def _stated(entry, line):
    way = Way("?")
    words = list(line.words)
    while words:
        word = words.pop(0)
        extent = re.fullmatch(r"(bytes|array)\[(.+)\]", word)
        if word == "nullable":
            way.is_nullable = True
        elif extent:
            way.unit, way.extent = extent.groups()
        elif word == "server" and words:
            way.what, way.constant = word, words.pop(0)
        elif word in DIRECTIONS and word != "server":
            way.what = word
        else:
            raise SpecError(f"{entry.where}: {entry.name}: {line.name}: unknown word {word}")
    return way


def why_not_carried(entry, param):
    """Why this parameter of a travelling function cannot be carried as specified, or ""."""
    way, t = way_of(entry, param), param.type
    spelled = f"`{t.text} {param.name}`"
    if way.what == "?":
        return f"{spelled} needs a direction or a hand-written body"
    if way.unit and (way.what not in ("in", "out") or t.depth != 1):
        return f"{spelled}: {way.unit}[...] needs `in` or `out` and a pointer"
    if way.unit == "array" and t.kind not in ("scalar", "struct"):
        return f"{spelled}: only arrays of numbers and pointer-free structs can be carried"
    if not way.unit and way.what in ("in", "out", "inout", "create", "destroy") and (t.depth > 1 or t.kind == "opaque"):
        return f"{spelled} has pointers: it needs bytes[...] or a hand-written body"
    if way.what in ("out", "inout", "create") and t.depth != 1:
        return f"{spelled} is no pointer, it cannot be {way.what}"
    if way.what == "create" and t.kind != "handle":
        return f"{spelled} is no handle, it cannot be {way.what}"
    if t.base == "CUdevice" and not entry.has_own_shim:
        return f"{spelled}: client and server number devices differently: it needs a hand-written shim body"
    if entry.travel == "posted" and way.what in ("out", "inout"):
        return f"{spelled} is an output, but nobody waits for a posted function"
    return ""


def _value_field(name, t):
    if t.kind == "handle":
        return WireField(name, "std::uint64_t", 8, handle=t.base)
    if t.kind == "struct":
        return WireField(name, "std::byte", 1, size_of=t.base)
    cxx = {1: "std::uint8_t", 2: "std::uint16_t", 4: "std::uint32_t", 8: "std::uint64_t"}[t.width]
    if t.base in ("float", "double"):
        cxx = t.base
    elif t.base == "int":
        cxx = "std::int32_t"
    return WireField(name, cxx, t.width)


def function_struct(entry, function):
    out = WireStruct(entry, [], [], [], [])
    for param in function.params:
        way = way_of(entry, param)
        if way.what == "string" or (way.unit and way.what == "in"):
            out.blobs.append(param.name)
        elif way.unit:
            out.reply_blobs.append(param.name)
        else:
            if way.what in ("in", "inout", "create", "destroy"):
                out.request.append(_value_field(param.name, param.type))
            if way.what in ("out", "inout"):
                out.reply.append(_value_field(param.name, param.type))
    return _finish(out)


def record_struct(entry):
    out = WireStruct(entry, [], [], [], [])
    for fields, target, blobs in ((entry.fields, out.request, out.blobs), (entry.reply_fields, out.reply, out.reply_blobs)):
        for line in fields:
            _record_field(entry, line, target, blobs)
    return _finish(out)


def _record_field(entry, line: Field, target, blobs):
    word = line.words[0] if line.words else "?"
    array = re.fullmatch(r"(\w+)\[(\d+)\]", word)
    if word in ("bytes", "string"):
        blobs.append(line.name)
    elif word in HANDLE_KINDS:
        target.append(WireField(line.name, "std::uint64_t", 8, handle=HANDLE_KINDS[word]))
    elif word in SCALARS:
        target.append(WireField(line.name, *SCALARS[word]))
    elif array and array.group(1) in SCALARS:
        cxx, width = SCALARS[array.group(1)]
        target.append(WireField(line.name, cxx, width, int(array.group(2))))
    else:
        raise SpecError(f"{entry.where}: {entry.name}.{line.name}: unknown type {word}")


def _finish(struct):
    """Adds the lengths of the variable parts; largest first, otherwise as declared: no padding but at the end."""
    struct.request += [WireField(name + "_bytes", "std::uint64_t", 8) for name in struct.blobs]
    struct.reply += [WireField(name + "_bytes", "std::uint64_t", 8) for name in struct.reply_blobs]
    key = lambda f: 8 if f.size_of else f.width
    struct.request.sort(key=key, reverse=True)
    struct.reply.sort(key=key, reverse=True)
    return struct


def travels(entry):
    """Does it go over the wire under its own name?"""
    return entry.is_record or (entry.travel in ("posted", "called") and not entry.carried_by)
