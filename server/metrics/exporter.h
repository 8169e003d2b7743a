// The HTTP endpoint from which Prometheus fetches the metrics (docs/metrics.md). HTTP and the text
// format are prometheus-cpp's.
#pragma once

#include "common/result.h"
#include "server/metrics/families.h"

#include <functional>
#include <memory>
#include <string>

namespace sluice::server::metrics {

/// Thread-safe. Answers on threads of its own, until it is destroyed.
class Exporter {
 public:
  /// Runs something on the thread on which the server may be asked.
  using Post = std::function<void(std::function<void()>)>;
  /// `listen`: "HOST:PORT". `server` outlives this. Err(kSystem): the address cannot be used.
  static Result<std::unique_ptr<Exporter>> start(const std::string& listen,
                                                 control::Administration& server, Post post);
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

 private:
  struct Parts;
  explicit Exporter(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace sluice::server::metrics
