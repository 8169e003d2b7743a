// Takes the session's turns at the boundary of commands, for drivers that cannot be held between
// blocks: every genuine one. A turn is held from the first command that is issued until everything
// issued has completed; when it is to end, nothing more is issued until then. While others wait, no
// more is under way than the server's window allows, in time.
//
// While the decode thread waits for a turn it decodes nothing, also not what needs no turn
// (decision 0012); what the driver has already been given goes on.
#pragma once

#include "server/worker/bundles.h"
#include "server/worker/turns.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>

namespace sluice::server {

class LaunchGate {
 public:
  /// Runs what it is given once all commands issued so far have completed; on any thread, perhaps
  /// at once. In the order of the calls.
  using AfterAll = std::function<void(std::function<void()>)>;

  /// `turns` outlives this.
  LaunchGate(Turns& turns, AfterAll after_all) : turns_(turns), after_all_(std::move(after_all)) {}

  /// Decode thread, before a command for the device is issued: waits for the turn, and for room in
  /// the window. `cost_key` tells commands of different cost apart.
  void before_work(unsigned device, std::uint64_t cost_key);
  /// Decode thread, when no record is left to decode: asks for the completion of what was issued,
  /// so that the turn ends with it.
  void rest();
  /// Any thread: waits no more, for the session is over.
  void stop();

  /// Commands after which completion is asked for, although more follow: while others wait for the
  /// turn, and else. Long ones are bundled by their time, a quarter of the window.
  static constexpr std::size_t kBundle = 16, kBundleAlone = 1024;
  /// Commands under way while others wait.
  static constexpr std::size_t kWindow = 4 * kBundle;

 private:
  using Lock = std::unique_lock<std::mutex>;  ///< of mutex_, held before and after
  void mark(Lock& lock);
  void drain(Lock& lock);
  void take(Lock& lock, unsigned device);
  void keep_window(Lock& lock, unsigned device, std::uint64_t cost_key);
  void on_completed();
  void give_back();  ///< mutex_ is held

  Turns& turns_;
  const AfterAll after_all_;
  std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  Bundles bundles_;
  std::set<unsigned> held_;
  bool stops_ = false;
};

}  // namespace sluice::server
