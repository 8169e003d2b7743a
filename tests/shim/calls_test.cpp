// Single functions whose answer the shim makes itself.
#include "tests/shim/fake_server.h"

namespace sluice::test {

class Calls : public ShimTest {};

struct Lookup {
  const char* name;
  int version;
  CUdriverProcAddressQueryResult expected;
};

TEST_F(Calls, EntryPointsAreFoundByNameAndVersion) {
  start();
  const Lookup lookups[] = {
      {"cuNoSuchCall", 12000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
      {"", 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
      {"cuLibraryLoadData", 11030, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT},
      {"cuLibraryLoadData", 12000, CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuMemAllocAsync", 11030, CU_GET_PROC_ADDRESS_SUCCESS},
      {"cuMemAllocAsync", 11010, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT},
      {"cuInit", 2000, CU_GET_PROC_ADDRESS_SUCCESS},
  };
  for (const Lookup& lookup : lookups) {
    void* found = this;
    CUdriverProcAddressQueryResult status{};
    ASSERT_EQ(CUDA_SUCCESS, cuGetProcAddress_v2(lookup.name, &found, lookup.version, 0, &status))
        << lookup.name;
    EXPECT_EQ(lookup.expected, status) << lookup.name << " at " << lookup.version;
    EXPECT_EQ(lookup.expected == CU_GET_PROC_ADDRESS_SUCCESS, found != nullptr);
  }
  void* found = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", nullptr, 12000, 0, nullptr));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", &found, 12000, 0x80, nullptr));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", &found, 14000, 0, nullptr));
}

TEST_F(Calls, EveryErrorHasANameAndOthersHaveNone) {
  const char* text = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  EXPECT_STREQ("CUDA_ERROR_ILLEGAL_ADDRESS", text);
  ASSERT_EQ(CUDA_SUCCESS, cuGetErrorString(CUDA_SUCCESS, &text));
  EXPECT_STREQ("no error", text);
  // A number that no CUresult has; read bytewise, because the compiler knows the range of the
  // enumeration.
  CUresult invented{};
  const int number = 600 + 77;
  std::memcpy(&invented, &number, sizeof invented);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuGetErrorName(invented, &text));
  EXPECT_EQ(nullptr, text);
}

TEST_F(Calls, PrivateTablesAreRefused) {
  const CUuuid id{};
  const void* table = &id;
  EXPECT_NE(CUDA_SUCCESS, cuGetExportTable(&table, &id));
  EXPECT_EQ(nullptr, table);
}

TEST_F(Calls, ParametersArePackedByTheLayoutOfTheKernel) {
  start();
  CUfunction f = function();
  ASSERT_EQ(CUDA_SUCCESS, launch(f, 0x1122334455667788, 0xAABBCCDD));
  struct {
    std::uint64_t a = 1;
    std::uint32_t b = 2;
  } packed;
  std::size_t bytes = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  ASSERT_EQ(CUDA_SUCCESS, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  void* params[] = {&packed.a, &packed.b};
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, params, extra));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
  const auto launches = server_->received(wire::Opcode::launch);
  ASSERT_EQ(2u, launches.size());
  EXPECT_EQ(12u, launches[0].as<wire::launch>().params_bytes);
  const std::uint64_t a = 0x1122334455667788;
  const std::uint32_t b = 0xAABBCCDD;
  EXPECT_EQ(0, std::memcmp(launches[0].blob<wire::launch>().data(), &a, 8));
  EXPECT_EQ(0, std::memcmp(launches[0].blob<wire::launch>().data() + 8, &b, 4));
  EXPECT_EQ(0, std::memcmp(launches[1].blob<wire::launch>().data(), &packed, 12));
}

TEST_F(Calls, ShapesThatNoDeviceCanRunAreRefusedAtTheCall) {
  start();
  CUfunction f = function();
  std::uint64_t a = 0;
  std::uint32_t b = 0;
  void* params[] = {&a, &b};
  const auto shape = [&](unsigned grid, unsigned block_x, unsigned block_y) {
    return cuLaunchKernel(f, grid, 1, 1, block_x, block_y, 1, 0, nullptr, params, nullptr);
  };
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, shape(0, 1, 1));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, shape(1, 0, 1));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, shape(1, 1025, 1));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, shape(1, 512, 3));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, shape(65536, 1, 1));
  EXPECT_EQ(CUDA_SUCCESS, shape(65535, 512, 2));
}

TEST_F(Calls, AnUnknownLaunchAttributeIsAnError) {
  start();
  CUfunction f = function();
  std::uint64_t a = 0;
  std::uint32_t b = 0;
  void* params[] = {&a, &b};
  CUlaunchAttribute attributes[2] = {};
  CUlaunchConfig config = {};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY =
      config.blockDimZ = 1;
  config.attrs = attributes;
  config.numAttrs = 2;
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_IGNORE;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  ASSERT_EQ(CUDA_SUCCESS, cuLaunchKernelEx(&config, f, params, nullptr));
  const unsigned unknown = 0x7FFFFF0;
  std::memcpy(&attributes[1].id, &unknown, sizeof unknown);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(&config, f, params, nullptr));
  ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
  ASSERT_EQ(1u, server_->count(wire::Opcode::launch));
  EXPECT_EQ(sizeof(CUlaunchAttribute),
            server_->received(wire::Opcode::launch)[0].as<wire::launch>().attributes_bytes)
      << "IGNORE does not travel";
}

