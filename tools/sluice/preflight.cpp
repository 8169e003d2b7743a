#include "tools/sluice/preflight.h"

#include "tools/sluice/elf_view.h"
#include "tools/sluice/exit_codes.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace sluice::tool {
namespace {

constexpr int kScriptDepthMax = 5;              // the host kernel's own limit
constexpr std::streamsize kFirstLineMax = 255;  // of a script, as the host kernel reads it

/// The loader runs in secure mode, where LD_PRELOAD counts for nothing, if the program gets other
/// rights than its user has.
bool gains_rights(const std::string& path, const struct stat& info) {
  if ((info.st_mode & S_ISUID) != 0 && info.st_uid != ::getuid()) return true;
  if ((info.st_mode & S_ISGID) != 0 && (info.st_mode & S_IXGRP) != 0 && info.st_gid != ::getgid())
    return true;
  return ::getuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

std::optional<Refusal> check_elf(const std::string& path, const ElfView& elf) {
  const auto unsuitable = [&](const std::string& what) {
    return Refusal{kExitUnsuitable, path + what};
  };
  if (elf.machine() != "x86-64")
    return unsuitable(" is for another machine (" + elf.machine() +
                      "): only x86-64 programs can be carried; get its x86-64 build");
  const std::string loader = elf.loader();
  if (loader.empty())
    return unsuitable(" is statically linked: nothing can be loaded into it; link it dynamically");
  if (loader.find("ld-musl") != std::string::npos)
    return unsuitable(
        " is linked to musl: the client libraries need glibc; use its build for a glibc system "
        "(Debian, Ubuntu, Fedora; not Alpine)");
  if (::access(loader.c_str(), X_OK) != 0)
    return Refusal{kExitNotExecutable, path + " needs the dynamic loader " + loader +
                                           ", which is not installed; install the C library that "
                                           "it was built for"};
  const bool has_own_runtime = elf.has_section(".nv_fatbin") && !elf.contains("libcudart.so.");
  if (has_own_runtime && !elf.has_section(".symtab"))
    return unsuitable(
        " links the CUDA runtime statically and is stripped: its runtime cannot be replaced; link "
        "with -cudart shared, or do not strip it");
  return std::nullopt;
}

/// What "#!" names, with env(1) looked through: "#!/usr/bin/env -S python3 -u" is python3.
std::string interpreter_of(const std::string& first_line) {
  std::istringstream words(first_line.substr(2));
  std::string word;
  words >> word;
  if (!word.ends_with("/env"))  // the host kernel searches no PATH
    return word.find('/') == std::string::npos ? "./" + word : word;
  while (words >> word)
    if (!word.starts_with('-') && word.find('=') == std::string::npos) return word;
  return "";
}

struct Script {
  bool is_script = false;
  std::string interpreter;
};

/// Checks one file; a script names who runs it.
std::optional<Refusal> check_file(const std::string& path, Script* script) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
      ::access(path.c_str(), X_OK) != 0)
    return Refusal{kExitNotExecutable, path + " is not an executable file (chmod +x?)"};
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;  // executable but not readable: nothing can be told
  std::string line(static_cast<std::size_t>(kFirstLineMax), '\0');
  file.read(line.data(), kFirstLineMax);
  line.resize(static_cast<std::size_t>(file.gcount()));
  if (line.starts_with("#!")) {
    *script = {true, interpreter_of(line.substr(0, line.find('\n')))};
    return std::nullopt;
  }
  file.clear();
  file.seekg(0);
  const ElfView elf(std::vector<char>(std::istreambuf_iterator<char>(file), {}));
  if (!elf.is_elf())
    return Refusal{kExitNotExecutable,
                   path +
                       " is neither a program nor a script with a #! line; name what runs it: "
                       "sluice run -- sh " +
                       path};
  if (gains_rights(path, info))
    return Refusal{kExitUnsuitable,
                   path +
                       " is setuid or setgid or has file capabilities: the dynamic loader ignores "
                       "LD_PRELOAD there; run a copy without these rights"};
  return check_elf(path, elf);
}

}  // namespace

std::string find_program(const std::string& program) {
  if (program.find('/') != std::string::npos)
    return ::access(program.c_str(), F_OK) == 0 ? program : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

Preflight preflight(const std::string& program) {
  Preflight out;
  std::string name = program;
  for (int depth = 0; depth <= kScriptDepthMax; ++depth) {
    const std::string path = find_program(name);
    if (path.empty()) {
      out.problem =
          out.files.empty()
              ? Refusal{kExitNotFound,
                        "program not found: " + name + "; is it installed, and its folder in PATH?"}
              : Refusal{kExitNotExecutable, out.files.back() + " is run by \"" + name +
                                                "\" (its #! line), which is not found; install it "
                                                "or correct the line"};
      return out;
    }
    out.files.push_back(path);
    Script script;
    out.problem = check_file(path, &script);
    if (out.problem || !script.is_script) return out;
    name = script.interpreter;
  }
  out.problem = Refusal{kExitNotExecutable, program + ": its #! lines lead in a circle"};
  return out;
}

}  // namespace sluice::tool
