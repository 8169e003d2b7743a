#include "calls.h"

#include <cuda.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace sluice::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kKernel[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n"
    "{ ret; }\n";
/// A copy is repeated until it has moved so much.
constexpr std::size_t kBytesPerMeasurement = std::size_t{256} << 20;
constexpr std::size_t kCopiesMax = 200;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

[[noreturn]] void give_up(const char* what, int result) {
  std::fprintf(stderr, "sluice-perf: %s failed (%d)\n", what, result);
  std::exit(1);
}

void must(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) give_up(what, result);
}

/// The driver API of one library, by its versioned names.
class Driver {
 public:
  explicit Driver(const std::string& path)
      : library_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) give_up(::dlerror(), 0);
  }
  template <class... Params, class... Args>
  void call(const char* name, CUresult (*)(Params...), Args... args) const {
    using Function = CUresult (*)(Params...);
    must(find<Function>(name)(args...), name);
  }
  template <class Function>
  Function find(const char* name) const {
    auto* const function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (function == nullptr) give_up(name, 0);
    return function;
  }

 private:
  void* library_;
};

#define NAME_OF_(name) #name
#define NAME_OF(name) NAME_OF_(name)  // as cuda.h maps it: cuMemAlloc is cuMemAlloc_v2
#define CALL(driver, name, ...) (driver).call(NAME_OF(name), &::name, __VA_ARGS__)

class Calls {
 public:
  Calls(const Driver& driver, RawPeer& peer, const CallOptions& options)
      : peer_(peer),
        options_(options),
        synchronize_(driver.find<decltype(&::cuCtxSynchronize)>("cuCtxSynchronize")),
        launch_(driver.find<decltype(&::cuLaunchKernel)>("cuLaunchKernel")) {
    CUmodule module = nullptr;
    CALL(driver, cuModuleLoadData, &module, static_cast<const void*>(kKernel));
    CALL(driver, cuModuleGetFunction, &kernel_, module, "nothing");
  }

  std::vector<Figure> measure() {
    std::vector<Figure> out;
    for (const RawWay way : ways()) {
      out.push_back(latency("synchronize p50", way, 0.5, 0));
      if (way == ways().front()) out.push_back(latency("synchronize p99", way, 0.99, 0));
      out.push_back(latency("launch + synchronize p50", way, 0.5, 1));
    }
    const RawWay bulk = ways().front();
    const auto count = static_cast<double>(options_.launches);
    out.push_back(compare(
        "launches posted and done", "M/s", "64-byte records, 64 a batch", options_.repeats,
        [&] { return count / launch_us(true); },
        [&] { return count / 1e6 / peer_.commands_s(bulk, options_.launches); }));
    out.push_back(compare(
        "launch in the client", "us", "record, raw", options_.repeats,
        [&] { return launch_us(false) / count; },
        [&] { return peer_.commands_s(bulk, options_.launches) / count * 1e6; }));
    return out;
  }

 private:
  [[nodiscard]] std::vector<RawWay> ways() const {
    if (options_.transport == "unix") return {RawWay::kUnix};
    if (options_.transport == "tcp" || options_.transport == "ucx") return {RawWay::kTcp};
    return {RawWay::kSpin, RawWay::kFutex};
  }
  static const char* name_of(RawWay way) {
    switch (way) {
      case RawWay::kSpin:
        return "spinning on memory";
      case RawWay::kFutex:
        return "futex";
      case RawWay::kUnix:
        return "UNIX socket";
      case RawWay::kTcp:
        return "TCP socket";
    }
    return "";
  }

  Figure latency(const char* name, RawWay way, double q, unsigned launches) {
    std::vector<double> rounds(options_.rounds);
    return compare(
        name, "us", name_of(way), options_.repeats,
        [&] {
          for (double& round : rounds) {
            const auto start = Clock::now();
            for (unsigned i = 0; i < launches; ++i) launch();
            must(synchronize_(), "cuCtxSynchronize");
            round = us_since(start);
          }
          return quantile(rounds, q);
        },
        [&] {
          const std::size_t done = peer_.ping_pong(way, rounds);
          return quantile({rounds.begin(), rounds.begin() + static_cast<std::ptrdiff_t>(done)}, q);
        });
  }

