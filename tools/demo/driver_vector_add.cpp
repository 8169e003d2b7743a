// An ordinary driver-API program with its PTX in a string; linked to libcuda.so.1 only.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

static const char* const kPtx = R"PTX(
.version 7.0
.target sm_75
.address_size 64
.visible .entry vector_add(.param .u64 pa, .param .u64 pb, .param .u64 psum, .param .u32 pn)
{
    .reg .pred %p;
    .reg .f32 %fa, %fb;
    .reg .b32 %r<5>;
    .reg .b64 %a, %b, %sum, %off;
    ld.param.u64 %a, [pa];
    ld.param.u64 %b, [pb];
    ld.param.u64 %sum, [psum];
    ld.param.u32 %r0, [pn];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    setp.ge.s32 %p, %r4, %r0;
    @%p bra done;
    mul.wide.s32 %off, %r4, 4;
    add.s64 %a, %a, %off;
    add.s64 %b, %b, %off;
    add.s64 %sum, %sum, %off;
    ld.global.f32 %fa, [%a];
    ld.global.f32 %fb, [%b];
    add.f32 %fa, %fa, %fb;
    st.global.f32 [%sum], %fa;
done:
    ret;
}
)PTX";

static void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = "?";
  cuGetErrorName(result, &name);
  std::fprintf(stderr, "driver_vector_add: %s: %s\n", what, name);
  std::exit(1);
}

int main() {
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  check(cuInit(0), "cuInit");
  check(cuDeviceGet(&device, 0), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  check(cuModuleLoadData(&module, kPtx), "cuModuleLoadData");
  check(cuModuleGetFunction(&function, module, "vector_add"), "cuModuleGetFunction");
  unsigned n = 300000;
  std::vector<float> a(n), b(n), sum(n);
  for (unsigned i = 0; i < n; ++i) {
    a[i] = static_cast<float>(i);
    b[i] = 0.25f * static_cast<float>(i % 4096);
  }
  const size_t bytes = static_cast<size_t>(n) * sizeof(float);
  CUdeviceptr da, db, dsum;
  check(cuMemAlloc(&da, bytes), "cuMemAlloc");
  check(cuMemAlloc(&db, bytes), "cuMemAlloc");
  check(cuMemAlloc(&dsum, bytes), "cuMemAlloc");
  check(cuMemcpyHtoD(da, a.data(), bytes), "cuMemcpyHtoD");
  check(cuMemcpyHtoD(db, b.data(), bytes), "cuMemcpyHtoD");
  void* params[] = {&da, &db, &dsum, &n};
  check(cuLaunchKernel(function, (n + 255) / 256, 1, 1, 256, 1, 1, 0, nullptr, params, nullptr),
        "cuLaunchKernel");
  check(cuMemcpyDtoH(sum.data(), dsum, bytes), "cuMemcpyDtoH");
  for (unsigned i = 0; i < n; ++i)
    if (sum[i] != a[i] + b[i]) {
      std::fprintf(stderr, "driver_vector_add: element %u is %g, expected %g\n", i, sum[i],
                   a[i] + b[i]);
      return 1;
    }
  check(cuMemFree(da), "cuMemFree");
  check(cuMemFree(db), "cuMemFree");
  check(cuMemFree(dsum), "cuMemFree");
  check(cuModuleUnload(module), "cuModuleUnload");
  check(cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease");
  std::printf("driver_vector_add: %u sums correct\n", n);
  return 0;
}
