// calls SCENARIO: makes the calls of one scenario again and again, prints "ready" once they run,
// and goes on until one fails or a line comes on stdin. After a failure it tries calls of every
// kind: "failed NAME CALL", then "again same" if each fails in the same way, else which does not;
// exit 3. After a line, "done" if everything that was launched has run and every byte is right
// (exit 0), else "wrong" (exit 4).
#include <cuda.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

const char* const kPtx =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry touch(.param .u64 p)\n{\n .reg .b32 %r;\n .reg .b64 %a;\n"
    " ld.param.u64 %a, [p];\n atom.global.add.u32 %r, [%a], 1;\n ret;\n}\n"
    ".visible .entry endless(.param .u64 p)\n{\n .reg .b32 %r;\n .reg .b64 %a;\n"
    " ld.param.u64 %a, [p];\nagain:\n ld.volatile.global.u32 %r, [%a];\n bra again;\n}\n";

constexpr std::size_t kBytes = 48 << 20;  // more than any buffer on the way
constexpr int kThreads = 16;

CUcontext g_context;
CUmodule g_module;
CUfunction g_touch, g_endless;
CUstream g_stream;
CUevent g_event;
CUgraphExec g_graph;
CUdeviceptr g_counter, g_data;
std::vector<unsigned char> g_in(kBytes), g_out(kBytes);
std::atomic<unsigned> g_launched{0};
std::atomic<bool> g_is_ready{false}, g_is_asked_to_end{false};

/// The call that failed first, on whichever thread.
struct Failure {
  std::atomic<int> result{CUDA_SUCCESS};
  std::atomic<const char*> call{nullptr};
} g_failure;

std::string name_of(CUresult result) {
  const char* name = nullptr;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : "unknown";
}

bool is_well(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return true;
  int none = CUDA_SUCCESS;
  if (g_failure.result.compare_exchange_strong(none, result)) g_failure.call = call;
  return false;
}
#define TRY(call) \
  if (!is_well(call, #call)) return false

void say_ready() {
  if (g_is_ready.exchange(true)) return;
  std::printf("ready\n");
  std::fflush(stdout);
}

bool has_line(int timeout_ms) {
  pollfd in{0, POLLIN, 0};
  return poll(&in, 1, timeout_ms) > 0;
}

CUresult launch(CUfunction function, CUdeviceptr p, CUstream stream) {
  void* params[] = {&p};
  return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr);
}

bool touch() {
  TRY(launch(g_touch, g_counter, g_stream));
  ++g_launched;
  return true;
}

bool sync() {
  if (!touch()) return false;
  TRY(cuCtxSynchronize());
  return true;
}

bool copy_in() {
  TRY(cuMemcpyHtoD(g_data, g_in.data(), kBytes));
  return true;
}

bool copy_out() {
  TRY(cuMemcpyDtoH(g_out.data(), g_data, kBytes));
  return true;
}

bool copy_async() {
  TRY(cuMemcpyHtoDAsync(g_data, g_in.data(), kBytes, g_stream));
  TRY(cuMemcpyDtoHAsync(g_out.data(), g_data, kBytes, g_stream));
  TRY(cuStreamSynchronize(g_stream));
  return true;
}

bool query() {
  if (!touch()) return false;
  TRY(cuEventRecord(g_event, g_stream));
  CUresult now = CUDA_ERROR_NOT_READY;
  while (now == CUDA_ERROR_NOT_READY) now = cuEventQuery(g_event);
  TRY(now);
  return true;
}

bool launches() {
  if (!touch()) return false;
  if (g_launched % 4096 == 0) TRY(cuStreamSynchronize(g_stream));
  return true;
}

bool graph() {
  TRY(cuGraphLaunch(g_graph, g_stream));
  g_launched += 8;
  TRY(cuStreamSynchronize(g_stream));
  return true;
}

void wait_for_line(void*) {
  say_ready();
  has_line(-1);
}

bool host_function() {
  TRY(cuLaunchHostFunc(g_stream, wait_for_line, nullptr));
  TRY(cuStreamSynchronize(g_stream));
  return true;
}

bool callback() {
  const auto run = [](CUstream, CUresult, void*) { wait_for_line(nullptr); };
  TRY(cuStreamAddCallback(g_stream, run, nullptr, 0));
  TRY(cuStreamSynchronize(g_stream));
  return true;
}

bool idle() {
  say_ready();
  has_line(-1);
  TRY(cuCtxSynchronize());
  return true;
}

bool small_copies() {
  unsigned value = 0;
  TRY(cuMemcpyDtoH(&value, g_counter, sizeof value));
  TRY(cuMemcpyHtoD(g_data, g_in.data(), 4096));
  return true;
}

bool allocations() {
  CUdeviceptr p = 0;
  TRY(cuMemAlloc(&p, 1 << 16));
  TRY(cuMemFree(p));
  return true;
}

bool threads() {
  const auto work = [](bool (*step)()) {
    if (!is_well(cuCtxSetCurrent(g_context), "cuCtxSetCurrent")) return;
    while (!g_is_asked_to_end && g_failure.result == CUDA_SUCCESS && step()) {
    }
  };
  std::vector<std::thread> all;
  bool (*const steps[])() = {sync, small_copies, query, allocations};
  for (int i = 0; i < kThreads; ++i) all.emplace_back(work, steps[i % 4]);
  say_ready();
  while (g_failure.result == CUDA_SUCCESS && !has_line(5)) {
  }
  g_is_asked_to_end = true;
  for (std::thread& one : all) one.join();
  return g_failure.result == CUDA_SUCCESS;
}

bool set_up() {
  CUdevice device;
  for (std::size_t i = 0; i < kBytes; ++i) g_in[i] = static_cast<unsigned char>(i * 31 >> 3);
  g_out = g_in;
  TRY(cuInit(0));
  TRY(cuDeviceGet(&device, 0));
  TRY(cuCtxCreate(&g_context, nullptr, 0, device));
  TRY(cuModuleLoadData(&g_module, kPtx));
  TRY(cuModuleGetFunction(&g_touch, g_module, "touch"));
  TRY(cuModuleGetFunction(&g_endless, g_module, "endless"));
  TRY(cuStreamCreate(&g_stream, CU_STREAM_NON_BLOCKING));
  TRY(cuEventCreate(&g_event, CU_EVENT_DISABLE_TIMING));
  TRY(cuMemAlloc(&g_counter, 4096));
  TRY(cuMemAlloc(&g_data, kBytes));
  TRY(cuMemsetD8(g_counter, 0, 4096));
  TRY(cuMemcpyHtoD(g_data, g_in.data(), kBytes));
  CUgraph recorded;
  TRY(cuStreamBeginCapture(g_stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  for (int i = 0; i < 8; ++i) TRY(launch(g_touch, g_counter, g_stream));
  TRY(cuStreamEndCapture(g_stream, &recorded));
  TRY(cuGraphInstantiate(&g_graph, recorded, 0));
  TRY(cuCtxSynchronize());
  return true;
}

/// Every kind of call, and what it returned.
std::map<std::string, CUresult> one_of_each() {
  std::map<std::string, CUresult> out;
  CUdeviceptr p = 0;
  CUmodule module;
  CUstream stream;
  std::size_t free_bytes = 0, total_bytes = 0;
  out["cuMemAlloc"] = cuMemAlloc(&p, 4096);
  out["cuMemFree"] = cuMemFree(g_data);
  out["cuMemcpyHtoD"] = cuMemcpyHtoD(g_data, g_in.data(), kBytes);
  out["cuMemcpyDtoH"] = cuMemcpyDtoH(g_out.data(), g_data, kBytes);
  out["cuMemcpyHtoDAsync"] = cuMemcpyHtoDAsync(g_data, g_in.data(), kBytes, g_stream);
  out["cuMemsetD8"] = cuMemsetD8(g_counter, 0, 4);
  out["cuMemGetInfo"] = cuMemGetInfo(&free_bytes, &total_bytes);
  out["cuLaunchKernel"] = launch(g_touch, g_counter, g_stream);
  out["cuGraphLaunch"] = cuGraphLaunch(g_graph, g_stream);
  out["cuLaunchHostFunc"] = cuLaunchHostFunc(g_stream, wait_for_line, nullptr);
  out["cuEventRecord"] = cuEventRecord(g_event, g_stream);
  out["cuEventQuery"] = cuEventQuery(g_event);
  out["cuEventSynchronize"] = cuEventSynchronize(g_event);
  out["cuStreamQuery"] = cuStreamQuery(g_stream);
  out["cuStreamSynchronize"] = cuStreamSynchronize(g_stream);
  out["cuCtxSynchronize"] = cuCtxSynchronize();
  out["cuModuleLoadData"] = cuModuleLoadData(&module, kPtx);
  out["cuStreamCreate"] = cuStreamCreate(&stream, 0);
  return out;
}

/// The program's own exit status, from exit(): destructors and the shim's end run, too.
int report_failure() {
  const auto first = static_cast<CUresult>(g_failure.result.load());
  std::printf("failed %s %s\n", name_of(first).c_str(), g_failure.call.load());
  std::string others;
  for (const auto& [call, result] : one_of_each())
    if (result != first) others += " " + call + "=" + name_of(result);
  std::printf("again%s\n", others.empty() ? " same" : others.c_str());
  return 3;
}

bool is_all_there() {
  unsigned counted = 0;
  TRY(cuCtxSynchronize());
  TRY(cuMemcpyDtoH(&counted, g_counter, sizeof counted));
  return counted == g_launched && g_out == g_in;
}

/// Takes the context away under a kernel that never ends; the device is there for the next one.
int take_away(bool is_reset) {
  CUdevice device;
  CUcontext context;
  const auto run = [&] {
    TRY(cuDeviceGet(&device, 0));
    if (is_reset) {
      TRY(cuDevicePrimaryCtxRetain(&context, device));
      TRY(cuCtxSetCurrent(context));
      TRY(cuModuleLoadData(&g_module, kPtx));
      TRY(cuModuleGetFunction(&g_endless, g_module, "endless"));
      TRY(cuMemAlloc(&g_counter, 4096));
    }
    TRY(launch(g_endless, g_counter, nullptr));
    say_ready();
    TRY(is_reset ? cuDevicePrimaryCtxReset(device) : cuCtxDestroy(g_context));
    TRY(cuCtxCreate(&context, nullptr, 0, device));
    TRY(cuModuleLoadData(&g_module, kPtx));
    TRY(cuModuleGetFunction(&g_touch, g_module, "touch"));
    TRY(cuMemAlloc(&g_counter, 4096));
    TRY(cuMemsetD8(g_counter, 0, 4096));
    g_stream = nullptr;
    g_launched = 0;
    return touch() && is_all_there();
  };
  const bool is_done = run();
  std::printf(is_done ? "done\n" : "failed %s %s\n",
              name_of(static_cast<CUresult>(g_failure.result.load())).c_str(),
              g_failure.call.load());
  return is_done ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, bool (*)()> steps = {
      {"sync", sync},         {"copy-in", copy_in},
      {"copy-out", copy_out}, {"copy-async", copy_async},
      {"query", query},       {"launches", launches},
      {"graph", graph},       {"host-function", host_function},
      {"callback", callback}, {"idle", idle},
      {"threads", threads}};
  const std::string scenario = argc > 1 ? argv[1] : "";
  if (!set_up()) return report_failure();
  if (scenario == "endless-destroy" || scenario == "endless-reset")
    return take_away(scenario == "endless-reset");
  if (scenario == "endless-exit") {
    if (!is_well(launch(g_endless, g_counter, nullptr), "cuLaunchKernel")) return report_failure();
    say_ready();
    return 7;
  }
  const auto step = steps.find(scenario);
  if (step == steps.end()) {
    std::fprintf(stderr, "calls: no scenario %s\n", scenario.c_str());
    return 2;
  }
  do {
    if (!step->second()) return report_failure();
    say_ready();
  } while (!has_line(0));
  if (!is_all_there()) {
    if (g_failure.result != CUDA_SUCCESS) return report_failure();
    std::printf("wrong\n");
    return 4;
  }
  std::printf("done\n");
  return 0;
}
