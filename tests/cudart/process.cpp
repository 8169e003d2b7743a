#include "tests/cudart/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace sluice::test {

std::vector<std::string> Outcome::calls(const std::string& prefix) const {
  std::vector<std::string> found;
  for (const std::string& line : driver)
    if (line.starts_with(prefix)) found.push_back(line);
  return found;
}

Outcome run(const std::string& program, const std::vector<std::string>& args,
            std::map<std::string, std::string> environment) {
  char log[] = "/tmp/sluice-cudart-XXXXXX";
  if (int fd = ::mkstemp(log); fd >= 0) ::close(fd);
  environment["FAKE_DRIVER_LOG"] = log;
  std::ostringstream command;
  command << "env -u LD_PRELOAD -u LD_AUDIT -u LD_LIBRARY_PATH -u SLUICE_LOG -u SLUICE_LOG_FILE";
  for (const auto& [name, value] : environment) command << " '" << name << "=" << value << "'";
  command << " '" << program << "'";
  for (const std::string& arg : args) command << " '" << arg << "'";
  command << " 2>&1";
  Outcome outcome;
  if (FILE* pipe = ::popen(command.str().c_str(), "r")) {
    std::array<char, 4096> buffer;
    for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
      outcome.output.append(buffer.data(), n);
    const int status = ::pclose(pipe);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::ifstream record(log);
  for (std::string line; std::getline(record, line);) outcome.driver.push_back(line);
  ::unlink(log);
  return outcome;
}

}  // namespace sluice::test
