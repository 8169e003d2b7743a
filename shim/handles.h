// Application handles. Whatever the driver API calls a handle is, for the application, a number
// made of a kind, a slot and the slot's generation: a stale, foreign or invented handle is refused
// here instead of being followed. Behind a slot are the wire id, by which the worker knows the
// object, and, for the kinds that the shim keeps something about, that object.
#pragma once

#include "shim/call.h"

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

namespace sluice::shim {

enum class Kind : std::uint8_t {
  kNone,
  kContext,
  kStream,
  kEvent,
  kModule,
  kLibrary,
  kKernel,
  kFunction,
  kGraph,
  kGraphNode,
  kGraphExec,
  kPool,
  kArray,
  kMipmappedArray,
  kTexref,
  kSurfref,
  kLinkState,
  kGreenContext,
  kUserObject,
  kExternalMemory,
  kExternalSemaphore,
  kGraphicsResource,
  kMemoryBlock,
  kCount,
};

template <class Handle>
inline constexpr Kind kKindOf = Kind::kNone;
template <>
inline constexpr Kind kKindOf<CUcontext> = Kind::kContext;
template <>
inline constexpr Kind kKindOf<CUstream> = Kind::kStream;
template <>
inline constexpr Kind kKindOf<CUevent> = Kind::kEvent;
template <>
inline constexpr Kind kKindOf<CUmodule> = Kind::kModule;
template <>
inline constexpr Kind kKindOf<CUlibrary> = Kind::kLibrary;
template <>
inline constexpr Kind kKindOf<CUkernel> = Kind::kKernel;
template <>
inline constexpr Kind kKindOf<CUfunction> = Kind::kFunction;
template <>
inline constexpr Kind kKindOf<CUgraph> = Kind::kGraph;
template <>
inline constexpr Kind kKindOf<CUgraphNode> = Kind::kGraphNode;
template <>
inline constexpr Kind kKindOf<CUgraphExec> = Kind::kGraphExec;
template <>
inline constexpr Kind kKindOf<CUmemoryPool> = Kind::kPool;
template <>
inline constexpr Kind kKindOf<CUarray> = Kind::kArray;
template <>
inline constexpr Kind kKindOf<CUmipmappedArray> = Kind::kMipmappedArray;
template <>
inline constexpr Kind kKindOf<CUtexref> = Kind::kTexref;
template <>
inline constexpr Kind kKindOf<CUsurfref> = Kind::kSurfref;
template <>
inline constexpr Kind kKindOf<CUlinkState> = Kind::kLinkState;
template <>
inline constexpr Kind kKindOf<CUgreenCtx> = Kind::kGreenContext;
template <>
inline constexpr Kind kKindOf<CUuserObject> = Kind::kUserObject;
template <>
inline constexpr Kind kKindOf<CUexternalMemory> = Kind::kExternalMemory;
template <>
inline constexpr Kind kKindOf<CUexternalSemaphore> = Kind::kExternalSemaphore;
template <>
inline constexpr Kind kKindOf<CUgraphicsResource> = Kind::kGraphicsResource;

struct Entry {
  std::uint64_t id = 0;     ///< on the wire
  void* object = nullptr;   ///< what the shim keeps about it; the row that made it owns it
  std::uint64_t owner = 0;  ///< serial number of the context whose end ends it, 0 = none
};

/// Thread-safe; find() takes no lock. One for the process.
class HandleTable {
 public:
  static constexpr std::size_t kChunkSlots = 4096;
  static constexpr std::size_t kChunksMax = 256;

  HandleTable() = default;
  ~HandleTable();
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  /// 0 when the table is full (a million live handles).
  std::uint64_t add(Kind kind, const Entry& entry) noexcept;
  /// False for what is no live handle of that kind.
  [[nodiscard]] bool find(Kind kind, std::uint64_t handle, Entry* entry) const noexcept;
  /// Forgets the handle and returns what was behind it; false if it was not live.
  bool remove(Kind kind, std::uint64_t handle, Entry* entry) noexcept;
  /// Forgets everything that belongs to `owner`; `drop` gets each (kind, entry).
  void remove_owned(std::uint64_t owner, void (*drop)(Kind, const Entry&)) noexcept;
  void clear(void (*drop)(Kind, const Entry&)) noexcept;

 private:
  struct Slot {
    std::atomic<std::uint32_t> generation{0};  ///< odd while live
    Kind kind = Kind::kNone;
    Entry entry;
  };
  [[nodiscard]] Slot* slot_of(Kind kind, std::uint64_t handle) const noexcept;
  void free_slot(Slot& slot, std::uint32_t index) noexcept;
  template <class Which>
  void remove_if(const Which& which, void (*drop)(Kind, const Entry&)) noexcept;

  std::mutex mutex_;
  std::array<std::atomic<Slot*>, kChunksMax> chunks_{};
  std::vector<std::uint32_t> free_;
  std::uint32_t used_ = 0;
};

HandleTable& handles() noexcept;

template <class Handle>
std::uint64_t handle_bits(Handle handle) noexcept {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<std::uint64_t>(handle);
  } else {
    return handle;
  }
}

/// The object behind a handle, null if the handle is not live.
template <class Object, class Handle>
Object* object_of(Handle handle) noexcept {
  Entry entry;
  return handles().find(kKindOf<Handle>, handle_bits(handle), &entry)
             ? static_cast<Object*>(entry.object)
             : nullptr;
}

/// A handle for something new.
template <class Handle>
Handle new_handle(const Entry& entry) noexcept {
  return reinterpret_cast<Handle>(handles().add(kKindOf<Handle>, entry));
}

}  // namespace sluice::shim
