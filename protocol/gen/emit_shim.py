"""shim/<row>.cpp: the exported entry of every function whose shim body is generated."""
from emit_wire import BANNER
from wire_layout import CREATING, direction


def signature(function):
    params = ", ".join(_declare(p) for p in function.params)
    return f"extern \"C\" __attribute__((visibility(\"default\"))) CUresult CUDAAPI {function.name}({params})"


def _declare(p):
    t = p.type
    return f"{t.text}{'' if t.text.endswith('*') else ' '}{p.name}"


def generated_here(entry):
    return not entry.is_record and entry.body == "generated" and entry.travel in ("posted", "called") and not entry.alias_of


def entry_source(entry, function, struct):
    lines = [f"  if (const CUresult refused = sluice::shim::enter(sluice::wire::Fn::{entry.name})) return refused;"]
    created, destroyed, outs, blobs = [], [], [], []
    for p in function.params:
        words = direction(entry, p)
        what = "create" if words[0] == "create?" and CREATING.search(entry.name) else words[0]
        if what in ("out", "inout", "create") and "nullable" not in words:
            lines.append(f"  if ({p.name} == nullptr) return CUDA_ERROR_INVALID_VALUE;")
        if what in ("in", "inout") and p.type.depth == 1:
            lines.append(f"  if ({p.name} == nullptr) return CUDA_ERROR_INVALID_VALUE;")
        if what == "string":
            lines.append(f"  if ({p.name} == nullptr) return CUDA_ERROR_INVALID_VALUE;")
            blobs.append(p)
        if what == "create":
            created.append(p)
        elif what == "destroy":
            destroyed.append(p)
        if what in ("out", "inout"):
            outs.append((p, "nullable" in words))
    lines.append(f"  sluice::wire::{entry.name} args{{}};")
    fields = {f.name: f for f in struct.request}
    for p in function.params:
        f = fields.get(p.name)
        if f is None or p in created:
            continue
        lines += _fill(p, f)
    for p in blobs:
        lines.append(f"  const sluice::shim::Bytes {p.name}_blob = sluice::shim::string_bytes({p.name});")
        lines.append(f"  args.{p.name}_bytes = {p.name}_blob.size();")
    for p in created:
        lines.append(f"  args.{p.name} = sluice::shim::reserve_id();")
    blob_list = "{" + ", ".join(f"{p.name}_blob" for p in blobs) + "}"
    if entry.travel == "posted" and not outs:
        lines.append(f"  const CUresult result = sluice::shim::post(args, {blob_list});")
    else:
        lines.append(f"  sluice::wire::{entry.name}::Reply reply{{}};")
        lines.append(f"  const CUresult result = sluice::shim::call(args, reply, {blob_list});")
    if created or destroyed or outs:
        lines.append("  if (result != CUDA_SUCCESS) return result;")
        for p in created:
            lines.append(f"  *{p.name} = sluice::shim::publish<{p.type.base}>(args.{p.name});")
        for p in destroyed:
            lines.append(f"  sluice::shim::retire({p.name});")
        reply_fields = {f.name: f for f in struct.reply}
        for p, nullable in outs:
            lines.append(_take(p, reply_fields[p.name], nullable))
        lines.append("  return CUDA_SUCCESS;")
    else:
        lines.append("  return result;")
    return signature(function) + " {\n" + "\n".join(lines) + "\n}\n\n"


def _fill(p, f):
    source = p.name if p.type.depth == 0 else "*" + p.name
    if f.handle:
        return [f"  if (const CUresult bad = sluice::shim::to_wire({source}, &args.{f.name})) return bad;"]
    if f.size_of:
        address = "&" + p.name if p.type.depth == 0 else p.name
        return [f"  std::memcpy(args.{f.name}, {address}, sizeof({f.size_of}));"]
    return [f"  args.{f.name} = static_cast<{f.cxx}>({source});"]


def _take(p, f, nullable):
    guard = f"if ({p.name} != nullptr) " if nullable else ""
    if f.size_of:
        return f"  {guard}std::memcpy({p.name}, reply.{f.name}, sizeof({f.size_of}));"
    return f"  {guard}*{p.name} = static_cast<{p.type.base}>(reply.{f.name});"


def row_source(row, items):
    body = "".join(entry_source(*item) for item in items)
    return BANNER + f"#include \"protocol/{row}.h\"\n#include \"protocol/functions.h\"\n#include \"shim/call.h\"\n\n#include <cstring>\n\n" + body


def alias_source(function, target, per_thread):
    """Another exported name of a function: the per-thread form, or an older name with the same ABI."""
    names = ", ".join(p.name for p in function.params)
    sign = signature(function).replace(f"CUDAAPI {function.name}(", f"CUDAAPI {target}(")
    scope = "  const PER_THREAD_SCOPE scope;\n" if per_thread else ""
    return f"{sign} {{\n{scope}  return {function.name}({names});\n}}\n\n"
