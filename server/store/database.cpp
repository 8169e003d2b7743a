#include "server/store/database.h"

#include "common/format.h"

#include <sqlite3.h>

namespace sluice::server::store {
namespace {

/// Another connection of this process, or sqlite3 in an administrator's hands, may be writing.
constexpr int kBusyMs = 5'000;

ErrorCode code_of(int sqlite) {
  switch (sqlite & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return ErrorCode::kProtocol;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return ErrorCode::kPermission;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorCode::kTimeout;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return ErrorCode::kExhausted;
    default:
      return ErrorCode::kSystem;
  }
}

Error problem_of(sqlite3* connection, int code, const std::string& path) {
  const char* text = connection != nullptr ? sqlite3_errmsg(connection) : sqlite3_errstr(code);
  return {code_of(code), format("{}: {}", path, text)};
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Statement& Statement::note(int code) {
  if (code != SQLITE_OK && failed_ == SQLITE_OK) failed_ = code;
  ++next_parameter_;
  return *this;
}

Statement& Statement::bind(std::int64_t value) {
  return note(sqlite3_bind_int64(raw_.get(), next_parameter_, value));
}
Statement& Statement::bind(double value) {
  return note(sqlite3_bind_double(raw_.get(), next_parameter_, value));
}
Statement& Statement::bind(std::string_view value) {
  return note(sqlite3_bind_text64(raw_.get(), next_parameter_, value.data(), value.size(),
                                  SQLITE_TRANSIENT, SQLITE_UTF8));
}
Statement& Statement::bind_null() {
  return note(sqlite3_bind_null(raw_.get(), next_parameter_));
}

Error Statement::problem(int code) const {
  sqlite3* connection = sqlite3_db_handle(raw_.get());
  const char* path = sqlite3_db_filename(connection, "main");
  return problem_of(connection, code, path != nullptr && *path != 0 ? path : "the database");
}

void Statement::reset() {
  sqlite3_reset(raw_.get());
  sqlite3_clear_bindings(raw_.get());
  next_parameter_ = 1;
  failed_ = SQLITE_OK;
}

Result<bool> Statement::step() {
  const int code = failed_ != SQLITE_OK ? failed_ : sqlite3_step(raw_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    reset();
    return false;
  }
  const Error error = problem(code);
  reset();
  return fail(error);
}

Status Statement::run() {
  SLUICE_TRY(bool has_row, step());
  while (has_row) {
    SLUICE_TRY(has_row, step());
  }
  return {};
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(raw_.get(), column) == SQLITE_NULL;
}
std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(raw_.get(), column);
}
double Statement::real(int column) const {
  return sqlite3_column_double(raw_.get(), column);
}
std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(raw_.get(), column));
  const int size = sqlite3_column_bytes(raw_.get(), column);
  return bytes != nullptr ? std::string(bytes, static_cast<std::size_t>(size)) : std::string();
}

void Database::Close::operator()(sqlite3* connection) const {
  sqlite3_close_v2(connection);
}

Error Database::problem(int code) const {
  return problem_of(raw_.get(), code, path_);
}

Result<Database> Database::open(const std::string& path) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(
      path.c_str(), &raw,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(path, raw);  // also one that failed must be closed
  if (code != SQLITE_OK) return fail(database.problem(code));
  sqlite3_busy_timeout(raw, kBusyMs);
  SLUICE_CHECK(database.run("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL"));
  return database;
}

Status Database::run(const std::string& sql) {
  const int code = sqlite3_exec(raw_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return fail(problem(code));
  return {};
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code =
      sqlite3_prepare_v2(raw_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
  if (code != SQLITE_OK) return fail(problem(code));
  return Statement(raw);
}

Status Database::transaction(const std::function<Status()>& work) {
  SLUICE_CHECK(run("BEGIN IMMEDIATE"));
  Status done = work();
  if (done) done = run("COMMIT");
  // A COMMIT that fails may have left it open; one that has rolled back by itself has not.
  if (!done && sqlite3_get_autocommit(raw_.get()) == 0) static_cast<void>(run("ROLLBACK"));
  return done;
}

bool Database::is_file_gone() const {
  int is_gone = 0;
  return sqlite3_file_control(raw_.get(), "main", SQLITE_FCNTL_HAS_MOVED, &is_gone) == SQLITE_OK &&
         is_gone != 0;
}

}  // namespace sluice::server::store
