#include "tests/worker/fake_driver.h"

#include <algorithm>

namespace sluice::test {

void FakeDriver::fill() {
  fill_contexts();
  fill_streams();
  fill_modules();
  table.cuMemAlloc_v2 = [](CUdeviceptr* p, std::size_t bytes) {
    const std::lock_guard lock(self->mutex_);
    self->note("alloc");
    if (bytes > self->alloc_bytes_max) return CUDA_ERROR_OUT_OF_MEMORY;
    *p = self->next<CUdeviceptr>();
    self->memory_[*p] = bytes;
    self->used_ += bytes;
    return CUDA_SUCCESS;
  };
  table.cuMemFree_v2 = [](CUdeviceptr p) {
    const std::lock_guard lock(self->mutex_);
    self->note("free");
    const auto found = self->memory_.find(p);
    if (found == self->memory_.end()) return CUDA_ERROR_INVALID_VALUE;
    self->used_ -= found->second;
    self->memory_.erase(found);
    return CUDA_SUCCESS;
  };
  table.cuMemGetInfo_v2 = [](std::size_t* free_bytes, std::size_t* total_bytes) {
    const std::lock_guard lock(self->mutex_);
    *total_bytes = kDeviceBytes;
    *free_bytes = kDeviceBytes - self->used_;
    return CUDA_SUCCESS;
  };
  table.cuMemHostAlloc = [](void** p, std::size_t bytes, unsigned) {
    const std::lock_guard lock(self->mutex_);
    self->host_.push_back(std::make_unique<std::byte[]>(bytes));
    *p = self->host_.back().get();
    return CUDA_SUCCESS;
  };
  table.cuMemHostRegister_v2 = [](void*, std::size_t, unsigned) {
    const std::lock_guard lock(self->mutex_);
    self->note("register");
    return self->register_result;
  };
}

void FakeDriver::fill_contexts() {
  table.cuCtxSetCurrent = [](CUcontext) { return CUDA_SUCCESS; };
  table.cuDeviceGet = [](CUdevice* device, int ordinal) {
    *device = ordinal;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  };
  table.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice) {
    const std::lock_guard lock(self->mutex_);
    if (self->primary_retains_++ == 0) {
      self->primary_ = self->next<CUcontext>();
      self->taken_bytes += self->context_bytes;
    }
    *context = self->primary_;
    return CUDA_SUCCESS;
  };
  table.cuDevicePrimaryCtxRelease_v2 = [](CUdevice) {
    const std::lock_guard lock(self->mutex_);
    if (self->primary_retains_ == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--self->primary_retains_ == 0) {
      self->note("context_destroy");
      self->taken_bytes -= self->context_bytes;
    }
    return CUDA_SUCCESS;
  };
  table.cuCtxDestroy_v2 = [](CUcontext) {
    const std::lock_guard lock(self->mutex_);
    self->note("context_destroy");
    return CUDA_SUCCESS;
  };
}

