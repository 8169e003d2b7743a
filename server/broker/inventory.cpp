// Which devices there are: every worker says it when it has loaded the driver, and before there is
// a session one is started to say it and end. Whoever only looks never starts one of their own.
#include "common/log.h"
#include "server/broker/broker.h"
#include "server/broker/session.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace sluice::server {
namespace {

/// A driver's file carries its release: libcuda.so.1 is a link to libcuda.so.580.65.06. Empty: this
/// one's does not.
std::string release_of(const std::string& driver) {
  constexpr std::string_view kStem = "libcuda.so.";
  std::error_code none;
  const std::string name = std::filesystem::canonical(driver, none).filename().string();
  if (!name.starts_with(kStem)) return "";
  std::string release = name.substr(kStem.size());
  const bool is_release = release.find('.') != std::string::npos &&
                          std::all_of(release.begin(), release.end(), [](unsigned char c) {
                            return std::isdigit(c) != 0 || c == '.';
                          });
  return is_release ? release : "";
}

}  // namespace

void Broker::take_inventory() {
  if (inventory_worker_ != nullptr) return;
  inventory_started_ = Clock::now();
  inventory_problem_.clear();
  auto worker = start_worker(options_.worker_executable);
  if (!worker) return miss_inventory(worker.error().message);
  inventory_worker_ = std::make_unique<WorkerProcess>(std::move(*worker));
  link::Start start;
  start.driver_path = options_.config.driver;
  start.session_id = link::kInventorySession;
  start.tenant = "(inventory)";
  watch(inventory_worker_->link.get(), [this] { on_inventory(); });
  watch(inventory_worker_->pidfd.get(), [this] { on_inventory_exit(); });
  // If it is gone already, its exit is seen next.
  static_cast<void>(link::send_message(inventory_worker_->link.get(), start));
  at(Clock::now() + options_.times.start, [this, pid = inventory_worker_->pid] {
    if (inventory_worker_ == nullptr || inventory_worker_->pid != pid) return;
    ::kill(pid, SIGKILL);
    miss_inventory("the worker did not load the driver in time; the server's log says more");
  });
}

void Broker::on_inventory() {
  const auto received = link::receive_message(inventory_worker_->link.get());
  if (!received && received.error().code == ErrorCode::kTimeout) return;
  // It has said what it has to say; its exit follows.
  unwatch(inventory_worker_->link.get());
  inventory_worker_->link.reset();
  if (!received) return;
  if (const auto* ready = std::get_if<link::Ready>(&received->message)) return note_devices(*ready);
  if (const auto* failed = std::get_if<link::Failed>(&received->message))
    miss_inventory(failed->message);
}

void Broker::on_inventory_exit() {
  if (inventory_worker_->link.valid()) on_inventory();  // its word may still lie there
  unwatch(inventory_worker_->pidfd.get());
  if (inventory_worker_->link.valid()) unwatch(inventory_worker_->link.get());
  ::waitpid(inventory_worker_->pid, nullptr, 0);
  inventory_worker_.reset();
  if (inventory_.driver_version == 0 && inventory_problem_.empty())
    miss_inventory("the worker ended while it loaded the driver; the server's log says why");
}

void Broker::note_devices(const link::Ready& ready) {
  inventory_ = ready;
  inventory_release_ = release_of(options_.config.driver);
  inventory_problem_.clear();
  answer_waiting_observers();
}

void Broker::miss_inventory(const std::string& why) {
  SLUICE_LOG_ERROR("session", "the driver's devices are not known: {}", why);
  inventory_problem_ = why;
  answer_waiting_observers();
}

}  // namespace sluice::server
