"""server/handlers.h, server/<row>.cpp (generated handlers), server/dispatch.cpp."""
from emit_wire import BANNER
from wire_layout import CREATING, direction


def generated_here(entry):
    return not entry.is_record and entry.body != "both"


def handler_prototype(name):
    return f"CUresult handle(Call& call, const wire::{name}& args, wire::{name}::Reply& reply)"


def handlers_header(structs):
    served = [s for s in structs if s.entry.travel != "pushed"]
    return (BANNER + "#pragma once\n\n#include \"protocol/all_rows.h\"\n#include \"server/worker/call.h\"\n\n"
            "#include \"common/result.h\"\n\nnamespace sluice::server {\n\n"
            + "".join(handler_prototype(s.entry.name) + ";\n" for s in served) +
            "\n/// What one request came to. reply: the fixed part, reply_blobs: the variable parts, both empty when deferred.\n"
            "struct Outcome {\n  CUresult result = CUDA_SUCCESS;\n  bool is_deferred = false;\n  std::vector<std::byte> reply;\n"
            "  std::vector<std::vector<std::byte>> reply_blobs;\n};\n\n"
            "/// Decodes the body of one record and runs its handler on the calling (decode) thread. Err(kProtocol): lengths that do\n"
            "/// not add up, an unknown opcode, or a record that only a worker may send.\n"
            "Status dispatch(Worker& worker, const wire::RecordHeader& header, Bytes body, Outcome& outcome);\n\n"
            "}  // namespace sluice::server\n")


def handler_source(entry, function, struct):
    lines = [f"  const DriverTable& driver = call.driver();",
             f"  if (driver.{entry.name} == nullptr) return CUDA_ERROR_NOT_SUPPORTED;"]
    arguments, after = [], []
    fields = {f.name: f for f in struct.request}
    reply_fields = {f.name: f for f in struct.reply}
    blob_at = {name: i for i, name in enumerate(struct.blobs)}
    for p in function.params:
        words = direction(entry, p)
        what = "create" if words[0] == "create?" and CREATING.search(entry.name) else words[0]
        f = fields.get(p.name) or reply_fields.get(p.name)
        if what == "string":
            lines.append(f"  const std::string {p.name}(reinterpret_cast<const char*>(call.blob({blob_at[p.name]}).data()), "
                         f"call.blob({blob_at[p.name]}).size());")
            arguments.append(f"{p.name}.c_str()")
        elif what == "ignored":
            arguments.append("nullptr" if p.type.depth else "0")
        elif what == "create":
            lines.append(f"  {p.type.base} {p.name}{{}};")
            arguments.append("&" + p.name)
            after.append(f"  if (const CUresult bad = bind(call, args.{p.name}, {p.name})) return bad;")
        elif f.handle and what in ("in", "destroy"):
            lines.append(f"  {p.type.base} {p.name}{{}};")
            lines.append(f"  if (const CUresult bad = native(call, args.{p.name}, &{p.name})) return bad;")
            arguments.append(p.name if p.type.depth == 0 else "&" + p.name)
            if what == "destroy":
                after.append(f"  unbind<{p.type.base}>(call, args.{p.name});")
        else:
            lines.append(f"  {p.type.base} {p.name}{{}};")
            if what in ("in", "inout"):
                lines.append(_load(p, fields[p.name]))
            arguments.append(p.name if p.type.depth == 0 else "&" + p.name)
            if what in ("out", "inout"):
                after.append(_store(p, reply_fields[p.name]))
    lines.append(f"  const CUresult result = driver.{entry.name}({', '.join(arguments)});")
    if after:
        lines += ["  if (result != CUDA_SUCCESS) return result;", *after, "  return CUDA_SUCCESS;"]
    else:
        lines.append("  return result;")
    unused = "" if "args." in "\n".join(lines) else "  static_cast<void>(args);\n"
    unused += "" if "reply." in "\n".join(lines) else "  static_cast<void>(reply);\n"
    return handler_prototype(entry.name) + " {\n" + unused + "\n".join(lines) + "\n}\n\n"


def _load(p, f):
    if f.size_of:
        return f"  std::memcpy(&{p.name}, args.{f.name}, sizeof({f.size_of}));"
    return f"  {p.name} = static_cast<{p.type.base}>(args.{f.name});"


def _store(p, f):
    if f.size_of:
        return f"  std::memcpy(reply.{f.name}, &{p.name}, sizeof({f.size_of}));"
    return f"  reply.{f.name} = static_cast<{f.cxx}>({p.name});"


def row_source(items):
    body = "".join(handler_source(*item) for item in items)
    return (BANNER + "#include \"server/handlers.h\"\n\n#include <cstring>\n#include <string>\n\nnamespace sluice::server {\n\n"
            + body + "}  // namespace sluice::server\n")


DISPATCH_HEAD = """#include "server/handlers.h"

#include <array>
#include <cstring>
#include <string>

namespace sluice::server {
namespace {

tl::unexpected<Error> malformed(const wire::RecordHeader& header, const char* why) {
  return fail(ErrorCode::kProtocol,
              std::string("record ") + wire::opcode_name(static_cast<wire::Opcode>(header.opcode)) + ": " + why);
}

template <class Args>
Status run(Worker& worker, const wire::RecordHeader& header, Bytes body, Outcome& outcome) {
  if (body.size() < sizeof(Args)) return malformed(header, "shorter than its fixed part");
  Args args;
  std::memcpy(&args, body.data(), sizeof args);
  Bytes rest = body.subspan(sizeof args);
  std::array<Bytes, Args::kBlobs> blobs;
  for (std::size_t i = 0; i < Args::kBlobs; ++i) {
    const std::uint64_t bytes = wire::blob_bytes(args, i);
    if (bytes > rest.size() || wire::padded(bytes) > rest.size()) return malformed(header, "a variable part is longer than the record");
    blobs[i] = rest.first(bytes);
    rest = rest.subspan(wire::padded(bytes));
  }
  if (!rest.empty()) return malformed(header, "longer than its parts");
  Call call(worker, header, blobs);
  typename Args::Reply reply{};
  outcome.result = handle(call, args, reply);
  outcome.is_deferred = call.is_deferred() && outcome.result == CUDA_SUCCESS;
  if (!outcome.is_deferred && (header.flags & wire::kFlagWantsReply) != 0) {
    outcome.reply.resize(sizeof reply);
    std::memcpy(outcome.reply.data(), &reply, sizeof reply);
    outcome.reply_blobs = std::move(call.reply_blobs());
  }
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
            cases += f"    case wire::Opcode::{name}: return malformed(header, \"only a worker sends this\");\n"
        else:
            cases += f"    case wire::Opcode::{name}: return run<wire::{name}>(worker, header, body, outcome);\n"
    return (BANNER + DISPATCH_HEAD + cases + "  }\n  return malformed(header, \"unknown opcode\");\n}\n\n}  // namespace sluice::server\n")
