#include "server/store/state.h"

#include "common/format.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>

namespace sluice::server::store {
namespace {

/// What makes version i + 1 of version i. Never changed, only added to: servers of any age update.
constexpr const char* kMigrations[] = {
    R"sql(
      CREATE TABLE tenant (
        name TEXT PRIMARY KEY,
        is_removed INTEGER NOT NULL,
        memory_limit_bytes INTEGER,
        max_sessions INTEGER,
        idle_timeout_ms INTEGER,
        max_duration_ms INTEGER,
        compute_guarantee REAL,
        compute_limit REAL,
        compute_weight REAL,
        compute_class TEXT,
        token_sha256 TEXT
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE usage (
        hour INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        gpu TEXT NOT NULL,
        gpu_s REAL NOT NULL,
        reserved_gpu_s REAL NOT NULL,
        memory_byte_s REAL NOT NULL,
        reserved_memory_byte_s REAL NOT NULL,
        PRIMARY KEY (hour, tenant, gpu)
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE usage_total (
        tenant TEXT NOT NULL,
        gpu TEXT NOT NULL,
        gpu_s REAL NOT NULL,
        reserved_gpu_s REAL NOT NULL,
        memory_byte_s REAL NOT NULL,
        reserved_memory_byte_s REAL NOT NULL,
        PRIMARY KEY (tenant, gpu)
      ) STRICT, WITHOUT ROWID;
    )sql",
};
constexpr std::int64_t kVersion = std::size(kMigrations);

Status update(Database& database, const std::string& path) {
  return database.transaction([&]() -> Status {
    SLUICE_TRY(Statement get, database.prepare("PRAGMA user_version"));
    SLUICE_TRY(const bool has_row, get.step());
    const std::int64_t version = has_row ? get.integer(0) : 0;
    if (version > kVersion)
      return fail(ErrorCode::kVersion,
                  format("{} was written by a newer sluiced (version {}, this one knows {}); use "
                         "that one, or another state_dir",
                         path, version, kVersion));
    for (std::int64_t i = version; i < kVersion; ++i) SLUICE_CHECK(database.run(kMigrations[i]));
    return database.run(format("PRAGMA user_version = {}", kVersion));
  });
}

/// Damage is found now and not when a removed tenant knocks. The usage, which may be long, is left
/// to be read when somebody asks for it.
Status check(Database& database, const std::string& path) {
  SLUICE_TRY(Statement look, database.prepare("PRAGMA quick_check('tenant')"));
  SLUICE_TRY(const bool has_row, look.step());
  const std::string verdict = has_row ? look.text(0) : "no answer";
  if (verdict == "ok") return {};
  return fail(ErrorCode::kProtocol, format("{} is damaged: {}; restore it, or remove it to start "
                                           "with sluiced.toml alone",
                                           path, verdict));
}

Status make_folder(const std::string& folder) {
  std::error_code failed;
  const bool is_ours = std::filesystem::create_directories(folder, failed);
  if (failed) return fail(system_error("creating state_dir " + folder, failed.value()));
  if (is_ours) ::chmod(folder.c_str(), 0700);
  return {};
}

/// The lock goes with the descriptor, however its owner ends.
Result<Fd> lock_folder(const std::string& folder) {
  const std::string path = folder + "/sluiced.lock";
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return fail(system_error("opening " + path, errno));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return fail(system_error("locking " + path, errno));
  return fail(
      ErrorCode::kExhausted,
      format("another sluiced has state_dir {}; give each its own, or stop the other", folder));
}

/// So that its side files get the same mode.
Status make_private(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return fail(system_error("opening " + path, errno));
  return {};
}

std::string memory_uri() {
  static std::atomic<unsigned> next{1};
  return format("file:/sluiced-{}-{}?vfs=memdb", ::getpid(), next++);
}

}  // namespace

Result<State> State::open(const std::string& state_dir) {
  const std::string path = state_dir.empty() ? "" : state_dir + "/sluiced.db";
  Fd lock;
  if (!state_dir.empty()) {
    SLUICE_CHECK(make_folder(state_dir));
    SLUICE_TRY(lock, lock_folder(state_dir));
    SLUICE_CHECK(make_private(path));
  }
  const std::string uri = path.empty() ? memory_uri() : path;
  SLUICE_TRY(Database database, Database::open(uri));
  SLUICE_CHECK(update(database, path));
  SLUICE_CHECK(check(database, path));
  return State(state_dir, path, uri, std::move(lock), std::move(database));
}

}  // namespace sluice::server::store
