// Images, functions, launches: what a client sends reaches the driver whole or not at all.
#include "tests/worker/client.h"

namespace sluice::test {
namespace {

constexpr std::uint64_t kUpload = 7, kModule = 8, kFunction = 9;

Bytes bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class WorkerCode : public WorkerClient {
 protected:
  std::uint64_t chunk(const std::string& text, std::uint64_t offset, std::uint64_t total) {
    wire::image_chunk args{};
    args.upload = kUpload;
    args.offset = offset;
    args.total_bytes = total;
    args.data_bytes = text.size();
    return post(args, {bytes_of(text)});
  }
  Received load(Bytes options = {}, std::uint32_t log_bytes = 0) {
    wire::module_load args{};
    args.module = kModule;
    args.upload = kUpload;
    args.options_bytes = options.size();
    args.error_log_bytes_max = log_bytes;
    return call(args, {options});
  }
  Received get_function() {
    wire::module_get_function args{};
    args.module = kModule;
    args.function = kFunction;
    args.name_bytes = 4;
    return call(args, {bytes_of("kern")});
  }
  void load_function() {
    chunk("PTX", 0, 3);
    EXPECT_EQ(CUDA_SUCCESS, load().result());
    EXPECT_EQ(CUDA_SUCCESS, get_function().result());
  }
  std::uint64_t launch(const std::string& params) {
    wire::launch args{};
    args.callee = kFunction;
    args.params_bytes = params.size();
    return post(args, {bytes_of(params), {}});
  }
};

TEST_F(WorkerCode, EndsTextWithANul) {
  std::string seen;
  driver_.on_load = [&](const void* image, unsigned, CUjit_option*, void**) {
    seen = static_cast<const char*>(image);
    return CUDA_SUCCESS;
  };
  start();
  chunk("half ", 0, 9);
  chunk("more", 5, 9);
  EXPECT_EQ(CUDA_SUCCESS, load().result());
  EXPECT_EQ("half more", seen);
}

TEST_F(WorkerCode, RefusesAnImageThatIsNotComplete) {
  start();
  chunk("half ", 0, 9);
  EXPECT_EQ(CUDA_ERROR_INVALID_IMAGE, load().result());
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, load().result());
}

TEST_F(WorkerCode, RefusesPiecesThatLeaveAGap) {
  start();
  chunk("half ", 0, 9);
  const std::uint64_t bad = chunk("ore", 6, 9);
  EXPECT_EQ(bad, receive(wire::Opcode::failure).header.seq);
}

TEST_F(WorkerCode, TakesNoMemoryForWhatIsOnlyAnnounced) {
  start();
  for (std::uint64_t i = 0; i < 16; ++i) {
    wire::image_chunk args{};
    args.upload = 100 + i;
    args.total_bytes = std::uint64_t{2} << 30;
    post(args, {Bytes{}});
  }
  settle();
  EXPECT_TRUE(received_.empty());
  EXPECT_EQ(0u, worker_->upload_bytes);
}

TEST_F(WorkerCode, RefusesAContainerLongerThanItsImage) {
  start();
  std::string fatbin("\x50\xed\x55\xba\x01\x00\x10\x00", 8);
  fatbin += std::string("\x00\x00\x00\x01\x00\x00\x00\x00", 8);
  chunk(fatbin, 0, fatbin.size());
  EXPECT_EQ(CUDA_ERROR_INVALID_IMAGE, load().result());
}

TEST_F(WorkerCode, PassesNoAddressOfTheClientToTheCompiler) {
  std::vector<CUjit_option> seen;
  driver_.on_load = [&](const void*, unsigned count, CUjit_option* options, void**) {
    seen.assign(options, options + count);
    return CUDA_SUCCESS;
  };
  start();
  chunk("PTX", 0, 3);
  struct Option {
    std::uint32_t option, pad;
    std::uint64_t value;
  };
  const std::vector<Option> options = {{CU_JIT_GLOBAL_SYMBOL_NAMES, 0, 0xdead},
                                       {CU_JIT_OPTIMIZATION_LEVEL, 0, 3},
                                       {CU_JIT_INFO_LOG_BUFFER, 0, 0xbeef}};
  EXPECT_EQ(CUDA_SUCCESS, load(std::as_bytes(std::span(options))).result());
  EXPECT_EQ(std::vector<CUjit_option>{CU_JIT_OPTIMIZATION_LEVEL}, seen);
}

TEST_F(WorkerCode, ReturnsTheCompilersLogWithItsError) {
  driver_.on_load = [&](const void*, unsigned count, CUjit_option* options, void** values) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
        std::strcpy(static_cast<char*>(values[i]), "line 1");
    return CUDA_ERROR_INVALID_PTX;
  };
  start();
  chunk("PTX", 0, 3);
  const Received reply = load({}, 64);
  EXPECT_EQ(CUDA_ERROR_INVALID_PTX, reply.result());
  EXPECT_EQ(6u, reply.as<wire::module_load::Reply>().error_log_bytes);
  EXPECT_EQ(0, std::memcmp("line 1", reply.body.data() + sizeof(wire::module_load::Reply), 6));
}

