// ledger_client: says "ready", then does what each line on stdin asks for and answers "ok" or the
// error's name.
//   alloc BYTES | async BYTES | free    device memory, in stream order, and the last of either
//   module BYTES | unload               a module with a variable of so many bytes, written to
//   library BYTES | unload_library      the same for a library
//   create BYTES | release              cuMemCreate
//   greedy                              the call at which the stand-in driver takes memory for
//   itself info                                answers "ok FREE TOTAL"
#include "images.h"

#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::vector<CUdeviceptr> g_memory;
std::vector<CUmodule> g_modules;
std::vector<CUlibrary> g_libraries;
std::vector<CUmemGenericAllocationHandle> g_handles;

/// The variable is as long as it was made, and can be used.
CUresult use_variable(CUdeviceptr address, std::size_t bytes, std::size_t wanted) {
  if (bytes != wanted) return CUDA_ERROR_UNKNOWN;
  if (const CUresult bad = cuMemsetD8(address, 1, bytes)) return bad;
  unsigned char last = 0;
  if (const CUresult bad = cuMemcpyDtoH(&last, address + bytes - 1, 1)) return bad;
  return last == 1 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

CUresult load_module(std::size_t bytes) {
  CUmodule module = nullptr;
  if (const CUresult bad = cuModuleLoadData(&module, image_with_variable(bytes).c_str()))
    return bad;
  g_modules.push_back(module);
  CUdeviceptr address = 0;
  std::size_t found = 0;
  if (const CUresult bad = cuModuleGetGlobal(&address, &found, module, "big")) return bad;
  return use_variable(address, found, bytes);
}

CUresult load_library(std::size_t bytes) {
  CUlibrary library = nullptr;
  const std::string image = image_with_variable(bytes);
  if (const CUresult bad =
          cuLibraryLoadData(&library, image.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0))
    return bad;
  g_libraries.push_back(library);
  CUdeviceptr address = 0;
  std::size_t found = 0;
  if (const CUresult bad = cuLibraryGetGlobal(&address, &found, library, "big")) return bad;
  return use_variable(address, found, bytes);
}

CUresult allocate(std::size_t bytes, bool is_async) {
  CUdeviceptr p = 0;
  if (const CUresult bad = is_async ? cuMemAllocAsync(&p, bytes, nullptr) : cuMemAlloc(&p, bytes))
    return bad;
  g_memory.push_back(p);
  return CUDA_SUCCESS;
}

CUresult create(std::size_t bytes) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  if (const CUresult bad = cuMemCreate(&handle, bytes, &properties, 0)) return bad;
  g_handles.push_back(handle);
  return CUDA_SUCCESS;
}

template <class Handle, class Release>
CUresult release_last(std::vector<Handle>& handles, Release release) {
  if (handles.empty()) return CUDA_ERROR_NOT_FOUND;
  const CUresult result = release(handles.back());
  handles.pop_back();
  return result;
}

CUresult obey(const std::string& command, std::size_t bytes) {
  if (command == "alloc") return allocate(bytes, false);
  if (command == "async") return allocate(bytes, true);
  if (command == "free") return release_last(g_memory, cuMemFree);
  if (command == "module") return load_module(bytes);
  if (command == "unload") return release_last(g_modules, cuModuleUnload);
  if (command == "library") return load_library(bytes);
  if (command == "unload_library") return release_last(g_libraries, cuLibraryUnload);
  if (command == "create") return create(bytes);
  if (command == "release") return release_last(g_handles, cuMemRelease);
  if (command == "greedy") return cuCtxResetPersistingL2Cache();
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

int main() {
  CUdevice device{};
  CUcontext context = nullptr;
  stop_on(cuInit(0), "cuInit");
  stop_on(cuDeviceGet(&device, 0), "cuDeviceGet");
  stop_on(cuCtxCreate(&context, nullptr, 0, device), "cuCtxCreate");
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    std::size_t bytes = 0;
    words >> command >> bytes;
    if (command == "info") {
      std::size_t free_bytes = 0;
      std::size_t total_bytes = 0;
      stop_on(cuMemGetInfo(&free_bytes, &total_bytes), "cuMemGetInfo");
      std::cout << "ok " << free_bytes << " " << total_bytes << std::endl;
      continue;
    }
    const CUresult result = obey(command, bytes);
    std::cout << (result == CUDA_SUCCESS ? "ok" : name_of(result)) << std::endl;
  }
  return 0;
}
