// What memory is held for: modules and contexts are charged by what they took, whatever else
// happens meanwhile, and what nobody asked for is seen.
#include "tests/worker/client.h"

#include <string>

namespace sluice::test {
namespace {

using server::MemoryKind;
constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kUpload = 7;

class WorkerMemoryKinds : public WorkerClient {
 protected:
  std::uint64_t held(MemoryKind kind) { return ledger_->kinds_of(0)[index_of(kind)]; }
  /// Of a slab or a pool.
  Received block(std::uint64_t bytes, std::uint32_t use) {
    wire::memory_block args{};
    args.bytes = bytes;
    args.use = use;
    return call(args);
  }
  Received load(std::uint64_t module) {
    static const std::string text = "PTX";
    wire::image_chunk chunk{};
    chunk.upload = kUpload;
    chunk.total_bytes = chunk.data_bytes = text.size();
    post(chunk, {std::as_bytes(std::span(text))});
    wire::module_load args{};
    args.module = module;
    args.upload = kUpload;
    return call(args, {{}});
  }
  void unload(std::uint64_t module) {
    wire::cuModuleUnload args{};
    args.hmod = module;
    post(args);
    EXPECT_EQ(CUDA_SUCCESS, call(wire::cuCtxSynchronize{}).result());
  }
  /// Modules take so much from here on.
  void take_when_loaded(std::uint64_t bytes) {
    driver_.on_load = [this, bytes](const void*, unsigned, CUjit_option*, void**) {
      driver_.taken_bytes += bytes;
      return CUDA_SUCCESS;
    };
  }
};

TEST_F(WorkerMemoryKinds, AModuleIsChargedWhatItTook) {
  take_when_loaded(3 * kMiB);
  start(4 * kMiB);
  EXPECT_EQ(CUDA_SUCCESS, load(2).result());
  EXPECT_EQ(3 * kMiB, held(MemoryKind::kModule));
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, alloc(2 * kMiB).result());
  unload(2);
  EXPECT_EQ(0u, held(MemoryKind::kModule));
  EXPECT_EQ(CUDA_SUCCESS, alloc(2 * kMiB).result());
}

TEST_F(WorkerMemoryKinds, AModuleThatDoesNotFitIsRefusedAndLeavesNothing) {
  take_when_loaded(5 * kMiB);
  start(4 * kMiB);
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, load(2).result());
  EXPECT_EQ(1u, driver_.count("module_unload"));
  EXPECT_EQ(0u, held(MemoryKind::kModule));
  take_when_loaded(0);
}

