#include "shim/bind/bind.h"

#include "common/format.h"
#include "shim/bind/elf_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>

namespace sluice::bind {
namespace {

constexpr std::string_view kRegister = "__cudaRegisterFatBinary";

struct Candidate {
  std::string_view name;
  std::uint64_t address;
  std::uint64_t bytes;
  const cudart::Entry* ours;  // null: no version of our runtime has it
};

const cudart::Entry* find_entry(const cudart::RuntimeTable& runtime, std::string_view name) {
  const cudart::Entry* end = runtime.entries + *runtime.entry_count;
  const auto* found = std::lower_bound(
      runtime.entries, end, name,
      [](const cudart::Entry& entry, std::string_view wanted) { return entry.name < wanted; });
  return found != end && found->name == name ? found : nullptr;
}

/// What nvcc writes into the objects of a program, also between the runtime's functions.
bool is_of_the_compiler(std::string_view name) {
  constexpr std::string_view kPrefixes[] = {
      "__cudaRegisterLinkedBinary", "__cudaUnregisterBinaryUtil", "__cudaLaunchKernel_helper"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_runtime_name(std::string_view name) {
  if (is_of_the_compiler(name)) return false;
  if (name.starts_with("__")) name.remove_prefix(2);
  return name.size() > 4 && name.starts_with("cuda") && name[4] >= 'A' && name[4] <= 'Z';
}

// The runtime's functions are hidden, so the linker made them local: binding says nothing here.
bool is_defined_function(const Elf64_Sym& symbol) {
  return ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF;
}

std::vector<Candidate> collect(const ElfFile::Symbols& symbols,
                               const cudart::RuntimeTable& runtime) {
  std::vector<Candidate> found;
  for (const Elf64_Sym& symbol : symbols.table) {
    if (!is_defined_function(symbol)) continue;
    const std::string_view name = symbols.name(symbol);
    if (is_runtime_name(name))
      found.push_back({name, symbol.st_value, symbol.st_size, find_entry(runtime, name)});
  }
  return found;
}

/// The object's functions as the runtime of one version.
struct Reading {
  std::size_t version = 0;  // an index of kMajors
  std::vector<Candidate> functions;
  std::string_view stranger;  // lies among them, but that version has no such function
};

/// Functions may merely look like the runtime's (the user's, wrappers in other libraries). The
/// runtime's own lie together, so an unknown name among them belongs to it and one elsewhere does
/// not.
Reading read_as(std::size_t version, const std::vector<Candidate>& found) {
  Reading reading;
  reading.version = version;
  std::uint64_t first = UINT64_MAX;
  std::uint64_t last = 0;
  for (const Candidate& entry : found) {
    if (entry.ours == nullptr || entry.ours->function[version] == nullptr) continue;
    reading.functions.push_back(entry);
    first = std::min(first, entry.address);
    last = std::max(last, entry.address);
  }
  for (const Candidate& entry : found) {
    const bool is_known = entry.ours != nullptr && entry.ours->function[version] != nullptr;
    if (!is_known && entry.address > first && entry.address < last) reading.stranger = entry.name;
  }
  return reading;
}

/// As the version that knows most of the functions, and must know all; of several, the newest.
Result<Reading> read_runtime(const std::vector<Candidate>& found) {
  Reading best = read_as(0, found);
  for (std::size_t version = 1; version < cudart::kMajorCount; ++version) {
    Reading reading = read_as(version, found);
    if (reading.functions.size() > best.functions.size()) best = std::move(reading);
  }
  if (best.stranger.empty()) return best;
  return fail(ErrorCode::kVersion,
              sluice::format("its static CUDA runtime has {}, which Sluice's runtime of CUDA {} "
                             "lacks (is it of another version?); link with -cudart shared",
                             best.stranger, cudart::kMajors[best.version]));
}

/// A jump may reach into the padding behind a short function, never into another symbol.
Status check_room(const ElfFile& file, const ElfFile::Symbols& symbols,
                  std::vector<Candidate>* entries) {
  std::sort(entries->begin(), entries->end(),
            [](const Candidate& a, const Candidate& b) { return a.address < b.address; });
  std::vector<std::uint64_t> starts;
  for (const Elf64_Sym& symbol : symbols.table)
    if (symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) <= STT_FUNC)
      starts.push_back(symbol.st_value);
  std::sort(starts.begin(), starts.end());
  for (const Candidate& entry : *entries) {
    const auto next = std::upper_bound(starts.begin(), starts.end(), entry.address);
    const std::uint64_t room = next == starts.end() ? entry.bytes : *next - entry.address;
    if (room < kJumpBytes || !file.is_code(entry.address, kJumpBytes))
      return fail(ErrorCode::kUnsupported,
                  sluice::format("{} in its static CUDA runtime cannot be redirected; link with "
                                 "-cudart shared",
                                 entry.name));
  }
  return {};
}

enum class Role { kNone, kImport, kExport };

/// What the object's dynamic symbols say about a name.
Role role_of(const ElfFile::Symbols& dynamic, std::string_view name) {
  for (const Elf64_Sym& symbol : dynamic.table)
    if (dynamic.name(symbol) == name)
      return symbol.st_shndx == SHN_UNDEF ? Role::kImport : Role::kExport;
  return Role::kNone;
}

/// A static runtime is there for its object alone: what exports the names is a shared one.
bool has_static_runtime(const ElfFile& file) {
  const ElfFile::Symbols all = file.symbols(SHT_SYMTAB);
  if (all.names.find(kRegister) == std::string_view::npos) return false;
  const bool is_defined =
      std::any_of(all.table.begin(), all.table.end(), [&](const Elf64_Sym& symbol) {
        return is_defined_function(symbol) && all.name(symbol) == kRegister;
      });
  return is_defined && role_of(file.symbols(SHT_DYNSYM), kRegister) != Role::kExport;
}

/// Kernels, but neither names of a runtime nor a shared one that would take them.
bool has_stripped_runtime(const ElfFile& file) {
  return file.symbols(SHT_SYMTAB).table.empty() && file.has_section(".nv_fatbin") &&
         role_of(file.symbols(SHT_DYNSYM), kRegister) == Role::kNone;
}

std::array<std::uint8_t, kJumpBytes> jump_to(const void* target) {
  std::array<std::uint8_t, kJumpBytes> code = {0x49, 0xBB, 0, 0,    0,    0,   0,
                                               0,    0,    0, 0x41, 0xFF, 0xE3};
  std::memcpy(code.data() + 2, static_cast<const void*>(&target), sizeof target);
  return code;
}

}  // namespace

bool has_static_runtime(const std::string& path) {
  auto file = ElfFile::open(path.c_str());
  return file && has_static_runtime(*file);
}

Result<Plan> plan_binding(const std::string& path, const cudart::RuntimeTable& runtime) {
  auto file = ElfFile::open(path.c_str());
  if (!file) return Plan{};  // not an object that we could be asked to bind
  if (has_stripped_runtime(*file))
    return fail(ErrorCode::kUnsupported,
                "links the CUDA runtime statically and is stripped: link with -cudart shared");
  if (!has_static_runtime(*file)) return Plan{};
  const ElfFile::Symbols all = file->symbols(SHT_SYMTAB);
  SLUICE_TRY(Reading reading, read_runtime(collect(all, runtime)));
  SLUICE_CHECK(check_room(*file, all, &reading.functions));
  Plan plan{cudart::kMajors[reading.version], {}};
  plan.entries.reserve(reading.functions.size());
  for (const Candidate& entry : reading.functions)
    plan.entries.push_back(
        {entry.address, reinterpret_cast<void*>(entry.ours->function[reading.version])});
  return plan;
}

Status apply_binding(std::uintptr_t load_base, const Plan& plan) {
  if (plan.entries.empty()) return {};
  // The plan is sorted: one range of pages holds all entries. It is not executable meanwhile.
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = (load_base + plan.entries.front().address) & ~(page - 1);
  const std::uintptr_t end =
      (load_base + plan.entries.back().address + kJumpBytes + page - 1) & ~(page - 1);
  auto* pages = reinterpret_cast<void*>(first);
  if (::mprotect(pages, end - first, PROT_READ | PROT_WRITE) != 0)
    return fail(system_error("this system forbids changing a program's code (execmod?)", errno));
  for (const Entry& entry : plan.entries) {
    const auto code = jump_to(entry.target);
    std::memcpy(reinterpret_cast<void*>(load_base + entry.address), code.data(), code.size());
  }
  if (::mprotect(pages, end - first, PROT_READ | PROT_EXEC) != 0)
    return fail(system_error("making the program's code executable again", errno));
  return {};
}

Status bind_object(const std::string& path, std::uintptr_t load_base,
                   const cudart::RuntimeTable& runtime) {
  SLUICE_TRY(const Plan plan, plan_binding(path, runtime));
  if (plan.entries.empty()) return {};
  SLUICE_CHECK(apply_binding(load_base, plan));
  runtime.serve_major(plan.major);
  return {};
}

}  // namespace sluice::bind
