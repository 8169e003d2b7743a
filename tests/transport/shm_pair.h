// Both ends of a shared-memory channel in one process.
#pragma once

#include "transport/shm/memory.h"

#include <sys/socket.h>

#include <cstdlib>

namespace sluice {

inline transport::LoopPair make_shm_pair() {
  namespace shm = transport::shm;
  int ends[2] = {-1, -1};
  auto memory = shm::make_memory();
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 || !memory) std::abort();
  auto other = shm::adopt_memory(memory->fd.get());
  if (!other) std::abort();
  return {shm::make_channel(std::move(memory->mapping), Fd(ends[0]), shm::Side::kClient),
          shm::make_channel(std::move(*other), Fd(ends[1]), shm::Side::kServer)};
}

}  // namespace sluice
