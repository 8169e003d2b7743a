// What the broker keeps about a connection and about a session.
#pragma once

#include "server/broker/broker.h"
#include "server/broker/client_limits.h"
#include "server/broker/usage.h"
#include "transport/tls/engine.h"

#include <array>
#include <deque>
#include <set>

namespace sluice::server {

/// Who only looks at a tenant's slice (observers.cpp).
struct Observer {
  std::string tenant;
  std::int32_t cuda_version = 0;            ///< of the client's libraries
  std::optional<wire::SliceQuery> waiting;  ///< unanswered: the devices are not known yet
};

struct Broker::Client {
  Fd fd;
  std::vector<std::byte> received;
  std::size_t frame_bytes = 0;
  Clock::time_point since = Clock::now();
  std::string from;  ///< peer_text()
  bool is_kind_known = false, is_tls_ready = false;
  std::unique_ptr<transport::tls::Engine> tls;  ///< if the connection is encrypted
  std::shared_ptr<Session> session;             ///< once it is a session's life line
  std::optional<Observer> observer;
  /// It has not been let in, for anything.
  [[nodiscard]] bool is_stranger() const { return session == nullptr && !observer; }
};

struct Broker::Session {
  std::uint64_t id = 0;
  config::Tenant tenant;  ///< as it was when the session began
  wire::Hello hello;      ///< printable, and without the token
  ClientLimits limits;    ///< what it wished
  wire::SessionKey key{};
  std::string from;  ///< where the life line comes from
  WorkerProcess worker;
  std::weak_ptr<Client> life_line;
  std::vector<std::uint64_t> device_bytes;
  link::Stats stats;
  Usage usage;
  Clock::time_point started, last_call, last_report;
  bool is_welcome = false, is_attached = false, is_ending = false, is_suspect = false;
  bool is_encrypted = false;            ///< the life line is, and so must the data connections be
  bool is_warned = false;               ///< of a worker that is silent
  bool is_resumable = false;            ///< its data connections
  std::uint8_t lane_count = 0;          ///< of a plain session
  unsigned missing_lanes = 0;           ///< bit i: lane i may be attached
  std::uint64_t life_line_attempt = 0;  ///< the newest to resume it
  std::array<std::uint64_t, wire::kLaneCountMax + 1> data_attempts{};  ///< the same, per lane
  /// Connections that claim to be one of the encrypted session's new data connections: the worker
  /// gets one at a time, and judges.
  struct Candidate {
    Fd socket;
    std::uint8_t lane = 0;
  };
  std::deque<Candidate> candidates;
  bool is_candidate_under_way = false;
  /// Of its worker, not answered yet: the first waits until other sessions of the tenant have given
  /// back what they do not use.
  std::deque<link::Message> memory_questions;
  /// By device: what its process had at the last measurement beyond what it was charged for.
  std::map<std::uint32_t, std::uint64_t> beyond_bytes;
  std::set<std::uint64_t> recalled;  ///< those that have not answered
  std::uint64_t recalls = 0;         ///< numbers them, for their time limit
};

}  // namespace sluice::server
