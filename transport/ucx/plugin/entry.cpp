// The entry of libsluice_ucx.so.
#include "transport/ucx/plugin/ends.h"

#include <mutex>

namespace sluice::transport::ucx {
namespace {

/// UCX's own software for put and get (what a context with UCP_FEATURE_RMA has) writes and reads
/// wherever a message says, and asks for no key. An adapter asks; it needs no such software at the
/// worker's end, nor does it at the client's, but there UCX allows put and get only to a context
/// that has the feature.
constexpr std::uint64_t kMessages = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
constexpr std::uint64_t kMessagesAndPut = kMessages | UCP_FEATURE_RMA;
/// From this version on, UCX takes memory that is registered as it is. Older ones would register it
/// for each put and get anew, which takes longer than copying it through UCX's buffers.
constexpr unsigned kZeroCopyMinor = 16;
/// Above every message of ours, below every put and get.
constexpr const char* kZeroCopyBytes = "16384";

Result<ucp_context_h> make_context(const ucp_config_t* config, std::uint64_t features) {
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = features;
  params.mt_workers_shared = 1;  // tests have both ends in one process
  ucp_context_h context = nullptr;
  const ScopedSignalBlock block;
  // The oldest interface that we use, not the newest that we were built with.
  const auto status = ucp_init_version(1, 12, &params, config, &context);
  if (status != UCS_OK) return fail(ucx_error("starting", status));
  return context;
}

/// Lives as long as the process.
class UcxPlugin final : public Plugin {
 public:
  UcxPlugin(const Setup& setup, ucp_config_t* config, ucp_context_h context)
      : setup_(setup), config_(config), context_(context) {}
  [[nodiscard]] Lane lane() const override { return setup_.lane; }

  Result<std::unique_ptr<Listener>> listen(const std::string& host, const Token& token) override {
    return make_listener(context_, setup_, host, token);
  }

  Result<std::unique_ptr<Channel>> connect(const std::string& host, std::uint16_t port,
                                           const Token& token, const Fd& life_line,
                                           Deadline deadline, const StagingOffer* offer,
                                           std::string* no_staging) override {
    const Peer peer{host, port, token};
    if (offer == nullptr)
      return ucx::connect(context_, setup_.lane, peer, life_line, deadline, nullptr, no_staging);
    const auto context = context_for_put();
    if (!context && no_staging != nullptr) *no_staging = context.error().message;
    return ucx::connect(context ? *context : context_, setup_.lane, peer, life_line, deadline,
                        context ? offer : nullptr, no_staging);
  }

  Result<bool> knows_device_memory() override {
    // Not with the transports that we use: UCX's CUDA transports are among those that we leave out.
    const std::lock_guard lock(mutex_);
    const std::string network = setup_.lane == Lane::kTcp ? "tcp" : "rc_verbs,rc_mlx5";
    ucp_config_modify(config_, "TLS", (network + ",cuda_copy").c_str());
    const auto context = make_context(config_, kMessages);
    ucp_config_modify(config_, "TLS", network.c_str());
    if (!context) return fail(context.error());
    ucp_context_attr_t attributes{};
    attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
    const auto status = ucp_context_query(*context, &attributes);
    ucp_cleanup(*context);
    if (status != UCS_OK) return fail(ucx_error("asking for its memory types", status));
    return (attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
  }

 private:
  Result<ucp_context_h> context_for_put() {
    if (setup_.lane == Lane::kTcp && !setup_.has_software_put)
      return fail(ErrorCode::kUnsupported, "over TCP, UCX checks no addresses");
    const std::lock_guard lock(mutex_);
    if (context_for_put_ == nullptr) {
      SLUICE_TRY(context_for_put_, make_context(config_, kMessagesAndPut));
    }
    return context_for_put_;
  }

  const Setup setup_;
  std::mutex mutex_;
  ucp_config_t* config_;
  ucp_context_h context_;
  ucp_context_h context_for_put_ = nullptr;
};

Result<Plugin*> start(const Setup& setup) {
  ucp_config_t* config = nullptr;
  if (const auto status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK)
    return fail(ucx_error("reading its settings", status));
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  if (minor >= kZeroCopyMinor) ucp_config_modify(config, "ZCOPY_THRESH", kZeroCopyBytes);
  auto context = make_context(config, setup.has_software_put ? kMessagesAndPut : kMessages);
  if (context) return new UcxPlugin(setup, config, *context);
  ucp_config_release(config);
  return fail(context.error());
}

}  // namespace
}  // namespace sluice::transport::ucx

extern "C" __attribute__((visibility("default"))) void sluice_ucx_start(
    std::uint32_t version, const sluice::transport::ucx::Setup& setup,
    sluice::Result<sluice::transport::ucx::Plugin*>* out) {
  using namespace sluice;
  if (version != transport::ucx::kPluginVersion)
    *out =
        fail(ErrorCode::kVersion, "libsluice_ucx.so is of another release; install Sluice again");
  else
    *out = transport::ucx::start(setup);
}
