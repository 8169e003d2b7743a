// Wire ids to driver handles. Ids are given by the shim and never used again; each is bound to one
// handle type.
#pragma once

#include "server/worker/call.h"

#include <cuda.h>

#include <cstdint>
#include <type_traits>
#include <unordered_map>

namespace sluice::server {

inline constexpr std::size_t kHandlesMax = 4'000'000;

/// Confined to the decode thread.
class HandleTable {
 public:
  using Kind = const void*;
  template <class Handle>
  static Kind kind() {
    static constexpr char kTag = 0;
    return &kTag;
  }
  /// nullptr if there is no such id of that kind.
  [[nodiscard]] void* find(Kind kind, std::uint64_t id) const {
    const auto found = entries_.find({kind, id});
    return found != entries_.end() ? found->second : nullptr;
  }
  bool add(Kind kind, std::uint64_t id, void* handle) {
    if (!can_add(kind, id)) return false;
    return entries_.emplace(Key{kind, id}, handle).second;
  }
  [[nodiscard]] bool can_add(Kind kind, std::uint64_t id) const {
    return id != 0 && entries_.size() < kHandlesMax && find(kind, id) == nullptr;
  }
  void remove(Kind kind, std::uint64_t id) { entries_.erase({kind, id}); }

 private:
  struct Key {
    Kind kind;
    std::uint64_t id;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::uint64_t>()(key.id) ^ std::hash<Kind>()(key.kind);
    }
  };
  std::unordered_map<Key, void*, Hash> entries_;
};

HandleTable& handle_table(Call& call);
/// A handler asked for this stream in order to issue something in it.
void note_stream_work(Call& call, CUstream stream);

template <class Handle>
CUresult native(Call& call, std::uint64_t id, Handle* out) {
  static_assert(std::is_pointer_v<Handle>);
  *out = nullptr;
  if (id == 0) {
    if constexpr (std::is_same_v<Handle, CUstream>) note_stream_work(call, nullptr);
    return CUDA_SUCCESS;
  }
  void* found = handle_table(call).find(HandleTable::kind<Handle>(), id);
  if (found == nullptr)
    return std::is_same_v<Handle, CUcontext> ? CUDA_ERROR_INVALID_CONTEXT
                                             : CUDA_ERROR_INVALID_HANDLE;
  *out = static_cast<Handle>(found);
  if constexpr (std::is_same_v<Handle, CUstream>) note_stream_work(call, *out);
  return CUDA_SUCCESS;
}

template <class Handle>
CUresult bind(Call& call, std::uint64_t id, Handle handle) {
  return handle_table(call).add(HandleTable::kind<Handle>(), id, handle) ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_INVALID_VALUE;
}

/// Whether bind() would succeed: asked before something is created that could not be named.
template <class Handle>
bool can_bind(Call& call, std::uint64_t id) {
  return handle_table(call).can_add(HandleTable::kind<Handle>(), id);
}

template <class Handle>
void unbind(Call& call, std::uint64_t id) {
  handle_table(call).remove(HandleTable::kind<Handle>(), id);
}

}  // namespace sluice::server
