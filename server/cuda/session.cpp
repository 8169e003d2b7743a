#include "server/handlers.h"
#include "server/worker/worker.h"

namespace sluice::server {

CUresult handle(Call& call, const wire::goodbye&, wire::goodbye::Reply&) {
  call.worker().is_goodbye = true;
  return CUDA_SUCCESS;
}

}  // namespace sluice::server
