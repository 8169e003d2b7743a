// The server's side of sluicectl: Cap'n Proto RPC on a UNIX socket, on a thread of its own with
// KJ's event loop. It never touches the broker's state: every request becomes a message to the
// broker's thread, and its answer one back.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "server/config/config.h"
#include "server/control/types.h"

#include <memory>
#include <string>
#include <thread>

namespace sluice::server::control {

class Service {
 public:
  /// Listens on `path`: mode 0600, or 0660 for the group if one is named. `administration` is used
  /// in the thread that `post` reaches, for as long as that one runs what it is given. Errors: the
  /// address is in use, the group is unknown, the path is too long.
  static Result<std::unique_ptr<Service>> start(const std::string& path, const std::string& group,
                                                Administration& administration, Post post);
  /// Ends the thread and removes the socket. To be destroyed before the Administration.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

 private:
  struct Stop;
  explicit Service(std::string path);

  std::string path_;
  std::unique_ptr<Stop> stop_;
  std::thread thread_;
};

}  // namespace sluice::server::control
