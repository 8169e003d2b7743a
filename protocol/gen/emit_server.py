"""server/handlers.h, server/<row>.cpp (generated handlers), server/dispatch.cpp."""
from emit_wire import BANNER
from wire_layout import travels, way_of


def generated_here(entry):
    return not entry.is_record and not entry.has_own_worker and travels(entry)


def handler_prototype(name):
    return f"CUresult handle(Call& call, const wire::{name}& args, wire::{name}::Reply& reply)"


def handlers_header(structs):
    served = [s for s in structs if s.entry.travel != "pushed"]
    return (BANNER + "#pragma once\n\n#include \"protocol/all_rows.h\"\n#include \"server/worker/call.h\"\n\n"
            "#include \"common/result.h\"\n\n#include <cstddef>\n#include <vector>\n\nnamespace sluice::server {\n\n"
            + "".join(handler_prototype(s.entry.name) + ";\n" for s in served) +
            "\n/// What one request came to. reply: the fixed part, reply_blobs: the variable parts, both empty when deferred.\n"
            "struct Outcome {\n  CUresult result = CUDA_SUCCESS;\n  bool is_deferred = false;\n  std::vector<std::byte> reply;\n"
            "  std::vector<std::vector<std::byte>> reply_blobs;\n};\n\n"
            "/// Decodes the body of one record and runs its handler on the calling (decode) thread. Err(kProtocol): lengths that do\n"
            "/// not add up, an unknown opcode, or a record that only a worker may send.\n"
            "Status dispatch(Worker& worker, const wire::RecordHeader& header, Bytes body, Outcome& outcome);\n\n"
            "}  // namespace sluice::server\n")


def handler_source(entry, function, struct):
    fields = {f.name: f for f in struct.request}
    ways = [(p, way_of(entry, p)) for p in function.params]
    lines = ["  const DriverTable& driver = call.driver();",
             f"  if (driver.{entry.name} == nullptr) return CUDA_ERROR_NOT_SUPPORTED;"]
    for p, way in ways:
        if not way.unit and way.what in ("in", "out", "inout", "create", "destroy"):
            lines += _local(p, way, fields.get(p.name))
    for p, way in ways:
        if way.unit or way.what == "string":
            lines += _variable_part(p, way, struct)
    if entry.work:
        stream = next(p.name for p in function.params if p.type.base == "CUstream")
        lines.append(f"  begin_device_work(call, {stream}, {entry.work});")
    run = f"driver.{entry.name}({', '.join(_argument(p, way) for p, way in ways)})"
    after = _after(ways, struct)
    lines += [f"  if (const CUresult failed = {run}) return failed;", *after, "  return CUDA_SUCCESS;"] if after else [f"  return {run};"]
    text = "\n".join(lines)
    unused = ("" if "args." in text else "  static_cast<void>(args);\n") + ("" if "reply." in text else "  static_cast<void>(reply);\n")
    return handler_prototype(entry.name) + " {\n" + unused + text + "\n}\n\n"


def _local(p, way, f):
    """A variable with the parameter's name and value."""
    empty = f"  {p.type.base} {p.name}{{}};"
    if way.what in ("out", "create"):
        return [empty]
    if f.handle:
        return [empty, f"  if (const CUresult bad = native(call, args.{p.name}, &{p.name})) return bad;"]
    if f.size_of:
        return [empty, f"  std::memcpy(&{p.name}, args.{f.name}, sizeof({f.size_of}));"]
    return [f"  auto {p.name} = static_cast<{p.type.base}>(args.{f.name});"]


def _variable_part(p, way, struct):
    if way.what == "string":
        at = struct.blobs.index(p.name)
        return [f"  if (call.blob({at}).size() > wire::kStringBytesMax) return CUDA_ERROR_INVALID_VALUE;",
                f"  const std::string {p.name}(reinterpret_cast<const char*>(call.blob({at}).data()), call.blob({at}).size());"]
    element = "std::byte" if way.unit == "bytes" else p.type.base
    if way.what == "in":
        at = struct.blobs.index(p.name)
        return [f"  std::vector<{element}> {p.name};",
                f"  if (!load_array(call.blob({at}), {way.extent}, &{p.name})) return CUDA_ERROR_INVALID_VALUE;"]
    return [f"  if ({way.extent} > wire::kPayloadBytesMax / sizeof({element})) return CUDA_ERROR_INVALID_VALUE;",
            f"  std::vector<{element}> {p.name}({way.extent});"]