TEST_F(Calls, AFunctionIsFetchedOnce) {
  start();
  CUmodule module = nullptr;
  CUfunction first = nullptr;
  CUfunction second = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuModuleLoadData(&module, ".version 7.0"));
  ASSERT_EQ(CUDA_SUCCESS, cuModuleGetFunction(&first, module, "kernel"));
  ASSERT_EQ(CUDA_SUCCESS, cuModuleGetFunction(&second, module, "kernel"));
  EXPECT_EQ(first, second);
  EXPECT_EQ(1u, server_->count(wire::Opcode::module_get_function));
  ASSERT_EQ(CUDA_SUCCESS, cuModuleUnload(module));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, launch(first)) << "a function of an unloaded module";
}

TEST_F(Calls, StreamQueriesNeedNoRoundTripAndSeeLaterWork) {
  std::atomic<bool> is_held{true};
  std::vector<wire::stream_marker> held;
  std::mutex mutex;
  start([&](FakeServer&, const Received& record) {
    if (record.header.opcode != static_cast<std::uint16_t>(wire::Opcode::stream_marker) || !is_held)
      return false;
    std::lock_guard lock(mutex);
    held.push_back(record.as<wire::stream_marker>());
    return true;
  });
  CUfunction f = function();
  CUstream stream = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(CUDA_SUCCESS, cuStreamQuery(stream)) << "nothing was given to it";
  EXPECT_EQ(0u, server_->count(wire::Opcode::stream_marker));
  ASSERT_EQ(CUDA_SUCCESS, launch(f, 0, 0, stream));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  ASSERT_TRUE(server_->wait_for(wire::Opcode::stream_marker, 1));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(stream)) << "the marker is pending";
  ASSERT_EQ(CUDA_SUCCESS, launch(f, 0, 0, stream));
  is_held = false;
  {
    std::lock_guard lock(mutex);
    wire::marker_done done{};
    done.marker = held.front().marker;
    server_->push(done);
  }
  CUresult result = CUDA_ERROR_NOT_READY;
  while (result == CUDA_ERROR_NOT_READY) result = cuStreamQuery(stream);
  EXPECT_EQ(CUDA_SUCCESS, result);
  EXPECT_EQ(2u, server_->count(wire::Opcode::stream_marker))
      << "the later launch needs a marker of its own";
  EXPECT_EQ(CUDA_SUCCESS, cuStreamQuery(stream));
  EXPECT_EQ(2u, server_->count(wire::Opcode::stream_marker));
  TearDown();  // the hook uses what lives here
}

TEST_F(Calls, EveryThreadHasAHiddenStreamOfItsOwn) {
  start();
  CUfunction f = function();
  ASSERT_EQ(CUDA_SUCCESS, launch(f, 0, 0, CU_STREAM_PER_THREAD));
  ASSERT_EQ(CUDA_SUCCESS, launch(f, 1, 0, CU_STREAM_PER_THREAD));
  std::thread([&] {
    cuCtxSetCurrent(context_);
    ASSERT_EQ(CUDA_SUCCESS, launch(f, 2, 0, CU_STREAM_PER_THREAD));
  }).join();
  ASSERT_EQ(CUDA_SUCCESS, cuCtxSynchronize());
  const auto launches = server_->received(wire::Opcode::launch);
  ASSERT_EQ(3u, launches.size());
  EXPECT_NE(0u, launches[0].as<wire::launch>().stream);
  EXPECT_EQ(launches[0].as<wire::launch>().stream, launches[1].as<wire::launch>().stream);
  EXPECT_NE(launches[0].as<wire::launch>().stream, launches[2].as<wire::launch>().stream);
  EXPECT_EQ(1u, server_->count(wire::Opcode::cuStreamDestroy_v2)) << "it ends with its thread";
}

TEST_F(Calls, HostFunctionsRunHereAndReportBack) {
  start([](FakeServer& server, const Received& record) {
    if (record.header.opcode != static_cast<std::uint16_t>(wire::Opcode::host_func)) return false;
    wire::host_func_run run{};
    run.token = record.as<wire::host_func>().token;
    server.push(run, {}, CUDA_SUCCESS, record.header.seq);
    return true;
  });
  std::atomic<int> ran{0};
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(CUDA_SUCCESS,
              cuLaunchHostFunc(
                  nullptr, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &ran));
  EXPECT_TRUE(server_->wait_for(wire::Opcode::host_func_done, 3));
  EXPECT_EQ(3, ran.load());
}

TEST_F(Calls, LogsOfALoadAreCutToTheApplicationsBuffer) {
  start([](FakeServer& server, const Received& record) {
    if (record.header.opcode != static_cast<std::uint16_t>(wire::Opcode::module_load)) return false;
    wire::module_load::Reply reply{};
    const std::string text(100, 'x');
    reply.error_log_bytes = text.size();
    server.reply(record, reply, std::as_bytes(std::span(text)), CUDA_ERROR_INVALID_PTX);
    return true;
  });
  char log[64];
  std::memset(log, 7, sizeof log);
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(std::size_t{16})};
  CUmodule module = nullptr;
  EXPECT_EQ(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, "bad", 2, options, values));
  EXPECT_STREQ("xxxxxxxxxxxxxxx", log);
  for (std::size_t i = 16; i < sizeof log; ++i)
    ASSERT_EQ(7, log[i]) << "byte " << i << " was overwritten";
}

TEST_F(Calls, ThePrimaryContextIsCountedHere) {
  start();
  CUcontext first = nullptr;
  CUcontext second = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuDevicePrimaryCtxRetain(&first, 0));
  ASSERT_EQ(CUDA_SUCCESS, cuDevicePrimaryCtxRetain(&second, 0));
  EXPECT_EQ(first, second);
  EXPECT_EQ(2u, server_->count(wire::Opcode::context_create)) << "the test's own and one primary";
  EXPECT_EQ(CUDA_SUCCESS, cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_EQ(CUDA_SUCCESS, cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_EQ(1u, server_->count(wire::Opcode::context_destroy));
}

}  // namespace sluice::test
