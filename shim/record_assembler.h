// The record assembler over this project's channels.
#pragma once

#include "protocol/record_assembler.h"
#include "transport/transport.h"

namespace sluice::shim {

using wire::RecordHandler;
using RecordAssembler = wire::RecordAssembler<transport::RecvSink>;

}  // namespace sluice::shim