TEST_F(WorkerMemoryKinds, WhatIsFreedWhileAModuleLoadsDoesNotHideIt) {
  // Broken: a module that loads while the program's last free completes costs nothing.
  start(8 * kMiB);
  const Received got = alloc(4 * kMiB);
  driver_.hold();
  memset(0);
  free_memory(got.as<wire::cuMemAlloc_v2::Reply>().dptr);
  settle();
  driver_.on_load = [this](const void*, unsigned, CUjit_option*, void**) {
    driver_.finish_all();
    while (held(MemoryKind::kData) > 0) std::this_thread::yield();
    driver_.taken_bytes += 3 * kMiB;
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(CUDA_SUCCESS, load(2).result());
  EXPECT_EQ(3 * kMiB, held(MemoryKind::kModule));
}

TEST_F(WorkerMemoryKinds, WhatALibraryTakesIsSeen) {
  start(4 * kMiB);
  EXPECT_EQ(CUDA_SUCCESS, alloc(kMiB).result());
  worker_->report_memory();
  EXPECT_EQ(0u, held(MemoryKind::kLibrary));
  driver_.taken_bytes += 100 * kMiB;
  worker_->report_memory();
  EXPECT_EQ(100 * kMiB, held(MemoryKind::kLibrary));
  EXPECT_EQ(CUDA_SUCCESS, alloc(3 * kMiB).result()) << "the slice is not charged for it";
  worker_->report_memory();
  EXPECT_EQ(100 * kMiB, held(MemoryKind::kLibrary));
  driver_.taken_bytes -= 60 * kMiB;
  worker_->report_memory();
  EXPECT_EQ(40 * kMiB, held(MemoryKind::kLibrary));
}

TEST_F(WorkerMemoryKinds, WhatAContextTakesIsItsOwnKindAndGoesWithIt) {
  driver_.context_bytes = 300 * kMiB;
  start(4 * kMiB);
  EXPECT_EQ(300 * kMiB, held(MemoryKind::kContext));
  worker_->report_memory();
  EXPECT_EQ(0u, held(MemoryKind::kLibrary));
  wire::context_destroy args{};
  args.context = kContext;
  args.is_primary = 1;
  EXPECT_EQ(CUDA_SUCCESS, call(args).result());
  EXPECT_EQ(0u, held(MemoryKind::kContext));
}

TEST_F(WorkerMemoryKinds, WhatALimitTakesIsLocal) {
  static FakeDriver* driver = nullptr;
  driver = &driver_;
  driver_.table.cuCtxGetLimit = [](std::size_t* value, CUlimit) {
    *value = 1024;
    return CUDA_SUCCESS;
  };
  driver_.table.cuCtxSetLimit = [](CUlimit, std::size_t value) {
    driver->taken_bytes += value;
    return CUDA_SUCCESS;
  };
  start(4 * kMiB);
  wire::cuCtxSetLimit args{};
  args.limit = CU_LIMIT_MALLOC_HEAP_SIZE;
  args.value = 100 * kMiB;
  EXPECT_EQ(CUDA_SUCCESS, call(args).result());
  EXPECT_EQ(100 * kMiB, held(MemoryKind::kLocal));
  worker_->report_memory();
  EXPECT_EQ(0u, held(MemoryKind::kLibrary));
}

TEST_F(WorkerMemoryKinds, ModulesGoWithTheirContext) {
  take_when_loaded(3 * kMiB);
  start(4 * kMiB);
  EXPECT_EQ(CUDA_SUCCESS, load(2).result());
  wire::context_destroy args{};
  args.context = kContext;
  args.is_primary = 1;
  EXPECT_EQ(CUDA_SUCCESS, call(args).result());
  EXPECT_EQ(0u, held(MemoryKind::kModule));
}

TEST_F(WorkerMemoryKinds, ABlockIsChargedByItsUse) {
  start(16 * kMiB);
  EXPECT_EQ(CUDA_SUCCESS, block(2 * kMiB, 1).result());
  const Received pool = block(4 * kMiB, 2);
  EXPECT_EQ(CUDA_SUCCESS, pool.result());
  EXPECT_EQ(CUDA_SUCCESS, alloc(kMiB).result());
  EXPECT_EQ(2 * kMiB, held(MemoryKind::kSlab));
  EXPECT_EQ(4 * kMiB, held(MemoryKind::kPool));
  EXPECT_EQ(kMiB, held(MemoryKind::kData));
  free_memory(pool.as<wire::memory_block::Reply>().dptr);
  EXPECT_EQ(CUDA_SUCCESS, call(wire::cuCtxSynchronize{}).result());
  EXPECT_EQ(0u, held(MemoryKind::kPool));
}

TEST_F(WorkerMemoryKinds, AUseThatThereIsNotIsRefused) {
  start();
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, block(kMiB, 0).result());
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, block(kMiB, 3).result());
  EXPECT_EQ(0u, driver_.count("alloc"));
}

TEST_F(WorkerMemoryKinds, PinnedMemoryForCopiesIsCounted) {
  start();
  worker_->report_memory();
  EXPECT_EQ(0u, held(MemoryKind::kHostPinned));
  read(0, 1000, 1);
  EXPECT_EQ(CUDA_SUCCESS, call(wire::cuCtxSynchronize{}).result());
  worker_->report_memory();
  EXPECT_EQ(server::StagingPool::kBlockBytes, held(MemoryKind::kHostPinned));
}

}  // namespace
}  // namespace sluice::test
