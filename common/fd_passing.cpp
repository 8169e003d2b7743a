#include "common/fd_passing.h"

#include <sys/socket.h>

#include <array>
#include <cstring>
#include <utility>

namespace sluice {
namespace {

/// Room for more than anybody should send: what does not fit would be lost unseen.
constexpr std::size_t kPassedMax = 4;

Fd first_descriptor(msghdr& header) {
  Fd first;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int raw = -1;
      std::memcpy(&raw, CMSG_DATA(c) + i * sizeof raw, sizeof raw);
      Fd owned(raw);  // closed unless it is the first
      if (!first.valid()) first = std::move(owned);
    }
  }
  return first;
}

}  // namespace

ssize_t send_with_fd(int socket, std::span<const std::byte> bytes, int passed_fd, int flags) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (passed_fd >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &passed_fd, sizeof passed_fd);
  }
  return ::sendmsg(socket, &header, flags | MSG_NOSIGNAL);
}

ReceivedBytes receive_with_fd(int socket, std::span<std::byte> into, int flags) {
  iovec part{into.data(), into.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kPassedMax * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ReceivedBytes out;
  out.bytes = ::recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);
  if (out.bytes < 0) return out;
  out.passed = first_descriptor(header);
  out.is_truncated = (header.msg_flags & MSG_TRUNC) != 0;
  return out;
}

}  // namespace sluice