TEST_F(WorkerCode, DescribesAFunctionInTheReply) {
  start();
  chunk("PTX", 0, 3);
  load();
  const auto reply = get_function().as<wire::module_get_function::Reply>();
  EXPECT_EQ(2 * 8u, reply.layout_bytes);
  EXPECT_EQ(CU_FUNC_ATTRIBUTE_MAX * sizeof(std::int32_t), reply.attributes_bytes);
}

TEST_F(WorkerCode, LaunchesWithTheParametersWhereTheLayoutPutsThem) {
  start();
  load_function();
  launch("abcdefgh1234");
  settle();
  const std::vector<std::byte> seen = driver_.launched_params();
  ASSERT_EQ(12u, seen.size());
  EXPECT_EQ(0, std::memcmp("abcdefgh1234", seen.data(), 12));
}

TEST_F(WorkerCode, RefusesALaunchWithFewerParameterBytesThanTheKernelReads) {
  start();
  load_function();
  const std::uint64_t bad = launch("abcdefgh");
  const Received failure = receive(wire::Opcode::failure);
  EXPECT_EQ(bad, failure.header.seq);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, failure.result());
  EXPECT_EQ(0u, driver_.count("launch"));
}

TEST_F(WorkerCode, RefusesALaunchWhenTheLayoutIsUnknown) {
  driver_.table.cuFuncGetParamInfo = nullptr;
  start();
  load_function();
  launch("abcdefgh1234");
  EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, receive(wire::Opcode::failure).result());
}

TEST_F(WorkerCode, NamesTheContextAndTheRecordOfAFailure) {
  driver_.on_launch = [] { return CUDA_ERROR_INVALID_VALUE; };
  start();
  load_function();
  const std::uint64_t bad = launch("abcdefgh1234");
  const Received failure = receive(wire::Opcode::failure);
  EXPECT_EQ(bad, failure.header.seq);
  EXPECT_EQ(kContext, failure.header.context);
  EXPECT_EQ(static_cast<std::uint32_t>(wire::Opcode::launch), failure.as<wire::failure>().opcode);
}

TEST_F(WorkerCode, AnswersAWaitWithTheErrorThatTheDeviceMet) {
  start();
  driver_.hold();
  memset(0);
  const std::uint64_t wait = ask_stream_wait(0);
  settle();
  driver_.fail(CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS,
            await([&](const Received& r) { return r.is_reply_to(wait); }).result());
}

TEST_F(WorkerCode, AnnouncesARecordThatCouldNotBeMade) {
  start();
  const std::uint64_t bad = record(99, 0, 4);
  const Received done = receive(wire::Opcode::event_done);
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, done.result());
  EXPECT_EQ(4u, done.as<wire::event_done>().version);
  EXPECT_EQ(bad, receive(wire::Opcode::failure).header.seq);
}

TEST_F(WorkerCode, TellsThatACopyMetAnError) {
  start();
  driver_.hold();
  read(0, 16, 9);
  settle();
  driver_.fail(CUDA_ERROR_ILLEGAL_ADDRESS);
  const Received data = receive(wire::Opcode::host_data);
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, data.result());
  EXPECT_EQ(0u, data.as<wire::host_data>().data_bytes);
}

TEST_F(WorkerCode, UnloadsAModuleWhenItsKernelsAreDone) {
  start();
  load_function();
  driver_.hold();
  launch("abcdefgh1234");
  wire::cuModuleUnload unload{};
  unload.hmod = kModule;
  post(unload);
  settle();
  EXPECT_EQ(0u, driver_.count("module_unload"));
  driver_.finish_all();
  await([seq = ask_context_wait()](const Received& r) { return r.is_reply_to(seq); });
  EXPECT_EQ(1u, driver_.count("module_unload"));
}

}  // namespace
}  // namespace sluice::test
