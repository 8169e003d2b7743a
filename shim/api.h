// What every hand-written body of an exported driver function includes.
#pragma once

#include "shim/call.h"
#include "shim/handles.h"
#include "shim/process.h"

#include <cuda.h>

/// Start of an exported function's definition.
#define SLUICE_API extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI
