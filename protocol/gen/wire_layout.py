"""From a function's or record's spec to the fields of its wire structs."""
import re

from model import Field, SpecError, WireField, WireStruct

SCALARS = {"u8": ("std::uint8_t", 1), "u16": ("std::uint16_t", 2), "u32": ("std::uint32_t", 4), "i32": ("std::int32_t", 4),
           "u64": ("std::uint64_t", 8), "f32": ("float", 4), "f64": ("double", 8)}
HANDLE_KINDS = {"context": "CUcontext", "stream": "CUstream", "event": "CUevent", "module": "CUmodule", "library": "CUlibrary",
                "kernel": "CUkernel", "function": "CUfunction", "graph": "CUgraph", "graph_exec": "CUgraphExec",
                "graph_node": "CUgraphNode"}
CREATING = re.compile(r"Create|Load|Instantiate|Clone")


def direction(entry, param):
    """One of in, string, out, create, destroy, bytes[..], array[..] plus modifiers, from the entry or the defaults."""
    for line in entry.fields if entry else []:
        if line.name == param.name:
            return line.words
    t = param.type
    if t.depth == 0:
        return ["in"] if t.kind != "opaque" else ["?"]
    if t.depth == 1 and t.base == "char" and t.is_const:
        return ["string"]
    if t.depth == 1 and t.kind in ("scalar", "struct") and t.base not in ("char",):
        return ["in"] if t.is_const else ["out"]
    if t.depth == 1 and t.kind == "handle" and not t.is_const:
        return ["create?"]
    return ["?"]


def cannot_carry(function):
    """Why a drafted entry must be unsupported, or ""."""
    for param in function.params:
        words = direction(None, param)
        if words == ["?"]:
            return f"`{param.type.text} {param.name}` needs a hand-written body"
        if words == ["create?"] and not CREATING.search(function.name):
            return f"`{param.name}` gives back an existing object: needs a hand-written body"
        counted = any(re.fullmatch(r"(num|count)\w*|\w*Count|\w*size|len", other.name) for other in function.params)
        if param.type.depth == 1 and counted and words in (["in"], ["out"], ["create?"]) and param.name.endswith("s"):
            return f"`{param.name}` may be an array: needs its length"
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
    known = {param.name for param in function.params}
    for line in entry.fields:
        if line.name not in known:
            raise SpecError(f"{entry.row}.api:{entry.line}: {entry.name} has no parameter {line.name} "
                            f"(it has {', '.join(sorted(known)) or 'none'})")
    out = WireStruct(entry, [], [], [], [])
    for param in function.params:
        words = direction(entry, param)
        what = "create" if words[0] == "create?" and CREATING.search(entry.name) else words[0]
        if what in ("in", "destroy", "create"):
            out.request.append(_value_field(param.name, param.type))
        elif what == "out":
            out.reply.append(_value_field(param.name, param.type))
        elif what == "inout":
            out.request.append(_value_field(param.name, param.type))
            out.reply.append(_value_field(param.name, param.type))
        elif what == "string":
            out.blobs.append(param.name)
        elif what != "ignored":
            raise SpecError(f"{entry.row}.api:{entry.line}: {entry.name}: `{param.type.text} {param.name}` needs a direction")
    return _with_blobs(out)


def record_struct(entry):
    out = WireStruct(entry, [], [], [], [])
    for fields, target, blobs in ((entry.fields, out.request, out.blobs), (entry.reply_fields, out.reply, out.reply_blobs)):
        for line in fields:
            _record_field(entry, line, target, blobs)
    return _with_blobs(out)


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
        raise SpecError(f"{entry.row}.api:{entry.line}: {entry.name}.{line.name}: unknown type {word}")


def _with_blobs(struct):
    struct.request += [WireField(name + "_bytes", "std::uint64_t", 8) for name in struct.blobs]
    struct.reply += [WireField(name + "_bytes", "std::uint64_t", 8) for name in struct.reply_blobs]
    key = lambda f: 8 if f.size_of else f.width
    struct.request.sort(key=key, reverse=True)
    struct.reply.sort(key=key, reverse=True)
    return struct


def travels(entry):
    """Does the function go over the wire under its own name?"""
    if entry.is_record:
        return True
    if entry.alias_of or entry.travel in ("unsupported", "local", "memo") or entry.carried_by:
        return False
    return True