void FakeDriver::fill_streams() {
  table.cuStreamCreateWithPriority = [](CUstream* stream, unsigned, int) {
    const std::lock_guard lock(self->mutex_);
    *stream = self->next<CUstream>();
    self->created_.push_back(*stream);
    return CUDA_SUCCESS;
  };
  table.cuStreamDestroy_v2 = [](CUstream) {
    const std::lock_guard lock(self->mutex_);
    self->note("stream_destroy");
    return CUDA_SUCCESS;
  };
  table.cuEventCreate = [](CUevent* event, unsigned) {
    const std::lock_guard lock(self->mutex_);
    *event = self->next<CUevent>();
    self->created_events_.push_back(*event);
    return CUDA_SUCCESS;
  };
  table.cuEventDestroy_v2 = [](CUevent event) {
    const std::lock_guard lock(self->mutex_);
    self->events_.erase(event);
    return CUDA_SUCCESS;
  };
  table.cuEventRecord = [](CUevent event, CUstream stream) {
    const std::lock_guard lock(self->mutex_);
    self->note("event_record");
    self->events_[event] = {stream, self->streams_[stream].issued};
    return CUDA_SUCCESS;
  };
  table.cuStreamWaitEvent = [](CUstream stream, CUevent, unsigned) {
    const std::lock_guard lock(self->mutex_);
    self->note("wait_event");
    self->issue(stream);
    return CUDA_SUCCESS;
  };
  table.cuEventQuery = [](CUevent event) {
    CUstream stream = nullptr;
    {
      const std::lock_guard lock(self->mutex_);
      const auto known = self->events_.find(event);
      if (known != self->events_.end()) stream = known->second.stream;
    }
    self->on_query(stream);
    if (self->is_late(event)) return CUDA_ERROR_NOT_READY;
    const std::lock_guard lock(self->mutex_);
    if (self->error_ != CUDA_SUCCESS) return self->error_;
    if (!self->events_.contains(event)) self->note("query_of_no_event");
    const Event& known = self->events_[event];
    return self->streams_[known.stream].finished >= known.at ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  };
  table.cuMemsetD8Async = [](CUdeviceptr, unsigned char, std::size_t, CUstream stream) {
    const std::lock_guard lock(self->mutex_);
    self->note("memset");
    self->issue(stream);
    return CUDA_SUCCESS;
  };
  table.cuMemcpyDtoDAsync_v2 = [](CUdeviceptr, CUdeviceptr, std::size_t, CUstream stream) {
    const std::lock_guard lock(self->mutex_);
    self->note("copy_d2d");
    self->issue(stream);
    return CUDA_SUCCESS;
  };
  table.cuMemcpyHtoDAsync_v2 = [](CUdeviceptr, const void* from, std::size_t, CUstream stream) {
    const std::lock_guard lock(self->mutex_);
    self->issue(stream);
    self->copied_from_ = from;
    return CUDA_SUCCESS;
  };
  table.cuMemcpyDtoHAsync_v2 = [](void* to, CUdeviceptr, std::size_t bytes, CUstream stream) {
    const std::lock_guard lock(self->mutex_);
    self->issue(stream);
    self->copied_to_ = to;
    std::memset(to, 0x5A, bytes);
    return CUDA_SUCCESS;
  };
  table.cuLaunchHostFunc = [](CUstream stream, CUhostFn function, void* data) {
    const std::lock_guard lock(self->mutex_);
    self->streams_[stream].issued++;  // finishes when the function has returned
    self->threads_.emplace_back([stream, function, data] {
      function(data);
      const std::lock_guard done(self->mutex_);
      self->note("host_function_over");
      self->streams_[stream].finished = self->streams_[stream].issued;
    });
    return CUDA_SUCCESS;
  };
}

void FakeDriver::fill_modules() {
  table.cuModuleLoadDataEx = [](CUmodule* module, const void* image, unsigned count,
                                CUjit_option* options, void** values) {
    const CUresult result = self->on_load(image, count, options, values);
    const std::lock_guard lock(self->mutex_);
    if (result == CUDA_SUCCESS) *module = self->next<CUmodule>();
    return result;
  };
  table.cuModuleGetFunction = [](CUfunction* function, CUmodule, const char*) {
    const std::lock_guard lock(self->mutex_);
    *function = self->next<CUfunction>();
    return CUDA_SUCCESS;
  };
  table.cuModuleUnload = [](CUmodule) {
    const std::lock_guard lock(self->mutex_);
    self->note("module_unload");
    return CUDA_SUCCESS;
  };
  table.cuFuncGetParamInfo = [](CUfunction, std::size_t i, std::size_t* offset,
                                std::size_t* bytes) {
    if (i >= self->layout.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = self->layout[i].first;
    *bytes = self->layout[i].second;
    return CUDA_SUCCESS;
  };
  table.cuFuncGetAttribute = [](int* value, CUfunction_attribute, CUfunction) {
    *value = 7;
    return CUDA_SUCCESS;
  };
  table.cuLaunchKernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, CUstream stream, void** params, void**) {
    const CUresult result = self->on_launch();
    const std::lock_guard lock(self->mutex_);
    if (result != CUDA_SUCCESS) return result;
    self->note("launch");
    self->params_.clear();
    for (std::size_t i = 0; i < self->layout.size(); ++i) {
      const auto* p = static_cast<const std::byte*>(params[i]);
      self->params_.insert(self->params_.end(), p, p + self->layout[i].second);
    }
    self->issue(stream);
    return CUDA_SUCCESS;
  };
}

}  // namespace sluice::test
