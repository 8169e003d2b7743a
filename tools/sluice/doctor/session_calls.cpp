// The process that measures: a program with the client library in it.
#include "common/format.h"
#include "protocol/session_report.h"
#include "tools/driver_library.h"
#include "tools/sluice/doctor/measure.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>

namespace sluice::tool {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr char kKernel[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n"
    "{ ret; }\n";
constexpr std::size_t kWarmUps = 10;
constexpr std::size_t kTripsMin = 5, kTripsMax = 500;
constexpr double kTripsTime_s = 1.0;
constexpr std::size_t kLaunches = 2'000;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kSmallCopyBytes = kMiB, kLargeCopyBytes = 64 * kMiB;
constexpr double kCopyTime_s = 0.4;        ///< for each size and direction
constexpr double kLargeCopyTimeMax_s = 2;  ///< one that would take longer is left out
constexpr std::size_t kCopiesMax = 100;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Measuring {
 public:
  Measuring(const std::string& library, int report) : driver_(library), report_(report) {}

  void run() {
    if (!open_session()) return;
    if (make_context()) {
      trips("round trips", "round_trip_us", [&] {
        std::size_t value = 0;
        return SLUICE_DRIVER_CALL(driver_, cuCtxGetLimit, &value, CU_LIMIT_STACK_SIZE);
      });
      const auto synchronize = driver_.find<decltype(&::cuCtxSynchronize)>("cuCtxSynchronize");
      trips("synchronising", "synchronize_us", synchronize);
      tell_path();
      copies();
      launches();
    }
    tell_path();
  }

 private:
  void tell(const json& line) const {
    const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    if (::write(report_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      std::_Exit(1);  // nobody listens any more
  }
  void begin(const std::string& step) const { tell({{"begin", step}}); }

  [[nodiscard]] std::string name_of(CUresult result) const {
    const char* name = nullptr;
    if (SLUICE_DRIVER_CALL(driver_, cuGetErrorName, result, &name) == CUDA_SUCCESS &&
        name != nullptr)
      return name;
    return format("error {}", static_cast<int>(result));
  }
  void give_up(const std::string& what, CUresult result) const {
    const std::string known =
        result == CUDA_ERROR_OUT_OF_MEMORY ? ": the tenant, or the device, has no memory left" : "";
    tell({{"not_measured", what + ": " + name_of(result) + known}});
  }

  [[nodiscard]] json session() const {
    const auto report = driver_.find<wire::SessionReportFunction>(wire::kSessionReportSymbol);
    return report == nullptr ? json() : json::parse(report(), nullptr, false);
  }

  bool open_session() {
    begin("opening a session");
    if (!driver_.problem().empty()) {
      tell({{"no_session", driver_.problem()}});
      return false;
    }
    const CUresult result = SLUICE_DRIVER_CALL(driver_, cuInit, 0u);
    const json report = session();
    if (report.is_object())
      tell({{"session", report}});
    else
      tell({{"no_session", "the client library is of another release; install Sluice again"}});
    if (result != CUDA_SUCCESS) tell({{"no_session", "cuInit: " + name_of(result)}});
    return result == CUDA_SUCCESS && report.is_object();
  }

  bool make_context() {
    begin("making a context on the device");
    CUcontext context = nullptr;
    CUresult result = SLUICE_DRIVER_CALL(driver_, cuDevicePrimaryCtxRetain, &context, 0);
    if (result == CUDA_SUCCESS) result = SLUICE_DRIVER_CALL(driver_, cuCtxSetCurrent, context);
    if (result == CUDA_SUCCESS) return true;
    give_up("calls and copies, for want of a context", result);
    return false;
  }

  template <class Call>
  void trips(const std::string& what, const char* key, const Call& call) {
    begin(what);
    std::vector<double> us;
    const auto start = Clock::now();
    for (std::size_t i = 0; i < kWarmUps + kTripsMax; ++i) {
      const auto one = Clock::now();
      if (const CUresult result = call(); result != CUDA_SUCCESS) return give_up(what, result);
      const bool is_late = seconds_since(start) > kTripsTime_s;
      // On a long way a warm-up counts rather than nothing.
      if (i >= kWarmUps || is_late) us.push_back(seconds_since(one) * 1e6);
      if (is_late && us.size() >= kTripsMin) break;
    }
    std::sort(us.begin(), us.end());
    const auto at = [&](double q) {
      return us[static_cast<std::size_t>(q * static_cast<double>(us.size() - 1))];
    };
    tell({{key, {{"count", us.size()}, {"min", us.front()}, {"p50", at(0.5)}, {"p99", at(0.99)}}}});
  }

  void copies() {
    for (const std::size_t bytes : {kSmallCopyBytes, kLargeCopyBytes}) {
      const std::string what = format("copies of {} MiB", bytes / kMiB);
      begin(what);
      const double expected_s =
          small_copy_s_ * static_cast<double>(bytes) / static_cast<double>(kSmallCopyBytes);
      if (expected_s > kLargeCopyTimeMax_s) {
        tell({{"not_measured",
               format("{}: each would take about {:.0f} s as things are", what, expected_s)}});
        continue;
      }
      CUdeviceptr device = 0;
      if (const CUresult result = SLUICE_DRIVER_CALL(driver_, cuMemAlloc, &device, bytes);
          result != CUDA_SUCCESS) {
        give_up(what, result);
        continue;
      }
      copy_both_ways(what, device, bytes);
      static_cast<void>(SLUICE_DRIVER_CALL(driver_, cuMemFree, device));
    }
  }

  void copy_both_ways(const std::string& what, CUdeviceptr device, std::size_t bytes) {
    const auto synchronize = driver_.find<decltype(&::cuCtxSynchronize)>("cuCtxSynchronize");
    const auto up = driver_.find<decltype(&::cuMemcpyHtoD)>("cuMemcpyHtoD_v2");
    const auto down = driver_.find<decltype(&::cuMemcpyDtoH)>("cuMemcpyDtoH_v2");
    std::vector<unsigned char> host(bytes);
    std::iota(host.begin(), host.end(), static_cast<unsigned char>(1));
    time_copies(what, "to_device", bytes, [&] {
      const CUresult result = up(device, host.data(), bytes);
      return result == CUDA_SUCCESS ? synchronize() : result;
    });
    time_copies(what, "to_host", bytes, [&] { return down(host.data(), device, bytes); });
  }

  template <class Copy>
  void time_copies(const std::string& what, const char* direction, std::size_t bytes,
                   const Copy& copy) {
    std::vector<double> times_s;
    const auto start = Clock::now();
    while (times_s.size() < kCopiesMax && (times_s.empty() || seconds_since(start) < kCopyTime_s)) {
      const auto one = Clock::now();
      if (const CUresult result = copy(); result != CUDA_SUCCESS)
        return give_up(format("{}, {}", what, direction), result);
      times_s.push_back(seconds_since(one));
    }
    std::sort(times_s.begin(), times_s.end());
    const double median_s = times_s[times_s.size() / 2];
    if (bytes == kSmallCopyBytes) small_copy_s_ = std::max(small_copy_s_, median_s);
    tell({{"copy",
           {{"direction", direction},
            {"bytes", bytes},
            {"count", times_s.size()},
            {"gb_per_s", static_cast<double>(bytes) / 1e9 / median_s}}}});
  }

  /// Launches of an empty kernel; records of an event where no code can be loaded.
  void launches() {
    begin("launches");
    CUmodule module = nullptr;
    CUfunction kernel = nullptr;
    CUresult result =
        SLUICE_DRIVER_CALL(driver_, cuModuleLoadData, &module, static_cast<const void*>(kKernel));
    if (result == CUDA_SUCCESS)
      result = SLUICE_DRIVER_CALL(driver_, cuModuleGetFunction, &kernel, module, "nothing");
    if (result == CUDA_SUCCESS) {
      const auto launch = driver_.find<decltype(&::cuLaunchKernel)>("cuLaunchKernel");
      return post("launches of an empty kernel", [&] {
        CUdeviceptr nothing = 0;
        void* params[] = {&nothing, &nothing, &nothing, &nothing};
        return launch(kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr);
      });
    }
    give_up("launches of an empty kernel", result);
    CUevent event = nullptr;
    if (SLUICE_DRIVER_CALL(driver_, cuEventCreate, &event, 0u) != CUDA_SUCCESS) return;
    const auto record = driver_.find<decltype(&::cuEventRecord)>("cuEventRecord");
    post("records of an event", [&] { return record(event, nullptr); });
  }

  template <class Call>
  void post(const std::string& what, const Call& call) {
    const auto synchronize = driver_.find<decltype(&::cuCtxSynchronize)>("cuCtxSynchronize");
    for (std::size_t i = 0; i < kWarmUps; ++i) static_cast<void>(call());
    if (const CUresult result = synchronize(); result != CUDA_SUCCESS) return give_up(what, result);
    const auto start = Clock::now();
    for (std::size_t i = 0; i < kLaunches; ++i)
      if (const CUresult result = call(); result != CUDA_SUCCESS) return give_up(what, result);
    const double posted_us = seconds_since(start) * 1e6;
    if (const CUresult result = synchronize(); result != CUDA_SUCCESS) return give_up(what, result);
    const double done_us = seconds_since(start) * 1e6;
    tell({{"launches",
           {{"what", what},
            {"count", kLaunches},
            {"posted_us", posted_us / kLaunches},
            {"done_us", done_us / kLaunches}}}});
  }

  void tell_path() const {
    const json report = session();
    const auto path = report.is_object() ? read_path(report.value("socket", -1)) : std::nullopt;
    if (path) tell({{"path", to_json(*path)}});
  }

  const DriverLibrary driver_;
  const int report_;
  double small_copy_s_ = 0;
};

}  // namespace

void measure_here(const std::string& library, int report) {
  Measuring(library, report).run();
  std::exit(0);  // the library says goodbye to the server
}

}  // namespace sluice::tool
