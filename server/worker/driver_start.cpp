#include "server/worker/driver_start.h"

#include "common/format.h"
#include "server/worker/process_bytes.h"

#include <dlfcn.h>

#include <cstring>

namespace sluice::server {
namespace {

Result<wire::DeviceRecord> describe_device(const DriverTable& driver, int ordinal) {
  wire::DeviceRecord record;
  CUdevice device{};
  if (driver.cuDeviceGet(&device, ordinal) != CUDA_SUCCESS)
    return fail(ErrorCode::kSystem, format("device {} cannot be opened", ordinal));
  char text[256] = {};
  if (driver.cuDeviceGetName(text, sizeof text, device) == CUDA_SUCCESS) record.name = text;
  CUuuid uuid{};
  const auto get_uuid = driver.cuDeviceGetUuid_v2;
  if (get_uuid != nullptr && get_uuid(&uuid, device) == CUDA_SUCCESS)
    std::memcpy(record.uuid.data(), uuid.bytes, record.uuid.size());
  if (driver.cuDeviceGetPCIBusId != nullptr &&
      driver.cuDeviceGetPCIBusId(text, sizeof text, device) == CUDA_SUCCESS)
    record.pci_bus_id = text;
  std::size_t bytes = 0;
  if (driver.cuDeviceTotalMem_v2(&bytes, device) == CUDA_SUCCESS) record.total_bytes = bytes;
  for (int a = 1; a < CU_DEVICE_ATTRIBUTE_MAX; ++a) {
    int value = 0;
    if (driver.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(a), device) ==
        CUDA_SUCCESS)
      record.attributes.emplace_back(a, value);
  }
  return record;
}

}  // namespace

Result<link::Ready> start_driver(const std::string& path, DriverTable* driver) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return fail(ErrorCode::kNotFound, format("the driver {} cannot be loaded: {}", path,
                                             why != nullptr ? why : "unknown"));
  }
  if (auto loaded = load_driver_table(library, driver); !loaded)
    return fail(loaded.error().with_context(path));
  if (driver->cuInit == nullptr || driver->cuDriverGetVersion == nullptr ||
      driver->cuDeviceGetCount == nullptr || driver->cuCtxSetCurrent == nullptr ||
      driver->cuEventQuery == nullptr)
    return fail(ErrorCode::kNotFound, format("{} is not a CUDA driver: it lacks cuInit or others "
                                             "that every driver has",
                                             path));
  if (const CUresult result = driver->cuInit(0); result != CUDA_SUCCESS)
    return fail(ErrorCode::kSystem, format("the driver {} does not start: cuInit gives error {}",
                                           path, static_cast<int>(result)));
  link::Ready ready;
  driver->cuDriverGetVersion(&ready.driver_version);
  int count = 0;
  driver->cuDeviceGetCount(&count);
  for (int i = 0; i < count; ++i) {
    SLUICE_TRY(wire::DeviceRecord record, describe_device(*driver, i));
    ready.devices.push_back(std::move(record));
  }
  ready.measures_itself = measures_itself(path);
  return ready;
}

}  // namespace sluice::server
