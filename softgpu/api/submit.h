// What stream work and graph launches share.
#pragma once

#include "softgpu/api/state.h"

namespace sluice::softgpu {

/// Skipped after a sticky error of the context unless `always`; makes an error of the work sticky
/// if it is of that kind.
std::function<CUresult()> in_context(std::shared_ptr<Context> context,
                                     std::function<CUresult()> work, bool always = false);
/// What the stream's next operation waits for. Called with the context's mutex held.
CUresult what_comes_before(const std::shared_ptr<Stream>& stream,
                           std::vector<OperationPtr>* before);

}  // namespace sluice::softgpu
