// The server's state: what must survive it. One SQLite file, <state_dir>/sluiced.db, that one
// server at a time has; without a state_dir the same in memory, until the server ends.
//
//   tenant        what sluicectl has changed about tenants (tenant_rows.h)
//   usage         what tenants had of the devices, by hour (usage_log.h)
//   usage_total   the same since ever
//
// A transaction is on the disk when it is over: a server or a machine that dies at any moment
// leaves every change as it was before or after, and none that was acknowledged is lost.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "server/store/database.h"

#include <string>

namespace sluice::server::store {

class State {
 public:
  /// `state_dir` is made (mode 0700) if it is not there; empty: in memory. Errors: kExhausted,
  /// another server has it; kVersion, a newer server made it; else as Database::open().
  static Result<State> open(const std::string& state_dir);

  /// For the thread that opened it.
  [[nodiscard]] Database& database() { return database_; }
  /// For another thread.
  [[nodiscard]] Result<Database> connect() const { return Database::open(uri_); }
  /// Empty: it is in memory.
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Of the server's state, in state_dir; empty if there is none.
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  State(std::string folder, std::string path, std::string uri, Fd lock, Database database)
      : folder_(std::move(folder)),
        path_(std::move(path)),
        uri_(std::move(uri)),
        lock_(std::move(lock)),
        database_(std::move(database)) {}

  std::string folder_, path_, uri_;
  Fd lock_;  ///< held while we have it
  Database database_;
};

}  // namespace sluice::server::store
