"""shim/<row>.cpp: the exported entry of every function whose shim body is generated."""
from emit_wire import BANNER
from wire_layout import way_of


MAY_BE_NULL = ("CUstream", "CUcontext")   # the legacy stream, the current context


def declare(params):
    return ", ".join(f"{p.type.text}{'' if p.type.text.endswith('*') else ' '}{p.name}" for p in params)


def signature(name, params, weak=False):
    attributes = "weak, visibility(\"default\")" if weak else "visibility(\"default\")"
    return f"extern \"C\" __attribute__(({attributes})) CUresult CUDAAPI {name}({declare(params)})"


def generated_here(entry):
    return not entry.is_record and not entry.has_own_shim and entry.travel in ("posted", "called")


def stream_of(struct):
    """The stream field that a function without a stream fills with its default one when it borrows another's struct."""
    return next(f.name for f in struct.request if f.handle == "CUstream")


def entry_source(entry, function, struct):
    ways = [(p, way_of(entry, p)) for p in function.params]
    lines = [f"  if (const CUresult refused = sluice::shim::enter(sluice::wire::Fn::{entry.name})) return refused;"]
    lines += [f"  static_cast<void>({p.name});" for p, way in ways if way.what in ("server", "ignored")]
    lines += _argument_checks(entry, ways)
    lines.append(f"  sluice::wire::{struct.entry.name} args{{}};")
    fields = {f.name: f for f in struct.request}
    for p, way in ways:
        if way.what == "create":
            lines.append(f"  args.{p.name} = sluice::shim::reserve_id();")
        elif p.name in fields:
            lines += _fill(p, fields[p.name])
    if struct.entry is not entry:
        lines.append(f"  if (const CUresult bad = sluice::shim::to_wire(CUstream{{}}, &args.{stream_of(struct)})) return bad;")
    for p, way in ways:
        lines += _blob(p, way)
    if entry.travel == "called":
        lines.append(f"  sluice::wire::{struct.entry.name}::Reply reply{{}};")
        send = f"sluice::shim::call(args, reply{_blob_lists(ways)})"
    else:
        send = f"sluice::shim::post(args{_blob_lists(ways)})"
    results = _results(ways, struct)
    lines += [f"  if (const CUresult failed = {send}) return failed;", *results, "  return CUDA_SUCCESS;"] if results else [f"  return {send};"]
    return signature(entry.name, function.params) + " {\n" + "\n".join(lines) + "\n}\n\n"


def _argument_checks(entry, ways):
    lines = []
    for p, way in ways:
        if way.unit:
            lines.append(f"  if (!sluice::shim::is_extent({p.name}, {way.extent}, {_element_size(p, way)})) return CUDA_ERROR_INVALID_VALUE;")
        elif p.type.depth == 1 and way.what in ("in", "out", "inout", "create", "string") and not way.is_nullable:
            lines.append(f"  if ({p.name} == nullptr) return CUDA_ERROR_INVALID_VALUE;")
        elif p.type.depth == 0 and p.type.kind == "handle" and p.type.base not in MAY_BE_NULL and not way.is_nullable:
            lines.append(f"  if ({p.name} == nullptr) return CUDA_ERROR_INVALID_HANDLE;")
    return lines + [f"  if (!({check})) return CUDA_ERROR_INVALID_VALUE;" for check in entry.checks]


def _element_size(p, way):
    return "1" if way.unit == "bytes" else f"sizeof({p.type.base})"


def _fill(p, f):
    source = p.name if p.type.depth == 0 else "*" + p.name
    if f.handle:
        return [f"  if (const CUresult bad = sluice::shim::to_wire({source}, &args.{f.name})) return bad;"]
    if f.size_of:
        address = "&" + p.name if p.type.depth == 0 else p.name
        return [f"  std::memcpy(args.{f.name}, {address}, sizeof({f.size_of}));"]
    return [f"  args.{f.name} = static_cast<{f.cxx}>({source});"]


def _blob(p, way):
    if way.what == "string":
        source = f"sluice::shim::string_bytes({p.name})"
    elif way.unit and way.what == "in":
        source = f"sluice::shim::extent_bytes({p.name}, {way.extent}, {_element_size(p, way)})"
    else:
        return []
    return [f"  const sluice::shim::Bytes {p.name}_blob = {source};", f"  args.{p.name}_bytes = {p.name}_blob.size();"]


def _blob_lists(ways):
    sent = [f"{p.name}_blob" for p, way in ways if way.what == "string" or (way.unit and way.what == "in")]
    wanted = [f"{{sluice::shim::extent_space({p.name}, {way.extent}, {_element_size(p, way)})}}"
              for p, way in ways if way.unit and way.what == "out"]
    if wanted:
        return ", {" + ", ".join(sent) + "}, {" + ", ".join(wanted) + "}"
    return ", {" + ", ".join(sent) + "}" if sent else ""


def _results(ways, struct):
    fields = {f.name: f for f in struct.reply}
    lines = []
    for p, way in ways:
        if way.what == "create":
            lines.append(f"  *{p.name} = sluice::shim::publish<{p.type.base}>(args.{p.name});")
        elif way.what == "destroy":
            lines.append(f"  sluice::shim::retire({p.name});")
        elif way.what in ("out", "inout") and not way.unit:
            lines.append(_take(p, fields[p.name], way.is_nullable))
    return lines


def _take(p, f, is_nullable):
    guard = f"if ({p.name} != nullptr) " if is_nullable else ""
    if f.size_of:
        return f"  {guard}std::memcpy({p.name}, reply.{f.name}, sizeof({f.size_of}));"
    return f"  {guard}*{p.name} = static_cast<{p.type.base}>(reply.{f.name});"


def row_source(row, items):
    body = "".join(entry_source(*item) for item in items)
    return (BANNER + f"#include \"protocol/{row}.h\"\n#include \"protocol/functions.h\"\n#include \"shim/call.h\"\n"
            "#include \"shim/extent.h\"\n\n#include <cstring>\n\n" + body)
