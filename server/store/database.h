// SQLite with results instead of return codes: what server/store is made of. A connection and its
// statements are confined to one thread at a time.
#pragma once

#include "common/result.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace sluice::server::store {

/// A prepared statement. Parameters are bound in the order of the question marks, columns count
/// from 0. Lives no longer than its database.
class Statement {
 public:
  Statement& bind(std::int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view value);
  Statement& bind_null();
  template <class Value>
  Statement& bind_optional(const std::optional<Value>& value) {
    return value ? bind(*value) : bind_null();
  }

  /// The next row; false: there are no more, and the statement is ready for other parameters. Err:
  /// also if a parameter could not be bound.
  Result<bool> step();
  /// For a statement that has no rows.
  Status run();

  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] double real(int column) const;
  [[nodiscard]] std::string text(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit Statement(sqlite3_stmt* raw) : raw_(raw) {}
  Statement& note(int code);
  [[nodiscard]] Error problem(int code) const;
  void reset();

  std::unique_ptr<sqlite3_stmt, Finalize> raw_;
  int next_parameter_ = 1;
  int failed_ = 0;  ///< SQLite's code of the first parameter that could not be bound
};

class Database {
 public:
  /// A path, or an SQLite URI; made if it is not there. What is written is on the disk when a
  /// transaction is over. Errors name the path; kProtocol: it is no database, or damaged.
  static Result<Database> open(const std::string& path);

  /// One or more statements without parameters.
  Status run(const std::string& sql);
  Result<Statement> prepare(std::string_view sql);
  /// All that `work` does, or nothing of it if it fails.
  Status transaction(const std::function<Status()>& work);
  /// Somebody has removed or replaced the file: what is written now nobody would ever read.
  [[nodiscard]] bool is_file_gone() const;

 private:
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  Database(std::string path, sqlite3* raw) : path_(std::move(path)), raw_(raw) {}
  [[nodiscard]] Error problem(int code) const;

  std::string path_;
  std::unique_ptr<sqlite3, Close> raw_;
};

}  // namespace sluice::server::store