  void launch() {
    CUdeviceptr nothing = 0;
    void* params[] = {&nothing, &nothing, &nothing, &nothing};
    must(launch_(kernel_, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr), "cuLaunchKernel");
  }

  /// Until the last call returned, or until everything is done.
  double launch_us(bool until_done) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < options_.launches; ++i) launch();
    const double posted_us = us_since(start);
    must(synchronize_(), "cuCtxSynchronize");
    return until_done ? us_since(start) : posted_us;
  }

  RawPeer& peer_;
  const CallOptions& options_;
  decltype(&::cuCtxSynchronize) synchronize_;
  decltype(&::cuLaunchKernel) launch_;
  CUfunction kernel_ = nullptr;
};

std::string size_name(std::size_t kib) {
  return kib < 1024 ? std::to_string(kib) + " KiB" : std::to_string(kib / 1024) + " MiB";
}

/// GB/s of `copy`, repeated.
template <class Copy>
double rate(std::size_t bytes, const Copy& copy) {
  const std::size_t count = std::clamp<std::size_t>(kBytesPerMeasurement / bytes, 1, kCopiesMax);
  std::vector<double> times_us;
  for (std::size_t i = 0; i < count; ++i) {
    const auto start = Clock::now();
    copy();
    times_us.push_back(us_since(start));
  }
  return static_cast<double>(bytes) / 1e3 / quantile(times_us, 0.5);
}

void copies(const Driver& driver, RawPeer& peer, const CallOptions& options, std::size_t kib,
            std::vector<Figure>* out) {
  const std::size_t bytes = kib * 1024;
  std::vector<std::byte> source(bytes), target(bytes, std::byte{1});
  std::mt19937_64 random(bytes);
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
    const std::uint64_t value = random();
    std::memcpy(source.data() + i, &value, sizeof value);
  }
  CUdeviceptr device = 0;
  CALL(driver, cuMemAlloc, &device, bytes);
  const auto synchronize = driver.find<decltype(&::cuCtxSynchronize)>("cuCtxSynchronize");
  const auto to_device = driver.find<decltype(&::cuMemcpyHtoD)>("cuMemcpyHtoD_v2");
  const auto to_host = driver.find<decltype(&::cuMemcpyDtoH)>("cuMemcpyDtoH_v2");
  const auto up = [&] {
    must(to_device(device, source.data(), bytes), "cuMemcpyHtoD");
    must(synchronize(), "cuCtxSynchronize");
  };
  const auto down = [&] { must(to_host(target.data(), device, bytes), "cuMemcpyDtoH"); };
  const auto plain = [&] { std::memcpy(target.data(), source.data(), bytes); };
  up(), down(), plain();  // every page once
  std::fill(target.begin(), target.end(), std::byte{0});
  up(), down();
  if (source != target) give_up("comparing what was copied", 0);
  const bool is_tcp = options.transport == "tcp";
  const std::string yardstick = is_tcp ? "TCP socket, staged" : "memcpy";
  out->push_back(compare(
      "host to device, " + size_name(kib), "GB/s", yardstick, options.repeats,
      [&] { return rate(bytes, up); },
      [&] {
        if (!is_tcp) return rate(bytes, plain);
        return rate(bytes, [&] { peer.send_s(RawWay::kTcp, source); });
      }));
  out->push_back(compare(
      "device to host, " + size_name(kib), "GB/s", yardstick, options.repeats,
      [&] { return rate(bytes, down); },
      [&] {
        if (!is_tcp) return rate(bytes, plain);
        return rate(bytes, [&] { peer.fetch_s(RawWay::kTcp, target); });
      }));
  CALL(driver, cuMemFree, device);
}

}  // namespace

std::vector<Figure> measure_calls(const std::string& library, const CallOptions& options) {
  RawPeer peer(options.transport == "tcp" || options.transport == "ucx");  // first: it forks
  const Driver driver(library);
  CUcontext context = nullptr;
  CALL(driver, cuInit, 0u);
  CALL(driver, cuDevicePrimaryCtxRetain, &context, 0);
  CALL(driver, cuCtxSetCurrent, context);
  std::vector<Figure> out;
  if (options.has_calls) out = Calls(driver, peer, options).measure();
  if (options.has_copies)
    for (const std::size_t kib : options.copy_kib) copies(driver, peer, options, kib, &out);
  return out;
}

}  // namespace sluice::bench
