#include "company.h"

#include "protocol/session_report.h"
#include "tools/driver_library.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kKernel[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n"
    "{ ret; }\n";

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

void must(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "sluice-perf: %s failed (%d)\n", what, static_cast<int>(result));
  std::exit(1);
}

#define MUST(name, ...) must(SLUICE_DRIVER_CALL(driver_, name, __VA_ARGS__), #name)

class Company {
 public:
  Company(const std::string& library, const CompanyOptions& options)
      : driver_(library), options_(options) {
    if (!driver_.problem().empty()) {
      std::fprintf(stderr, "sluice-perf: %s\n", driver_.problem().c_str());
      std::exit(1);
    }
    MUST(cuInit, 0u);
    MUST(cuDevicePrimaryCtxRetain, &context_, 0);
    enter();
    CUmodule module = nullptr;
    MUST(cuModuleLoadData, &module, static_cast<const void*>(kKernel));
    MUST(cuModuleGetFunction, &kernel_, module, "nothing");
    launch_ = driver_.find<decltype(launch_)>("cuLaunchKernel");
    synchronize_ = driver_.find<decltype(synchronize_)>("cuStreamSynchronize");
  }

  std::vector<Figure> measure() {
    std::vector<Figure> out;
    beside_a_copy(&out);
    out.push_back(two_threads());
    out.push_back(waits("waits: stream, event, record, wait, query", [&] { objects(); }));
    out.push_back(waits("waits: allocate, free", [&] { memory(); }));
    return out;
  }

 private:
  void enter() const { MUST(cuCtxSetCurrent, context_); }
  [[nodiscard]] CUstream new_stream() const {
    CUstream stream = nullptr;
    MUST(cuStreamCreate, &stream, static_cast<unsigned>(CU_STREAM_NON_BLOCKING));
    return stream;
  }
  void launch(CUstream stream) const {
    CUdeviceptr nothing = 0;
    void* params[] = {&nothing, &nothing, &nothing, &nothing};
    must(launch_(kernel_, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr), "cuLaunchKernel");
  }

  std::vector<double> round_trips(CUstream stream) const {
    std::vector<double> out(options_.rounds);
    for (double& round : out) {
      const auto start = Clock::now();
      launch(stream);
      must(synchronize_(stream), "cuStreamSynchronize");
      round = us_since(start);
    }
    return out;
  }

  void beside_a_copy(std::vector<Figure>* out) const {
    const CUstream stream = new_stream();
    std::vector<double> idle = round_trips(stream), busy;
    std::atomic<bool> is_copying{false}, stops{false};
    std::thread copier([&] {
      enter();
      const std::size_t bytes = options_.copy_mib << 20;
      const std::vector<std::byte> host(bytes, std::byte{7});
      CUdeviceptr device = 0;
      MUST(cuMemAlloc, &device, bytes);
      while (!stops) {
        MUST(cuMemcpyHtoD, device, static_cast<const void*>(host.data()), bytes);
        is_copying = true;
      }
      MUST(cuMemFree, device);
    });
    while (!is_copying) std::this_thread::yield();
    busy = round_trips(stream);
    stops = true;
    copier.join();
    for (const double q : {0.5, 0.99})
      out->push_back(
          {std::string("launch + synchronize beside a copy ") + (q < 0.9 ? "p50" : "p99"), "us",
           quantile(busy, q), "the same, alone", quantile(idle, q)});
    MUST(cuStreamDestroy, stream);
  }

  [[nodiscard]] double launch_s(std::size_t count) const {
    const CUstream stream = new_stream();
    const auto start = Clock::now();
    for (std::size_t i = 0; i < count; ++i) launch(stream);
    must(synchronize_(stream), "cuStreamSynchronize");
    const double time_s = us_since(start) / 1e6;
    MUST(cuStreamDestroy, stream);
    return time_s;
  }

  [[nodiscard]] Figure two_threads() const {
    const auto million = static_cast<double>(options_.launches) / 1e6;
    return compare(
        "launches by two threads", "M/s", "by one", options_.repeats,
        [&] {
          const auto start = Clock::now();
          std::thread other([&] {
            enter();
            static_cast<void>(launch_s(options_.launches / 2));
          });
          static_cast<void>(launch_s(options_.launches / 2));
          other.join();
          return million / (us_since(start) / 1e6);
        },
        [&] { return million / launch_s(options_.launches); });
  }

  void objects() const {
    const CUstream stream = new_stream();
    CUevent event = nullptr;
    MUST(cuEventCreate, &event, 0u);
    MUST(cuEventRecord, event, stream);
    MUST(cuStreamWaitEvent, stream, event, 0u);
    static_cast<void>(SLUICE_DRIVER_CALL(driver_, cuEventQuery, event));  // either answer will do
    MUST(cuEventDestroy, event);
    MUST(cuStreamDestroy, stream);
  }

  void memory() const {
    CUdeviceptr device = 0;
    MUST(cuMemAlloc, &device, std::size_t{4096});
    MUST(cuMemFree, device);
  }

  [[nodiscard]] double round_trips_so_far() const {
    const auto report = driver_.find<wire::SessionReportFunction>(wire::kSessionReportSymbol);
    if (report == nullptr) must(CUDA_ERROR_NOT_FOUND, wire::kSessionReportSymbol);
    return nlohmann::json::parse(report()).value("round_trips", 0.0);
  }

  /// The second time: what is kept from the first one may be used.
  template <class Calls>
  [[nodiscard]] Figure waits(std::string name, const Calls& calls) const {
    calls();
    const double before = round_trips_so_far();
    calls();
    return {std::move(name), "waits", round_trips_so_far() - before, "", 0};
  }

  const tool::DriverLibrary driver_;
  const CompanyOptions& options_;
  CUcontext context_ = nullptr;
  CUfunction kernel_ = nullptr;
  decltype(&::cuLaunchKernel) launch_ = nullptr;
  decltype(&::cuStreamSynchronize) synchronize_ = nullptr;
};

}  // namespace

std::vector<Figure> measure_company(const std::string& library, const CompanyOptions& options) {
  return Company(library, options).measure();
}

}  // namespace sluice::bench