def _argument(p, way):
    if way.what == "server":
        return way.constant
    if way.what == "ignored":
        return "nullptr" if p.type.depth else "0"
    if way.what == "string":
        return f"{p.name}.c_str()"
    if way.unit:
        return f"{p.name}.data()"
    return p.name if p.type.depth == 0 else "&" + p.name


def _after(ways, struct):
    fields = {f.name: f for f in struct.reply}
    lines = []
    for p, way in ways:
        if way.what == "create":
            lines.append(f"  if (const CUresult bad = bind(call, args.{p.name}, {p.name})) return bad;")
        elif way.what == "destroy":
            lines.append(f"  unbind<{p.type.base}>(call, args.{p.name});")
        elif way.unit and way.what == "out":
            lines.append(f"  reply.{p.name}_bytes = store_array(call, {p.name});")
        elif way.what in ("out", "inout") and fields[p.name].size_of:
            lines.append(f"  std::memcpy(reply.{p.name}, &{p.name}, sizeof({p.type.base}));")
        elif way.what in ("out", "inout"):
            lines.append(f"  reply.{p.name} = static_cast<{fields[p.name].cxx}>({p.name});")
    return lines


ARRAY_HELPERS = """namespace {

/// False unless `bytes` holds exactly `count` elements.
template <class T>
[[maybe_unused]] bool load_array(Bytes bytes, std::size_t count, std::vector<T>* out) {
  if (count > bytes.size() / sizeof(T) || count * sizeof(T) != bytes.size()) return false;
  out->resize(count);
  if (count > 0) std::memcpy(out->data(), bytes.data(), bytes.size());
  return true;
}

template <class T>
[[maybe_unused]] std::uint64_t store_array(Call& call, const std::vector<T>& values) {
  const auto* first = reinterpret_cast<const std::byte*>(values.data());
  call.reply_blob(std::vector<std::byte>(first, first + values.size() * sizeof(T)));
  return values.size() * sizeof(T);
}

}  // namespace

"""


def row_source(items):
    body = "".join(handler_source(*item) for item in items)
    helpers = ARRAY_HELPERS if "load_array" in body or "store_array" in body else ""
    return (BANNER + "#include \"server/handlers.h\"\n\n#include <cstring>\n#include <string>\n#include <vector>\n\n"
            "namespace sluice::server {\n" + ("" if helpers else "\n") + helpers + body + "}  // namespace sluice::server\n")


DISPATCH_HEAD = """#include "protocol/reader.h"
#include "server/handlers.h"

#include <array>
#include <cstring>

namespace sluice::server {
namespace {

/// A handler of ours that announces other variable parts than it gave would make the shim misread the reply.
template <class Reply>
bool is_consistent(const Reply& reply, const std::vector<std::vector<std::byte>>& blobs, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (blob_bytes(reply, i) != (i < blobs.size() ? blobs[i].size() : 0)) return false;
  return blobs.size() <= count;
}

template <class Args>
Status run(Worker& worker, const wire::RecordHeader& header, Bytes body, Outcome& outcome) {
  Args args;
  std::array<Bytes, Args::kBlobs> blobs;
  SLUICE_CHECK(wire::read_parts(header.opcode, body, &args, &blobs));
  Call call(worker, header, blobs);
  typename Args::Reply reply{};
  outcome.result = handle(call, args, reply);
  outcome.is_deferred = call.is_deferred() && outcome.result == CUDA_SUCCESS;
  if (outcome.is_deferred || (header.flags & wire::kFlagWantsReply) == 0) return {};
  if (!is_consistent(reply, call.reply_blobs(), Args::kReplyBlobs))
    return fail(ErrorCode::kInternal, std::string(wire::opcode_name(Args::kOpcode)) + ": reply lengths disagree");
  outcome.reply.resize(sizeof reply);
  std::memcpy(outcome.reply.data(), &reply, sizeof reply);
  outcome.reply_blobs = std::move(call.reply_blobs());
  return {};
}

}  // namespace

Status dispatch(Worker& worker, const wire::RecordHeader& header, Bytes body, Outcome& outcome) {
  switch (static_cast<wire::Opcode>(header.opcode)) {
"""


def dispatch_source(structs):
    cases = ""
    for s in structs:
        name = s.entry.name
        if s.entry.travel == "pushed":
            cases += f"    case wire::Opcode::{name}: return wire::malformed(header.opcode, \"only a worker sends this\");\n"
        else:
            cases += f"    case wire::Opcode::{name}: return run<wire::{name}>(worker, header, body, outcome);\n"
    return (BANNER + DISPATCH_HEAD + cases +
            "  }\n  return wire::malformed(header.opcode, \"unknown opcode\");\n}\n\n}  // namespace sluice::server\n")
