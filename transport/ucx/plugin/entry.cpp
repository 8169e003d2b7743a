// The entry of libsluice_ucx.so.
#include "transport/ucx/plugin/ends.h"

namespace sluice::transport::ucx {
namespace {

class UcxPlugin final : public Plugin {
 public:
  UcxPlugin(ucp_context_h context, Lane lane) : context_(context), lane_(lane) {}
  [[nodiscard]] Lane lane() const override { return lane_; }
  Result<std::unique_ptr<Listener>> listen(const std::string& host, const Token& token) override {
    return make_listener(context_, lane_, host, token);
  }
  Result<std::unique_ptr<Channel>> connect(const std::string& host, std::uint16_t port,
                                           const Token& token, const Fd& life_line,
                                           Deadline deadline) override {
    return ucx::connect(context_, lane_, host, port, token, life_line, deadline);
  }

 private:
  ucp_context_h context_;
  Lane lane_;
};

Result<Plugin*> start(Lane lane) {
  const ScopedSignalBlock block;
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;  // tests have both ends in one process
  ucp_config_t* config = nullptr;
  if (const auto status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK)
    return fail(ucx_error("reading its settings", status));
  ucp_context_h context = nullptr;
  // The oldest interface that we use, not the newest that we were built with.
  const auto status = ucp_init_version(1, 12, &params, config, &context);
  ucp_config_release(config);
  if (status != UCS_OK) return fail(ucx_error("starting", status));
  return new UcxPlugin(context, lane);  // as long as the process
}

}  // namespace
}  // namespace sluice::transport::ucx

extern "C" __attribute__((visibility("default"))) void sluice_ucx_start(
    std::uint32_t version, sluice::transport::ucx::Lane lane,
    sluice::Result<sluice::transport::ucx::Plugin*>* out) {
  using namespace sluice;
  if (version != transport::ucx::kPluginVersion)
    *out =
        fail(ErrorCode::kVersion, "libsluice_ucx.so is of another release; install Sluice again");
  else
    *out = transport::ucx::start(lane);
}
