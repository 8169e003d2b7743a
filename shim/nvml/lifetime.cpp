// nvmlInit and nvmlShutdown, and what errors are called.
#include "shim/nvml/library.h"

using namespace sluice::nvml;

SLUICE_NVML nvmlInit_v2() {
  return guarded([] { return Library::of_process().start(); });
}

SLUICE_NVML nvmlInit() {
  return nvmlInit_v2();
}

SLUICE_NVML nvmlInitWithFlags(unsigned flags) {
  // A slice with no device is no failure here, and attaching costs nothing.
  if ((flags & ~(kInitNoGpus | kInitNoAttach)) != 0) return kInvalidArgument;
  return nvmlInit_v2();
}

SLUICE_NVML nvmlShutdown() {
  return guarded([] { return Library::of_process().stop(); });
}

extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(int result) {
  switch (result) {
    case 0:
      return "Success";
    case 1:
      return "nvmlInit was not called";
    case 2:
      return "An argument is invalid";
    case 3:
      return "Not supported";
    case 4:
      return "No permission";
    case 5:
      return "Already initialised";
    case 6:
      return "Not found";
    case 7:
      return "The buffer is too small";
    case 8:
      return "Power is not connected properly";
    case 9:
      return "No server with a driver can be reached";
    case 10:
      return "The time is over";
    case 11:
      return "An interrupt does not work";
    case 12:
      return "A library was not found";
    case 13:
      return "There is no such function";
    case 14:
      return "The information ROM is corrupted";
    case 15:
      return "The GPU is lost";
    case 16:
      return "The GPU must be reset";
    case 17:
      return "The operating system blocks the GPU";
    case 18:
      return "Client and server are of different versions";
    case 19:
      return "In use";
    case 20:
      return "Out of memory";
    case 21:
      return "No data";
    case 22:
      return "Not possible with ECC in a virtual GPU";
    case 23:
      return "Resources are used up";
    case 24:
      return "This frequency is not supported";
    case 25:
      return "The struct is of another version";
    case 26:
      return "Deprecated";
    case 27:
      return "Not ready";
    case 28:
      return "No GPU was found";
    case 29:
      return "Invalid state";
    case 30:
      return "This kind of reset is not supported";
    default:
      return "Unknown error";
  }
}
