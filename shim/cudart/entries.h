// The functions of every CUDA version's runtime in one library: which function stands for a name
// in which version. libsluice.so carries it, so that a static runtime of any version can be
// redirected without loading anything (shim/bind); the audit object reads it in another namespace,
// hence plain data.
#pragma once

#include <cstddef>

namespace sluice::cudart {

/// Versions in the order of the columns of forms.txt.
inline constexpr int kMajors[] = {13, 12, 11};
inline constexpr std::size_t kMajorCount = sizeof kMajors / sizeof kMajors[0];

struct Entry {
  const char* name;
  void (*function[kMajorCount])();  // null: that version has no such name
};

/// Sorted by name. Generated (gen_names.py).
extern const Entry kEntries[];
extern const std::size_t kEntryCount;

/// What libsluice.so exports as sluice_runtime. All objects of a release have the same layout.
struct RuntimeTable {
  unsigned layout;  // kRuntimeTableLayout
  const Entry* entries;
  const std::size_t* entry_count;  // a pointer, so that nothing here waits for a constructor
  /// A static runtime of this version was taken over.
  void (*serve_major)(int major) noexcept;
  /// Set by the audit object: it binds, libsluice.so need not.
  bool* is_audited;
};
inline constexpr unsigned kRuntimeTableLayout = 1;

}  // namespace sluice::cudart
